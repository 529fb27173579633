"""The result of one kind of start on a partition: the remaining, lost and unreachable offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.start.log_loader import LoadedLog, LogLoaderInput, load_log
from kfmt_cli.broker.start.offset_intervals import (
    LogOffsets,
    OffsetInterval,
    OffsetIntervals,
    intersect_intervals,
    read_log_offsets,
    subtract_intervals,
)
from kfmt_cli.broker.start.reachable_offsets import ReachableOffsetSearch
from kfmt_cli.broker.start.stored_batches import StartError
from kfmt_cli.broker.version import DEFAULT_PREDICTED_VERSION, PredictedVersion
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_names import parse_offset_name
from kfmt_cli.disk.kinds import INDEX_KINDS
from kfmt_cli.disk.kinds.kind import SWAP_SUFFIX

AFTER_CRASH, AFTER_CLEAN_SHUTDOWN = "crash", "clean-shutdown"
STRAY, OFFLINE, UNSERVED = "stray", "offline", "unserved"


@dataclass(slots=True)
class PredictedStart:
    """A start on a partition, or on a file of the log directory that stops the broker."""

    file: str
    after: str
    """`AFTER_CRASH` or `AFTER_CLEAN_SHUTDOWN`."""
    reason: str | None = None
    """Why the broker does not start, or why the partition is not served."""
    log_start_offset: int | None = None
    log_end_offset: int | None = None
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
    predicted_version: PredictedVersion = DEFAULT_PREDICTED_VERSION
    """The version of the broker."""

    @property
    def bare_reason(self) -> str:
        """The reason, without the name of the partition."""
        return (self.reason or "").removeprefix(f"{self.file}: ")

    @property
    def starts(self) -> bool:
        """Whether the broker starts."""
        return self.reason is None or self.becomes is not None

    @property
    def fails(self) -> bool:
        """Whether the broker does not start, or does not serve the partition."""
        return not self.starts or self.becomes is not None

    @property
    def loses_data(self) -> bool:
        """Whether consumers can no longer read data that is on the disk now."""
        return bool(self.lost or self.unreachable)

    @property
    def has_effect(self) -> bool:
        """Whether the start changes anything, or fails."""
        changed = self.cut or self.deleted or self.lost or self.unreachable or self.becomes
        return not self.starts or bool(changed)


# The batches of the logs read so far, by path and base offset.
OffsetsByLog = dict[tuple[str, int], LogOffsets]


def predict_partition_start(
    start: PredictedStart,
    loader_input: LogLoaderInput,
    malformed_by_log: Mapping[int, frozenset[int]],
    offsets_by_log: OffsetsByLog,
) -> None:
    """Set the result of a start on a partition; raises InputError.

    malformed_by_log: positions of malformed batches with a valid checksum, by the base offset of
    their log. offsets_by_log: the batches of the logs read so far; other logs are added.
    """
    try:
        loaded_log = load_log(loader_input)
    except StartError as error:
        start.reason, start.is_offline = str(error), error.is_offline
        return
    with closing(loaded_log):
        start.log_start_offset, start.log_end_offset = loaded_log.log_start, loaded_log.log_end
        deleted_names = _iter_deleted_files(loaded_log, loader_input.directory)
        start.deleted = [
            loader_input.directory.input_file(file_name).name for file_name in deleted_names
        ]
        truncated_segments = (
            segment for segment in loaded_log.segments if segment.size < segment.original_size
        )
        start.cut = [(segment.name, segment.size) for segment in truncated_segments]
        partition_offsets = _read_offsets_before_and_after(
            loader_input, loaded_log, malformed_by_log, offsets_by_log
        )
        reachable_search = ReachableOffsetSearch(
            loaded_log.segments,
            loaded_log.log_end,
            partition_offsets.interval_by_base,
            partition_offsets.log_offsets_by_base,
            malformed_by_log,
        )
        delivered_offsets = reachable_search.find(loaded_log.log_start)
        expected_offsets = [
            (max(first, loader_input.log_start), last) for first, last in partition_offsets.before
        ]
        offsets_after_start = [
            (first, min(last, loaded_log.log_end - 1)) for first, last in partition_offsets.after
        ]
        start.lost = subtract_intervals(
            subtract_intervals(expected_offsets, offsets_after_start), delivered_offsets
        )
        start.unreachable = subtract_intervals(
            subtract_intervals(expected_offsets, start.lost), delivered_offsets
        )
        if start.unreachable:
            start.received_in_sequence = intersect_intervals(
                start.unreachable, reachable_search.find_in_sequence(loaded_log.log_start)
            )
        start.salvageable = intersect_intervals(
            [*start.lost, *start.unreachable], partition_offsets.undamaged
        )
        start.received_damaged = subtract_intervals(
            delivered_offsets, partition_offsets.without_findings
        )


@dataclass(slots=True)
class _PartitionOffsets:
    """The offsets of a partition's logs, before a start and after it."""

    before: OffsetIntervals = field(default_factory=list)
    undamaged: OffsetIntervals = field(default_factory=list)
    """The offsets in undamaged batches."""
    without_findings: OffsetIntervals = field(default_factory=list)
    """The offsets in batches without any finding."""
    after: OffsetIntervals = field(default_factory=list)
    interval_by_base: dict[int, OffsetInterval] = field(default_factory=dict)
    """The offsets of each segment with a valid log and index, by base offset."""
    log_offsets_by_base: dict[int, LogOffsets] = field(default_factory=dict)
    """The batches of each other log, by base offset."""


