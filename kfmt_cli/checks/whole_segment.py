"""Check a segment in one pass: its log's batches and records, its indexes, and the log's history of
producers and leaders."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from kfmt_cli.checks.history.facts import History, histories
from kfmt_cli.checks.index.checker import IndexChecker, IndexReading
from kfmt_cli.checks.index.packs import sizes_of_indexes
from kfmt_cli.checks.log.packs import checked_pack, verified
from kfmt_cli.checks.log.verifier import Verified, Verifier
from kfmt_cli.disk.segment import Segment
from kfmt_cli.disk.tree import is_segment
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, Findings
from kfmt_cli.log.block import Block
from kfmt_cli.log.summary.log_numbers import LogNumbers, ShapeOf, numbers_in


@dataclass(slots=True)
class CheckedSegment:
    """The result for one segment."""

    verified: Verified
    index_findings: list[Findings] = field(default_factory=list)
    """Findings about each of its indexes."""
    unread: InputError | None = None
    """Why an index could not be read."""
    history: History | None = None
    """None if the log is not named like a segment."""
    numbers: LogNumbers | None = None
    """None if they are not wanted, or the log has findings, which other readers may judge in
    another way."""


@dataclass(frozen=True, slots=True)
class SegmentChecker:
    """How to check segments."""

    logs: Verifier
    indexes: IndexChecker
    prints: bool = False
    """Whether histories have fingerprints."""
    shape_of: ShapeOf | None = None
    """For the numbers of healthy logs; None if they are not wanted."""

    def check(
        self, segment: Segment, advance: Callable[[int], None] = lambda _: None
    ) -> Generator[Finding, None, CheckedSegment]:
        """Check a segment that has a log; yields findings about the log as they are made.

        advance: called with the number of bytes of each block. Raises InputError if the file is not
        a log.
        """
        log = segment.own_log
        index, unread = self._begin(segment)
        history = History(log.name, log.base) if is_segment(log) else None
        if history is not None and self.prints:
            history.fingerprint = 0

        numbers = None if self.shape_of is None else LogNumbers(self.shape_of(log))
        is_healthy = True

        def watch(block: Block) -> None:
            nonlocal is_healthy
            is_healthy &= not block.findings
            if numbers is not None and is_healthy:
                numbers.take(block)
            # Both name control batches and open wrappers, in a table that others also read.
            table = block.batches.copy()
            own = Block(block.name, block.data, block.position, table, block.findings)
            if index is not None:
                index.take(own)
            if history is not None:
                history.take(own)

        found = yield from self.logs.findings(log, advance, watch)
        done = CheckedSegment(found, unread=unread, history=history)
        if numbers is not None and is_healthy:
            numbers.statistics.finish(found.bytes)
            done.numbers = numbers
        if index is not None:
            done.index_findings += self._of_indexes(index, found.bytes)
        return done

    def small(self, segments: Sequence[Segment]) -> list[CheckedSegment | None]:
        """Check small segments together; None for one that must be checked by itself."""
        pack = checked_pack([segment.log for segment in segments if segment.log is not None])
        known = histories(pack, prints=self.prints)
        healthy = sizes_of_indexes(segments, pack, self.indexes.interval)
        numbers = None if self.shape_of is None else numbers_in(pack, self.shape_of)
        done: list[CheckedSegment | None] = []
        for i, of_log in enumerate(verified(pack, self.logs.deep, self.logs.limit)):
            if of_log is None:
                done.append(None)
                continue
            checked = CheckedSegment(of_log, history=known[i])
            if numbers is not None:
                checked.numbers = numbers[i]
            if healthy[i] is None:
                self._odd_indexes(segments[i], pack.block(i), checked)
            done.append(checked)
        return done

    def _odd_indexes(self, segment: Segment, block: Block, checked: CheckedSegment) -> None:
        """Check the indexes of a log that is healthy and one block."""
        index, checked.unread = self._begin(segment)
        if index is not None:
            index.take(block)
            checked.index_findings += self._of_indexes(index, checked.verified.bytes)

    def _begin(self, segment: Segment) -> tuple[IndexReading | None, InputError | None]:
        """Start checking the wanted indexes, or return why one of them cannot be read."""
        try:
            return (self.indexes.begin(segment) if segment.wanted else None), None
        except InputError as error:
            return None, error

    def _of_indexes(self, index: IndexReading, size: int) -> Iterator[Findings]:
        return (result.findings for result in self.indexes.results(index, size))
