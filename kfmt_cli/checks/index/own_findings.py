"""Findings about an index by itself, such as the order of its entries, and zeros after them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.index.entry_rules import ORDER_RULES
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.fixed_size_rows import TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import FileContents, InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.log_tables import EntryTable


def iter_row_runs(invalid_mask: BoolArray) -> Iterator[tuple[int, int]]:
    """The first row of each run of invalid rows, and the row after its last."""
    run_bounds = np.flatnonzero(np.diff(invalid_mask.astype(np.int8), prepend=0, append=0))
    yield from zip(run_bounds[::2].tolist(), run_bounds[1::2].tolist(), strict=True)


def format_entry_range(first_entry: int, end_entry: int) -> str:
    """The beginning of a message about entries [first, end); the remainder is about the first."""
    if end_entry == first_entry + 1:
        return f"entry {first_entry}"
    return (
        f"{end_entry - first_entry} consecutive entries, {first_entry}–{end_entry - 1}; "
        f"entry {first_entry}"
    )


def iter_standalone_findings(
    segment: Segment, index_file: InputFile, contents: FileContents
) -> Iterator[Finding]:
    """All findings about an index by itself."""
    yield from contents.findings
    yield from _iter_order_findings(index_file, contents.table)
    if segment.log is None and not segment.is_remote_index_cache:
        yield Finding(index_file.name, codes.INDEX_WITHOUT_LOG, None, "it has no log")
    if contents.padding_bytes:
        yield _padding_finding(segment, index_file, contents)


def _padding_finding(segment: Segment, index_file: InputFile, contents: FileContents) -> Finding:
    """The finding for zeros after the entries, which are expected in the last segment."""
    is_time_index = index_file.kind is TIME_INDEX_KIND
    code = codes.TIME_INDEX_ZERO_TAIL if is_time_index else codes.INDEX_ZERO_TAIL
    if segment.is_last:
        code = codes.INDEX_PREALLOCATED
    used_bytes = contents.size - contents.padding_bytes
    return Finding(
        index_file.name,
        code,
        used_bytes,
        f"{contents.padding_bytes} zero bytes after {len(contents.table)} entries"
        + ("" if segment.is_last else ", and later segments follow"),
        expected=used_bytes,
        found=contents.size,
    )


def _iter_order_findings(index_file: InputFile, table: EntryTable) -> Iterator[Finding]:
    """Findings for entries that do not come after the previous entry."""
    order_rule = ORDER_RULES[index_file.kind]
    first_column = next(iter(order_rule.comparison_by_column))
    for start_row, end_row in iter_row_runs(order_rule.is_broken(table)):
        previous_entry_text, entry_text = (
            ", ".join(
                f"{column_name.replace('_', ' ')} {table[column_name][row]}"
                for column_name in order_rule.comparison_by_column
            )
            for row in (start_row, start_row + 1)
        )
        yield Finding(
            index_file.name,
            order_rule.code,
            int(table.position[start_row + 1]),
            (
                f"{format_entry_range(start_row + 1, end_row + 1)}: {entry_text}, after "
                f"{previous_entry_text}"
            ),
            offset=int(table.offset[start_row + 1]) if "offset" in table.index_by_name else None,
            expected=f"greater than {table[first_column][start_row]}",
            found=int(table[first_column][start_row + 1]),
        )
