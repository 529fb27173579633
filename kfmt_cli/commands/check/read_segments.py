"""check: the segments to read, and how processes check them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kfmt_cli.checks.log.verifier import Checked, all_of
from kfmt_cli.checks.whole_segment import CheckedSegment, SegmentChecker
from kfmt_cli.disk.kinds.logs import LOG, LOGS
from kfmt_cli.disk.segment import Segment
from kfmt_cli.disk.tree import Folder, inputs_in, size_of
from kfmt_cli.log.pack import is_packable
from kfmt_cli.sharing.engine import Work


@dataclass(slots=True)
class SegmentGroup:
    """Segments that belong together."""

    folder: Folder | None
    """Their directory; None for a single file."""
    segments: list[Segment] = field(default_factory=list)


def segments_in(folder: Folder) -> list[Segment]:
    """The segments that a broker uses and other kinds of log in a directory, sorted by name."""
    found = list(folder.used_segments)
    others = (file for file in inputs_in([folder], LOGS) if file.kind is not LOG)
    found += (Segment(other, wanted=frozenset()) for other in others)
    return sorted(found, key=_name)


def _name(segment: Segment) -> str:
    return segment.any_file.path.rpartition(os.sep)[2]


def sized(groups: list[SegmentGroup]) -> list[tuple[Segment, int]]:
    """Each segment, in order, with the size of its log."""
    segments = (segment for group in groups for segment in group.segments)
    return [(each, 0 if each.log is None else size_of(each.log)) for each in segments]


@dataclass(frozen=True, slots=True)
class SegmentWork(Work[Segment, Checked[CheckedSegment], None]):
    """Checks segments, each read once."""

    is_threaded = True
    checker: SegmentChecker

    def is_packed(self, item: Segment) -> bool:
        return item.log is not None and is_packable(item.log)

    def together(self, items: Sequence[Segment]) -> list[Checked[CheckedSegment] | None]:
        found = self.checker.small(items)
        return [None if checked is None else (checked, []) for checked in found]

    def alone(self, item: Segment) -> Checked[CheckedSegment] | None:
        if item.log is None:
            return None
        checker = replace(self.checker, logs=replace(self.checker.logs, workers=0))
        return all_of(checker.check(item))
