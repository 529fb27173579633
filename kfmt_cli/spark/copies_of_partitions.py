"""Which segments, and which files of tables, are copies of the same partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kfmt_cli.arrow.export.exported_rows import FileOfPartition, Span, is_exported
from kfmt_cli.broker.cluster.replicas import Relation
from kfmt_cli.checks.comparison import Row
from kfmt_cli.core.urls import absolute, is_local, local, name_text
from kfmt_cli.errors import UsageError
from kfmt_cli.rows.types.compared_range import COMPARED_RANGE, RangeStatus
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.spark.compared import IN_OTHER_BATCHES, Pair, PartitionCopy, PieceColumns

FEW = 4096  # offsets
_NAMES = tuple(leaf.name for leaf in COMPARED_RANGE.leaves)
Place = tuple[str | None, int | None, str]
"""Topic and partition; without a topic, the directory below the path."""


def top_of(path: str) -> str:
    """A path as the listing names it."""
    return absolute(local(path)) if is_local(path) else path.rstrip("/")


def _side_of(piece: Piece, tops: Sequence[str]) -> int:
    """Which copy a file belongs to."""
    below = [i for i, top in enumerate(tops) if f"{piece.path}/".startswith(f"{top}/")]
    return max(below, key=lambda i: len(tops[i]))


def _place_of(piece: Piece, top: str) -> Place:
    topic, partition = piece.place
    if topic is None:
        return None, None, piece.folder.removeprefix(top)
    return name_text(topic), partition, ""


def check_places(paths: Iterable[str], pieces: Iterable[Piece]) -> None:
    """Raise UsageError if a copy has segments of a partition in two directories."""
    tops = [top_of(path) for path in paths]
    folders: dict[tuple[int, Place], str] = {}
    for piece in pieces:
        side = _side_of(piece, tops)
        if is_exported(piece):
            continue
        held = folders.setdefault((side, _place_of(piece, tops[side])), piece.folder)
        if held != piece.folder:
            both = f"{name_text(held)} and {name_text(piece.folder)}"
            raise UsageError(f"{both} are the same partition: compare with one of them at a time")


class BothCopies:
    """The copies A and B of partitions. folder: of the kept batches."""

    def __init__(self, paths: Iterable[str], folder: str) -> None:
        self._tops = [top_of(path) for path in paths]
        self._folder = folder
        self._sides: tuple[dict[Place, PartitionCopy], ...] = {}, {}

    def take(self, piece: Piece, result: dict[str, Any]) -> None:
        """Add the result of a piece."""
        side = _side_of(piece, self._tops)
        top, found = self._tops[side], self._sides[side]
        for row in result.get("spans", ()):
            span = Span(*row)
            place = span.topic, span.partition, ""
            copy = found.setdefault(place, PartitionCopy(name_text(top), is_table=True))
            copy.files.append(FileOfPartition(piece.path, piece.size, piece.modified, span))
            copy.reach(span.first, span.last)
        if is_exported(piece):
            return
        place = _place_of(piece, top)
        copy = found.setdefault(place, PartitionCopy(name_text(piece.folder)))
        offsets = result["offsets"] or (0, -1)
        file, start, end = f"{self._folder}/{result['file']}", result["first"], result["end"]
        copy.pieces.append(PieceColumns(piece, file, start, end, *offsets))
        copy.has_holes |= result["has_holes"]
        if result["offsets"]:
            copy.reach(*offsets)

    def pairs(self) -> Iterator[Pair]:
        """Both copies of each partition that A or B has."""
        a, b = self._sides
        if len(a) == len(b) == 1:  # also a copy under another name
            b = dict(zip(a, b.values(), strict=True))
        for copy in (*a.values(), *b.values()):
            if copy.first is None and copy.pieces:  # what was before the active segment is deleted
                copy.first = copy.end = max(kept.piece.base for kept in copy.pieces)
        for place in {**a, **b}:
            mine, its = (side.get(place, PartitionCopy()) for side in (a, b))
            yield Pair(*place[:2], mine, its)


def merged_rows(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """The rows of `COMPARED_RANGE` with those that continue another one joined to it. Compaction
    leaves batches here and there: few identical offsets between explained ranges are part of it."""
    held: list[dict[str, Any]] = []
    for values in rows:
        held.append(dict(zip(_NAMES, values, strict=True)))
        while len(held) > 1 and (_joins(held) or _surrounds(held)):
            pass
        if len(held) > 2:
            yield held.pop(0)
    yield from held


def _joins(held: list[dict[str, Any]]) -> bool:
    """Join the last row to the one before if it continues it; whether it does."""
    before, last = held[-2:]
    alike = ("topic", "partition", "a", "b", "status", "relation", "why")
    if any(before[name] != last[name] for name in alike):
        return False
    held[-2:] = [_spanning(before, last)]
    return True


def _surrounds(held: list[dict[str, Any]]) -> bool:
    """Join the last three rows if few identical offsets are between two explained ranges."""
    explained = RangeStatus.EXPLAINED.value
    if len(held) < 3 or held[-3]["status"] != explained or held[-1]["status"] != explained:
        return False
    places = {(row["topic"], row["partition"], row["a"], row["b"]) for row in held[-3:]}
    between = held[-2]
    n = between["last_offset"] - between["first_offset"] + 1
    if len(places) > 1 or between["status"] != RangeStatus.IDENTICAL.value or n > FEW:
        return False
    compacted = {"relation": Relation.COMPACTED.value, "why": IN_OTHER_BATCHES}
    joined = _spanning(_spanning(held[-3], between), held[-1])
    held[-3:] = [{**joined, "status": explained, **compacted}]
    return True


def _spanning(first: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    counts = {
        name: None if first[name] is None else first[name] + last[name]
        for name in ("a_batches", "b_batches")
    }
    end = max(first["last_offset"], last["last_offset"])
    return {**first, "last_offset": end, **counts}
