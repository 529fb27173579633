"""What a check of a partition or of a directory is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kfmt_cli.checks.base import Check, Scope
from kfmt_cli.checks.log.extent import Extent
from kfmt_cli.disk.tree import Folder
from kfmt_cli.findings.finding import Finding


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A segment's log."""

    name: str
    """Its name as it is shown."""
    base_offset: int
    size: int
    """Its size in bytes."""
    batches: int
    extent: Extent
    """The offsets that it holds."""


class PartitionCheck(Check):
    """A rule about a partition, whose segments come in their order."""

    scope = Scope.PARTITION

    def take(self, segment: SegmentFacts) -> None:
        """The next segment."""

    def pass_over(self) -> None:
        """The next segment could not be read: nothing is known of what lies on its two sides."""

    def finish(self) -> Iterable[Finding]:
        """What was found, after the last segment."""
        return ()


class DirectoryCheck(Check):
    """A rule about the names in a directory; nothing is opened."""

    scope = Scope.DIRECTORY

    def look(self, folder: Folder) -> Iterable[Finding]:
        """What is wrong with a directory."""
        raise NotImplementedError