def _read_offsets_before_and_after(
    loader_input: LogLoaderInput,
    loaded_log: LoadedLog,
    malformed_by_log: Mapping[int, frozenset[int]],
    offsets_by_log: OffsetsByLog,
) -> _PartitionOffsets:
    directory, offsets = loader_input.directory, _PartitionOffsets()
    name_by_base = {
        parse_offset_name(file_name): file_name
        for file_name in directory.files
        if file_name.endswith(".log")
    }
    bases = sorted(base for base in name_by_base if base is not None)
    next_base_by_base = dict(zip(bases, [*bases[1:], None], strict=True)) if bases else {}
    segment_by_base = {segment.base: segment for segment in loaded_log.segments}

    def read_offsets(path: str, name: str, base: int) -> LogOffsets:
        if (path, base) not in offsets_by_log:
            offsets_by_log[path, base] = read_log_offsets(
                replace(directory.input_file(name), path=path), base
            )
        return offsets_by_log[path, base]

    for base in bases:
        segment = segment_by_base.get(base)
        unchanged_range = loader_input.unchanged_range_by_base.get(base)
        if unchanged_range is not None:
            offsets.before.append((unchanged_range[0], unchanged_range[1] - 1))
            offsets.undamaged.append(offsets.before[-1])
            offsets.without_findings.append(offsets.before[-1])
        else:
            log_offsets = read_offsets(
                directory.input_file(name_by_base[base]).path, name_by_base[base], base
            )
            offsets.before += log_offsets.contained_offsets(next_base_by_base[base])
            offsets.undamaged += log_offsets.undamaged_offsets()
            offsets.without_findings += log_offsets.undamaged_offsets(
                malformed_by_log.get(base, frozenset())
            )
        if segment is None or segment.unchanged_end_offset is None or unchanged_range is None:
            continue
        if segment.is_recovered or base in loader_input.bases_with_valid_index:
            offsets.interval_by_base[base] = unchanged_range[0], unchanged_range[1] - 1
            offsets.after.append(offsets.interval_by_base[base])
    for base, segment in segment_by_base.items():
        if base in offsets.interval_by_base or not segment.path:
            continue
        offsets.log_offsets_by_base[base] = read_offsets(
            segment.path, segment.path.rpartition("/")[2], base
        )
        is_truncated = segment.size < segment.original_size
        offsets.after += offsets.log_offsets_by_base[base].contained_offsets(
            next_base_by_base.get(base), segment.size if is_truncated else None
        )
    return offsets


def _iter_deleted_files(loaded_log: LoadedLog, directory: DirectoryListing) -> Iterator[str]:
    """The names of the deleted files, each log followed by its indexes."""
    remaining_bases = {segment.base for segment in loaded_log.segments}
    directory_file_names = set(directory.files)
    for name in loaded_log.deleted:
        yield name
        base = parse_offset_name(name)
        if (
            name.removesuffix(SWAP_SUFFIX).endswith(".log")
            and base is not None
            and base not in remaining_bases
        ):
            index_names = (f"{base:020}{index.suffix}" for index in INDEX_KINDS)
            yield from (
                index
                for index in index_names
                if index in directory_file_names and index not in loaded_log.deleted
            )
