"""Two streams of records in offset order, compared in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.export.exported_rows import offsets_of
from kfmt_cli.broker.cluster.replicas import Range, Relation, joined
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray

COMPARED = ("offset", "timestamp_ms", "key", "value", "headers")
_RELATIONS = (Relation.IDENTICAL, Relation.DIVERGED, Relation.ONLY_A, Relation.ONLY_B)
_SAME, _OTHER, _ONLY_A, _ONLY_B = range(4)


def compare_records(a: Iterable[pa.RecordBatch], b: Iterable[pa.RecordBatch]) -> Iterator[Range]:
    """The ranges of two streams with the columns `COMPARED`."""
    return joined(_steps(_RecordCursor(a), _RecordCursor(b)))


class _RecordCursor:
    """A position in a stream. head: the next rows, None at the end; last: their last offset."""

    def __init__(self, rest: Iterable[pa.RecordBatch]) -> None:
        self._rest = iter(rest)
        self.head: pa.RecordBatch | None = None
        self.last = 0
        self._next()

    def _next(self) -> None:
        self.head = next((rows for rows in self._rest if len(rows)), None)
        if self.head is not None:
            offsets = offsets_of(self.head)
            if not (offsets[1:] > offsets[:-1]).all():
                offsets, first = np.unique(offsets, return_index=True)
                self.head = self.head.take(pa.array(first))
            self.last = int(offsets[-1])

    def take(self, last: int) -> pa.RecordBatch | None:
        """The rows of the head up to an offset; moves past them."""
        head = self.head
        if head is None:
            return None
        n = int(np.searchsorted(offsets_of(head), last, "right"))
        if n == len(head):
            self._next()
            return head
        self.head = head.slice(n)
        return head.slice(0, n)


def _steps(a: _RecordCursor, b: _RecordCursor) -> Iterator[Range]:
    while a.head is not None or b.head is not None:
        last = min(cursor.last for cursor in (a, b) if cursor.head is not None)
        mine, its = a.take(last), b.take(last)
        offsets, found = _relations(mine, its)
        starts = np.flatnonzero(np.diff(found, prepend=-1))
        ends = np.append(starts[1:], len(found)) - 1
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            yield Range(_RELATIONS[found[start]], int(offsets[start]), int(offsets[end]))


def _relations(
    mine: pa.RecordBatch | None, its: pa.RecordBatch | None
) -> tuple[IntArray, IntArray]:
    """The offsets in either of two stretches, and the relation of each."""
    if mine is None or its is None:
        rows, relation = (its, _ONLY_B) if mine is None else (mine, _ONLY_A)
        offsets = offsets_of(rows)
        return offsets, np.full(len(offsets), relation)
    a, b = offsets_of(mine), offsets_of(its)
    if np.array_equal(a, b):
        return a, np.where(_same(mine, its), _SAME, _OTHER)
    both, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    same = _same(mine.take(pa.array(in_a)), its.take(pa.array(in_b)))
    offsets = np.union1d(a, b)
    found = np.where(np.isin(offsets, a), _ONLY_A, _ONLY_B)
    found[np.searchsorted(offsets, both)] = np.where(same, _SAME, _OTHER)
    return offsets, found


def _same(mine: pa.RecordBatch, its: pa.RecordBatch) -> BoolArray:
    """Which rows are equal."""
    if mine.equals(its):
        return np.ones(len(mine), np.bool_)
    same = np.ones(len(mine), np.bool_)
    for name in COMPARED:
        x, y = mine.column(name), its.column(name)
        if x.equals(y):
            continue
        if pa.types.is_list(x.type):
            pairs = zip(x.to_pylist(), y.to_pylist(), strict=True)
            same &= np.fromiter((one == other for one, other in pairs), np.bool_, len(x))
        else:
            equal = pc.fill_null(pc.equal(x, y), pc.and_(pc.is_null(x), pc.is_null(y)))
            same &= equal.to_numpy(zero_copy_only=False)
    return same
