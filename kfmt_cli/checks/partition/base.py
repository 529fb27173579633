"""Base classes of checks of a partition or a directory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kfmt_cli.checks.log.offset_range import OffsetRange
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.findings.finding import Finding


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """Facts about a segment's log."""

    name: str
    """Its name as displayed."""
    base_offset: int
    size: int
    """Its size in bytes."""
    offset_range: OffsetRange


class PartitionCheck:
    """A rule about a partition, whose segments come in order."""

    def add_segment(self, segment: SegmentFacts) -> None:
        """Add the next segment."""

    def skip_segment(self) -> None:
        """Skip an unreadable segment: the segments on its two sides are not compared."""

    def finish(self) -> Iterable[Finding]:
        """The findings, after the last segment."""
        return ()


class DirectoryCheck:
    """A rule about the names in a directory."""

    def check_names(self, listing: DirectoryListing) -> Iterable[Finding]:
        """Findings about a directory."""
        raise NotImplementedError
