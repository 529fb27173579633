"""retention: shows why each segment is still on disk, and when it will be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

import numpy as np

from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    LogBytes,
    StartError,
    iter_stored_batches,
)
from kfmt_cli.broker.retention_rules import (
    FROM_FILE_TIME,
    FROM_TIME_INDEX,
    DeletionBounds,
    RetentionSegmentFacts,
    SegmentRetention,
    compute_retention,
)
from kfmt_cli.broker.segment_roll import ActiveSegmentFacts, SegmentRoll, predict_roll
from kfmt_cli.broker.start.checkpoints import LOG_START_CHECKPOINT, REPLICATION_CHECKPOINT
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.each_partition import for_each_partition
from kfmt_cli.commands.retention.lines import (
    FreedBytes,
    format_heading,
    format_roll,
    format_segment_retention,
    freed_lines,
)
from kfmt_cli.commands.retention.options import RetentionOptions
from kfmt_cli.commands.retention.remote_end import UNKNOWN_REMOTE_END_REASON, find_remote_end_offset
from kfmt_cli.commands.settings_resolver import TopicSettingsResolver, settings_with_sources
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.source import FileSource, Source
from kfmt_cli.core.times import current_time_ms
from kfmt_cli.disk.directory_listing import (
    file_modified_ms,
    file_size,
    is_segment_log,
    list_directory,
)
from kfmt_cli.disk.file_access import open_file_descriptor, open_remote_source
from kfmt_cli.disk.file_names import directory_marker_suffix
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.render.style import format_thousands
from kfmt_cli.rows.documents import FREED_ROW, RETENTION_ROW, ROLL_ROW, build_row
from kfmt_cli.topics import CLUSTER_METADATA

_TIME_ENTRY_BYTES = TIME_INDEX_ENTRY.dtype.itemsize
_OFFSET_ENTRY_BYTES = OFFSET_INDEX_ENTRY.dtype.itemsize


@dataclass(slots=True)
class RetentionCommand:
    """One call of `retention`."""

    run: CommandRun
    options: RetentionOptions
    reports_skipped_partitions: bool = True
    """Whether to note the partitions to which retention.ms does not apply."""
    _freed_bytes: FreedBytes = field(default_factory=list)
    _unusually_late_bytes: int = 0
    _now_ms: int = field(init=False)
    _settings_resolver: TopicSettingsResolver = field(init=False)

    def __post_init__(self) -> None:
        self._now_ms = current_time_ms(self.options.now)
        self._settings_resolver = TopicSettingsResolver.from_options(
            self.options.config, self.options.topic_settings
        )

    def execute(self) -> None:
        """Show when retention deletes the segments under some paths; raises UsageError."""
        self.show_paths(self.options.paths)

    def show_paths(self, paths: Sequence[InputPath | str]) -> None:
        """Show when retention deletes the segments under some paths."""
        for_each_partition(self.run, paths, self._show_partition)
        sink = self.run.sink
        later_freed_bytes = [
            (time_ms, n_bytes) for time_ms, n_bytes in self._freed_bytes if time_ms > self._now_ms
        ]
        row = FieldDict(
            bytes_now=sum(
                n_bytes for time_ms, n_bytes in self._freed_bytes if time_ms <= self._now_ms
            ),
            bytes_later=sum(n_bytes for _, n_bytes in later_freed_bytes),
            bytes_odd=self._unusually_late_bytes,
        )
        sink.write_document(FREED_ROW, row, freed_lines(row, later_freed_bytes, sink.streams.width))

    def _show_partition(self, partition: Partition) -> None:
        sink = self.run.sink
        for log in partition.logs if partition.has_explicit_logs else ():
            if log.kind is not LOG_KIND:
                with open_log(log, read_ahead=False):
                    pass  # raises InputError if it is not a log
        forecast = predict_retention(
            _add_unnamed_segments(partition),
            self._settings_resolver,
            self._now_ms,
            self.run.report_input_error,
        )
        if forecast is None and not self.reports_skipped_partitions:
            return
        if forecast is None:
            reason = (
                "retention.ms does not apply to the metadata log, which is trimmed after a snapshot"
            )
            if _is_tiered_or_marked(partition):
                reason = (
                    "retention.ms does not apply to tiered storage or to marked directories "
                    "(-delete, -stray, -future)"
                )
            sink.write_to_stderr(f"{partition.name}: {reason}\n")
            return
        shown_base_offsets = {log.base_offset_or_zero for log in partition.logs}
        shown_segments = [
            retention
            for retention in forecast.segment_retentions
            if retention.segment.base_offset in shown_base_offsets
        ]
        forecast, roll = replace(forecast, segment_retentions=shown_segments), forecast.next_roll
        self._freed_bytes += forecast.freed_bytes(self._now_ms)
        self._unusually_late_bytes += forecast.unusually_late_bytes
        retention_settings = _retention_settings(
            forecast.settings, self._settings_resolver.setting_sources(partition)
        )
        size_width = max(
            len(format_thousands(retention.segment.size)) for retention in shown_segments
        )
        for i, segment_retention in enumerate(shown_segments):
            lines = (
                [format_heading(partition.name, retention_settings, sink.streams.theme)]
                if i == 0
                else []
            )
            lines.append(
                format_segment_retention(segment_retention, size_width, sink.streams.theme)
            )
            sink.write_document(
                RETENTION_ROW, _retention_row(segment_retention, retention_settings), lines
            )
        if shown_segments[-1].active:
            sink.write_document(
                ROLL_ROW, build_row(ROLL_ROW, roll, {"file": roll.name}), [format_roll(roll)]
            )


@dataclass(frozen=True, slots=True)
class RetentionForecast:
    """The predicted retention and next roll of a partition."""

    segment_retentions: list[SegmentRetention]
    next_roll: SegmentRoll
    settings: TopicSettings

    def freed_bytes(self, now_ms: int) -> FreedBytes:
        """Pairs of time and bytes freed, without unusually late times; segments already due count
        as freed now."""
        return [
            (
                now_ms if retention.deletable else max(retention.deletable_at or now_ms, now_ms),
                retention.segment.size,
            )
            for retention in self.segment_retentions
            if (retention.deletable_at is not None or retention.deletable) and not retention.odd
        ]

    @property
    def unusually_late_bytes(self) -> int:
        """The bytes of segments that are kept until an unusually late time."""
        return sum(retention.segment.size for retention in self.segment_retentions if retention.odd)


def predict_retention(
    partition: Partition,
    settings_resolver: TopicSettingsResolver,
    now_ms: int,
    on_error: Callable[[str], None],
) -> RetentionForecast | None:
    """Predict a retention check of a partition; None if retention does not apply: the metadata
    log, tiered storage, marked directories. now_ms: in milliseconds. on_error: receives errors
    about unreadable files next to the partition. Raises InputError."""
    log_directory, topic_partition, settings = settings_resolver.read_partition_settings(
        partition, on_error
    )
    if topic_partition[0] == CLUSTER_METADATA or _is_tiered_or_marked(partition):
        return None
    high_watermark_by_partition = log_directory.offsets_by_checkpoint.get(
        REPLICATION_CHECKPOINT, {}
    )
    remote_end_offset = find_remote_end_offset(partition) if settings.remote else None
    deletion_bounds = DeletionBounds(
        high_watermark_by_partition.get(topic_partition),
        remote_end_offset,
        log_directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition),
    )
    segment_facts, active_segment_facts = read_segment_facts(partition, log_directory)
    segment_retentions = compute_retention(segment_facts, settings, deletion_bounds, now_ms)
    if settings.remote and remote_end_offset is None:
        segment_retentions = [
            replace(retention, why=f"{retention.why}; {UNKNOWN_REMOTE_END_REASON}")
            if retention.deletable
            else retention
            for retention in segment_retentions
        ]
    is_all_expired = len(segment_retentions) > 0 and all(
        retention.deletable for retention in segment_retentions
    )
    return RetentionForecast(
        segment_retentions,
        predict_roll(active_segment_facts, settings, now_ms, is_all_expired),
        settings,
    )


def _add_unnamed_segments(partition: Partition) -> Partition:
    """The partition with all segments of its directory, if the user named single logs; raises
    InputError."""
    if not partition.has_explicit_logs or not all(map(is_segment_log, partition.logs)):
        return partition
    log_by_base_offset = {log.base_offset_or_zero: log for log in partition.logs}
    all_logs = list_directory(str(partition.directory)).logs
    merged_log_by_base_offset = {
        log.base_offset_or_zero: log_by_base_offset.get(log.base_offset_or_zero, log)
        for log in [*all_logs, *partition.logs]
    }
    return replace(
        partition,
        logs=[
            merged_log_by_base_offset[base_offset]
            for base_offset in sorted(merged_log_by_base_offset)
        ],
    )


def _is_tiered_or_marked(partition: Partition) -> bool:
    """Whether a partition is in tiered storage or in a directory that a broker has marked."""
    return partition.is_tiered or directory_marker_suffix(partition.directory.name) != ""


def _retention_settings(
    settings: TopicSettings, sources: Mapping[str, str]
) -> dict[str, dict[str, object]]:
    """The settings that decide about retention, each with its source."""
    setting_names = ("cleanup.policy", settings.time_setting_name, settings.size_setting_name)
    return settings_with_sources(settings, sources, setting_names)


def _retention_row(
    segment_retention: SegmentRetention, retention_settings: Mapping[str, object]
) -> dict[str, object]:
    computed_values = {
        "file": segment_retention.segment.name,
        "base_offset": segment_retention.segment.base_offset,
        "bytes": segment_retention.segment.size,
        "largest_timestamp": segment_retention.segment.largest_timestamp,
        "timestamp_source": segment_retention.segment.timestamp_source,
        "deletable_at": segment_retention.deletable_at,
        "settings": retention_settings,
    }
    return build_row(RETENTION_ROW, segment_retention, computed_values)


def read_segment_facts(
    partition: Partition, log_directory: LogDirectory
) -> tuple[list[RetentionSegmentFacts], ActiveSegmentFacts]:
    """The size and time of each segment of a partition that retention goes by, and facts about the
    active segment; raises InputError."""
    active_segment_facts, end_offset = read_active_segment(partition.logs[-1])
    end_offsets = [*(log.base_offset_or_zero for log in partition.logs[1:]), end_offset]
    segment_facts = [
        _read_segment_facts(log, segment_end_offset)
        for log, segment_end_offset in zip(partition.logs, end_offsets, strict=True)
    ]
    last_segment, max_timestamp = segment_facts[-1], active_segment_facts.last_time
    if (
        (last_segment.largest_timestamp, last_segment.timestamp_source) == (0, FROM_TIME_INDEX)
        and log_directory.clean_shutdown_path is None
        and max_timestamp
    ):
        # A preallocated entry: a broker that is running, or recovers, uses the real one.
        segment_facts[-1] = replace(last_segment, largest_timestamp=max_timestamp)
    return segment_facts, active_segment_facts


def _read_segment_facts(file: InputFile, end_offset: int) -> RetentionSegmentFacts:
    base_offset, size = file.base_offset_or_zero, file_size(file)
    max_timestamp, reason = _read_last_timestamp(file)
    if max_timestamp is None and not _has_offset_index(file):
        max_timestamp = _read_max_timestamp(file)
    if max_timestamp is not None and max_timestamp >= 0:
        return RetentionSegmentFacts(
            file.name, base_offset, size, max_timestamp, FROM_TIME_INDEX, end_offset
        )
    return RetentionSegmentFacts(
        file.name, base_offset, size, file_modified_ms(file), FROM_FILE_TIME, end_offset, reason
    )


def _read_last_timestamp(file: InputFile) -> tuple[int | None, str]:
    """Timestamp of the last entry of a segment's time index, or None; and the reason if there is
    no valid timestamp. Raises InputError."""
    with _open_segment_file(file, TIME_INDEX_KIND.suffix) as time_index:
        if time_index is None:
            return None, "it has no time index"
        n_entries = (time_index.size or 0) // _TIME_ENTRY_BYTES
        if not n_entries:
            return None, "its time index is empty"
        timestamp_bytes = time_index.read_block((n_entries - 1) * _TIME_ENTRY_BYTES, 8, 8)
    timestamp = int.from_bytes(timestamp_bytes, "big", signed=True)
    return timestamp, "" if timestamp >= 0 else "its time index has no timestamp"


def _has_offset_index(file: InputFile) -> bool:
    with _open_segment_file(file, OFFSET_INDEX_KIND.suffix) as offset_index:
        return offset_index is not None


def _read_max_timestamp(file: InputFile) -> int | None:
    """The largest timestamp of a log's batches up to the first damage; None without any. Raises
    InputError. Source: `LogSegment.recover`, for a segment without an offset index."""
    max_timestamp: int | None = None
    with open_log(file, read_ahead=True) as opened_log:
        for block in opened_log.blocks:
            batches = block.batches
            is_recovered = np.cumprod(batches.crc_valid == 1).astype(np.bool_)
            timestamps = batches.max_timestamp[is_recovered & (batches.has_timestamp == 1)]
            if len(timestamps):
                max_timestamp = max(int(timestamps.max()), max_timestamp or 0)
            if block.findings or not is_recovered.all():
                break
    return max_timestamp


@contextmanager
def _open_segment_file(log: InputFile, suffix: str) -> Iterator[Source | None]:
    """Open a file next to a log; None if it is missing. Raises InputError. Kept cheap, as there may
    be 28,000 files."""
    file_path = f"{log.path.removesuffix('.log')}{suffix}"
    display_name = f"{log.name.removesuffix('.log')}{suffix}"
    source: Source | None = None
    try:
        source = open_remote_source(file_path) or FileSource(
            open_file_descriptor(file_path), display_name
        )
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(
            f"{display_name}: cannot be read: {error.strerror}", file=display_name
        ) from error
    except InputError as error:
        if not error.is_missing:
            raise
    with nullcontext() if source is None else closing(source):
        yield source


def read_active_segment(file: InputFile) -> tuple[ActiveSegmentFacts, int]:
    """Facts about the active segment, and its end offset: from its first batch and the batches
    after the last entry of its offset index. Raises InputError."""
    base_offset = file.base_offset_or_zero
    n_offset_entries, scan_position = _read_index_end(
        file, OFFSET_INDEX_KIND.suffix, _OFFSET_ENTRY_BYTES
    )
    n_time_entries, _ = _read_index_end(file, TIME_INDEX_KIND.suffix, _TIME_ENTRY_BYTES)
    first_timestamp = max_timestamp = None
    last_offset = base_offset - 1
    with closing(LogBytes(file.path, file.name)) as log, suppress(CorruptError, StartError):
        first_batch = next(iter_stored_batches(log, 0, log.size), None)
        if first_batch is not None:
            first_timestamp = max_timestamp = first_batch.max_timestamp
        for batch in iter_stored_batches(log, scan_position, log.size):
            last_offset = max(last_offset, batch.last_offset)
            max_timestamp = max(max_timestamp or batch.max_timestamp, batch.max_timestamp)
    indexed_timestamp, _ = _read_last_timestamp(file)
    if indexed_timestamp and max_timestamp is not None:
        max_timestamp = max(max_timestamp, indexed_timestamp)
    timestamps = first_timestamp, max_timestamp
    return ActiveSegmentFacts(
        file.name, base_offset, log.size, *timestamps, last_offset, n_offset_entries, n_time_entries
    ), last_offset + 1


def _read_index_end(log: InputFile, suffix: str, entry_bytes: int) -> tuple[int, int]:
    """Number of entries of an index without trailing zeros, and the number in the last four bytes
    of the last entry (0 if there is none); raises InputError."""
    with _open_segment_file(log, suffix) as index:
        if index is None:
            return 0, 0

        def read_entry(i: int) -> bytes:
            return index.read_block(i * entry_bytes, entry_bytes, entry_bytes)

        low, high = 0, (index.size or 0) // entry_bytes
        if high and any(read_entry(high - 1)):
            low = high
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if any(read_entry(middle)) else (low, middle)
        return low, int.from_bytes(read_entry(low - 1)[-4:], "big") if low else 0
