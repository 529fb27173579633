"""Compares two streams of records in offset order, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.export.exported_rows import offset_array
from kfmt_cli.broker.cluster.replica_comparison import (
    ReplicaRange,
    ReplicaRelation,
    merge_adjacent_ranges,
)
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray

COMPARED_COLUMNS = ("offset", "timestamp_ms", "key", "value", "headers")
_RELATIONS = (
    ReplicaRelation.IDENTICAL,
    ReplicaRelation.DIVERGED,
    ReplicaRelation.ONLY_A,
    ReplicaRelation.ONLY_B,
)
_SAME, _DIVERGED, _ONLY_A, _ONLY_B = range(4)


def compare_records(
    a: Iterable[pa.RecordBatch], b: Iterable[pa.RecordBatch]
) -> Iterator[ReplicaRange]:
    """The offset ranges where two streams agree, diverge, or only one has records.

    a, b: rows with the columns `COMPARED_COLUMNS`, in offset order.
    """
    return merge_adjacent_ranges(_iter_ranges(_RecordCursor(a), _RecordCursor(b)))


class _RecordCursor:
    """A position in a stream. rows: the next rows, None at the end; last_offset: their last
    offset."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._remaining = iter(batches)
        self.rows: pa.RecordBatch | None = None
        self.last_offset = 0
        self._read_next()

    def _read_next(self) -> None:
        self.rows = next((rows for rows in self._remaining if len(rows)), None)
        if self.rows is not None:
            offsets = offset_array(self.rows)
            if not (offsets[1:] > offsets[:-1]).all():
                offsets, first_rows = np.unique(offsets, return_index=True)
                self.rows = self.rows.take(pa.array(first_rows))
            self.last_offset = int(offsets[-1])

    def consume_until(self, last_offset: int) -> pa.RecordBatch | None:
        """Consume the buffered rows up to an offset; None at the end of the stream."""
        rows = self.rows
        if rows is None:
            return None
        n = int(np.searchsorted(offset_array(rows), last_offset, "right"))
        if n == len(rows):
            self._read_next()
            return rows
        self.rows = rows.slice(n)
        return rows.slice(0, n)


def _iter_ranges(a: _RecordCursor, b: _RecordCursor) -> Iterator[ReplicaRange]:
    while a.rows is not None or b.rows is not None:
        last_offset = min(cursor.last_offset for cursor in (a, b) if cursor.rows is not None)
        a_rows, b_rows = a.consume_until(last_offset), b.consume_until(last_offset)
        offsets, relations = _relate_rows(a_rows, b_rows)
        starts = np.flatnonzero(np.diff(relations, prepend=-1))
        ends = np.append(starts[1:], len(relations)) - 1
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            yield ReplicaRange(_RELATIONS[relations[start]], int(offsets[start]), int(offsets[end]))


def _relate_rows(
    a_rows: pa.RecordBatch | None, b_rows: pa.RecordBatch | None
) -> tuple[IntArray, IntArray]:
    """The offsets in either of two ranges of rows, and each one's index into `_RELATIONS`."""
    if a_rows is None or b_rows is None:
        rows, relation = (b_rows, _ONLY_B) if a_rows is None else (a_rows, _ONLY_A)
        offsets = offset_array(rows)
        return offsets, np.full(len(offsets), relation)
    a_offsets, b_offsets = offset_array(a_rows), offset_array(b_rows)
    if np.array_equal(a_offsets, b_offsets):
        return a_offsets, np.where(_equal_rows_mask(a_rows, b_rows), _SAME, _DIVERGED)
    common_offsets, a_indexes, b_indexes = np.intersect1d(
        a_offsets, b_offsets, assume_unique=True, return_indices=True
    )
    same_mask = _equal_rows_mask(a_rows.take(pa.array(a_indexes)), b_rows.take(pa.array(b_indexes)))
    offsets = np.union1d(a_offsets, b_offsets)
    relations = np.where(np.isin(offsets, a_offsets), _ONLY_A, _ONLY_B)
    relations[np.searchsorted(offsets, common_offsets)] = np.where(same_mask, _SAME, _DIVERGED)
    return offsets, relations


def _equal_rows_mask(a_rows: pa.RecordBatch, b_rows: pa.RecordBatch) -> BoolArray:
    """The mask of equal rows."""
    if a_rows.equals(b_rows):
        return np.ones(len(a_rows), np.bool_)
    mask = np.ones(len(a_rows), np.bool_)
    for name in COMPARED_COLUMNS:
        a_column, b_column = a_rows.column(name), b_rows.column(name)
        if a_column.equals(b_column):
            continue
        if pa.types.is_list(a_column.type):
            pairs = zip(a_column.to_pylist(), b_column.to_pylist(), strict=True)
            mask &= np.fromiter((left == right for left, right in pairs), np.bool_, len(a_column))
        else:
            equal_mask = pc.fill_null(
                pc.equal(a_column, b_column), pc.and_(pc.is_null(a_column), pc.is_null(b_column))
            )
            mask &= equal_mask.to_numpy(zero_copy_only=False)
    return mask
