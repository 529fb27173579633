"""A lookup for people: each step of the search, the entry, the scan, the batch."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.offsets.lookup import IndexSearch, Lookup
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.times import time_text
from kfmt_cli.render.style import Theme, count, grouped, safe


def lookup_lines(lookup: Lookup, theme: Theme, version: str) -> Iterator[str]:
    """The lines of a lookup. version: the one it is made for, and why."""
    target = _value(lookup.column, lookup.target)
    yield theme.paint("bold", f"{safe(lookup.log)}   {lookup.column} {target}")
    yield f"   {version}\n"
    for search in lookup.searches:
        yield from _search_lines(search, theme)
    yield f" scan from byte {grouped(lookup.scan_from)} of the log\n"
    for batch in lookup.scanned:
        yield theme.paint("dim", f"   skipped  {_batch(batch)}\n")
    more = lookup.n_scanned - len(lookup.scanned)
    if more:
        yield theme.paint("dim", f"   skipped  {count(more, 'more batch', 'more batches')}\n")
    if lookup.error is not None:
        yield theme.paint("bad", f"   error    {safe(lookup.error)}") + "\n"
    elif lookup.batch is None:
        yield theme.paint("bad", "   not found: beyond the end of the log") + "\n"
    else:
        yield theme.paint("good", f"   found    {_batch(lookup.batch)}") + "\n"


def _search_lines(search: IndexSearch, theme: Theme) -> Iterator[str]:
    target = _value(search.column, search.target)
    if search.index is None:
        kind = "time" if search.column == "timestamp" else "offset"
        yield f" no {kind} index: start at the base offset, byte 0\n"
        return
    yield f" {safe(search.index)}, {count(search.entries, 'entry', 'entries')}: "
    yield f"greatest {search.column} ≤ {target}\n"
    for step in search.steps:
        bounds = f"{step.low}–{step.high}"
        value = _value(search.column, step.value)
        yield theme.paint("dim", f"   {bounds:>13}  entry {step.middle}: {value}, {step.verdict}\n")
    if search.entry is None:
        yield "   no such entry: start at the base offset, byte 0\n"
        return
    words = [
        f"{name.replace('_', ' ')} {_value(name, value)}"
        for name, value in search.found.items()
        if name != "position"
    ]
    yield theme.paint("offset", f"   entry {search.entry}: {', '.join(words)}") + "\n"


def _batch(batch: Fields) -> str:
    return (
        f"byte {grouped(batch.position)}, offsets {batch.base_offset}–"
        f"{batch.last_offset}, max timestamp {_value('timestamp', batch.max_timestamp)}"
    )


def _value(column: str, value: int) -> str:
    if column != "timestamp":
        return grouped(value) if column.endswith("position") else str(value)
    text = time_text(value)
    return str(value) if text.endswith(" ms") else f"{value} ({text})"
