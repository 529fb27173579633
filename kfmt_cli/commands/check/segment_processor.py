"""check: the segments to read, and how processes check them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kfmt_cli.checks.log.checker import CheckOutcome, collect_check
from kfmt_cli.checks.segment_checker import SegmentChecker, SegmentCheckResult
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size, find_input_files
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
        file for file in find_input_files([listing], LOG_KINDS) if file.kind is not LOG_KIND
    )
    segments += (Segment(log, index_kinds=frozenset()) for log in other_logs)
    return sorted(segments, key=_file_name)


def _file_name(segment: Segment) -> str:
    return segment.any_file.path.rpartition(os.sep)[2]


def segment_sizes(groups: list[SegmentGroup]) -> list[tuple[Segment, int]]:
    """Each segment, in order, with the size of its log in bytes."""
    segments = (segment for group in groups for segment in group.segments)
    return [(segment, 0 if segment.log is None else file_size(segment.log)) for segment in segments]


@dataclass(frozen=True, slots=True)
class SegmentCheckProcessor(ItemProcessor[Segment, CheckOutcome[SegmentCheckResult], None]):
    """Checks segments, each read once."""

    uses_all_cores = True
    checker: SegmentChecker

    def can_group(self, item: Segment) -> bool:
        return item.log is not None and can_read_in_group(item.log)

    def process_group(
        self, items: Sequence[Segment]
    ) -> list[CheckOutcome[SegmentCheckResult] | None]:
        results = self.checker.check_group(items)
        return [None if result is None else (result, []) for result in results]

    def process_one(self, item: Segment) -> CheckOutcome[SegmentCheckResult] | None:
        if item.log is None:
            return None
        checker = replace(self.checker, log_checker=replace(self.checker.log_checker, workers=0))
        return collect_check(checker.iter_findings(item))
