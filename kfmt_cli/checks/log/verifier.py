"""A log checked: its blocks in reading order, each by all checks, on as many threads as there are.

What is found in a stretch of a log is a `Stretch`; stretches that follow on each other are joined,
whichever thread, process or machine looked at them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.log.extent import Extent
from kfmt_cli.checks.registry import log_checks
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.findings.finding import Finding, in_order
from kfmt_cli.log.block import Block, is_legacy, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompress import decompress_ahead, is_heavy
from kfmt_cli.log.open_log import OpenLog, open_log
from kfmt_cli.log.records import Records


def with_headers_checked(blocks: Iterable[Block], checks: list[LogCheck]) -> Iterator[Block]:
    """Blocks in reading order, each with what the checks of headers find added to its findings."""
    for block in blocks:
        found = [finding for check in checks for finding in check.take(block, None)]
        yield replace(block, findings=in_order([*block.findings, *found])) if found else block


@contextmanager
def open_checked(file: Input, read_ahead: bool) -> Iterator[OpenLog]:
    """A log whose blocks come with what is wrong with their headers; raises InputError."""
    with open_log(file, read_ahead) as log:
        checks = log_checks(Scope.HEADERS, log.base_offset)
        yield replace(log, blocks=with_headers_checked(log.blocks, checks))


@dataclass(slots=True)
class Stretch:
    """What was found in a stretch of a log, whose headers have been checked."""

    deep: bool
    """Every record is decoded."""
    limit: Limit
    base_offset: int | None = None
    records: int = 0
    """Records that were decoded, or else those that headers declare."""
    extent: Extent = field(default_factory=Extent)
    checks: list[LogCheck] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """What was found in the block that was taken last, in the order of the file."""

    def __post_init__(self) -> None:
        if self.deep and not self.checks:
            self.checks = log_checks(Scope.RECORDS, self.base_offset)

    def take(self, block: Block) -> None:
        """The next block."""
        found = list(block.findings)
        first: list[Finding] = []
        for run in runs(block):
            if self.deep or is_legacy(run):
                # The checksums of messages inside wrappers take decompression in any case.
                records = read_records(run, self.limit)
                found += records.findings
                for check, finding in self.take_records(run, records):
                    (first if check.looks_back else found).append(finding)
            else:
                self.records += declared(run)
                self.extent.take(run, None)
        # What a batch says of the one before it comes first, as it does where blocks meet.
        self.findings = in_order([*first, *found])

    def take_records(self, run: Block, records: Records) -> list[tuple[LogCheck, Finding]]:
        """The records of the next run of batches; what each check finds."""
        self.records += len(records.rows)
        found = [(check, finding) for check in self.checks for finding in check.take(run, records)]
        self.extent.take(run, records)
        return found

    def join(self, later: Stretch) -> list[Finding]:
        """Add the stretch that follows on this one; its findings, with those where they meet."""
        pairs = zip(self.checks, later.checks, strict=True)
        at_seam = [finding for check, other in pairs for finding in check.join(other)]
        self.records += later.records
        self.extent.join(later.extent)
        return in_order([*at_seam, *later.findings])


def declared(run: Block) -> int:
    """The records that headers declare, where that can be true."""
    counts = run.batches.records_count
    room = run.batches.last_offset_delta + 1
    return int(counts[(counts >= 0) & (counts <= room)].sum())


G = TypeVar("G")


def all_of(found: Generator[Finding, None, G], most: int) -> tuple[list[Finding], G] | None:
    """What a check finds, and what it gives at its end; None where it finds more than `most`."""
    held: list[Finding] = []
    try:
        while len(held) <= most:
            held.append(next(found))
    except StopIteration as end:
        return held, end.value
    return None


@dataclass(frozen=True, slots=True)
class Verified:
    """A log that was checked: bytes, batches and records that were read, and its offsets."""

    bytes: int
    batches: int
    records: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class Verifier:
    """How to check logs."""

    deep: bool
    """Decompress and decode every record."""
    limit: Limit
    workers: int
    """Threads for a file."""

    def findings(
        self,
        file: Input,
        advance: Callable[[int], None] = lambda _: None,
        watch: Callable[[Block], None] | None = None,
    ) -> Generator[Finding, None, Verified]:
        """What is found in one file, in its order; raises InputError.

        advance: is told how many bytes more were read. watch: is given each block, in order, with
        what is wrong with its headers.
        """
        with open_checked(file, read_ahead=not self.deep) as log:
            total = Stretch(self.deep, self.limit, log.base_offset)

            def look(block: Block) -> Stretch:
                stretch = Stretch(self.deep, self.limit, log.base_offset)
                stretch.take(block)
                return stretch

            workers = self.workers if self.deep and log.is_large else 0
            blocks = self._ahead(log.blocks, advance, watch)
            for stretch in map_ordered(look, blocks, workers, is_heavy):
                yield from total.join(stretch)
            reader = log.reader
            return Verified(reader.bytes_read, reader.n_batches, total.records, total.extent)

    def _ahead(
        self,
        blocks: Iterable[Block],
        advance: Callable[[int], None],
        watch: Callable[[Block], None] | None,
    ) -> Iterator[Block]:
        for block in blocks:
            advance(len(block.data))
            if watch is not None:
                watch(block)
            if self.deep:
                yield from decompress_ahead(block, self.limit)
            else:
                yield block
