"""Check the segments of a partition relative to each other.

Compaction leaves gaps in offsets inside and between segments. Retention and tiered storage delete
the oldest segments. Neither causes findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.checks.partition.base import PartitionCheck, SegmentFacts
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET


class SegmentOffsetsCheck(PartitionCheck):
    """No segment but the last is empty; segments neither overlap nor have gaps between them."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._empty_segments: list[SegmentFacts] = []
        self._previous_segment: SegmentFacts | None = None
        # The highest last offset so far, and its segment.
        self._highest_offset_and_segment: tuple[int, str] | None = None

    def add_segment(self, segment: SegmentFacts) -> None:
        """Add the next segment."""
        self._findings += self._iter_empty_findings()
        self._findings += self._iter_overlap_findings(segment)
        self._findings += self._iter_gap_findings(segment)
        if not segment.size:
            self._empty_segments.append(segment)
            # The finding about the empty segment covers a gap after it.
            self._previous_segment = None
        last_offset = segment.offset_range.last
        # An impossible offset for the segment is damage, and proves nothing about others.
        if last_offset is not None and last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET:
            self._previous_segment = segment
            if (
                self._highest_offset_and_segment is None
                or last_offset > self._highest_offset_and_segment[0]
            ):
                self._highest_offset_and_segment = last_offset, segment.name
        elif segment.size:
            self._previous_segment = None

    def skip_segment(self) -> None:
        """Skip an unreadable segment: the segments on its two sides are not compared."""
        self._findings += self._iter_empty_findings()
        self._previous_segment = None

    def finish(self) -> list[Finding]:
        """The findings, after the last segment, which may be empty."""
        self._empty_segments.clear()
        return self._findings

    def _iter_empty_findings(self) -> Iterator[Finding]:
        """Findings for the previous segments if they are empty, as they are not the last."""
        for segment in self._empty_segments:
            message = "0 bytes, and not the last segment"
            yield Finding(segment.name, codes.LOG_EMPTY, None, message, offset=segment.base_offset)
        self._empty_segments.clear()

    def _iter_overlap_findings(self, segment: SegmentFacts) -> Iterator[Finding]:
        start_offset, first_offset = segment.base_offset, segment.offset_range.first
        start_offset = start_offset if first_offset is None else min(start_offset, first_offset)
        if (
            self._highest_offset_and_segment is None
            or start_offset > self._highest_offset_and_segment[0]
        ):
            return
        highest_offset, highest_segment_name = self._highest_offset_and_segment
        message = (
            f"starts at offset {start_offset}, but {highest_segment_name} ends at {highest_offset}"
        )
        last_offset = segment.offset_range.last
        if first_offset is not None and last_offset is not None and first_offset <= highest_offset:
            message += (
                f": offsets {first_offset}–{min(highest_offset, last_offset)} are counted twice"
            )
        yield Finding(
            segment.name,
            codes.SEGMENTS_OVERLAP,
            None,
            message,
            offset=start_offset,
            expected=highest_offset + 1,
            found=start_offset,
        )

    def _iter_gap_findings(self, segment: SegmentFacts) -> Iterator[Finding]:
        """The finding for offsets missing between two segments without gaps of their own."""
        previous_segment, offset_range = self._previous_segment, segment.offset_range
        if previous_segment is None or self._highest_offset_and_segment is None:
            return
        start_offset = segment.base_offset if offset_range.first is None else offset_range.first
        expected_offset = self._highest_offset_and_segment[0] + 1
        if (
            start_offset <= expected_offset
            or previous_segment.offset_range.has_holes
            or offset_range.has_holes
        ):
            return
        message = (
            f"offsets {expected_offset}–{start_offset - 1} are in neither this segment "
            f"nor {previous_segment.name}"
        )
        yield Finding(
            segment.name,
            codes.SEGMENTS_GAP,
            None,
            message,
            offset=expected_offset,
            expected=expected_offset,
            found=start_offset,
        )
