"""Check many small logs as one: their bytes joined, walked, checked and decoded in single calls.

This costs a few microseconds per file. Only healthy files pass. `checks/log/verifier.py` checks any
file with something odd again, and reports what and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.log.extent import Extent
from kfmt_cli.checks.log.headers import Checksums, Headers, oddities
from kfmt_cli.checks.log.verifier import Verified
from kfmt_cli.checks.registry import checks_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.core.parallel import together
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import size_of
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.decoding import read_for_checks
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.pack import Pack, is_packable, read_pack
from kfmt_cli.log.records import Records

UNKNOWN = -1
PACKED = 2  # the magic of files that pass in a pack
_IN_BULK = (Checksums, Headers)  # `_is_odd` applies their rules


def packs(files: Iterable[Input]) -> Iterator[list[Input]]:
    """The files in order, small ones together, others alone."""
    return together(files, lambda file: size_of(file) if is_packable(file) else None)


def checked_pack(files: Sequence[Input]) -> Pack:
    """Read the logs of a pack, and check their headers and checksums."""
    pack = read_pack(files)
    pack.good[pack.owner[_is_odd(pack)]] = False
    if _further(Scope.HEADERS):
        pack.refuse(_look(Block("", pack.data, 0, pack.batches), None, Scope.HEADERS))
        _look_by_file(pack, Scope.HEADERS, None)
    return pack


def verified(pack: Pack, deep: bool, limit: Limit) -> list[Verified | None]:
    """The result for each file of a read pack, None for one that must be checked by itself."""
    owner, files = pack.owner, pack.files
    if deep:
        look_inside(pack, limit)
    extents = list(_extents(pack))
    n_batches = np.bincount(owner, minlength=len(files)).tolist()
    counts = pack.batches.records_count
    n_records = np.bincount(owner, counts, len(files)).astype(np.int64).tolist()
    return [
        Verified(size, n_batches[i], n_records[i], extents[i]) if pack.good[i] else None
        for i, size in enumerate(pack.sizes.tolist())
    ]


def _is_odd(pack: Pack) -> BoolArray:
    """Which batches do not have magic 2 or have something wrong."""
    batches, owner = pack.batches, pack.owner
    base, last = batches.base_offset, batches.last_offset
    before = np.where(np.diff(owner, prepend=-1) != 0, base - 1, np.roll(last, 1))
    bases = (UNKNOWN if file.base_offset is None else file.base_offset for file in pack.files)
    named = np.fromiter(bases, np.int64, len(pack.files))[owner]
    # A file without an offset in its name may contain any.
    odd = oddities(batches, before, np.where(named == UNKNOWN, base, named))
    odd |= (batches.crc_valid == 0) | (batches.is_v2 == 0)
    return odd


def look_inside(pack: Pack, limit: Limit) -> None:
    """Refuse the files with findings about their records."""
    for part in decompress_ahead(pack.healthy(), limit):
        pack.refuse(part.findings)
        records = read_for_checks(part, limit)
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
        records = None if limit is None else read_for_checks(block, limit)
        found = (finding for check in stateful for finding in check(base).take(block, records))
        pack.good[i] = next(found, None) is None


def _extents(pack: Pack) -> Iterator[Extent]:
    """The offsets in each file."""
    batches, owner = pack.batches, pack.owner
    base, last, counts = batches.base_offset, batches.last_offset, batches.records_count
    holes = counts < last - base + 1
    holes[1:] |= (np.diff(owner) == 0) & (base[1:] > last[:-1] + 1)
    with_holes = np.bincount(owner, holes, len(pack.files)) > 0
    for (first, end), has_holes in zip(pack.bounds(), with_holes.tolist(), strict=True):
        if first == end:
            yield Extent()
        else:
            yield Extent(int(base[first]), int(last[end - 1]), has_holes)
