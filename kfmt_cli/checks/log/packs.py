"""Check many small logs as one: their bytes joined, walked, checked and decoded in single calls.

This costs a few microseconds per file. Only healthy files pass. `checks/log/verifier.py` checks any
file with something odd again, and reports what and where.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.log.extent import Extent
from kfmt_cli.checks.log.headers import Checksums, Headers, oddities
from kfmt_cli.checks.log.verifier import Verified
from kfmt_cli.checks.registry import checks_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import scan
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.core.parallel import SMALL, map_ordered, together
from kfmt_cli.core.placeholders import CONNECTIONS, is_elsewhere
from kfmt_cli.core.source import open_source
from kfmt_cli.core.throttle import PACE
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, read_batches
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC, MINIMUMS
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.records import Records
from kfmt_cli.rows.log_tables import BatchTable

UNKNOWN = -1
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC
PACKED = 2  # the magic of files that pass in a pack
_IN_BULK = (Checksums, Headers)  # `_is_odd` applies their rules
_END = scan.WALKS["END"]


def packs(files: Iterable[Input]) -> Iterator[list[Input]]:
    """The files in order, small ones together, others alone."""
    return together(files, lambda file: size_of(file) if file.kind is LOG else None)


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


def read_pack(files: Sequence[Input]) -> Pack:
    """Read the logs of a pack, and check their headers and checksums."""
    connections = CONNECTIONS if any(is_elsewhere(file.path) for file in files) else 0
    pieces = list(map_ordered(read_small, files, connections))
    data = b"".join(piece or b"" for piece in pieces)
    sizes = np.array([len(piece or b"") for piece in pieces], np.int64)
    ends = np.cumsum(sizes)
    regions = np.zeros((4, len(files)), np.int64)
    regions[0], regions[1] = ends - sizes, ends
    found = np.empty((3, len(data) // HEADER_UP_TO_MAGIC + 1), np.int64)
    n = scan.walk(data, regions, MINIMUMS, found)
    owner = found[2, :n].copy()
    good = (regions[3] == _END) & np.array([piece is not None for piece in pieces])
    starts, ends_ = found[0, :n].copy(), found[1, :n].copy()
    batches = read_batches(data, 0, 0, starts, ends_, True)
    batches.position -= regions[0][owner]
    bases = np.array([UNKNOWN if file.base_offset is None else file.base_offset for file in files])
    good[owner[_is_odd(batches, owner, bases)]] = False
    pack = Pack(files, data, sizes, batches, owner, good)
    if _further(Scope.HEADERS):
        pack.refuse(_look(Block("", data, 0, batches), None, Scope.HEADERS))
        _look_by_file(pack, Scope.HEADERS, None)
    return pack


def verify_pack(files: Sequence[Input], deep: bool, limit: Limit) -> list[Verified | None]:
    """The result for each file of a pack, None for one that must be checked by itself."""
    return verified(read_pack(files), deep, limit)


def verified(pack: Pack, deep: bool, limit: Limit) -> list[Verified | None]:
    """The result for each file of a read pack, None for one that must be checked by itself."""
    owner, files = pack.owner, pack.files
    if deep:
        look_inside(pack, limit)
    extents = list(_extents(pack.batches, owner, len(files)))
    n_batches = np.bincount(owner, minlength=len(files)).tolist()
    counts = pack.batches.records_count
    n_records = np.bincount(owner, counts, len(files)).astype(np.int64).tolist()
    return [
        Verified(size, n_batches[i], n_records[i], extents[i]) if pack.good[i] else None
        for i, size in enumerate(pack.sizes.tolist())
    ]


def read_small(file: Input) -> bytes | None:
    """A small file's bytes; None if it is not small or cannot be read."""
    if is_elsewhere(file.path):
        return _fetched(file)
    try:
        handle = os.open(file.path, _FLAGS)
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


def _is_odd(batches: BatchTable, owner: IntArray, bases: IntArray) -> BoolArray:
    """Which batches do not have magic 2 or have something wrong."""
    base, last = batches.base_offset, batches.last_offset
    before = np.empty_like(last)
    before[1:] = last[:-1]
    first = np.diff(owner, prepend=-1) != 0
    before[first] = base[first] - 1
    # A file without an offset in its name may contain any.
    named = bases[owner]
    odd = oddities(batches, before, np.where(named == UNKNOWN, base, named))
    odd |= (batches.crc_valid == 0) | (batches.is_v2 == 0)
    return odd


def look_inside(pack: Pack, limit: Limit) -> None:
    """Refuse the files with findings about their records."""
    for part in decompress_ahead(pack.healthy(), limit):
        pack.refuse(part.findings)
        records = read_records(part, limit)
        pack.refuse(records.findings)
        pack.refuse(_look(part, records, Scope.RECORDS))
    _look_by_file(pack, Scope.RECORDS, limit)


def _further(scope: Scope) -> list[type[LogCheck]]:
    """The checks of a scope that can make findings in a pack, except the ones in `_is_odd`."""
    every: list[type[LogCheck]] = checks_of(scope)
    return [check for check in every if check not in _IN_BULK and PACKED in check.magics]


def _look(run: Block, records: Records | None, scope: Scope) -> Iterator[Finding]:
    """The findings of checks that are local to a batch, which see the files as one log."""
    for check in _further(scope):
        if check.is_local():
            yield from check().take(run, records)


def _look_by_file(pack: Pack, scope: Scope, limit: Limit | None) -> None:
    """Refuse the files with findings of other checks. limit: decode records, None not to."""
    stateful = [check for check in _further(scope) if not check.is_local()]
    if not stateful:
        return
    for i in np.flatnonzero(pack.good).tolist():
        block, base = pack.block(i), pack.files[i].base_offset
        records = None if limit is None else read_records(block, limit)
        found = (finding for check in stateful for finding in check(base).take(block, records))
        pack.good[i] = next(found, None) is None


def _extents(batches: BatchTable, owner: IntArray, n_files: int) -> Iterator[Extent]:
    """The offsets in each file."""
    base, last, counts = (batches[name] for name in ("base_offset", "last_offset", "records_count"))
    holes = counts < last - base + 1
    inside = np.diff(owner) == 0
    holes[1:] |= inside & (base[1:] > last[:-1] + 1)
    with_holes = np.bincount(owner, holes, n_files) > 0
    firsts = np.searchsorted(owner, np.arange(n_files))
    nexts = np.searchsorted(owner, np.arange(n_files), side="right")
    for first, after, has_holes in zip(
        firsts.tolist(), nexts.tolist(), with_holes.tolist(), strict=True
    ):
        if first == after:
            yield Extent()
        else:
            yield Extent(int(base[first]), int(last[after - 1]), has_holes)
