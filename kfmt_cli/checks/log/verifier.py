"""Check a log: its blocks in reading order, each with all checks, on several threads.

A `Stretch` has the results for a stretch of a log. Consecutive stretches are joined, whichever
thread, process or machine checked them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.log.extent import Extent
from kfmt_cli.checks.registry import log_checks
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, in_order
from kfmt_cli.log.block import Block, is_legacy, runs
from kfmt_cli.log.decoding import read_for_checks
from kfmt_cli.log.decompress import decompress_ahead, is_heavy
from kfmt_cli.log.open_log import Around, OpenLog, as_it_is, open_log
from kfmt_cli.log.records import Records

# A process returns at most this many findings; the main process reads a file with more.
MOST_HANDED = 10_000


def with_headers_checked(blocks: Iterable[Block], checks: list[LogCheck]) -> Iterator[Block]:
    """Blocks in reading order, each with the findings of the header checks added."""
    for block in blocks:
        found = [finding for check in checks for finding in check.take(block, None)]
        yield replace(block, findings=in_order([*block.findings, *found])) if found else block


@contextmanager
def open_checked(file: Input, read_ahead: bool, around: Around = as_it_is) -> Iterator[OpenLog]:
    """Open a log whose blocks include findings about their headers, see `open_log`; raises
    InputError."""
    with open_log(file, read_ahead, around) as log:
        checks = log_checks(Scope.HEADERS, log.base_offset)
        yield replace(log, blocks=with_headers_checked(log.blocks, checks))


@dataclass(slots=True)
class Stretch:
    """The results for a stretch of a log whose headers have been checked."""

    deep: bool
    """Whether every record is decoded."""
    limit: Limit
    base_offset: int | None = None
    records: int = 0
    """The number of decoded records, or else of records that headers declare."""
    extent: Extent = field(default_factory=Extent)
    checks: list[LogCheck] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """The findings about the last block, in file order."""

    def __post_init__(self) -> None:
        if self.deep and not self.checks:
            self.checks = log_checks(Scope.RECORDS, self.base_offset)

    def take(self, block: Block) -> None:
        """Add the next block."""
        found = list(block.findings)
        first: list[Finding] = []
        for run in runs(block):
            if self.deep or is_legacy(run):
                # Checking messages inside wrappers needs decompression in any case.
                records = read_for_checks(run, self.limit)
                found += records.findings
                for check, finding in self.take_records(run, records):
                    (first if check.looks_back else found).append(finding)
            else:
                self.records += declared(run)
                self.extent.take(run, None)
        # Findings about a batch and the previous one come first, as they do between blocks.
        self.findings = in_order([*first, *found])

    def take_records(self, run: Block, records: Records) -> list[tuple[LogCheck, Finding]]:
        """Add the records of the next run of batches; returns each check's findings."""
        self.records += len(records)
        found = [(check, finding) for check in self.checks for finding in check.take(run, records)]
        self.extent.take(run, records)
        return found

    def join(self, later: Stretch) -> list[Finding]:
        """Add the following stretch; returns its findings and the ones where the two meet."""
        pairs = zip(self.checks, later.checks, strict=True)
        at_seam = [finding for check, other in pairs for finding in check.join(other)]
        self.records += later.records
        self.extent.join(later.extent)
        return in_order([*at_seam, *later.findings])


def declared(run: Block) -> int:
    """The number of records that headers declare, without impossible counts."""
    counts = run.batches.records_count
    room = run.batches.last_offset_delta + 1
    return int(counts[(counts >= 0) & (counts <= room)].sum())


G = TypeVar("G")


Checked: TypeAlias = tuple[G | InputError, list[Finding]]
"""What a check returns, or why it ended early, and its findings up to there."""


class Returning(Generic[G]):
    """Iterates over the findings of a check and keeps what it returns."""

    value: G | InputError
    """Set after the last finding; an error if the input cannot be read to its end."""

    def __init__(self, found: Generator[Finding, None, G]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[Finding]:
        try:
            self.value = yield from self._found
        except InputError as error:
            self.value = error


def all_of(found: Generator[Finding, None, G]) -> Checked[G] | None:
    """The result of a check; None if it makes more findings than `MOST_HANDED`."""
    check = Returning(found)
    held = list(islice(check, MOST_HANDED + 1))
    return (check.value, held) if len(held) <= MOST_HANDED else None


@dataclass(frozen=True, slots=True)
class Verified:
    """The result for a log: bytes, batches and records read, and its offsets."""

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
    """Threads per file."""

    def findings(
        self,
        file: Input,
        advance: Callable[[int], None] = lambda _: None,
        watch: Callable[[Block], None] | None = None,
    ) -> Generator[Finding, None, Verified]:
        """The findings about one file, in file order; raises InputError.

        advance: called with the number of bytes of each block. watch: called with each block, in
        order, including the findings about its headers.
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
