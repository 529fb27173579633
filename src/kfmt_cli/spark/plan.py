"""Which files there are, and how they are shared out to tasks.

Big logs are cut at nominal bytes; where the nearest batch begins is found by the task itself, by
the same rule on both sides of each cut (`spark/splits.py`), so that planning opens no file. Small
files are packed together, as a task costs more than they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import LOGS, FileKind, classify, is_transient, partition_of
from kfmt_cli.spark.request import MIB, Request
from kfmt_cli.spark.storage import listing

OPENING = 1 * MIB  # what opening a file costs, in bytes that could be read meanwhile
LEAST_SPLIT = 32 * MIB
KINDS = {
    "index_entries": frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX}),
}
# Tables with something that is true of a whole file, as rules are that look at neighbours.
WHOLE = ("segments", "index_entries", "findings")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file: what begins in bytes start..end-1; size and modified as planned. trouble:
    why nothing can be read of a directory, for which this then stands."""

    path: str
    kind: FileKind
    base_offset: int | None
    size: int
    modified: int
    start: int
    end: int
    trouble: str | None = None

    def part(self, start: int, end: int) -> Piece:
        """The part of the file that begins in these bytes."""
        return replace(self, start=start, end=end)

    @property
    def is_last(self) -> bool:
        """Whether nothing of the file comes behind it."""
        return self.end >= self.size

    @property
    def place(self) -> tuple[str | None, int | None]:
        """Topic and partition."""
        return partition_of(self.path)


@dataclass(frozen=True, slots=True)
class Transactions:
    """What read_committed needs to know of a partition. aborted: (producer, first, last offset).
    stable: the first offset of an open transaction."""

    aborted: tuple[tuple[int, int, int], ...] = ()
    stable: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads. transactions: of each directory, where they are asked for."""

    pieces: tuple[Piece, ...]
    transactions: tuple[tuple[str, Transactions], ...] = ()


def files_of(request: Request) -> list[Piece]:
    """Every file that the request is about, whole, and the directories that cannot be read, by
    their trouble; raises InputError, also where there is nothing but trouble."""
    kinds = KINDS.get(request.table, LOGS)
    found: dict[str, Piece] = {}
    for path in request.paths:
        given = list(listing(path))
        for it in given:
            alone = len(given) == 1
            if it.trouble:
                kind = FileKind.UNKNOWN
                found[it.path] = Piece(it.path, kind, None, 0, 0, 0, 0, trouble=it.trouble)
                continue
            if is_transient(it.path) and not alone:
                continue
            file = classify(it.path, it.path)
            known = file.kind in kinds or (alone and file.kind is FileKind.UNKNOWN)
            if known and _wanted(request, it.path):
                base = file.base_offset
                found[it.path] = Piece(it.path, file.kind, base, it.size, it.modified, 0, it.size)
        if not given:
            raise InputError(f"{path}: no file in it")
    if found and all(it.trouble for it in found.values()):
        raise InputError("; ".join(f"{it.path}: {it.trouble}" for it in found.values()))
    return sorted(found.values(), key=_order)


def _order(piece: Piece) -> tuple[str, int, int, str]:
    topic, partition = piece.place
    folder = topic or piece.path.rpartition("/")[0]
    return folder, partition or 0, piece.base_offset or 0, piece.path


def _wanted(request: Request, path: str) -> bool:
    return not request.topics or partition_of(path)[0] in request.topics


def plan(request: Request) -> list[Split]:
    """The request shared out; an empty list where there is nothing to read."""
    files = files_of(request)
    target = target_of(request, files)
    parts = files if request.table in WHOLE else list(cut(files, target))
    splits = [Split(tuple(pieces)) for pieces in pack(parts, target)]
    if request.committed and request.table == "records":
        from kfmt_cli.spark.committed import with_transactions

        return with_transactions(splits, files)
    return splits


def target_of(request: Request, pieces: list[Piece]) -> int:
    """Bytes for one task: enough tasks for the cores, as Spark has for its own files."""
    total = sum(it.end - it.start + OPENING for it in pieces)
    share = -(-total // max(request.parallelism, 1))
    return min(request.max_split, max(LEAST_SPLIT, share))


def cut(files: Iterable[Piece], target: int) -> Iterator[Piece]:
    """Logs larger than the target in parts of it."""
    for it in files:
        n = -(-it.size // target) if it.kind is FileKind.LOG else 1
        if n <= 1:
            yield it
            continue
        width = -(-it.size // n)
        for start in range(0, it.size, width):
            end = min(start + width, it.size)
            yield it.part(start, end)


def pack(parts: Iterable[Piece], target: int) -> Iterator[list[Piece]]:
    """Parts together until they make a task's worth."""
    pieces: list[Piece] = []
    room = target
    for it in parts:
        cost = it.end - it.start + OPENING
        if pieces and cost > room:
            yield pieces
            pieces, room = [], target
        pieces.append(it)
        room -= cost
    if pieces:
        yield pieces
