"""The partitions that a stream finds, each with the copies of its log."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from kfmt_cli.core.urls import format_display_name, is_path_or_subpath, path_in_listings
from kfmt_cli.disk.file_names import parse_directory_topic_id
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.execution.file_split import FileSplit

GET_BASE_OFFSET = attrgetter("base_offset_or_zero")
"""The base offset of a segment."""
LogSignature = tuple[tuple[str, str, int, int], ...]


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """The segments of a partition in a directory, after its segments in tiered storage, if any.

    They are in the order of their base offsets.
    """

    path: str
    segments: tuple[FileSplit, ...]

    @property
    def first_offset(self) -> int:
        """The base offset of its first segment."""
        return self.segments[0].base_offset_or_zero


@dataclass(frozen=True, slots=True)
class FollowedPartition:
    """A partition, or another directory with logs."""

    checkpoint_key: str
    """Its key in a checkpoint; see `positions`."""
    name: str
    """Topic and partition, or the path of the directory."""
    topic_id: str | None
    directories: tuple[PartitionDirectory, ...]
    """In the order of the stream's paths."""

    def directories_from(self, offset: int | None) -> Sequence[PartitionDirectory]:
        """The copies that begin at or before an offset, or at the lowest first offset if it is
        None; all copies if there are none."""
        max_offset = (
            min(copy.first_offset for copy in self.directories) if offset is None else offset
        )
        candidates = [copy for copy in self.directories if copy.first_offset <= max_offset]
        return candidates or self.directories

    @property
    def signature(self) -> LogSignature:
        """A value that changes with the beginning and the end of each copy."""
        return tuple(
            (
                directory.segments[0].path,
                directory.segments[-1].path,
                directory.segments[-1].file_size,
                directory.segments[-1].modified_ns,
            )
            for directory in self.directories
        )


def group_partitions(
    files: Iterable[FileSplit],
    find_topic_id: Callable[[FileSplit], str | None],
    paths: Sequence[str],
) -> dict[str, FollowedPartition]:
    """The partitions of a listing by their keys, in order. find_topic_id: returns the topic id of a
    segment. paths: the stream's, in order; of equal copies, one under an earlier path is read."""
    segments_by_directory = defaultdict[str, list[FileSplit]](list)
    for file in files:
        if file.kind is LOG_KIND and file.base_offset is not None and not file.read_error:
            segments_by_directory[file.directory].append(file)
    segment_lists_by_partition = defaultdict[tuple[str, str | None], list[list[FileSplit]]](list)
    for directory, segments in segments_by_directory.items():
        segments.sort(key=GET_BASE_OFFSET)
        topic, partition = segments[0].topic_partition
        if topic is None or partition is None:
            segment_lists_by_partition[directory, None].append(segments)
        else:
            segment_lists_by_partition[
                f"{format_display_name(topic)}-{partition}", find_topic_id(segments[0])
            ].append(segments)

    roots = [path_in_listings(path) for path in paths]

    def copy_sort_key(segments: list[FileSplit]) -> tuple[int, str]:
        path = segments[0].path
        root_indexes = (i for i, root in enumerate(roots) if is_path_or_subpath(path, root))
        return next(root_indexes, len(roots)), path

    partitions: dict[str, FollowedPartition] = {}
    for partition_name, topic_id in sorted(
        segment_lists_by_partition, key=lambda pair: (pair[0], pair[1] or "")
    ):
        segment_lists = segment_lists_by_partition[partition_name, topic_id]
        checkpoint_key = partition_name if topic_id is None else f"{partition_name}@{topic_id}"
        partition_directories = _partition_directories(
            sorted(segment_lists, key=copy_sort_key) if len(segment_lists) > 1 else segment_lists
        )
        partitions[checkpoint_key] = FollowedPartition(
            checkpoint_key, partition_name, topic_id, partition_directories
        )
    return partitions


def _partition_directories(segment_lists: list[list[FileSplit]]) -> tuple[PartitionDirectory, ...]:
    """The copies of a partition, from the segments in each of its directories."""
    tiered_lists = list(filter(_is_in_tiered_storage, segment_lists))
    local_lists = [segments for segments in segment_lists if not _is_in_tiered_storage(segments)]
    if not tiered_lists or not local_lists:
        return tuple(map(_create_directory, segment_lists))
    # A local log may also be an old one, which ends before the segments in tiered storage.
    last_base_offset = max(segments[-1].base_offset_or_zero for segments in local_lists)
    newer_tiered_lists = [
        segments
        for segments in tiered_lists
        if segments[-1].base_offset_or_zero >= last_base_offset
    ]
    return (
        *(
            PartitionDirectory(
                segments[0].directory,
                (
                    *tiered_segments[
                        : bisect_left(
                            tiered_segments, segments[0].base_offset_or_zero, key=GET_BASE_OFFSET
                        )
                    ],
                    *segments,
                ),
            )
            for segments in local_lists
            for tiered_segments in tiered_lists
        ),
        *map(_create_directory, newer_tiered_lists),
    )


def _create_directory(segments: list[FileSplit]) -> PartitionDirectory:
    return PartitionDirectory(segments[0].directory, tuple(segments))


def _is_in_tiered_storage(segments: Sequence[FileSplit]) -> bool:
    """Whether the segments of a directory are in tiered storage, Kafka's LocalTieredStorage too."""
    directory_name = segments[0].directory.rpartition("/")[2]
    return segments[0].is_tiered or parse_directory_topic_id(directory_name) is not None
