"""Parts of files, the units in which work is distributed.

Large logs are cut at nominal bytes. The reader of a part finds where the nearest batch begins, by
the same rule on both sides of each cut (`sharing/bounds.py`), so that planning opens no file. Small
files are packed together, because starting a worker costs more than reading them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from kfmt_cli.core.parallel import in_shares
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.disk.names import partition_of
from kfmt_cli.errors import KfmtError
from kfmt_cli.topics import CLUSTER_METADATA

MIB = 1 << 20
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
OPENING = MIB // 8  # cost of opening a file, in bytes that could be read meanwhile


@dataclass(slots=True, unsafe_hash=True)
class Piece:
    """A part of a file; nothing changes it. If frozen, it would take six times as long to make."""

    path: str
    kind: Kind
    base_offset: int | None
    size: int
    """The size of the file as planned."""
    modified: int
    """Modification time of the file as planned."""
    start: int
    """First byte; the piece owns the batches that begin in [start, end)."""
    end: int
    """Exclusive end; batches that begin here belong to the next piece."""
    trouble: str | None = None
    """Why the file or directory in `path` cannot be read; None if it can."""
    is_exact: bool = False
    """Whether start and end are batch boundaries."""
    tiered: bool = False
    """Whether the file contains the chunks of a log, according to a manifest next to it."""
    stored_size: int = 0
    """Bytes of the chunks."""
    named: tuple[str, int, str] | None = None
    """Topic, partition and topic id from the manifest."""
    chunking: bytes = b""
    """The chunks according to the manifest, packed; empty if the manifest has to be read."""

    @property
    def base(self) -> int:
        """The base offset of its file; 0 for a file without one."""
        return self.base_offset or 0

    def part(self, start: int, end: int) -> Piece:
        """The piece of the file between these bytes."""
        return replace(self, start=start, end=end)

    @property
    def is_last(self) -> bool:
        """Whether it extends to the end of the file."""
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
            return self.named[:2]
        return partition_of(self.path)


def cuts_of(file: Piece, target: int) -> Sequence[int]:
    """Where the parts of a file begin, and where the last one ends, in bytes. Only logs larger than
    the target are cut."""
    n = -(-file.size // target) if file.kind is LOG else 1
    if n <= 1:
        return file.start, file.end
    return *range(0, file.size, -(-file.size // n)), file.size


def cut(files: Iterable[Piece], target: int) -> Iterator[Piece]:
    """Cut logs larger than the target into parts; other files stay whole."""
    for file in files:
        for start, end in pairwise(cuts_of(file, target)):
            yield file.part(start, end)


def pack(parts: Iterable[Piece], target: int, opening: int = OPENING) -> Iterator[list[Piece]]:
    """Group parts into shares of `target` bytes for a worker. opening: extra cost per part."""
    return in_shares(parts, target, lambda piece: piece.end - piece.start + opening)


def name_of(path: str, start: int) -> str:
    """A name for the output of a piece: the segment name, its start and a hash of its path."""
    stem = _NO_NAME.sub("_", path.rpartition("/")[2].partition(".")[0][:60])
    from hashlib import blake2b

    which = blake2b(os.fsencode(path), digest_size=6).hexdigest()
    return f"{stem}-{start:012}-{which}"


class WorkError(KfmtError):
    """A task could not continue with a file."""


@contextmanager
def telling(piece: Piece) -> Iterator[None]:
    """Turn errors that may not name the file into a WorkError that does."""
    try:
        yield
    except KfmtError:
        raise
    except Exception as error:
        part = f" from byte {piece.start}" if piece.start else ""
        raise WorkError(f"{piece.path}{part}: {type(error).__name__}: {error}") from error
