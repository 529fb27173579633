"""Two copies of a partition, compared in a task from the columns of their batches.

The records are read only where batches differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kfmt_cli.arrow.batch_columns import kept_batches
from kfmt_cli.arrow.inputs import at_hand
from kfmt_cli.broker.replicas import Range, Relation, ReplicaBatch, ReplicaBatches
from kfmt_cli.checks.comparison import BEFORE, HOLE, Comparison, Row, Side
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import printable
from kfmt_cli.findings.finding import Findings
from kfmt_cli.log.block import Block
from kfmt_cli.rows.compared_range import RangeStatus
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request

ABSENT = "the partition is not there"
IN_OTHER_BATCHES = "compaction or other batches: records that both have are equal"
RECORDS_DIFFER = "records or leader epochs differ"
DAMAGED = "a batch is damaged"
_STATUS = {
    Relation.IDENTICAL: RangeStatus.IDENTICAL,
    Relation.COMPACTED: RangeStatus.EXPLAINED,
    Relation.DIVERGED: RangeStatus.DIFFERS,
    Relation.DAMAGED: RangeStatus.DIFFERS,
}
_WHY = {
    Relation.COMPACTED: IN_OTHER_BATCHES,
    Relation.DIVERGED: RECORDS_DIFFER,
    Relation.DAMAGED: DAMAGED,
}


@dataclass(frozen=True, slots=True)
class PieceColumns:
    """A piece, and where its batches are kept."""

    piece: Piece
    file: str
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two copies of a partition. Either may have no pieces."""

    topic: str | None
    partition: int | None
    a: tuple[PieceColumns, ...]
    b: tuple[PieceColumns, ...]


@dataclass(slots=True)
class KeptSide(Side):
    """A copy whose batches are kept as columns."""

    kept: tuple[PieceColumns, ...] = ()
    pieces: dict[str, Piece] = field(default_factory=dict)
    """Its pieces by path."""

    def batches(self) -> Iterator[ReplicaBatches]:
        """Its batches in order; raises InputError."""
        for kept in self.kept:
            self.pieces[kept.piece.path] = kept.piece
            for batches in kept_batches(kept.file, kept.first, kept.end):
                yield self._of_run(Block(kept.piece.path, b"", 0, batches))
        if self.first is None and self.kept:  # everything was deleted up to the active segment
            self.first = self.end = max(kept.piece.base_offset or 0 for kept in self.kept)


class KeptComparison(Comparison):
    """Reads the records of batches that differ from their files."""

    def __init__(self, a: KeptSide, b: KeptSide) -> None:
        super().__init__(a, b)
        self._pieces: tuple[dict[str, Piece], ...] = a.pieces, b.pieces

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
    sides = [_side(request, kept) for kept in (pair.a, pair.b)]
    found = KeptComparison(*sides)
    with at_hand(request, [kept.piece for kept in (*pair.a, *pair.b)]):
        found.read()
    return list(_rows(pair, found))


def _side(request: Request, kept: tuple[PieceColumns, ...]) -> KeptSide:
    folder = kept[0].piece.folder if kept else ""
    files = Partition(printable(folder), Path(folder), [])
    return KeptSide(files, request.limit, Findings(0), kept=kept)


def _rows(pair: Pair, found: KeptComparison) -> Iterator[Row]:
    parted = found.parted
    for owned in found.ranges:
        status, why = _judged(pair, found, owned, parted)
        yield (
            None if pair.topic is None else printable(pair.topic),
            pair.partition,
            status.value,
            owned.relation.value,
            owned.first,
            owned.last,
            owned.a_batches,
            owned.b_batches,
            why,
            found.a.files.name if pair.a else None,
            found.b.files.name if pair.b else None,
        )


def _judged(
    pair: Pair, found: KeptComparison, owned: Range, parted: Range | None
) -> tuple[RangeStatus, str | None]:
    """The status of a range, and why."""
    if owned.relation in _STATUS:
        return _STATUS[owned.relation], _WHY.get(owned.relation)
    other = pair.b if owned.relation is Relation.ONLY_A else pair.a
    if not other:
        return RangeStatus.MISSING, ABSENT
    why = found.why(owned, parted)
    return (RangeStatus.EXPLAINED if why in (BEFORE, HOLE) else RangeStatus.MISSING), why
