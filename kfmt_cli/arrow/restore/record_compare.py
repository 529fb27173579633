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
    a_batches: Iterable[pa.RecordBatch], b_batches: Iterable[pa.RecordBatch]
) -> Iterator[ReplicaRange]:
    """The offset ranges where two streams agree, diverge, or only one has records.

    a_batches, b_batches: rows with the columns `COMPARED_COLUMNS`, in offset order.
    """
    return merge_adjacent_ranges(
        _iter_replica_ranges(_RecordCursor(a_batches), _RecordCursor(b_batches))
    )


class _RecordCursor:
    """A position in a stream. buffered_rows: the next rows, None at the end; last_offset: their
    last offset."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._remaining_batches = iter(batches)
        self.buffered_rows: pa.RecordBatch | None = None
        self.last_offset = 0
        self._read_next_rows()

    def _read_next_rows(self) -> None:
        self.buffered_rows = next((rows for rows in self._remaining_batches if len(rows)), None)
        if self.buffered_rows is not None:
            offsets = offset_array(self.buffered_rows)
            if not (offsets[1:] > offsets[:-1]).all():
                offsets, first_rows = np.unique(offsets, return_index=True)
                self.buffered_rows = self.buffered_rows.take(pa.array(first_rows))
            self.last_offset = int(offsets[-1])

    def consume_rows(self, last_offset: int) -> pa.RecordBatch | None:
        """Consume the buffered rows up to an offset; None at the end of the stream."""
        rows = self.buffered_rows
        if rows is None:
            return None
        n_consumed = int(np.searchsorted(offset_array(rows), last_offset, "right"))
        if n_consumed == len(rows):
            self._read_next_rows()
            return rows
        self.buffered_rows = rows.slice(n_consumed)
        return rows.slice(0, n_consumed)


def _iter_replica_ranges(
    a_cursor: _RecordCursor, b_cursor: _RecordCursor
) -> Iterator[ReplicaRange]:
    while a_cursor.buffered_rows is not None or b_cursor.buffered_rows is not None:
        last_offset = min(
            cursor.last_offset
            for cursor in (a_cursor, b_cursor)
            if cursor.buffered_rows is not None
        )
        a_rows, b_rows = a_cursor.consume_rows(last_offset), b_cursor.consume_rows(last_offset)
        offsets, relations = _offset_relations(a_rows, b_rows)
        range_starts = np.flatnonzero(np.diff(relations, prepend=-1))
        range_lasts = np.append(range_starts[1:], len(relations)) - 1
        for first_index, last_index in zip(
            range_starts.tolist(), range_lasts.tolist(), strict=True
        ):
            yield ReplicaRange(
                _RELATIONS[relations[first_index]],
                int(offsets[first_index]),
                int(offsets[last_index]),
            )


def _offset_relations(
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
    equal_rows = np.ones(len(a_rows), np.bool_)
    for column_name in COMPARED_COLUMNS:
        a_column, b_column = a_rows.column(column_name), b_rows.column(column_name)
        if a_column.equals(b_column):
            continue
        if pa.types.is_list(a_column.type):
            pairs = zip(a_column.to_pylist(), b_column.to_pylist(), strict=True)
            equal_rows &= np.fromiter(
                (left == right for left, right in pairs), np.bool_, len(a_column)
            )
        else:
            equal_values = pc.fill_null(
                pc.equal(a_column, b_column), pc.and_(pc.is_null(a_column), pc.is_null(b_column))
            )
            equal_rows &= equal_values.to_numpy(zero_copy_only=False)
    return equal_rows
