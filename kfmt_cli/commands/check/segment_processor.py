"""check: the segments to read, and how processes check them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.state.coordinator_loading import COORDINATOR_TOPICS
from kfmt_cli.checks.log.checker import CheckOutcome, collect_check_outcome
from kfmt_cli.checks.segment_checker import SegmentChecker, SegmentCheckResult
from kfmt_cli.disk.directory_listing import (
    DirectoryListing,
    file_size,
    file_topic,
    iter_input_files,
)
from kfmt_cli.disk.kinds.logs import LOG_KIND, LOG_KINDS
from kfmt_cli.disk.segment import Segment
from kfmt_cli.execution.item_processor import ItemProcessor
from kfmt_cli.log.small_logs import can_read_in_group


@dataclass(slots=True)
class SegmentGroup:
    """The segments of a directory, or the segment of a single file."""

    listing: DirectoryListing | None
    """Their directory; None for a single file."""
    segments: list[Segment] = field(default_factory=list)


def segments_in(listing: DirectoryListing) -> list[Segment]:
    """The segments that a broker uses and other kinds of log in a directory, sorted by name."""
    segments = list(listing.segments_in_use)
    other_logs = (
        file for file in iter_input_files([listing], LOG_KINDS) if file.kind is not LOG_KIND
    )
    segments += (Segment(log, requested_index_kinds=frozenset()) for log in other_logs)
    return sorted(segments, key=_segment_file_name)


def _segment_file_name(segment: Segment) -> str:
    return segment.any_file.path.rpartition(os.sep)[2]


def measure_segments(groups: list[SegmentGroup]) -> list[tuple[Segment, int]]:
    """Each segment, in order, with the size of its log in bytes."""
    segments = (segment for group in groups for segment in group.segments)
    return [(segment, 0 if segment.log is None else file_size(segment.log)) for segment in segments]


@dataclass(frozen=True, slots=True)
class SegmentCheckProcessor(ItemProcessor[Segment, CheckOutcome[SegmentCheckResult], None]):
    """Checks segments, each read once; those of coordinators' topics are left to the main process,
    which also loads their records in order."""

    uses_all_cores = True
    checker: SegmentChecker

    def can_group(self, item: Segment) -> bool:
        return (
            item.log is not None and can_read_in_group(item.log) and not _is_coordinator_log(item)
        )

    def process_group(
        self, items: Sequence[Segment]
    ) -> list[CheckOutcome[SegmentCheckResult] | None]:
        segment_results = self.checker.check_segment_group(items)
        return [
            None if segment_result is None else (segment_result, [])
            for segment_result in segment_results
        ]

    def process_item(self, item: Segment) -> CheckOutcome[SegmentCheckResult] | None:
        if item.log is None or _is_coordinator_log(item):
            return None
        single_core_checker = replace(
            self.checker, log_checker=replace(self.checker.log_checker, n_threads=0)
        )
        return collect_check_outcome(single_core_checker.iter_findings(item))


def _is_coordinator_log(segment: Segment) -> bool:
    return segment.log is not None and file_topic(segment.log) in COORDINATOR_TOPICS


def iter_unvisited_segments(
    segments: Iterable[Segment], visited_paths: set[str]
) -> Iterator[Segment]:
    """The segments not seen before, by real path; adds them to `visited_paths`."""
    for segment in segments:
        segment_path = segment.identity_path
        if segment_path not in visited_paths:
            yield segment
            visited_paths.add(segment_path)
