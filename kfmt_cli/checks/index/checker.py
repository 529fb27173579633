"""index-check: compare the indexes of a segment with its log; the rules are in `rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.checks.index.facts import IndexFacts
from kfmt_cli.checks.index.order import own_findings
from kfmt_cli.checks.index.rules import IndexRules
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import INDEXES
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Contents, Input, Kind
from kfmt_cli.disk.segment import Segment, sibling_path
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.consequences import beside_damage, beside_missing_index
from kfmt_cli.findings.finding import MOST_FINDINGS, Code, Finding, Findings
from kfmt_cli.log.block import Block
from kfmt_cli.rows.result import Result, ResultType

INDEX_RESULT = ResultType(
    ("bytes", "entries"),
    {"entries": 9, "bytes": 12},
    ("index", "indexes"),
    "--wide",
)
# Names in the summary for lines that are not an index.
MISSING, DAMAGED_LOG = "missing", "damaged_logs"


@dataclass(slots=True)
class IndexReading:
    """A log read block by block for its indexes."""

    segment: Segment
    rows: dict[Kind, Contents]
    facts: IndexFacts
    damaged: bool = False
    """Whether the log is damaged."""

    def take(self, block: Block) -> None:
        """Add the next block of the log, with the findings about its headers."""
        self.damaged |= bool(block.findings)
        self.facts.take(block)


@dataclass(frozen=True, slots=True)
class IndexChecker:
    """How to check indexes."""

    limit: Limit
    interval: int = INDEX_INTERVAL_BYTES
    """`index.interval.bytes`, for the notes on sparse stretches."""
    most_findings: int = MOST_FINDINGS
    """Findings kept per code and file; all are counted."""

    def check(self, segment: Segment, advance: Callable[[int], None]) -> Iterator[Result]:
        """The result for each index, and for the log if it is damaged; raises InputError.

        advance: called with the number of bytes of each block of the log.
        """
        reading = self.begin(segment)
        if segment.log is None:
            for kind, file in segment.indexes.items():
                rows = reading.rows[kind]
                if kind in segment.wanted:
                    yield self._result(file, rows, own_findings(segment, file, rows))
            return
        log = self._new(segment.log.name, segment.log.kind.name, aside=DAMAGED_LOG)
        with open_checked(segment.log, read_ahead=True) as opened:
            for block in opened.blocks:
                advance(len(block.data))
                log.take(block.findings)
                reading.take(block)
            size = opened.reader.bytes_read
        log.numbers["bytes"] = size
        if reading.damaged:
            yield log
        yield from self.results(reading, size)

    def begin(self, segment: Segment) -> IndexReading:
        """Read the indexes of a segment, before its log; raises InputError."""
        rows = {kind: file.contents() for kind, file in segment.indexes.items()}
        tables = {kind: contents.table for kind, contents in rows.items()}
        base = None if segment.log is None else segment.log.base_offset
        return IndexReading(segment, rows, IndexFacts(tables, self.limit, base))

    def results(self, reading: IndexReading, log_size: int) -> Iterator[Result]:
        """The result for each index, after the last block of the log."""
        segment, rows, facts = reading.segment, reading.rows, reading.facts
        facts.finish(log_size)
        for kind in (index for index in INDEXES if index in segment.wanted):
            if kind in rows:
                file = segment.indexes[kind]
                check = IndexRules(segment, file, rows[kind], facts, reading.damaged)
                yield self._result(file, rows[kind], check.findings(self.interval, log_size))
            elif code := _missing(segment, kind, facts, reading.damaged):
                yield self._absent(segment.own_log, kind, code, facts)

    def healthy(self, segment: Segment, known: list[tuple[Kind, int, int]]) -> Iterator[Result]:
        """The results for the indexes of a healthy segment."""
        for kind, size, entries in known:
            if kind in segment.wanted:
                name = segment.indexes[kind].name
                yield self._new(name, kind.name, bytes=size, entries=entries)

    def _new(self, name: str, kind: str, aside: str = "", **numbers: int | None) -> Result:
        findings = Findings(self.most_findings)
        return Result(INDEX_RESULT, name, kind, dict(numbers), findings=findings, aside=aside)

    def _result(self, file: Input, rows: Contents, found: Iterable[Finding]) -> Result:
        """The result for an index, with its findings in file order."""
        n = len(rows.table)
        result = self._new(file.name, file.kind.name, bytes=rows.size, entries=n)
        result.take(found)
        result.findings.held.sort(key=lambda finding: finding.position or 0)
        return result

    def _absent(self, log: Input, kind: Kind, code: Code, facts: IndexFacts) -> Result:
        """The result for a missing index, under the name that it would have."""
        name = name_text(sibling_path(log.path, kind))
        words, offset = "missing", None
        if kind is TRANSACTION_INDEX:
            producer, offset, last = facts.aborted[0]
            n = len(facts.aborted)
            words = (
                f"{n} aborted {'transaction' if n == 1 else 'transactions'} in the log; the first "
                f"is from producer {producer}, offsets {offset}–{last}"
            )
        result = self._new(name, kind.name, aside=MISSING, bytes=None)
        result.take([Finding(name, code, None, words, offset=offset)])
        return result


def _missing(segment: Segment, kind: Kind, facts: IndexFacts, damaged: bool) -> Code | None:
    """The code for a missing index; None if none is needed."""
    if kind is TRANSACTION_INDEX:
        return codes.TRANSACTION_INDEX_MISSING if facts.aborted and not damaged else None
    if segment.own_log.base_offset is None or not facts.end:
        return None
    if kind is TIME_INDEX and not facts.has_v2:
        return codes.TIME_INDEX_NOT_YET
    found = codes.INDEX_MISSING if kind is OFFSET_INDEX else codes.TIME_INDEX_MISSING
    if kind is TIME_INDEX and OFFSET_INDEX not in segment.indexes:
        found = beside_missing_index(found)
    return beside_damage(found) if damaged else found
