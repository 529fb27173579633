"""Findings about an index by itself, such as the order of its entries, and zeros after them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.index.entry_rules import ORDER_RULES
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.fixed_size_rows import TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import FileContents, InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.log_tables import EntryTable


def iter_row_runs(mask: BoolArray) -> Iterator[tuple[int, int]]:
    """The first row of each run of invalid rows, and the row after its last."""
    boundaries = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    yield from zip(boundaries[::2].tolist(), boundaries[1::2].tolist(), strict=True)


def format_entries(first: int, end: int) -> str:
    """The beginning of a message about entries [first, end); the remainder is about the first."""
    if end == first + 1:
        return f"entry {first}"
    return f"{end - first} consecutive entries, {first}–{end - 1}; entry {first}"


def iter_own_findings(
    segment: Segment, file: InputFile, contents: FileContents
) -> Iterator[Finding]:
    """All findings about an index by itself."""
    yield from contents.findings
    yield from _iter_order_findings(file, contents.table)
    if segment.log is None and not segment.is_remote_index_cache:
        yield Finding(file.name, codes.INDEX_WITHOUT_LOG, None, "it has no log")
    if contents.padding_bytes:
        yield _padding_finding(segment, file, contents)


def _padding_finding(segment: Segment, file: InputFile, contents: FileContents) -> Finding:
    """The finding for zeros after the entries, which are expected in the last segment."""
    is_time_index = file.kind is TIME_INDEX_KIND
    code = codes.TIME_INDEX_ZERO_TAIL if is_time_index else codes.INDEX_ZERO_TAIL
    if segment.is_last:
        code = codes.INDEX_PREALLOCATED
    used_bytes = contents.size - contents.padding_bytes
    return Finding(
        file.name,
        code,
        used_bytes,
        f"{contents.padding_bytes} zero bytes after {len(contents.table)} entries"
        + ("" if segment.is_last else ", and later segments follow"),
        expected=used_bytes,
        found=contents.size,
    )


def _iter_order_findings(file: InputFile, table: EntryTable) -> Iterator[Finding]:
    """Findings for entries that do not come after the previous entry."""
    rule = ORDER_RULES[file.kind]
    first_column = next(iter(rule.broken_if))
    for start, end in iter_row_runs(rule.is_broken(table)):
        previous_text, text = (
            ", ".join(f"{name.replace('_', ' ')} {table[name][row]}" for name in rule.broken_if)
            for row in (start, start + 1)
        )
        yield Finding(
            file.name,
            rule.code,
            int(table.position[start + 1]),
            f"{format_entries(start + 1, end + 1)}: {text}, after {previous_text}",
            offset=int(table.offset[start + 1]) if "offset" in table.index_by_name else None,
            expected=f"greater than {table[first_column][start]}",
            found=int(table[first_column][start + 1]),
        )
