"""The result of one kind of start on a partition: the remaining, lost and unreachable offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.log_reading.not_files import start_file_names
from kfmt_cli.broker.log_reading.offset_intervals import (
    LogOffsets,
    OffsetInterval,
    OffsetIntervals,
    intersect_intervals,
    read_log_offsets,
    subtract_intervals,
)
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.start.loaded_log import LoadedLog, LogLoaderInput
from kfmt_cli.broker.start.log_loader import load_log
from kfmt_cli.broker.start.reachable_offsets import ReachableOffsetSearch
from kfmt_cli.broker.version import DEFAULT_PREDICTED_VERSION, PredictedVersion
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_names import parse_offset_name
from kfmt_cli.disk.kinds import INDEX_KINDS
from kfmt_cli.disk.kinds.kind import SWAP_SUFFIX

AFTER_CRASH, AFTER_CLEAN_SHUTDOWN = "crash", "clean-shutdown"
STRAY, OFFLINE, UNSERVED = "stray", "offline", "unserved"


@dataclass(slots=True)
class PredictedStart:
    """The predicted start of a partition, or of a broker that a file in the log directory stops."""

    file: str
    after: str
    """`AFTER_CRASH` or `AFTER_CLEAN_SHUTDOWN`."""
    reason: str | None = None
    """Why the broker does not start, or why the partition is not served."""
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    last_stable_offset: int | None = None
    """Where read_committed consumers stop then, once all of the log is replicated."""
    last_stable_offset_before: int | None = None
    """Where they stop now; None if unknown."""
    cut: list[tuple[str, int]] = field(default_factory=list)
    """Name and new size of each log that is truncated."""
    deleted: list[str] = field(default_factory=list)
    """Names of the deleted files."""
    becomes: str | None = None
    """None if the partition is served; else `STRAY`, `OFFLINE` or `UNSERVED`."""
    is_offline: bool = False
    """Whether the reason only takes the log directory offline if the broker has several."""
    is_consequence: bool = False
    """Whether the reason is that the log directory belongs to another broker."""
    is_duplicate: bool = False
    """Whether the reason is that another directory has the same partition."""
    lost: OffsetIntervals = field(default_factory=list)
    """Intervals of lost offsets."""
    unreachable: OffsetIntervals = field(default_factory=list)
    """Intervals of offsets that are kept but that no seek reaches."""
    received_in_sequence: OffsetIntervals = field(default_factory=list)
    """Unreachable offsets that consumers still receive when they read on from lower offsets."""
    salvageable: OffsetIntervals = field(default_factory=list)
    """Lost or unreachable offsets that are in undamaged batches."""
    received_damaged: OffsetIntervals = field(default_factory=list)
    """Intervals of offsets that consumers receive from damaged batches."""
    lost_records: int | None = 0
    """Number of undamaged records at lost offsets; None if unknown, like the next ones."""
    unreachable_records: int | None = 0
    """Number of undamaged records at unreachable offsets."""
    hidden_records: int | None = 0
    """Number of kept records that read_committed consumers receive now, and not after the start."""
    failing_offset: int | None = None
    """The offset of the record of the metadata log that stops the broker."""
    predicted_version: PredictedVersion = DEFAULT_PREDICTED_VERSION
    """The version of the broker."""

    @property
    def reason_without_file(self) -> str:
        """The reason, without the name of the partition."""
        return (self.reason or "").removeprefix(f"{self.file}: ")

    @property
    def starts(self) -> bool:
        """Whether the broker starts."""
        return self.reason is None or self.becomes is not None

    @property
    def hidden(self) -> OffsetInterval | None:
        """The retained offsets that read_committed consumers receive now but not after the
        start."""
        before, after = self.last_stable_offset_before, self.last_stable_offset
        if before is None or after is None or self.log_end_offset is None:
            return None
        end_offset = min(before, self.log_end_offset)
        return (after, end_offset - 1) if after < end_offset else None

    @property
    def is_failure(self) -> bool:
        """Whether the broker does not start, or does not serve the partition."""
        return not self.starts or self.becomes is not None

    @property
    def loses_data(self) -> bool:
        """Whether consumers can no longer read data that is on the disk now."""
        return bool(self.lost or self.unreachable)

    @property
    def has_effect(self) -> bool:
        """Whether the start changes anything, or fails."""
        effects = self.cut or self.deleted or self.lost or self.unreachable or self.becomes
        return not self.starts or bool(effects)


@dataclass(frozen=True, slots=True)
class NextStart:
    """The next start of a log directory."""

    file: str
    after: str
    starts: bool
    reason: str | None
    becomes: str | None
    retry: str | None
    """The kind of start that follows a failed one."""
    predicted_version: PredictedVersion
    """The version of the broker."""


# The batches of the logs read so far, by path and base offset.
OffsetsByLog = dict[tuple[str, int], LogOffsets]


def predict_partition_start(
    predicted_start: PredictedStart,
    loader_input: LogLoaderInput,
    malformed_positions_by_base: Mapping[int, frozenset[int]],
    offsets_by_log: OffsetsByLog,
) -> None:
    """Set the result of a start on a partition; raises InputError.

    malformed_positions_by_base: positions of malformed batches with a valid checksum, by the base
    offset of their log. offsets_by_log: the batches of the logs read so far; other logs are added.
    """
    try:
        loaded_log = load_log(loader_input)
    except StartError as error:
        predicted_start.reason, predicted_start.is_offline = str(error), error.is_offline
        return
    with closing(loaded_log):
        predicted_start.log_start_offset = loaded_log.log_start_offset
        predicted_start.log_end_offset = loaded_log.log_end_offset
        predicted_start.last_stable_offset = loaded_log.last_stable_offset
        deleted_names = _iter_deleted_names(loaded_log, loader_input.directory)
        predicted_start.deleted = [
            loader_input.directory.input_file(file_name).name for file_name in deleted_names
        ]
        truncated_segments = (
            segment for segment in loaded_log.segments if segment.size < segment.original_size
        )
        predicted_start.cut = [(segment.log_name, segment.size) for segment in truncated_segments]
        partition_offsets = _read_offsets_before_and_after(
            loader_input, loaded_log, malformed_positions_by_base, offsets_by_log
        )
        offset_search = ReachableOffsetSearch(
            loaded_log.segments,
            loaded_log.log_end_offset,
            partition_offsets.offset_interval_by_base,
            partition_offsets.log_offsets_by_base,
            malformed_positions_by_base,
        )
        expected_intervals = [
            (max(first, loader_input.log_start_offset), last)
            for first, last in partition_offsets.intervals_before_start
        ]
        _set_lost_and_received(
            predicted_start, expected_intervals, loaded_log, partition_offsets, offset_search
        )


def _set_lost_and_received(
    predicted_start: PredictedStart,
    expected_intervals: OffsetIntervals,
    loaded_log: LoadedLog,
    partition_offsets: _PartitionOffsets,
    offset_search: ReachableOffsetSearch,
) -> None:
    """Set which of the expected offsets are lost, and which consumers receive."""
    delivered_intervals = offset_search.find_reachable_offsets(loaded_log.log_start_offset)
    intervals_after_start = [
        (first, min(last, loaded_log.log_end_offset - 1))
        for first, last in partition_offsets.intervals_after_start
    ]
    predicted_start.lost = subtract_intervals(
        subtract_intervals(expected_intervals, intervals_after_start), delivered_intervals
    )
    predicted_start.unreachable = subtract_intervals(
        subtract_intervals(expected_intervals, predicted_start.lost), delivered_intervals
    )
    if predicted_start.unreachable:
        predicted_start.received_in_sequence = intersect_intervals(
            predicted_start.unreachable,
            offset_search.find_offsets_of_lower_fetches(loaded_log.log_start_offset),
        )
    predicted_start.salvageable = intersect_intervals(
        [*predicted_start.lost, *predicted_start.unreachable],
        partition_offsets.undamaged_intervals,
    )
    predicted_start.received_damaged = subtract_intervals(
        delivered_intervals, partition_offsets.intervals_without_findings
    )


@dataclass(slots=True)
class _PartitionOffsets:
    """The offsets of a partition's logs, before a start and after it."""

    intervals_before_start: OffsetIntervals = field(default_factory=list)
    undamaged_intervals: OffsetIntervals = field(default_factory=list)
    """The offsets in undamaged batches."""
    intervals_without_findings: OffsetIntervals = field(default_factory=list)
    """The offsets in batches without any finding."""
    intervals_after_start: OffsetIntervals = field(default_factory=list)
    offset_interval_by_base: dict[int, OffsetInterval] = field(default_factory=dict)
    """The offsets of each segment with a valid log and index, by base offset."""
    log_offsets_by_base: dict[int, LogOffsets] = field(default_factory=dict)
    """The batches of each other log, by base offset."""


