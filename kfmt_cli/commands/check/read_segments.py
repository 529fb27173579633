"""check: reads each segment once; small ones together, large amounts in several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from kfmt_cli.checks.log.verifier import all_of
from kfmt_cli.checks.whole_segment import CheckedSegment, SegmentChecker
from kfmt_cli.commands.verify_apart import MOST_HANDED
from kfmt_cli.core.parallel import together
from kfmt_cli.disk.kinds.logs import LOG, LOGS
from kfmt_cli.disk.segment import Segment
from kfmt_cli.disk.tree import Folder, inputs_in, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.sharing.processes import at_once, map_processes, worth

# If fewer logs than processes are this large, the main process reads them, each on all cores.
LARGE = 64 << 20

Outcome = CheckedSegment | InputError | None
Sized = tuple[Segment, int]


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


class SegmentsRead:
    """Reads segments in order. total: bytes of their logs."""

    def __init__(self, groups: list[SegmentGroup], checker: SegmentChecker, jobs: int) -> None:
        segments = [segment for group in groups for segment in group.segments]
        sizes = [0 if segment.log is None else size_of(segment.log) for segment in segments]
        self.total = sum(sizes)
        self._checker = checker
        self._jobs = worth(jobs, self.total)
        sized = zip(segments, sizes, strict=True)
        self._units = list(together(sized, _size_in_pack))
        self._keeps_large = sum(size >= LARGE for size in sizes) < self._jobs

    def outcomes(self) -> Iterator[Outcome]:
        """The result of each segment or the error that prevents reading it; None for one that
        the caller must read itself, so that findings appear as they are made."""
        units, jobs = self._units, self._jobs
        apart = jobs > 1 and len(units) > 1
        checker = self._checker
        if apart:
            checker = replace(checker, logs=replace(checker.logs, workers=0))
        most = 0
        if apart:
            most = LARGE if self._keeps_large else self.total + 1
        work = partial(check_unit, checker=checker, most=most)
        for done in map_processes(work, units, jobs, at_once(len(units), jobs)):
            yield from done


def _size_in_pack(sized: Sized) -> int | None:
    """Size of a segment that can be checked together with others; otherwise None."""
    segment, size = sized
    return size if segment.log is not None and segment.log.kind is LOG else None


def check_unit(unit: list[Sized], checker: SegmentChecker, most: int) -> list[Outcome]:
    """Check some segments; None for one with too many findings or, if alone, no log or a log of
    `most` bytes or more."""
    if len(unit) == 1:
        segment, size = unit[0]
        is_left = segment.log is None or size >= most
        return [None if is_left else _alone(segment, checker)]
    segments = [segment for segment, _ in unit]
    known = zip(segments, checker.small(segments), strict=True)
    return [_alone(segment, checker) if done is None else done for segment, done in known]


def _alone(segment: Segment, checker: SegmentChecker) -> Outcome:
    try:
        done = all_of(checker.check(segment), MOST_HANDED)
    except InputError as error:
        return error
    if done is None:
        return None
    found, checked = done
    checked.log_findings += found
    return checked
