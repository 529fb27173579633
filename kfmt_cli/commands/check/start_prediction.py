"""check: predicts the start of each partition, after a crash and after a clean shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from kfmt_cli.broker.log_reading.not_files import start_file_names
from kfmt_cli.broker.log_reading.offset_intervals import intervals_to_lists
from kfmt_cli.broker.metadata.opened_log import open_metadata_log
from kfmt_cli.broker.start.checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.loaded_log import LogLoaderInput
from kfmt_cli.broker.start.outcome import (
    AFTER_CLEAN_SHUTDOWN,
    AFTER_CRASH,
    OffsetsByLog,
    PredictedStart,
    predict_partition_start,
)
from kfmt_cli.broker.start.record_counts import RecordCounter
from kfmt_cli.broker.transactions.transactions import read_last_stable_offset
from kfmt_cli.broker.version import PredictedVersion
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.disk.directory_listing import DirectoryListing, is_segment_log
from kfmt_cli.disk.file_names import directory_marker_suffix, parse_topic_partition
from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND
from kfmt_cli.disk.kinds.kind import FileLevel
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.disk.segment import SEGMENT_KINDS
from kfmt_cli.errors import InputError
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
    counter, starts = RecordCounter(listing), list[PredictedStart]()
    for start in _predict_log_starts(
        *(listing, result, log_directory, index_interval_bytes, predicted_version),
        counter.offsets_by_log,
    ):
        if listing.path.rstrip("/").endswith(f"/{CLUSTER_METADATA}-0") and start.starts:
            _apply_metadata_snapshot(start, listing, result)
        start.lost_records = start.unreachable_records = start.hidden_records = None
        with suppress(InputError):
            start.lost_records = counter.count(start.lost)
            start.unreachable_records = counter.count(start.unreachable)
            start.hidden_records = counter.count_committed(start.hidden) if start.hidden else 0
        starts.append(start)
        yield start
    intervals_at_risk = [interval for start in starts for interval in start.salvageable]
    if starts and not any(start.starts for start in starts):
        intervals_at_risk = [(first, end - 1) for first, end in result.offset_intervals.values()]
    with suppress(InputError):
        result.n_records_at_risk = counter.count(intervals_at_risk)


def _apply_metadata_snapshot(
    start: PredictedStart, listing: DirectoryListing, result: DirectoryCheckResult
) -> None:
    """Apply the effect of the newest snapshot to the start of a metadata log that has recovered."""
    opened_log = open_metadata_log(listing, [], start.log_end_offset)
    if not opened_log.is_discarded or not listing.logs:
        return
    start.log_start_offset = start.log_end_offset = opened_log.end_offset
    start.cut, start.unreachable = [], []
    start.deleted = [
        listing.input_file(file_name).name
        for file_name in listing.regular_files
        if listing.input_file(file_name).kind in SEGMENT_KINDS - {KRAFT_SNAPSHOT_KIND}
    ]
    start.lost = [
        (max(first_offset, opened_log.end_offset), end_offset - 1)
        for first_offset, end_offset in result.offset_intervals.values()
        if end_offset > max(first_offset, opened_log.end_offset)
    ]


def _predict_log_starts(
    listing: DirectoryListing,
    result: DirectoryCheckResult,
    log_directory: LogDirectory,
    index_interval_bytes: int,
    predicted_version: PredictedVersion,
    offsets_by_log: OffsetsByLog,
) -> Iterator[PredictedStart]:
    topic, partition = parse_topic_partition(listing.path.rstrip("/").rpartition("/")[2])
    topic_partition = (topic or "", partition or 0)
    log_start_offset = log_directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition)
    ordinary_log_end = _find_ordinary_log_end(listing, result, log_start_offset)
    last_stable_offset = _find_last_stable_offset(listing, result)
    if ordinary_log_end is not None:
        ordinary_start = PredictedStart(
            result.display_path,
            AFTER_CRASH,
            log_start_offset=max(log_start_offset, min(result.offset_intervals)),
            log_end_offset=ordinary_log_end,
            last_stable_offset=last_stable_offset,
            last_stable_offset_before=last_stable_offset,
            predicted_version=predicted_version,
        )
        yield from (ordinary_start, replace(ordinary_start, after=AFTER_CLEAN_SHUTDOWN))
        return
    is_metadata_log = topic == CLUSTER_METADATA
    damage_findings = (f for f in result.all_findings if f.code.severity is not Severity.NOTE)
    files_with_findings = {finding.file for finding in damage_findings}
    undamaged_base_offsets = {
        log.base_offset_or_zero for log in listing.logs if log.name not in files_with_findings
    }
    indexed_base_offsets = _find_indexed_base_offsets(listing, files_with_findings)
    positions_by_log = _finding_positions_by_base(listing, result)
    for stop_kind in (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN):
        loader_input = LogLoaderInput(
            replace(listing, display_prefix=f"{result.display_path}/"),
            # The metadata log is always recovered, even with a marker.
            is_clean_shutdown=stop_kind == AFTER_CLEAN_SHUTDOWN and not is_metadata_log,
            kafka_version=predicted_version.kafka_version,
            recovery_point=0
            if is_metadata_log
            else log_directory.checkpoint_offset(RECOVERY_POINT_CHECKPOINT, topic_partition),
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
        start.last_stable_offset_before = last_stable_offset
        yield start


def _find_indexed_base_offsets(
    listing: DirectoryListing, files_with_findings: set[str]
) -> frozenset[int]:
    """The base offsets of segments with a valid offset index."""
    return frozenset(
        file.base_offset_or_zero
        for file in map(listing.input_file, listing.files)
        if file.kind is OFFSET_INDEX_KIND and file.name not in files_with_findings
    )


def _find_last_stable_offset(listing: DirectoryListing, result: DirectoryCheckResult) -> int | None:
    """Where read_committed consumers stop now; None if unknown. Raises InputError."""
    end_offset = max((end for _, end in result.offset_intervals.values()), default=None)
    if not result.has_transactions or end_offset is None:
        return end_offset
    files = list(map(listing.input_file, start_file_names(listing)))
    return read_last_stable_offset(list(filter(is_segment_log, files)), files, end_offset)


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
        or start_file_names(listing) != listing.files
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
