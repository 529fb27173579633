"""A lookup for people: each step of the search, the entry, the scan, the batch."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.log_reading.lookup import IndexLookup, IndexSearch
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import format_time
from kfmt_cli.render.style import Theme, escape_unprintable, format_count, format_thousands


def lookup_lines(lookup: IndexLookup, theme: Theme, version_text: str) -> Iterator[str]:
    """The lines of a lookup. version_text: text about the predicted broker version."""
    target_text = _format_value(lookup.column, lookup.target)
    yield theme.paint("bold", f"{escape_unprintable(lookup.log)}   {lookup.column} {target_text}")
    yield f"   {version_text}\n"
    for search in lookup.searches:
        yield from _search_lines(search, theme)
    yield f" scan from byte {format_thousands(lookup.scan_from)} of the log\n"
    for batch in lookup.scanned:
        yield theme.paint("dim", f"   skipped  {_format_batch(batch)}\n")
    n_unlisted_batches = lookup.n_scanned - len(lookup.scanned)
    if n_unlisted_batches:
        yield theme.paint(
            "dim", f"   skipped  {format_count(n_unlisted_batches, 'more batch', 'more batches')}\n"
        )
    if lookup.error is not None:
        yield theme.paint("bad", f"   error    {escape_unprintable(lookup.error)}") + "\n"
    elif lookup.batch is None:
        yield theme.paint("bad", "   not found: beyond the end of the log") + "\n"
    else:
        yield theme.paint("good", f"   found    {_format_batch(lookup.batch)}") + "\n"


def _search_lines(search: IndexSearch, theme: Theme) -> Iterator[str]:
    target_text = _format_value(search.column, search.target)
    if search.index is None:
        index_kind = "time" if search.column == "timestamp" else "offset"
        yield f" no {index_kind} index: start at the base offset, byte 0\n"
        return
    yield (
        f" {escape_unprintable(search.index)}, {format_count(search.entries, 'entry', 'entries')}: "
    )
    yield f"greatest {search.column} ≤ {target_text}\n"
    for step in search.steps:
        bounds_text = f"{step.low}–{step.high}"
        value_text = _format_value(search.column, step.value)
        yield theme.paint(
            "dim", f"   {bounds_text:>13}  entry {step.middle}: {value_text}, {step.verdict}\n"
        )
    if search.entry is None:
        yield "   no such entry: start at the base offset, byte 0\n"
        return
    column_texts = [
        f"{column_name.replace('_', ' ')} {_format_value(column_name, value)}"
        for column_name, value in search.found.items()
        if column_name != "position"
    ]
    yield theme.paint("offset", f"   entry {search.entry}: {', '.join(column_texts)}") + "\n"


def _format_batch(batch: FieldDict) -> str:
    return (
        f"byte {format_thousands(batch.position)}, offsets {batch.base_offset}–"
        f"{batch.last_offset}, max timestamp {_format_value('timestamp', batch.max_timestamp)}"
    )


def _format_value(column: str, value: int) -> str:
    if column != "timestamp":
        return format_thousands(value) if column.endswith("position") else str(value)
    time_text = format_time(value)
    return str(value) if time_text.endswith(" ms") else f"{value} ({time_text})"
