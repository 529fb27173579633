"""Disk usage, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.core.times import YEAR_10000_MS, format_interval_end
from kfmt_cli.disk.usage import OUTCOME_BY_PURPOSE, USAGE_PURPOSES, DiskUsage
from kfmt_cli.render.style import (
    Theme,
    escape_unprintable,
    format_bytes,
    format_thousands,
    quote_path_for_shell,
)
from kfmt_cli.render.tables.line_table import LineColumn, LineTable

_COLUMNS: tuple[LineColumn[DiskUsage], ...] = (
    LineColumn("files", lambda usage: format_thousands(usage.files)),
    LineColumn("size", lambda usage: format_bytes(usage.bytes)),
    LineColumn("on disk", lambda usage: format_bytes(usage.disk_bytes)),
    LineColumn("", lambda usage: USAGE_PURPOSES[usage.purpose], hide_rank=1, align_right=False),
)


def usage_lines(
    path: str,
    usages: Sequence[DiskUsage],
    theme: Theme,
    width: int | None,
    *,
    has_topic_settings: bool,
) -> Iterator[str]:
    """The disk usage of a directory, and how much of it a broker frees.

    has_topic_settings: topic settings come from a metadata log.
    """
    named_usages = [(_purpose_name(usage), usage) for usage in usages]
    table = LineTable(f"under {escape_unprintable(path)}", named_usages, _COLUMNS, theme, width)
    yield "\n" + table.format_heading()
    yield from (table.format_line(purpose_name, usage) for purpose_name, usage in named_usages)
    for usage in usages:
        if usage.freed_now is not None:
            yield f"{_retention_text(usage, has_topic_settings=has_topic_settings)}\n"
    for usage in usages:
        if usage.purpose in OUTCOME_BY_PURPOSE:
            sentence = OUTCOME_BY_PURPOSE[usage.purpose]
            sentence = sentence[0].lower() + sentence[1:].removesuffix(".")
            yield f"{_purpose_name(usage)}, {format_bytes(usage.disk_bytes)}: {sentence}\n"
    sentence = "shows which segments are deleted, and when"
    sentence += "" if has_topic_settings else "; pass other settings to it to compare"
    yield f"kfmt retention {quote_path_for_shell(path)} {sentence}\n"


def _purpose_name(usage: DiskUsage) -> str:
    return usage.purpose.replace("_", " ")


def _retention_text(usage: DiskUsage, *, has_topic_settings: bool) -> str:
    """How much of the logs retention frees now, later and never."""
    freed_now_bytes, freed_later_bytes = usage.freed_now or 0, usage.freed_later or 0
    amount_texts = [
        f"{format_bytes(freed_now_bytes)} deletable now"
        if freed_now_bytes
        else "nothing deletable now"
    ]
    if freed_later_bytes and usage.freed_by is not None:
        preposition = "by " if usage.freed_by < YEAR_10000_MS else ""
        amount_texts.append(
            f"{format_bytes(freed_later_bytes)} more "
            f"{preposition}{format_interval_end(usage.freed_by)}"
        )
    future_timestamp_bytes = usage.freed_odd or 0
    if future_timestamp_bytes:
        amount_texts.append(
            f"{format_bytes(future_timestamp_bytes)} kept much longer because of timestamps in "
            "the future"
        )
    if n_kept_bytes := usage.bytes - freed_now_bytes - freed_later_bytes - future_timestamp_bytes:
        amount_texts.append(f"{format_bytes(n_kept_bytes)} kept")
    settings_source = "the topics' settings" if has_topic_settings else "Kafka's default settings"
    return f"logs, under {settings_source}: {', '.join(amount_texts)}"
