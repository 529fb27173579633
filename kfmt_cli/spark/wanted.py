"""The selection per directory, if its logs have to be read first: for the last records, for
committed ones.

Aborted transactions come from the `.txnindex` files, as when a broker answers fetches. Open ones
follow from the newest producer snapshot and the logs after it, which a starting broker also
replays. For a partition in tiered storage, all logs are read, including local ones.
"""

from __future__ import annotations

import pickle
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from itertools import zip_longest
from typing import TYPE_CHECKING

from kfmt_cli.arrow.inputs import at_hand, files_of, input_of, reader_of
from kfmt_cli.broker.offsets.last_records import first_of_last
from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.broker.transactions.committed import committed_of
from kfmt_cli.broker.transactions.producers import Producers
from kfmt_cli.core.native.table import Table
from kfmt_cli.core.parallel import CONNECTIONS, map_ordered
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.listings import listing
from kfmt_cli.disk.tree import classify
from kfmt_cli.errors import InputError
from kfmt_cli.log.selection.committed import Committed
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.rows.table_types import BATCHES, RECORDS
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.plan import Split, plan
from kfmt_cli.spark.tasks import in_tasks
from kfmt_cli.spark.worker import carried, home_for

if TYPE_CHECKING:
    from kfmt_cli.spark.worker import Spark

TASKS_PER_CORE = 4  # as partitions take differently long


def splits_of(request: Request) -> list[Split]:
    """Distribute the request to splits; raises InputError, also for an input that cannot be read,
    unless the request makes that a finding.

    A split gets the selections in its directories, except those of partitions that it has whole,
    which its task finds out itself.
    """
    files = files_of(request)
    if request.raises_unreadable:
        for file in files:
            if file.trouble:
                reader_of(request, file).is_troubled(file)
    splits = plan(request, files)
    if not has_selections(request):
        return splits
    known = _in_several_splits(request, files, splits)
    return [Split(split.pieces, in_these(split.pieces, known)) for split in splits]


def in_these(pieces: Pieces, known: Mapping[str, Selection]) -> dict[str, Selection]:
    """The selections in the directories of some pieces, of those that are known."""
    return {folder: known[folder] for folder in pieces.folders & known.keys()}


def has_selections(request: Request) -> bool:
    """Whether there is a selection per directory, for which logs have to be read first."""
    return request.asked.needs_logs and request.table in (RECORDS.name, BATCHES.name)


def _in_several_splits(
    request: Request, files: Pieces, splits: list[Split]
) -> dict[str, Selection]:
    """The selections in the partitions that several splits have parts of."""
    splits_with: dict[str, set[int]] = defaultdict(set)
    for number, split in enumerate(splits):
        for folder in split.pieces.folders:
            splits_with[folder].add(number)
    divided = (
        logs
        for logs in partitions_of(files)
        if len(set().union(*(splits_with[folder] for folder in logs.folders))) > 1
    )
    workers = 0 if all(map(is_local, request.paths)) else CONNECTIONS
    found: dict[str, Selection] = {}
    for wanted in map_ordered(partial(in_partition, request), divided, workers):
        found |= wanted
    return found


def in_folders(request: Request, files: Pieces) -> dict[str, Selection]:
    """The selection per directory, if its logs have to be read first; raises InputError."""
    found: dict[str, Selection] = {}
    for logs in partitions_of(files) if request.asked.needs_logs else ():
        found |= in_partition(request, logs)
    return found


def selected_by_tasks(spark: Spark, request: Request, files: Pieces) -> dict[str, Selection]:
    """The same as `in_folders`, found by tasks; raises InputError, PySparkException."""
    partitions = list(partitions_of(files)) if request.asked.needs_logs else []
    if not partitions:
        return {}
    n_tasks = min(len(partitions), max(request.parallelism, 1) * TASKS_PER_CORE)
    shares = [pickle.dumps(partitions[i::n_tasks]) for i in range(n_tasks)]
    select = carried(home_for(spark), partial(_selected, request))
    found: dict[str, Selection] = {}
    for answer in in_tasks(spark, select, shares, "kfmt: selections of partitions"):
        said = pickle.loads(answer)  # noqa: S301 (a task's of this job)
        if isinstance(said, str):
            raise InputError(said)
        found |= said
    return found


def _selected(request: Request, share: bytes) -> bytes:
    """The selections in some partitions, or why they cannot be told."""
    found: dict[str, Selection] = {}
    try:
        for logs in pickle.loads(share):  # noqa: S301 (the driver's own)
            found |= in_partition(request, logs)
    except InputError as error:
        return pickle.dumps(str(error))
    return pickle.dumps(found)


def partitions_of(files: Pieces) -> Iterator[Pieces]:
    """The logs of each partition; its tiered and local segments form one log."""
    logs = files.readable.those(lambda file: file.kind is LOG)
    tiered = {log.place for log in logs if log.tiered}
    numbers: dict[Hashable, array[int]] = {}
    for i, log in enumerate(logs):
        partition = log.place if log.place in tiered else log.folder
        numbers.setdefault(partition, array("I")).append(i)
    for its in numbers.values():
        yield logs.taken(its)


def in_partition(request: Request, logs: Pieces) -> dict[str, Selection]:
    """The selection in the directories of a partition; raises InputError."""
    in_order = sorted(logs, key=lambda log: log.base)
    inputs = [input_of(log) for log in in_order]
    with at_hand(request, logs):
        wanted = request.asked.of(
            lambda last, wanted: first_of_last(inputs, last, wanted, request.limit),
            lambda: _committed_in(in_order),
        )
    return dict.fromkeys(logs.folders, wanted)


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


def _committed_in(logs: list[Piece]) -> Committed:
    if any(log.tiered for log in logs):
        return committed_of(block for log in logs for block in blocks_from(input_of(log)))
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
            aborted |= set(_aborted(file.contents().table))
        elif file.kind is PRODUCER_SNAPSHOT:
            snapshots.append(file)
    producers = Producers()
    for file in sorted(snapshots, key=lambda snapshot: snapshot.base, reverse=True):
        rows = file.contents()
        if not rows.findings:
            producers.load(rows.table, file.base)
            break
    for piece, following in zip_longest(logs, logs[1:]):
        # The snapshot covers a log if the next log begins at or before its end offset.
        if following is None or following.base > producers.end:
            _replay(piece, producers)
    open_ = [producer.current_txn_first_offset for producer in producers.of.values()]
    first = min((offset for offset in open_ if offset >= 0), default=None)
    return Committed.of(aborted, first)


def _aborted(table: Table) -> list[tuple[int, int, int]]:
    names = ("producer_id", "first_offset", "last_offset")
    return list(zip(*(table[name].tolist() for name in names), strict=True))


def _replay(piece: Piece, producers: Producers) -> None:
    for block in blocks_from(input_of(piece)):
        block.batches = block.batches.select(block.batches.base_offset >= producers.end)
        if len(block.batches):
            producers.take(block, len(block.batches))
