"""The selection per directory, if its logs have to be read first: for the last records, for
committed ones.

Aborted transactions come from the `.txnindex` files, as when a broker answers fetches. Open ones
follow from the newest producer snapshot and the logs after it, which a starting broker also
replays. For a partition in tiered storage, all logs are read, including local ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import zip_longest

from kfmt_cli.arrow.inputs import at_hand, files_of, input_of, reader_of
from kfmt_cli.broker.committed import committed_of
from kfmt_cli.broker.last_records import first_of_last
from kfmt_cli.broker.producers import Producers
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.native.table import Table
from kfmt_cli.core.source import open_source
from kfmt_cli.core.stores import listing
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT, TRANSACTION_INDEX, read_rows
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import classify
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.committed import Committed
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.select import Asked, Selection
from kfmt_cli.rows.table_types import BATCHES, RECORDS
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.plan import Split, plan


def splits_of(request: Request) -> list[Split]:
    """Distribute the request to splits, with their directories' selections; raises InputError, also
    for an input that cannot be read, unless the request makes that a finding."""
    files = files_of(request)
    if request.raises_unreadable:
        for file in files:
            if file.trouble:
                reader_of(request, file).is_troubled(file)
    splits = plan(request, files)
    if request.table not in (RECORDS.name, BATCHES.name) or not request.asked.needs_logs:
        return splits
    known = in_folders(request, files)
    return [
        Split(
            split.pieces,
            tuple((folder, known[folder]) for folder in _folders(split) & known.keys()),
        )
        for split in splits
    ]


def _folders(split: Split) -> set[str]:
    return {piece.folder for piece in split.pieces}


def in_folders(request: Request, files: Iterable[Piece]) -> dict[str, Selection]:
    """The selection per directory, if its logs have to be read first; raises InputError."""
    asked = request.asked
    if not asked.needs_logs:
        return {}
    every = [file for file in files if not file.trouble and file.kind is LOG]
    tiered = {file.place for file in every if file.tiered}
    logs: dict[Hashable, list[Piece]] = defaultdict(list)
    for file in every:
        # A partition's tiered and local segments form one log.
        logs[file.place if file.place in tiered else file.folder].append(file)
    found: dict[str, Selection] = {}
    with at_hand(request, files):
        for logs_in in logs.values():
            wanted = _wanted_in(logs_in, asked, request.limit)
            found |= {log.folder: wanted for log in logs_in}
    return found


def digest(known: Mapping[str, Selection]) -> str:
    """A hash that changes with any directory's selection."""
    made = blake2b(digest_size=8)
    for folder, wanted in sorted(known.items()):
        committed = wanted.committed
        stable = committed and committed.stable
        made.update(repr((folder, wanted.first_offset, stable)).encode())
        for column in (committed.producer, committed.first, committed.last) if committed else ():
            made.update(column.tobytes())
    return made.hexdigest()


def _wanted_in(logs: list[Piece], asked: Asked, limit: Limit) -> Selection:
    logs.sort(key=lambda log: log.base_offset or 0)
    inputs = [input_of(log) for log in logs]
    return asked.of(
        lambda last, wanted: first_of_last(inputs, last, wanted, limit),
        lambda: _committed_in(logs),
    )


def _committed_in(logs: list[Piece]) -> Committed:
    if any(log.tiered for log in logs):
        return committed_of(block for log in logs for block in _blocks(log))
    folder = logs[0].folder
    aborted: set[tuple[int, int, int]] = set()
    snapshots: list[Input] = []
    for stored in listing(folder):
        if stored.path == folder and stored.trouble:  # what was aborted is not known
            raise InputError(f"{stored.path}: {stored.trouble}")
        file = classify(stored.path, stored.path)
        if stored.path.rpartition("/")[0] != folder:
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
    for piece, following in zip_longest(logs, logs[1:]):
        # The snapshot covers a log if the next log begins at or before its end offset.
        if following is None or (following.base_offset or 0) > producers.end:
            _replay(piece, producers)
    open_ = [producer.current_txn_first_offset for producer in producers.of.values()]
    first = min((offset for offset in open_ if offset >= 0), default=None)
    return Committed.of(aborted, first)


def _aborted(table: Table) -> list[tuple[int, int, int]]:
    names = ("producer_id", "first_offset", "last_offset")
    return list(zip(*(table[name].tolist() for name in names), strict=True))


def _replay(piece: Piece, producers: Producers) -> None:
    for block in _blocks(piece):
        block.batches = block.batches.select(block.batches.base_offset >= producers.end)
        if len(block.batches):
            producers.take(block, len(block.batches))


def _blocks(piece: Piece) -> Iterator[Block]:
    source = open_source(piece.path)
    try:
        yield from LogReader(source, piece.base_offset).blocks()
    finally:
        source.close()
