"""Disk usage, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.core.times import YEAR_10000, until_words
from kfmt_cli.disk.usage import BECOMES, PURPOSES, Usage
from kfmt_cli.render.style import Theme, grouped, human, safe, shell_path
from kfmt_cli.render.tables.line_table import LineColumn, LineTable

_COLUMNS: tuple[LineColumn[Usage], ...] = (
    LineColumn("files", lambda of: grouped(of.files)),
    LineColumn("size", lambda of: human(of.bytes)),
    LineColumn("on disk", lambda of: human(of.disk_bytes)),
    LineColumn("", lambda of: PURPOSES[of.purpose], keep=1, right=False),
)


def usage_lines(
    path: str, found: Sequence[Usage], theme: Theme, width: int | None, *, is_known: bool
) -> Iterator[str]:
    """The disk usage of a directory, and how much of it a broker frees.

    is_known: topic settings come from a metadata log.
    """
    named = [(_name(usage), usage) for usage in found]
    table = LineTable(f"under {safe(path)}", named, _COLUMNS, theme, width)
    yield "\n" + table.heading()
    yield from (table.line(name, usage) for name, usage in named)
    for usage in found:
        if usage.freed_now is not None:
            yield f"{_by_retention(usage, is_known=is_known)}\n"
    for usage in found:
        if usage.purpose in BECOMES:
            words = BECOMES[usage.purpose]
            words = words[0].lower() + words[1:].removesuffix(".")
            yield f"{_name(usage)}, {human(usage.disk_bytes)}: {words}\n"
    words = "shows which segments are deleted, and when"
    words += "" if is_known else "; pass other settings to it to compare"
    yield f"kfmt retention {shell_path(path)} {words}\n"


def _name(usage: Usage) -> str:
    return usage.purpose.replace("_", " ")


def _by_retention(usage: Usage, *, is_known: bool) -> str:
    """How much of the logs retention frees now, later and never."""
    now, later = usage.freed_now or 0, usage.freed_later or 0
    parts = [f"{human(now)} deletable now" if now else "nothing deletable now"]
    if later and usage.freed_by is not None:
        by = "by " if usage.freed_by < YEAR_10000 else ""
        parts.append(f"{human(later)} more {by}{until_words(usage.freed_by)}")
    odd = usage.freed_odd or 0
    if odd:
        parts.append(f"{human(odd)} kept much longer because of timestamps in the future")
    if left := usage.bytes - now - later - odd:
        parts.append(f"{human(left)} kept")
    source = "the topics' settings" if is_known else "Kafka's default settings"
    return f"logs, under {source}: {', '.join(parts)}"
