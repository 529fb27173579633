"""Sections as Arrow: each column by its kind, null in rows without a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.columns import arrays
from kfmt_cli.arrow.columns.schema import schema_of, type_of
from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray, Table
from kfmt_cli.rows.column import Column, ColumnKind
from kfmt_cli.rows.section import Rows, Section
from kfmt_cli.rows.table_types import OF_BATCH

MOST_BYTES = 64 << 20  # keys, values and headers per Arrow batch
MOST_ROWS = 32768


@dataclass(frozen=True, slots=True)
class ArrowPart:
    """Rows to convert to Arrow."""

    section: Section
    batches: Table | None = None
    owner: IntArray | None = None
    """Each record's row in `batches`."""

    def __len__(self) -> int:
        return len(self.section.table)

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        if name.startswith(OF_BATCH):
            return self.batches is not None and name.removeprefix(OF_BATCH) in self.batches.names
        return name in self.section.table.names

    def __getitem__(self, name: str) -> IntArray:
        if name.startswith(OF_BATCH):
            assert self.batches is not None
            assert self.owner is not None
            column: IntArray = self.batches[name.removeprefix(OF_BATCH)][self.owner]
            return column
        return self.section.table[name]

    def part(self, first: int, last: int) -> ArrowPart:
        """Rows first..last-1."""
        if (first, last) == (0, len(self)):
            return self
        owner = None if self.owner is None else self.owner[first:last]
        return ArrowPart(self.section.part(first, last), self.batches, owner)


def part_of(rows: Rows) -> ArrowPart:
    """The rows to convert: inner rows with their batches if there are any, else outer rows."""
    if rows.inner is None:
        return ArrowPart(rows.outer)
    owner = np.repeat(np.arange(len(rows.outer)), np.diff(rows.ends, prepend=0))
    return ArrowPart(rows.inner, rows.outer.table, owner)


def slices(part: ArrowPart, most_rows: int = MOST_ROWS) -> Iterator[ArrowPart]:
    """Split rows so that no part has more bytes than Arrow's offsets and a worker's memory
    allow."""
    table = part.section.table
    sizes = [
        table[f"{leaf.at}_size"].clip(0) for leaf in part.section.type.leaves if leaf.kind.is_bytes
    ]
    sizes += [
        64 * table[leaf.at] for leaf in part.section.type.leaves if leaf.kind is ColumnKind.HEADERS
    ]
    ends = np.cumsum(sum(sizes, start=np.zeros(len(part), np.int64)))
    first = 0
    while first < len(part):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + MOST_BYTES, "right"))
        last = min(max(last, first + 1), first + most_rows, len(part))
        yield part.part(first, last)
        first = last


def record_batch(
    part: ArrowPart,
    columns: Iterable[Column],
    shared: Callable[[str, int], pa.Array | None] = lambda *_: None,
) -> pa.RecordBatch:
    """Some columns as an Arrow batch. shared: returns a column that all rows share, or None."""
    chosen = tuple(columns)
    made = []
    for wanted in chosen:
        column = shared(wanted.name, len(part))
        made.append(array_of(part, wanted) if column is None else column)
    return pa.RecordBatch.from_arrays(made, schema=schema_of(chosen))


def array_of(part: ArrowPart, column: Column) -> pa.Array:
    """A column as an array of its kind; null if the rows have no such column."""
    if not part.has(column.at):
        return pa.nulls(len(part), type_of(column))
    section, values = part.section, part[column.at]
    given = _given(part, column, values)
    if column.kind.is_bytes:
        sizes = part[f"{column.at}_size"]
        if given is not None:
            sizes = np.where(given, sizes, -1)
        found = arrays.octets(section.data, values, sizes)
        return found if column.kind is ColumnKind.BYTES else arrays.text(found)
    if column.unit == MILLISECONDS:
        return arrays.times(values, given)
    if column.kind is ColumnKind.HEADERS:
        has = np.ones(len(part), np.bool_) if given is None else given
        firsts = part[f"{column.at}_first"]
        return arrays.headers(section.data, section.children, firsts, values, has)
    if column.kind is ColumnKind.FLAG:
        return arrays.flags(values, given)
    if column.kind is ColumnKind.CHOICE:
        return arrays.words(values, column.words, given)
    return arrays.integers(values, type_of(column), given)


def _given(part: ArrowPart, column: Column, values: IntArray) -> BoolArray | None:
    """Mask of rows that have a value; None if all do."""
    masks: list[BoolArray] = []
    if column.given:
        masks.append(part[column.given] == 1)
    if column.only:
        masks.append(part[column.only[0]] == column.only[1])
    if column.none is not None:
        masks.append(values != column.none)
    if not masks:
        return None
    given: BoolArray = np.logical_and.reduce(masks)
    return None if given.all() else given
