"""Reads the logs of a trigger that a broker has cleaned since the trigger was planned.

The cleaner replaces segments by a smaller one with the name of the first. A task then reads the
offsets of its split from the current segments. Source: `kafka.log.Cleaner`,
`kafka.log.LocalLog.replaceSegments`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from kfmt_cli.arrow.columns.tables import SplitReadResult, read_table_rows
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.arrow.topic_ids import TopicIdCache, read_directory_topic_id
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.disk.kinds.kind import SWAP_SUFFIX
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import UnreadableInputError
from kfmt_cli.findings.codes import FILE_SHRANK
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.spark.input_partition import KfmtInputPartition, ReadLimit
from kfmt_cli.spark.streaming.triggers import segment_end_offsets
from kfmt_cli.spark.worker import WORKER_LOGGER

SWAP_PAUSES_SECONDS = 0.1, 0.5, 2.0  # seconds for a broker to complete a swap


def read_stream_partition(
    request: ReadRequest, input_partition: KfmtInputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of an input partition of a stream, each split within its limit; raises
    UnreadableInputError for a log that was cleaned while it was read: Spark repeats the task.

    A log that was truncated since the trigger was planned is read up to the first batch of a later
    leader epoch; the next trigger finds the loss.
    """
    topic_ids = TopicIdCache()
    for split, limit in zip(input_partition.splits, input_partition.read_limits, strict=True):
        end_offset = limit.end_offset
        offset_selection = Selection(
            first_offset=split.base_offset_or_zero, last_offset=end_offset - 1
        )
        selection = request.selection_for(split).intersect(offset_selection)
        if limit.latest_epoch >= 0:
            selection = replace(selection, latest_epoch=limit.latest_epoch)
        split_request = replace(request, selection_by_directory={split.directory: selection})
        for current_split in _find_current_splits(request, split, end_offset):
            read_results = [SplitReadResult()]
            for rows in read_table_rows(
                split_request, FileSplits([current_split]), read_results, topic_ids=topic_ids
            ):
                # The id is that of the rows, as a new topic's log cannot have been opened before.
                if not _has_topic_id(split, limit, input_partition.fails_on_data_loss):
                    break
                yield rows
            if any(finding.code is FILE_SHRANK for finding in read_results[0].findings):
                raise UnreadableInputError(f"{current_split.path}: was cleaned while it was read")


def _has_topic_id(split: FileSplit, limit: ReadLimit, fails_on_data_loss: bool) -> bool:
    """Whether a log still belongs to the topic of the trigger; raises UnreadableInputError, or logs
    a warning, if it does not."""
    if limit.topic_id is None or split.topic_id_partition is not None:
        return True
    topic_id = read_directory_topic_id(split.directory)
    if topic_id in (None, limit.topic_id):  # a broker appends only after it has written the id
        return True
    message = (
        f"{split.path}: its topic was recreated before it was read: its topic id was "
        f"{limit.topic_id} and is now {topic_id}"
    )
    if fails_on_data_loss:
        raise UnreadableInputError(message)
    WORKER_LOGGER.warning("kfmt: %s", message)
    return False


def _find_current_splits(
    request: ReadRequest, split: FileSplit, end_offset: int
) -> list[FileSplit]:
    """The split, or the logs that have its offsets now; raises UnreadableInputError."""
    if (
        split.read_error
        or split.is_tiered
        or not is_local(split.path)
        or not _is_log_cleaned(split)
    ):
        return [split]
    if not (split.is_entire_file or split.is_batch_aligned):
        message = "was cleaned while it was read in parts; start the query again"
        raise UnreadableInputError(f"{split.path}: {message}")
    segments = _list_segments(request, split.directory)
    if not segments or segments[0].base_offset_or_zero > split.base_offset_or_zero:
        return [split]  # deleted, which is reported when it is read
    end_offset_by_path = segment_end_offsets(segments, end_offset)
    return [
        segment
        for segment in segments
        if segment.base_offset_or_zero < end_offset
        and end_offset_by_path[segment.path] > split.base_offset_or_zero
    ]


def _is_log_cleaned(split: FileSplit) -> bool:
    try:
        return os.stat(split.path).st_size < split.file_size  # noqa: PTH116 (many)
    except OSError:
        return True


def _list_segments(request: ReadRequest, directory: str) -> list[FileSplit]:
    """The logs in a directory, in order; waits while a broker replaces segments, and raises
    UnreadableInputError if that takes too long."""
    for pause_seconds in (*SWAP_PAUSES_SECONDS, None):
        try:
            if not has_swap_files(list_directory(directory).files):
                files = list_input_files(
                    replace(request, paths=(directory,), reads_all_replicas=True)
                )
                return [
                    file for file in files if file.kind is LOG_KIND and file.base_offset is not None
                ]
        except InputError:
            return []
        if pause_seconds is not None:
            time.sleep(pause_seconds)
    raise UnreadableInputError(f"{directory}: a broker has not finished replacing segments")


def has_swap_files(file_names: Iterable[str]) -> bool:
    """Whether a broker is replacing segments: for a moment, neither the old segments nor the new
    one have the name of a log."""
    return any(name.endswith(f"{LOG_KIND.suffix}{SWAP_SUFFIX}") for name in file_names)
