"""The selection per directory, if it depends on the logs: for the last records, and for committed
records.

Aborted transactions come from the `.txnindex` files, as when a broker answers fetches. Open ones
follow from the newest producer snapshot and the logs after it, which a starting broker also
replays. For a partition in tiered storage, all logs are read, including local ones.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from kfmt_cli.arrow.input_files import (
    create_split_reader,
    input_file,
    list_input_files,
    mount_split_files,
)
from kfmt_cli.arrow.partition_logs import group_logs_by_partition, intervals_by_path
from kfmt_cli.broker.log_reading.log_end import read_last_records_offset
from kfmt_cli.broker.log_reading.partial_logs import IntervalsByPath, iter_blocks_in_order
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.broker.transactions.evidence import (
    read_transaction_evidence,
)
from kfmt_cli.broker.transactions.transactions import (
    read_committed_records,
    track_from_snapshot,
)
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.parallel import MAX_CONNECTIONS, map_ordered
from kfmt_cli.core.urls import is_local
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.log.selection.committed_records import CommittedRecords
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.rows.table_types import BATCHES_TABLE, RECORDS_TABLE
from kfmt_cli.spark.input_partition import KfmtInputPartition, distribute_files
from kfmt_cli.spark.tasks import run_in_tasks
from kfmt_cli.spark.worker import prepare_driver_environment, wrap_with_driver_kfmt

if TYPE_CHECKING:
    from kfmt_cli.spark.worker import Spark

TASKS_PER_CORE = 4  # several, as partitions differ in size


def plan_input_partitions(request: ReadRequest) -> list[KfmtInputPartition]:
    """The input partitions of a request; raises InputError, also for an input that cannot be read,
    unless the request makes that a finding.

    An input partition gets the selections for its directories, except for topic-partitions whose
    logs it has completely: its task determines those selections.
    """
    files = list_input_files(request)
    if request.raises_if_unreadable:
        for file in files:
            if file.read_error:
                create_split_reader(request, file).report_planning_error(file)
    input_partitions = distribute_files(request, files)
    if not needs_log_selections(request):
        return input_partitions
    selection_by_directory = _find_divided_selections(request, files, input_partitions)
    return [
        KfmtInputPartition(
            input_partition.splits,
            selections_for_splits(input_partition.splits, selection_by_directory),
        )
        for input_partition in input_partitions
    ]


def selections_for_splits(
    splits: FileSplits, selection_by_directory: Mapping[str, Selection]
) -> dict[str, Selection]:
    """The known selections for the directories of some splits."""
    return {
        directory: selection_by_directory[directory]
        for directory in splits.directories & selection_by_directory.keys()
    }


def needs_log_selections(request: ReadRequest) -> bool:
    """Whether there is a selection per directory, for which logs have to be read first."""
    return request.selection_options.needs_logs and request.table in (
        RECORDS_TABLE.name,
        BATCHES_TABLE.name,
    )


def _find_divided_selections(
    request: ReadRequest, files: FileSplits, input_partitions: list[KfmtInputPartition]
) -> dict[str, Selection]:
    """The selections for the topic-partitions whose logs are divided between several tasks."""
    task_indexes_by_directory: dict[str, set[int]] = defaultdict(set)
    for task_index, input_partition in enumerate(input_partitions):
        for directory in input_partition.splits.directories:
            task_indexes_by_directory[directory].add(task_index)
    divided_partitions = (
        logs
        for logs in group_logs_by_partition(files, all_replicas=request.reads_all_replicas)
        if len(
            set().union(
                *(task_indexes_by_directory[log_directory] for log_directory in logs.directories)
            )
        )
        > 1
    )
    n_connections = 0 if all(map(is_local, request.paths)) else MAX_CONNECTIONS
    selection_by_directory: dict[str, Selection] = {}
    for partition_selections in map_ordered(
        partial(find_partition_selections, request), divided_partitions, n_connections
    ):
        selection_by_directory |= partition_selections
    return selection_by_directory


def selections_by_directory(request: ReadRequest, files: FileSplits) -> dict[str, Selection]:
    """The selection per directory, if its logs have to be read first; raises InputError."""
    selection_by_directory: dict[str, Selection] = {}
    for logs in _group_logs(request, files):
        selection_by_directory |= find_partition_selections(request, logs)
    return selection_by_directory


def _group_logs(request: ReadRequest, files: FileSplits) -> Iterator[FileSplits]:
    """The logs of each partition, if its logs have to be read first."""
    if request.selection_options.needs_logs:
        yield from group_logs_by_partition(files, all_replicas=request.reads_all_replicas)


def find_selections_in_tasks(
    spark: Spark, request: ReadRequest, files: FileSplits
) -> dict[str, Selection]:
    """Like `selections_by_directory`, but determined in tasks; raises InputError,
    PySparkException."""
    partition_logs = list(_group_logs(request, files))
    if not partition_logs:
        return {}
    n_tasks = min(len(partition_logs), max(request.parallelism, 1) * TASKS_PER_CORE)
    task_inputs = [pickle.dumps(partition_logs[i::n_tasks]) for i in range(n_tasks)]
    selection_task = wrap_with_driver_kfmt(
        prepare_driver_environment(spark), partial(_find_selections_in_task, request)
    )
    selection_by_directory: dict[str, Selection] = {}
    for task_output in run_in_tasks(
        spark, selection_task, task_inputs, "kfmt: selections of partitions"
    ):
        task_result = pickle.loads(task_output)  # noqa: S301 (a task's of this job)
        if isinstance(task_result, str):
            raise InputError(task_result)
        selection_by_directory |= task_result
    return selection_by_directory


def _find_selections_in_task(request: ReadRequest, task_input: bytes) -> bytes:
    """The selections for some partitions, or the message of an InputError; pickled."""
    selection_by_directory: dict[str, Selection] = {}
    try:
        for logs in pickle.loads(task_input):  # noqa: S301 (the driver's own)
            selection_by_directory |= find_partition_selections(request, logs)
    except InputError as error:
        return pickle.dumps(str(error))
    return pickle.dumps(selection_by_directory)


def find_partition_selections(request: ReadRequest, logs: FileSplits) -> dict[str, Selection]:
    """The selection for each directory of a partition; raises InputError."""
    sorted_logs = sorted(logs, key=lambda log: log.base_offset_or_zero)
    input_files, intervals = [input_file(log) for log in sorted_logs], intervals_by_path(logs)
    with mount_split_files(request, logs):
        selection = request.selection_options.create_partition_selection(
            lambda last_n, base_selection: read_last_records_offset(
                input_files, last_n, base_selection, request.decompression_limit, intervals
            ),
            lambda: _find_committed_records(sorted_logs, intervals),
        )
    return dict.fromkeys(logs.directories, selection)


def hash_selections(selection_by_directory: Mapping[str, Selection]) -> str:
    """A hash that changes with any directory's selection."""
    hasher = blake2b(digest_size=8)
    for directory, selection in sorted(selection_by_directory.items()):
        committed_records = selection.committed
        last_stable_offset = committed_records and committed_records.last_stable_offset
        hasher.update(repr((directory, selection.first_offset, last_stable_offset)).encode())
        for column in (
            (
                committed_records.producer_ids,
                committed_records.first_offsets,
                committed_records.marker_offsets,
            )
            if committed_records
            else ()
        ):
            hasher.update(column.tobytes())
    return hasher.hexdigest()


def _find_committed_records(logs: list[FileSplit], intervals: IntervalsByPath) -> CommittedRecords:
    """The committed records of a partition. Its logs need not be read completely if transaction
    indexes list all aborted transactions. Raises InputError, also if a directory cannot be
    listed."""
    files = list(map(input_file, logs))
    if intervals:
        return read_committed_records(files, iter_blocks_in_order(files, intervals))
    if not any(log.is_tiered for log in logs):
        evidence = read_transaction_evidence(files)
        has_all_aborts = evidence.has_all_aborts(files[0].base_offset_or_zero, MAX_OFFSET - 1)
        tracker = track_from_snapshot(files, evidence) if has_all_aborts else None
        if tracker is not None:
            oldest = tracker.oldest_open_transaction
            return CommittedRecords.from_transactions(
                (entry[:3] for entry in evidence.entries),
                None if oldest is None else oldest.first_offset,
            )
    return read_committed_records(
        files, (block for file in files for block in read_blocks_from(file))
    )
