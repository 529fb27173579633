"""Many small logs read as one: their bytes joined, walked and decoded in single calls.

This costs a few microseconds per file. A file that is not batches from its first byte to its last
is not good, and must be read by itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import scan
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.core.parallel import CONNECTIONS, SMALL, map_ordered
from kfmt_cli.core.throttle import PACE
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.opening import descriptor, is_elsewhere, open_source
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, read_batches
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC, MINIMUMS
from kfmt_cli.rows.log_tables import BatchTable

_END = scan.WALKS["END"]


@dataclass(slots=True)
class Pack:
    """Small logs with their bytes joined."""

    files: Sequence[Input]
    data: bytes
    sizes: IntArray
    """The size of each file in bytes."""
    batches: BatchTable
    """The batches of all files; positions count in each file, numbers in the pack."""
    owner: IntArray
    """Each batch's file."""
    good: BoolArray
    """Which files have nothing odd so far."""

    def refuse(self, findings: Iterable[Finding]) -> None:
        """Mark the files that these findings are about as not good."""
        for finding in findings:
            if finding.batch is None:  # about one of them
                self.good[:] = False
            else:
                self.good[self.owner[finding.batch]] = False

    def healthy(self) -> Block:
        """The batches of the good files."""
        return Block("", self.data, 0, self.batches.select(self.good[self.owner]))

    def bounds(self) -> Iterator[tuple[int, int]]:
        """The first batch of each file, and the one after its last."""
        counts = np.bincount(self.owner, minlength=len(self.files))
        ends = np.cumsum(counts)
        return zip((ends - counts).tolist(), ends.tolist(), strict=True)

    def block(self, i: int) -> Block:
        """The batches of a good file as a block of its own."""
        first, end = np.searchsorted(self.owner, [i, i + 1])
        batches = self.batches.select(slice(first, end))
        batches.number -= first
        return Block(self.files[i].name, self.data, 0, batches)


def is_packable(file: Input) -> bool:
    """Whether a file, if small, may be read together with others: a log that is no pipe, which can
    be opened once only."""
    return file.kind is LOG and not (file.may_be_link and Path(file.path).is_fifo())


def read_pack(files: Sequence[Input], checked: bool = True) -> Pack:
    """Read small logs. checked: False to trust every checksum."""
    connections = CONNECTIONS if any(is_elsewhere(file.path) for file in files) else 0
    pieces = list(map_ordered(read_small, files, connections))
    data = b"".join(piece or b"" for piece in pieces)
    sizes = np.array([len(piece or b"") for piece in pieces], np.int64)
    ends = np.cumsum(sizes)
    regions = np.zeros((4, len(files)), np.int64)
    regions[0], regions[1] = ends - sizes, ends
    found = np.empty((3, len(data) // HEADER_UP_TO_MAGIC + 1), np.int64)
    n = scan.walk(data, regions, MINIMUMS, found)
    starts, ends, owner = found[:, :n].copy()
    good = (regions[3] == _END) & np.array([piece is not None for piece in pieces])
    batches = read_batches(data, 0, 0, starts, ends, checked)
    batches.position -= regions[0][owner]
    return Pack(files, data, sizes, batches, owner, good)


def read_small(file: Input) -> bytes | None:
    """A small file's bytes; None if it is not small or cannot be read."""
    if is_elsewhere(file.path):
        return _fetched(file)
    try:
        handle = descriptor(file.path)
    except OSError:
        return None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > SMALL:
            return None
        data = os.pread(handle, about.st_size + 1, 0)
        PACE.spent(len(data))
        PACE.done(handle)
        return data if len(data) == about.st_size else None
    except OSError:
        return None
    finally:
        os.close(handle)


def _fetched(file: Input) -> bytes | None:
    """`read_small` for a file whose bytes are elsewhere."""
    try:
        with closing(open_source(file.path, file.name)) as source:
            size = source.size
            data = b"" if size is None or size > SMALL else source.block(0, size, size)
    except InputError:
        return None
    return data if len(data) == size else None