def _read_offsets_before_and_after(
    loader_input: LogLoaderInput,
    loaded_log: LoadedLog,
    malformed_positions_by_base: Mapping[int, frozenset[int]],
    offsets_by_log: OffsetsByLog,
) -> _PartitionOffsets:
    directory, partition_offsets = loader_input.directory, _PartitionOffsets()
    log_names = [name for name in start_file_names(directory) if name.endswith(".log")]
    name_by_base = {parse_offset_name(log_name): log_name for log_name in log_names}
    base_offsets = sorted(base for base in name_by_base if base is not None)
    next_base_by_base = (
        dict(zip(base_offsets, [*base_offsets[1:], None], strict=True)) if base_offsets else {}
    )
    segment_by_base = {segment.base_offset: segment for segment in loaded_log.segments}

    def read_cached_offsets(path: str, file_name: str, log_base_offset: int) -> LogOffsets:
        if (path, log_base_offset) not in offsets_by_log:
            offsets_by_log[path, log_base_offset] = read_log_offsets(
                replace(directory.input_file(file_name), path=path), log_base_offset
            )
        return offsets_by_log[path, log_base_offset]

    for base_offset in base_offsets:
        segment = segment_by_base.get(base_offset)
        unchanged_range = loader_input.unchanged_range_by_base.get(base_offset)
        unchanged_interval = unchanged_range and (unchanged_range[0], unchanged_range[1] - 1)
        if unchanged_interval is not None:
            partition_offsets.intervals_before_start.append(unchanged_interval)
            partition_offsets.undamaged_intervals.append(unchanged_interval)
            partition_offsets.intervals_without_findings.append(unchanged_interval)
        else:
            log_name = name_by_base[base_offset]
            log_path = directory.input_file(log_name).path
            log_offsets = read_cached_offsets(log_path, log_name, base_offset)
            partition_offsets.intervals_before_start += log_offsets.contained_offsets(
                next_base_by_base[base_offset]
            )
            partition_offsets.undamaged_intervals += log_offsets.undamaged_offsets()
            partition_offsets.intervals_without_findings += log_offsets.undamaged_offsets(
                malformed_positions_by_base.get(base_offset, frozenset())
            )
        if segment is None or segment.unchanged_end_offset is None or unchanged_interval is None:
            continue
        if segment.is_recovered or base_offset in loader_input.bases_with_valid_index:
            partition_offsets.offset_interval_by_base[base_offset] = unchanged_interval
            partition_offsets.intervals_after_start.append(unchanged_interval)
    for base_offset, segment in segment_by_base.items():
        if base_offset in partition_offsets.offset_interval_by_base or not segment.path:
            continue
        log_offsets = read_cached_offsets(
            segment.path, segment.path.rpartition("/")[2], base_offset
        )
        partition_offsets.log_offsets_by_base[base_offset] = log_offsets
        end_position = segment.size if segment.size < segment.original_size else None
        partition_offsets.intervals_after_start += log_offsets.contained_offsets(
            next_base_by_base.get(base_offset), end_position
        )
    return partition_offsets


def _iter_deleted_names(loaded_log: LoadedLog, directory: DirectoryListing) -> Iterator[str]:
    """The names of the deleted files, each log followed by its indexes."""
    remaining_bases = {segment.base_offset for segment in loaded_log.segments}
    directory_file_names = set(directory.files)
    for deleted_name in loaded_log.deleted_names:
        yield deleted_name
        base_offset = parse_offset_name(deleted_name)
        if (
            deleted_name.removesuffix(SWAP_SUFFIX).endswith(".log")
            and base_offset is not None
            and base_offset not in remaining_bases
        ):
            index_names = (f"{base_offset:020}{index.suffix}" for index in INDEX_KINDS)
            yield from (
                index
                for index in index_names
                if index in directory_file_names and index not in loaded_log.deleted_names
            )
