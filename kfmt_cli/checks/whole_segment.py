"""A segment in one reading: its log's batches and records, its indexes, and what the log tells of
producers and leaders."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from kfmt_cli.checks.history.facts import History, histories
from kfmt_cli.checks.index.checker import IndexChecker, IndexReading
from kfmt_cli.checks.index.packs import sizes_of_indexes
from kfmt_cli.checks.log.packs import read_pack, verified
from kfmt_cli.checks.log.verifier import Verified, Verifier
from kfmt_cli.disk.segment import Segment
from kfmt_cli.disk.tree import is_segment
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block


@dataclass(slots=True)
class CheckedSegment:
    """What came of a segment."""

    verified: Verified
    log_findings: list[Finding] = field(default_factory=list)
    """Findings about the log that were not handed out while it was read."""
    index_findings: list[Finding] = field(default_factory=list)
    """Findings about its indexes."""
    unread: InputError | None = None
    """Why an index could not be read."""
    history: History | None = None
    """None of a log that is not named as a segment's."""


@dataclass(frozen=True, slots=True)
class SegmentChecker:
    """How to check segments."""

    logs: Verifier
    indexes: IndexChecker

    def check(
        self, segment: Segment, advance: Callable[[int], None] = lambda _: None
    ) -> Generator[Finding, None, CheckedSegment]:
        """Check a segment that has a log; what is found in the log, as it is found.

        advance: is told how many bytes more were read. Raises InputError for what is no log.
        """
        log = segment.log
        assert log is not None
        index, unread = self._begin(segment)
        history = History(log.name, log.base_offset or 0) if is_segment(log) else None

        def watch(block: Block) -> None:
            # Both name control batches and open wrappers, in a table that others read.
            table = block.batches.copy()
            own = Block(block.name, block.data, block.position, table, block.findings)
            if index is not None:
                index.take(own)
            if history is not None:
                history.take(own)

        found = yield from self.logs.findings(log, advance, watch)
        done = CheckedSegment(found, unread=unread, history=history)
        if index is not None:
            done.index_findings += self._of_indexes(index, found.bytes)
        return done

    def small(self, segments: Sequence[Segment]) -> list[CheckedSegment | None]:
        """Check small segments at once; None for one that has to be checked by itself."""
        pack = read_pack([segment.log for segment in segments if segment.log is not None])
        known = histories(pack)
        healthy = sizes_of_indexes(segments, pack, self.indexes.interval)
        done: list[CheckedSegment | None] = []
        for i, of_log in enumerate(verified(pack, self.logs.deep, self.logs.limit)):
            if of_log is None:
                done.append(None)
                continue
            checked = CheckedSegment(of_log, history=known[i])
            if healthy[i] is None:
                self._odd_indexes(segments[i], pack.block(i), checked)
            done.append(checked)
        return done

    def _odd_indexes(self, segment: Segment, block: Block, checked: CheckedSegment) -> None:
        """Check indexes one by one whose log has nothing wrong, and is one block."""
        index, checked.unread = self._begin(segment)
        if index is not None:
            index.take(block)
            checked.index_findings += self._of_indexes(index, checked.verified.bytes)

    def _begin(self, segment: Segment) -> tuple[IndexReading | None, InputError | None]:
        """What reads on for the indexes that are wanted; or why one of them cannot be read."""
        try:
            return (self.indexes.begin(segment) if segment.wanted else None), None
        except InputError as error:
            return None, error

    def _of_indexes(self, index: IndexReading, size: int) -> Iterator[Finding]:
        for result in self.indexes.results(index, size):
            yield from result.findings
