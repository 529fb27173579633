"""Findings about an index by itself, such as the order of its entries, and zeros after them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.index.entry_rules import ORDER
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.fixed import TIME_INDEX
from kfmt_cli.disk.kinds.kind import Contents, Input
from kfmt_cli.disk.segment import Segment
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.log_tables import EntryTable


def runs_of(wrong: BoolArray) -> Iterator[tuple[int, int]]:
    """The first row of each run of wrong rows, and the row after its last."""
    edges = np.flatnonzero(np.diff(wrong.astype(np.int8), prepend=0, append=0))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def entries_words(first: int, end: int) -> str:
    """How a message about entries first..end-1 begins; its rest is about the first."""
    if end == first + 1:
        return f"entry {first}"
    return f"{end - first} consecutive entries, {first}–{end - 1}; entry {first}"


def own_findings(segment: Segment, file: Input, rows: Contents) -> Iterator[Finding]:
    """All of them."""
    yield from rows.findings
    yield from _order_findings(file, rows.table)
    if segment.log is None and not segment.log_may_be_elsewhere:
        yield Finding(file.name, codes.INDEX_WITHOUT_LOG, None, "it has no log")
    if rows.padding:
        yield _padding_finding(segment, file, rows)


def _padding_finding(segment: Segment, file: Input, rows: Contents) -> Finding:
    """The finding for zeros after the entries, which are expected in the last segment."""
    times = file.kind is TIME_INDEX
    code = codes.TIME_INDEX_ZERO_TAIL if times else codes.INDEX_ZERO_TAIL
    if segment.is_last:
        code = codes.INDEX_PREALLOCATED
    width = rows.size - rows.padding
    return Finding(
        file.name,
        code,
        width,
        f"{rows.padding} zero bytes after {len(rows.table)} entries"
        + ("" if segment.is_last else ", and later segments follow"),
        expected=width,
        found=rows.size,
    )


def _order_findings(file: Input, table: EntryTable) -> Iterator[Finding]:
    """Findings for entries that do not come after the previous entry."""
    rule = ORDER[file.kind]
    first = next(iter(rule.broken_by))
    for i, end in runs_of(rule.is_broken(table)):
        before, here = (
            ", ".join(f"{name.replace('_', ' ')} {table[name][row]}" for name in rule.broken_by)
            for row in (i, i + 1)
        )
        yield Finding(
            file.name,
            rule.code,
            int(table.position[i + 1]),
            f"{entries_words(i + 1, end + 1)}: {here}, after {before}",
            offset=int(table.offset[i + 1]) if "offset" in table.names else None,
            expected=f"greater than {table[first][i]}",
            found=int(table[first][i + 1]),
        )
