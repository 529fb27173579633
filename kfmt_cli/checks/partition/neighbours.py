"""Check the segments of a partition relative to each other.

Compaction leaves gaps in offsets inside and between segments. Retention and tiered storage delete
segments from the front. Neither causes findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.checks.partition.base import PartitionCheck, SegmentFacts
from kfmt_cli.findings import partition as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET


class SegmentOffsets(PartitionCheck):
    """No segment but the last is empty; segments neither overlap nor have gaps between them."""

    codes = (codes.LOG_EMPTY, codes.SEGMENTS_OVERLAP, codes.SEGMENTS_GAP)

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._empty: list[SegmentFacts] = []
        self._before: SegmentFacts | None = None
        # The highest last offset so far, and its segment.
        self._highest: tuple[int, str] | None = None

    def take(self, segment: SegmentFacts) -> None:
        """Add the next segment."""
        self._findings += self._emptied()
        self._findings += self._overlap(segment)
        self._findings += self._gap(segment)
        if not segment.size:
            self._empty.append(segment)
            self._before = None  # the finding about the empty segment covers a gap after it
        last = segment.extent.last
        # An impossible offset for the segment is damage, and proves nothing about others.
        if last is not None and last - segment.base_offset <= MAX_RELATIVE_OFFSET:
            self._before = segment
            if self._highest is None or last > self._highest[0]:
                self._highest = last, segment.name
        elif segment.size:
            self._before = None

    def pass_over(self) -> None:
        """Skip an unreadable segment: the segments on its two sides are not compared."""
        self._findings += self._emptied()
        self._before = None

    def finish(self) -> list[Finding]:
        """The findings, after the last segment, which may be empty."""
        self._empty.clear()
        return self._findings

    def _emptied(self) -> Iterator[Finding]:
        """Findings for the previous segments if they are empty, as they are not the last."""
        for segment in self._empty:
            message = "0 bytes, and not the last segment"
            yield Finding(segment.name, codes.LOG_EMPTY, None, message, offset=segment.base_offset)
        self._empty.clear()

    def _overlap(self, segment: SegmentFacts) -> Iterator[Finding]:
        begins, known = segment.base_offset, segment.extent.first
        begins = begins if known is None else min(begins, known)
        if self._highest is None or begins > self._highest[0]:
            return
        last, other = self._highest
        message = f"starts at offset {begins}, but {other} ends at {last}"
        ends = segment.extent.last
        if known is not None and ends is not None and known <= last:
            message += f": offsets {known}–{min(last, ends)} are counted twice"
        yield Finding(
            segment.name,
            codes.SEGMENTS_OVERLAP,
            None,
            message,
            offset=begins,
            expected=last + 1,
            found=begins,
        )

    def _gap(self, segment: SegmentFacts) -> Iterator[Finding]:
        """The finding for offsets missing between two segments without gaps of their own."""
        before, extent = self._before, segment.extent
        if before is None or self._highest is None:
            return
        begins = segment.base_offset if extent.first is None else extent.first
        after = self._highest[0] + 1
        if begins <= after or before.extent.has_holes or extent.has_holes:
            return
        message = f"offsets {after}–{begins - 1} are in neither this segment nor {before.name}"
        yield Finding(
            segment.name,
            codes.SEGMENTS_GAP,
            None,
            message,
            offset=after,
            expected=after,
            found=begins,
        )
