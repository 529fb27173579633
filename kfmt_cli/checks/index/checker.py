"""index-check: the indexes of a segment against its log; the rules are in `rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.checks.index.facts import IndexFacts
from kfmt_cli.checks.index.order import order_findings, padding_finding
from kfmt_cli.checks.index.rules import IndexRules
from kfmt_cli.checks.log.open_checked import open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.native.table import Table
from kfmt_cli.disk.kinds import INDEXES
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, read_rows
from kfmt_cli.disk.kinds.kind import Contents, Input, Kind
from kfmt_cli.disk.segment import Segment, sibling_name
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.consequences import beside_missing_index
from kfmt_cli.findings.finding import MOST_FINDINGS, Code, Finding, Findings
from kfmt_cli.rows.result import Result, ResultType

INDEX_RESULT = ResultType(
    ("bytes", "entries"),
    {"entries": 9, "bytes": 12},
    ("index", "indexes"),
    ("index of an empty segment", "indexes of empty segments"),
    "--wide",
)
# What has a line without being an index, as the summary calls it.
MISSING, DAMAGED_LOG = "missing", "damaged_logs"


@dataclass(frozen=True, slots=True)
class IndexChecker:
    """How to check. interval: `index.interval.bytes`, for the notes on sparse stretches.
    most_findings: of one kind in one file that are held; all are counted. trusts: the
    checksums of all logs have been found to be right."""

    limit: Limit
    interval: int = INDEX_INTERVAL_BYTES
    most_findings: int = MOST_FINDINGS
    trusts: bool = False

    def check(self, segment: Segment, advance: Callable[[int], None]) -> Iterator[Result]:
        """What came of each index, and of the log where it is damaged; raises InputError.

        advance: is told how many bytes of the log more were read.
        """
        rows = {kind: read_rows(file) for kind, file in segment.indexes.items()}
        if segment.log is None:
            for kind, file in segment.indexes.items():
                if kind in segment.wanted:
                    yield self._result(file, rows[kind], _alone(segment, file, rows[kind]))
            return
        log = self._new(segment.log.name, segment.log.kind.name, aside=DAMAGED_LOG)
        facts = self._walk(segment.log, rows, advance, log)
        damaged = len(log.findings) > 0
        if damaged:
            yield log
        for kind in (it for it in INDEXES if it in segment.wanted):
            if kind in rows:
                file = segment.indexes[kind]
                check = IndexRules(segment, file, rows[kind], facts, damaged)
                findings = check.findings(self.interval, log.numbers["bytes"] or 0)
                yield self._result(file, rows[kind], findings)
            elif code := _missing(segment, kind, facts, damaged):
                yield self._absent(segment.log, kind, code, facts)

    def healthy(self, segment: Segment, known: list[tuple[Kind, int, int]]) -> Iterator[Result]:
        """What came of the indexes of a segment in which nothing is odd."""
        for kind, size, entries in known:
            if kind in segment.wanted:
                name = segment.indexes[kind].name
                yield self._new(name, kind.name, bytes=size, entries=entries)

    def _new(self, name: str, kind: str, aside: str = "", **numbers: int | None) -> Result:
        findings = Findings(self.most_findings)
        return Result(INDEX_RESULT, name, kind, dict(numbers), findings=findings, aside=aside)

    def _walk(
        self,
        log: Input,
        rows: dict[Kind, Contents],
        advance: Callable[[int], None],
        result: Result,
    ) -> IndexFacts:
        """What the log says of the entries; its own findings go into the result."""

        def table(kind: Kind) -> Table | None:
            return rows[kind].table if kind in rows else None

        offsets, times = table(OFFSET_INDEX), table(TIME_INDEX)
        with_offset = [it for it in (offsets, times) if it is not None]
        facts = IndexFacts(offsets, with_offset, table(TRANSACTION_INDEX), self.limit)
        with open_checked(log, read_ahead=True) as opened:
            for block in opened.blocks:
                advance(len(block.data))
                result.take(block.findings)
                facts.take(block)
            size = opened.reader.bytes_read
        result.numbers["bytes"] = size
        facts.finish(size)
        return facts

    def _result(self, file: Input, rows: Contents, found: Iterable[Finding]) -> Result:
        """What came of an index, with its findings in the order of the file."""
        n = len(rows.table)
        result = self._new(file.name, file.kind.name, bytes=rows.size, entries=n)
        result.take(found)
        result.findings.held.sort(key=lambda finding: finding.position or 0)
        return result

    def _absent(self, log: Input, kind: Kind, code: Code, facts: IndexFacts) -> Result:
        """What is said of an index that is not there, under the name that it would have."""
        name = sibling_name(log.name, kind)
        words, offset = f"{log.name} is there, {kind.suffix} is not", None
        if kind is TRANSACTION_INDEX:
            producer, offset, last = facts.aborted[0]
            words = (
                f"aborted transactions in {log.name}: {len(facts.aborted)}; the first is of "
                f"producer {producer} at offsets {offset}–{last}"
            )
        result = self._new(name, kind.name, aside=MISSING, bytes=None)
        result.take([Finding(name, code, None, words, offset=offset)])
        return result


def _missing(segment: Segment, kind: Kind, facts: IndexFacts, damaged: bool) -> Code | None:
    """The finding for an index that is not there, None where none has to be."""
    assert segment.log is not None
    if kind is TRANSACTION_INDEX:
        return codes.TRANSACTION_INDEX_MISSING if facts.aborted and not damaged else None
    if segment.log.base_offset is None or not facts.end:
        return None
    if kind is OFFSET_INDEX:
        return codes.INDEX_MISSING
    if kind is not TIME_INDEX:
        return None
    if not facts.has_v2:
        return codes.TIME_INDEX_NOT_YET
    if OFFSET_INDEX not in segment.indexes:
        return beside_missing_index(codes.TIME_INDEX_MISSING)
    return codes.TIME_INDEX_MISSING


def _alone(segment: Segment, file: Input, rows: Contents) -> Iterator[Finding]:
    """What an index shows without its log."""
    yield from rows.findings
    yield from order_findings(file, rows.table)
    if not segment.log_may_be_elsewhere:
        yield Finding(file.name, codes.INDEX_WITHOUT_LOG, None, "no log next to it")
    if rows.padding:
        yield padding_finding(segment, file, rows)
