"""Two copies of a partition, compared in a task from the columns of their batches.

The records are read only where batches differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from kfmt_cli.arrow.batch_columns import kept_batches
from kfmt_cli.arrow.columns.tables import rows_of
from kfmt_cli.arrow.export.exported_rows import FileOfPartition, offsets_of, rows_in
from kfmt_cli.arrow.inputs import at_hand
from kfmt_cli.arrow.restore.record_compare import COMPARED, compare_records
from kfmt_cli.broker.cluster.replicas import Range, Relation, ReplicaBatch, ReplicaBatches
from kfmt_cli.checks.comparison import BEFORE, HOLE, MISSING, Comparison, Row, Side
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.findings.finding import Findings
from kfmt_cli.log.block import Block
from kfmt_cli.rows.table_types import RECORDS
from kfmt_cli.rows.types.compared_range import RangeStatus
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request

Bounds = tuple[int, int]
"""First and last offset."""
EVERYTHING: Bounds = (-1 << 62, 1 << 62)
ABSENT = "the partition is missing"
IN_OTHER_BATCHES = "compaction or other batches: records that both have are equal"
RECORDS_DIFFER = "records or leader epochs differ"
DAMAGED = "a batch is damaged"
_JUDGED = {
    Relation.IDENTICAL: (RangeStatus.IDENTICAL, None),
    Relation.COMPACTED: (RangeStatus.EXPLAINED, IN_OTHER_BATCHES),
    Relation.DIVERGED: (RangeStatus.DIFFERS, RECORDS_DIFFER),
    Relation.DAMAGED: (RangeStatus.DIFFERS, DAMAGED),
}


@dataclass(frozen=True, slots=True)
class PieceColumns:
    """A piece, and where its batches are kept as columns."""

    piece: Piece
    file: str
    start: int
    end: int
    """Exclusive end of its Arrow batches in the file."""
    first: int
    """First offset."""
    last: int

    def part(self, bounds: Bounds) -> Piece | None:
        """The part of the piece whose batches reach into the bounds; None if none does."""
        starts, ends = [], []
        for batches in kept_batches(self.file, self.start, self.end):
            keep = (batches.last_offset >= bounds[0]) & (batches.base_offset <= bounds[1])
            if keep.any():
                positions = batches.position[keep]
                starts.append(int(positions.min()))
                ends.append(int((positions + batches.size[keep]).max()))
        if not starts:
            return None
        if bounds[0] <= self.first and self.last <= bounds[1]:
            return self.piece
        return replace(self.piece, start=min(starts), end=max(ends), is_exact=True)


@dataclass(slots=True)
class PartitionCopy:
    """One of two copies of a partition: segments, or files of a table."""

    name: str = ""
    """The directory or the table; empty if there is none."""
    is_table: bool = False
    pieces: list[PieceColumns] = field(default_factory=list)
    files: list[FileOfPartition] = field(default_factory=list)
    first: int | None = None
    """The first offset of the whole copy."""
    end: int = 0
    """The offset after its last."""
    has_holes: bool = False
    """Whether compaction has removed records."""

    def reach(self, first: int, last: int) -> None:
        """The copy has these offsets."""
        self.first = first if self.first is None else min(self.first, first)
        self.end = max(self.end, last + 1)

    def within(self, bounds: Bounds) -> PartitionCopy:
        """The copy with only what reaches into the bounds."""
        first, last = bounds
        spans = ((file, file.span) for file in self.files)
        return replace(
            self,
            pieces=[kept for kept in self.pieces if kept.first <= last and first <= kept.last],
            files=[file for file, span in spans if span.first <= last and first <= span.last],
        )

    def records(self, request: Request, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        """The records within the bounds, in the columns `COMPARED`; raises InputError."""
        for file in sorted(self.files, key=lambda file: file.span.first):
            place = file.span.topic, file.span.partition
            yield from _within(rows_in(file.path, place, COMPARED, offsets=bounds), bounds)
        parts = [part for kept in self.pieces if (part := kept.part(bounds)) is not None]
        request = replace(request, table=RECORDS.name, columns=COMPARED)
        yield from _within(rows_of(request, parts), bounds)


def _within(rows: Iterable[pa.RecordBatch], bounds: Bounds) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        offsets = offsets_of(batch)
        keep = (offsets >= bounds[0]) & (offsets <= bounds[1])
        yield batch if keep.all() else batch.filter(pa.array(keep))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two copies of a partition, one of which may not exist, or a range of offsets of them."""

    topic: str | None
    partition: int | None
    a: PartitionCopy
    b: PartitionCopy
    bounds: Bounds = EVERYTHING

    @property
    def is_of_table(self) -> bool:
        """Whether a copy is a table, which has no batches."""
        return self.a.is_table or self.b.is_table

    @property
    def n_bytes(self) -> int:
        """Bytes of the segments of both."""
        pieces = (kept.piece for kept in (*self.a.pieces, *self.b.pieces))
        return sum(piece.end - piece.start for piece in pieces)

    def shares(self, target: int) -> Iterator[Pair]:
        """Parts of about `target` bytes of segments, if a copy is a table; records are compared
        one by one, so that they may end anywhere."""
        firsts = sorted(file.span.first for file in (*self.a.files, *self.b.files))
        n = min(len(firsts), -(-self.n_bytes // target)) if firsts else 1
        step = -(-len(firsts) // max(n, 1))
        cuts = sorted(set(firsts[step::step])) if n > 1 else []
        for first, after in pairwise([EVERYTHING[0], *cuts, EVERYTHING[1] + 1]):
            bounds = first, after - 1
            a, b = self.a.within(bounds), self.b.within(bounds)
            yield replace(self, a=a, b=b, bounds=bounds) if cuts else self


@dataclass(slots=True)
class KeptSide(Side):
    """A copy whose batches are kept as columns."""

    kept: list[PieceColumns] = field(default_factory=list)

    def batches(self) -> Iterator[ReplicaBatches]:
        """Its batches in order; raises InputError."""
        for kept in self.kept:
            for batches in kept_batches(kept.file, kept.start, kept.end):
                yield self._of_run(Block(kept.piece.path, b"", 0, batches))


class KeptComparison(Comparison):
    """Reads the records of batches that differ from their files."""

    def __init__(self, a: KeptSide, b: KeptSide) -> None:
        super().__init__(a, b)
        self._pieces = [{kept.piece.path: kept.piece for kept in its.kept} for its in (a, b)]

    def _differs(self, mine: list[ReplicaBatch], its: list[ReplicaBatch]) -> int | None:
        a, b = (
            list(self._with_bytes(batches, pieces))
            for batches, pieces in zip((mine, its), self._pieces, strict=True)
        )
        return super()._differs(a, b)

    def _with_bytes(
        self, batches: list[ReplicaBatch], pieces: dict[str, Piece]
    ) -> Iterator[ReplicaBatch]:
        """The batches with their bytes, which the columns do not have; raises InputError."""
        for batch in batches:
            assert isinstance(batch.place, tuple)
            columns, i = batch.place
            start = int(columns.batches.position[i])
            end = start + int(columns.batches.size[i])
            piece = replace(pieces[columns.name], start=start, end=end, is_exact=True)
            for block in PieceReader(limit=self.a.limit, raises_unreadable=True).blocks(piece):
                for k in range(len(block.batches)):
                    yield replace(batch, place=(block, k))


def compared(request: Request, pair: Pair) -> list[Row]:
    """The rows of `COMPARED_RANGE` for a pair; raises InputError."""
    found = KeptComparison(*(_side(request, copy) for copy in (pair.a, pair.b)))
    with at_hand(request, [kept.piece for kept in (*pair.a.pieces, *pair.b.pieces)]):
        if pair.is_of_table:
            both = (copy.records(request, pair.bounds) for copy in (pair.a, pair.b))
            found.ranges = list(compare_records(*both))
        else:
            found.read()
    for side, copy in ((found.a, pair.a), (found.b, pair.b)):
        side.first, side.end, side.has_holes = copy.first, copy.end, copy.has_holes
    return list(_rows(pair, found))


def _side(request: Request, copy: PartitionCopy) -> KeptSide:
    files = Partition(copy.name, Path(copy.name), [])
    return KeptSide(files, request.limit, Findings(0), kept=copy.pieces)


def _rows(pair: Pair, found: KeptComparison) -> Iterator[Row]:
    parted = found.parted
    for owned in found.ranges:
        status, why = _judged(pair, found, owned, parted)
        yield (
            pair.topic,
            pair.partition,
            status.value,
            owned.relation.value,
            owned.first,
            owned.last,
            None if pair.is_of_table else owned.a_batches,
            None if pair.is_of_table else owned.b_batches,
            why,
            pair.a.name or None,
            pair.b.name or None,
        )


def _judged(
    pair: Pair, found: KeptComparison, owned: Range, parted: Range | None
) -> tuple[RangeStatus, str | None]:
    """The status of a range, and why."""
    if owned.relation in _JUDGED:
        return _JUDGED[owned.relation]
    other = pair.b if owned.relation is Relation.ONLY_A else pair.a
    if not other.name:
        return RangeStatus.MISSING, ABSENT
    if other.is_table:  # of which no broker deletes records
        return RangeStatus.MISSING, MISSING
    why = found.why(owned, parted)
    return (RangeStatus.EXPLAINED if why in (BEFORE, HOLE) else RangeStatus.MISSING), why
