"""check: the offsets at which groups and mirrors continue, against the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kfmt_cli.broker.state import can_replay, create_replay
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.commands.state.internal_topics import replay_log_records
from kfmt_cli.commands.state.offset_ranges import (
    BELOW_LOG_START,
    IN_RANGE,
    POSITION_BY_TYPE,
    LogBounds,
    OffsetRanges,
    ReadingPosition,
)
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.file_names import (
    directory_marker_suffix,
    parse_topic_partition,
    partition_directory,
)
from kfmt_cli.errors import InputError, InputErrorHandler
from kfmt_cli.findings.codes import COMMITTED_OFFSET_OUT_OF_RANGE
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.types.state_rows import MIRROR_SYNC_ROW, SHARE_PARTITION_ROW, StateType

# MirrorMaker translates offsets with its syncs, but does not continue there.
_POSITION_TYPES = POSITION_BY_TYPE.keys() - {MIRROR_SYNC_ROW}


def iter_range_findings(
    results: Iterable[DirectoryCheckResult],
    log_directories: Iterable[str],
    decompression_limit: DecompressionLimit,
    on_error: Callable[[InputError], None],
) -> Iterator[Finding]:
    """The findings about groups and mirrors whose next offset is out of range, from the internal
    topics among the checked partitions.

    log_directories: further directories in which to look up logs, besides those of the partitions.
    on_error: receives errors about files that cannot be read.
    """
    results_by_path = {
        str(partition_directory(result.listing.path)): result
        for result in results
        if result.listing is not None
    }
    interval_by_path = {
        path: (min(intervals), intervals[max(intervals)][1])
        for path, result in results_by_path.items()
        if (intervals := result.offset_intervals)
    }
    offset_ranges = OffsetRanges(on_error, interval_by_path)
    offset_ranges.add_log_directories(log_directories)
    for listing in filter(None, (result.listing for result in results_by_path.values())):
        directory = partition_directory(listing.path)
        topic = parse_topic_partition(directory.name)[0]
        if topic is None or not can_replay(topic) or directory_marker_suffix(directory.name):
            continue
        topic_replay = create_replay(topic)
        row_types = _POSITION_TYPES.intersection(topic_replay.row_types)
        if not row_types:
            continue
        with InputErrorHandler(on_error):
            for log in listing.logs:
                for _finding in replay_log_records(topic_replay, log, decompression_limit):
                    pass  # reported with the log
        log_directory = str(directory.parent)
        offset_ranges.add_log_directories([log_directory])
        rows_by_type = topic_replay.sorted_rows()
        for row_type in sorted(row_types, key=topic_replay.row_types.index):
            for row in rows_by_type[row_type].values():
                _, position, log_bounds = offset_ranges.complete_row(row_type, row, log_directory)
                if position is not None and log_bounds is not None:
                    message = _format_problem(row_type, position, log_bounds)
                    partition_name = f"{position.topic}-{position.partition}"
                    if message is not None and _has_changed(partition_name, results_by_path):
                        offset_ranges.forget_partition(partition_name)
                        log_bounds = offset_ranges.complete_row(row_type, row, log_directory)[2]
                        if log_bounds is not None:
                            message = _format_problem(row_type, position, log_bounds)
                    if message is not None:
                        yield Finding(
                            listing.name,
                            COMMITTED_OFFSET_OUT_OF_RANGE,
                            None,
                            message,
                            offset=position.next_offset,
                        )


def _has_changed(partition_name: str, results_by_path: Mapping[str, DirectoryCheckResult]) -> bool:
    """Whether a broker wrote a partition of this name after it was listed."""
    return any(
        result.listing is not None and result.listing.has_changed
        for path, result in results_by_path.items()
        if path.endswith(f"/{partition_name}")
    )


def _format_problem(
    row_type: StateType, position: ReadingPosition, log_bounds: LogBounds
) -> str | None:
    """Where a position is out of range and what follows; None if it is in range."""
    offset_range = log_bounds.find_range(position)
    if offset_range in (None, IN_RANGE):
        return None
    if offset_range == BELOW_LOG_START:
        bound = f"below the log start offset {log_bounds.log_start_offset}"
    else:
        bound = f"beyond the log end offset {log_bounds.log_end_offset}"
    consequence = "auto.offset.reset decides where it continues"
    if row_type is SHARE_PARTITION_ROW:
        consequence = (
            "it continues at the log start offset"
            if offset_range == BELOW_LOG_START
            else "in tests, its consumers got no records"
        )
    return (
        f"{position.reader} in {position.topic}-{position.partition}: offset "
        f"{position.next_offset} is {bound}; {consequence}"
    )
