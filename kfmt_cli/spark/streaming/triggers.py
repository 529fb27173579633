"""Plans the tasks of a trigger: the splits of logs between two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from kfmt_cli.execution.file_split import FileSplit, group_splits, split_files
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest, bytes_per_task
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.spark.input_partition import KfmtInputPartition, ReadLimit
from kfmt_cli.spark.selections import selections_for_splits
from kfmt_cli.spark.streaming.partition_directories import GET_BASE_OFFSET
from kfmt_cli.spark.streaming.positions import PartitionPosition


def plan_trigger_partitions(
    request: ReadRequest,
    splits: Sequence[FileSplit],
    selection_by_directory: Mapping[str, Selection],
    limit_by_path: Mapping[str, ReadLimit],
    *,
    fails_on_data_loss: bool,
) -> list[KfmtInputPartition]:
    """Distribute splits of logs to tasks. selection_by_directory: the selection per directory.
    limit_by_path: the part of each log to read. fails_on_data_loss: see `KfmtInputPartition`."""
    task_bytes = bytes_per_task(request, FileSplits(splits))
    smaller_splits = (
        smaller_split
        for split in splits
        for smaller_split in (
            split_files([replace(split, is_batch_aligned=False)], task_bytes)
            if split.is_entire_file
            else [split]
        )
    )
    task_splits = map(FileSplits, group_splits(smaller_splits, task_bytes))
    return [
        KfmtInputPartition(
            task_group,
            selections_for_splits(task_group, selection_by_directory),
            tuple(limit_by_path[split.path] for split in task_group),
            fails_on_data_loss,
        )
        for task_group in task_splits
    ]


def segment_end_offsets(segments: Sequence[FileSplit], log_end_offset: int) -> dict[str, int]:
    """The exclusive end offset of each segment of a log, by path: the base offset of the next
    segment, or the end of the log."""
    end_offsets = [*map(GET_BASE_OFFSET, segments[1:]), log_end_offset]
    return {
        segment.path: end_offset for segment, end_offset in zip(segments, end_offsets, strict=True)
    }


def selections_between(
    requested_selection: Selection,
    segments: Sequence[FileSplit],
    first_offset: int,
    end_offset: int,
) -> dict[str, Selection]:
    """The selections for the directories of a log, each up to the first offset of the next one.
    end_offset: exclusive."""
    directory_base_offsets = [
        (directory, next(directory_segments).base_offset_or_zero)
        for directory, directory_segments in groupby(segments, key=attrgetter("directory"))
    ]
    next_base_offsets = [
        *(base_offset for _, base_offset in directory_base_offsets[1:]),
        end_offset,
    ]
    return {
        directory: requested_selection.intersect(
            Selection(first_offset, min(end_offset, next_base_offset) - 1)
        )
        for (directory, _), next_base_offset in zip(
            directory_base_offsets, next_base_offsets, strict=True
        )
    }


def iter_splits_between(
    segments: Sequence[FileSplit],
    start_position: PartitionPosition,
    end_position: PartitionPosition,
    is_batch_start: Callable[[FileSplit, PartitionPosition], bool],
) -> Iterator[FileSplit]:
    """The splits of segments between two positions."""
    for segment_index, segment in enumerate(segments):
        next_base_offset = (
            segments[segment_index + 1].base_offset_or_zero
            if segment_index + 1 < len(segments)
            else None
        )
        if segment.base_offset_or_zero >= end_position.offset or (
            next_base_offset is not None and next_base_offset <= start_position.offset
        ):
            continue
        start_byte = start_position.byte if is_batch_start(segment, start_position) else 0
        end_byte = (
            end_position.byte
            if is_batch_start(segment, end_position) and end_position.byte > start_byte
            else segment.file_size
        )
        if end_byte > start_byte:
            yield replace(segment.with_byte_range(start_byte, end_byte), is_batch_aligned=True)
