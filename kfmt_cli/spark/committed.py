"""What a consumer that reads committed records is given: neither aborted transactions nor what lies
after the first open one.

Aborted ones are those of the `.txnindex` files, as a broker answers fetches by them. Open ones
follow from the newest producer snapshot and the logs after it, as a starting broker replays them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest
from pathlib import PurePath

from kfmt_cli.arrow.inputs import files_of
from kfmt_cli.arrow.storage import is_local, listing, local, open_stored
from kfmt_cli.broker.committed import Committed
from kfmt_cli.broker.producers import Producers
from kfmt_cli.core.native.table import Table
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT, TRANSACTION_INDEX, read_rows
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import classify
from kfmt_cli.errors import InputError
from kfmt_cli.log.reader import LogReader
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.plan import Split, plan


def splits_of(request: Request) -> list[Split]:
    """The request shared out, with what is committed where that is asked for."""
    splits = plan(request)
    if request.committed and request.table == "records":
        return with_committed(splits, files_of(request))
    return splits


def with_committed(splits: list[Split], files: list[Piece]) -> list[Split]:
    """The splits, each with what it needs to know of its directories; raises InputError."""
    logs: dict[str, list[Piece]] = defaultdict(list)
    for file in files:
        logs[folder_of(file.path)].append(file)
    known = {folder: _committed_in(folder, pieces) for folder, pieces in logs.items()}
    return [
        Split(
            split.pieces,
            tuple(
                (folder, known[folder])
                for folder in sorted({folder_of(p.path) for p in split.pieces})
            ),
        )
        for split in splits
    ]


def folder_of(path: str) -> str:
    """The directory of a file."""
    return path.rpartition("/")[0]


def _committed_in(folder: str, logs: list[Piece]) -> Committed:
    if not is_local(folder):
        raise InputError(f"{folder}: isolation read_committed is for local directories")
    aborted: set[tuple[int, int, int]] = set()
    snapshots: list[Input] = []
    for stored in listing(folder):
        file = classify(stored.path, stored.path)
        if PurePath(stored.path).parent != PurePath(local(folder)):
            continue
        if file.kind is TRANSACTION_INDEX:
            aborted |= set(_aborted(read_rows(file).table))
        elif file.kind is PRODUCER_SNAPSHOT:
            snapshots.append(file)
    producers = Producers()
    for file in sorted(snapshots, key=lambda snapshot: snapshot.base_offset or 0, reverse=True):
        rows = read_rows(file)
        if not rows.findings:
            producers.load(rows.table, file.base_offset or 0)
            break
    logs.sort(key=lambda log: log.base_offset or 0)
    for piece, following in zip_longest(logs, logs[1:]):
        # All of a log is in the snapshot when the next one begins there or before.
        if following is None or (following.base_offset or 0) > producers.end:
            _replay(piece, producers)
    open_ = [producer.current_txn_first_offset for producer in producers.of.values()]
    first = min((offset for offset in open_ if offset >= 0), default=None)
    return Committed.of(aborted, first)


def _aborted(table: Table) -> list[tuple[int, int, int]]:
    names = ("producer_id", "first_offset", "last_offset")
    return list(zip(*(table[name].tolist() for name in names), strict=True))


def _replay(piece: Piece, producers: Producers) -> None:
    source = open_stored(piece.path)
    try:
        for block in LogReader(source, piece.base_offset).blocks():
            block.batches = block.batches.select(block.batches.base_offset >= producers.end)
            if len(block.batches):
                producers.take(block, len(block.batches))
    finally:
        source.close()
