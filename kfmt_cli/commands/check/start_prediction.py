"""check: predicts the start of each partition, after a crash and after a clean shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kfmt_cli.broker.log_reading.offset_intervals import intervals_to_lists
from kfmt_cli.broker.start.checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.log_loader import LogLoaderInput
from kfmt_cli.broker.start.outcome import (
    AFTER_CLEAN_SHUTDOWN,
    AFTER_CRASH,
    OffsetsByLog,
    PredictedStart,
    predict_partition_start,
)
from kfmt_cli.broker.version import PredictedVersion
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_names import directory_marker_suffix, parse_topic_partition
from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND
from kfmt_cli.disk.kinds.kind import FileLevel
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.findings.finding import Severity
from kfmt_cli.rows.documents import BROKER_START_ROW
from kfmt_cli.topics import CLUSTER_METADATA


def predict_starts(
    listing: DirectoryListing,
    result: DirectoryCheckResult,
    log_directory: LogDirectory,
    index_interval_bytes: int,
    predicted_version: PredictedVersion,
) -> Iterator[PredictedStart]:
    """The predicted starts of a partition whose logs were checked, after a crash and after a clean
    shutdown; raises InputError."""
    directory_name = listing.path.rstrip("/").rpartition("/")[2]
    topic, partition = parse_topic_partition(directory_name)
    topic_partition = (topic or "", partition or 0)
    log_start_offset = log_directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition)
    recovery_point = log_directory.checkpoint_offset(RECOVERY_POINT_CHECKPOINT, topic_partition)
    ordinary_log_end = _find_ordinary_log_end(listing, result, log_start_offset)
    if ordinary_log_end is not None:
        predicted_log_start = max(log_start_offset, min(result.offset_intervals))
        for stop_kind in (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN):
            yield PredictedStart(
                result.display_path,
                stop_kind,
                log_start_offset=predicted_log_start,
                log_end_offset=ordinary_log_end,
                predicted_version=predicted_version,
            )
        return
    is_metadata_log = topic == CLUSTER_METADATA
    damage_findings = (f for f in result.all_findings if f.code.severity is not Severity.NOTE)
    files_with_findings = {finding.file for finding in damage_findings}
    undamaged_base_offsets = {
        log.base_offset_or_zero for log in listing.logs if log.name not in files_with_findings
    }
    indexed_base_offsets = frozenset(
        file.base_offset_or_zero
        for file in map(listing.input_file, listing.files)
        if file.kind is OFFSET_INDEX_KIND and file.name not in files_with_findings
    )
    positions_by_log = _finding_positions_by_base(listing, result)
    offsets_by_log: OffsetsByLog = {}
    for stop_kind in (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN):
        loader_input = LogLoaderInput(
            replace(listing, display_prefix=f"{result.display_path}/"),
            # The metadata log is always recovered, even with a marker.
            is_clean_shutdown=stop_kind == AFTER_CLEAN_SHUTDOWN and not is_metadata_log,
            kafka_version=predicted_version.kafka_version,
            recovery_point=0 if is_metadata_log else recovery_point,
            log_start_offset=log_start_offset,
            unchanged_range_by_base={
                base_offset: interval
                for base_offset, interval in result.offset_intervals.items()
                if base_offset in undamaged_base_offsets
            },
            bases_with_valid_index=indexed_base_offsets,
            has_transactions=result.has_transactions,
            index_interval_bytes=index_interval_bytes,
        )
        start = PredictedStart(result.display_path, stop_kind, predicted_version=predicted_version)
        predict_partition_start(start, loader_input, positions_by_log, offsets_by_log)
        yield start


def _find_ordinary_log_end(
    listing: DirectoryListing, result: DirectoryCheckResult, log_start_offset: int
) -> int | None:
    """Log end offset of a partition with nothing unusual; otherwise None."""
    logs = listing.logs
    if (
        result.all_findings
        or not logs
        or directory_marker_suffix(listing.path)
        or listing.directories
    ):
        return None
    if not all(map(_is_ordinary_file, listing.files)):
        return None
    _, log_end = result.offset_intervals.get(logs[-1].base_offset_or_zero, (0, -1))
    return log_end if log_end >= max(log_start_offset, 0) else None


def _is_ordinary_file(file_name: str) -> bool:
    """Whether a start handles a file by its ordinary rules."""
    kind, base_offset, transient_suffix = classify_name(file_name)
    is_segment_file = kind.level is FileLevel.SEGMENT and kind is not KRAFT_SNAPSHOT_KIND
    return not transient_suffix and (base_offset is not None or not is_segment_file)


def _finding_positions_by_base(
    listing: DirectoryListing, result: DirectoryCheckResult
) -> dict[int, frozenset[int]]:
    """Positions of the findings in a partition's logs, by base offset."""
    base_offset_by_name = {log.name: log.base_offset_or_zero for log in listing.logs}
    positions_by_base: dict[int, set[int]] = {}
    for finding in result.all_findings:
        if finding.file in base_offset_by_name and finding.position is not None:
            positions_by_base.setdefault(base_offset_by_name[finding.file], set()).add(
                finding.position
            )
    return {
        base_offset: frozenset(positions) for base_offset, positions in positions_by_base.items()
    }


def broker_start_row(predicted_start: PredictedStart) -> dict[str, object]:
    """A start as an object of the JSON contract, without its type."""
    return {
        **BROKER_START_ROW.members_from(predicted_start),
        "cut": [{"file": file, "size": size} for file, size in predicted_start.cut],
        "lost_offsets": intervals_to_lists(predicted_start.lost),
        "unreachable_offsets": intervals_to_lists(predicted_start.unreachable),
        **predicted_start.predicted_version.json_members,
    }
