"""Parts of files, as work is shared out by them.

Big logs are cut at nominal bytes; where the nearest batch begins is found by whoever reads the
part, by the same rule on both sides of each cut (`sharing/bounds.py`), so that planning opens no
file. Small files are packed together, as a worker's start costs more than they do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.disk.names import partition_of
from kfmt_cli.errors import KfmtError
from kfmt_cli.topics import CLUSTER_METADATA

MIB = 1 << 20
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
OPENING = MIB // 8  # what opening a file costs, in bytes that could be read meanwhile


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file."""

    path: str
    kind: Kind
    base_offset: int | None
    size: int
    """The size of the file as planned."""
    modified: int
    """When the file had been changed as planned."""
    start: int
    """The first byte of which it owns a batch that begins there."""
    end: int
    """The byte from which on batches are those of the next piece."""
    trouble: str | None = None
    """Why nothing can be read of a directory, that this is in place of."""
    is_exact: bool = False
    """Batches begin where it begins and ends."""
    tiered: bool = False
    """Whether the file has the chunks of a log, by a manifest next to it."""
    stored_size: int = 0
    """The bytes of those."""
    named: tuple[str, int] | None = None
    """The topic and the partition that the manifest says."""

    def part(self, start: int, end: int) -> Piece:
        """The part of the file that begins in these bytes."""
        return replace(self, start=start, end=end)

    @property
    def is_last(self) -> bool:
        """Whether nothing of the file comes after it."""
        return self.end >= self.size

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole file."""
        return self.start == 0 and self.is_last

    @property
    def folder(self) -> str:
        """The directory of the file."""
        return self.path.rpartition("/")[0]

    @property
    def place(self) -> tuple[str | None, int | None]:
        """Topic and partition."""
        if self.kind is KRAFT_SNAPSHOT:
            return CLUSTER_METADATA, 0
        if self.named is not None:
            return self.named
        return partition_of(self.path)


def cuts_of(file: Piece, target: int) -> Sequence[int]:
    """Where the parts of a file begin, and where the last one ends: a log that is larger than the
    target is cut."""
    n = -(-file.size // target) if file.kind is LOG else 1
    if n <= 1:
        return file.start, file.end
    return *range(0, file.size, -(-file.size // n)), file.size


def cut(files: Iterable[Piece], target: int) -> Iterator[Piece]:
    """Logs larger than the target in parts of it."""
    for file in files:
        for start, end in pairwise(cuts_of(file, target)):
            yield file.part(start, end)


def pack(parts: Iterable[Piece], target: int, opening: int = OPENING) -> Iterator[list[Piece]]:
    """Parts together until they make a worker's share. opening: bytes that each costs."""
    pieces: list[Piece] = []
    room = target
    for piece in parts:
        cost = piece.end - piece.start + opening
        if pieces and cost > room:
            yield pieces
            pieces, room = [], target
        pieces.append(piece)
        room -= cost
    if pieces:
        yield pieces


def name_of(path: str, start: int) -> str:
    """A name for what is made of a piece: the segment's, its start, and which file it was."""
    stem = _NO_NAME.sub("_", path.rpartition("/")[2].partition(".")[0][:60])
    from hashlib import blake2b

    which = blake2b(os.fsencode(path), digest_size=6).hexdigest()
    return f"{stem}-{start:012}-{which}"


class WorkError(KfmtError):
    """A task could not continue with a file."""


@contextmanager
def telling(piece: Piece) -> Iterator[None]:
    """An error that says nothing of the file it concerns is raised as a WorkError that does."""
    try:
        yield
    except KfmtError:
        raise
    except Exception as error:
        part = f" from byte {piece.start}" if piece.start else ""
        raise WorkError(f"{piece.path}{part}: {type(error).__name__}: {error}") from error
