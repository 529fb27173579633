"""index-check: the indexes of a segment against its log; the rules are in `index_rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kfmt_cli.checks.index_facts import Facts
from kfmt_cli.checks.index_order import order_findings, padding_finding
from kfmt_cli.checks.index_rules import IndexRules
from kfmt_cli.core.compression import Limit
from kfmt_cli.core.finding import MOST_FINDINGS, Code, Finding, Findings, Tally
from kfmt_cli.core.table import Table
from kfmt_cli.files import index_codes as codes
from kfmt_cli.files.consequences import beside_missing_index
from kfmt_cli.files.discover import FileKind, Input
from kfmt_cli.files.fixed import Rows, read_rows
from kfmt_cli.files.open_log import open_log
from kfmt_cli.files.segment import SUFFIX_OF, Segment, sibling_name


@dataclass(slots=True)
class IndexResult(Tally):
    """What was found in a file. bytes: None for an index that is not there."""

    file: str
    kind: str
    bytes: int | None = 0
    entries: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0


@dataclass(frozen=True, slots=True)
class IndexChecker:
    """How to check. interval: `index.interval.bytes`, for the notes on sparse stretches.
    most_findings: of one kind in one file that are held; all are counted."""

    limit: Limit
    interval: int = 4096
    most_findings: int = MOST_FINDINGS

    def check(
        self, segment: Segment, advance: Callable[[int], None]
    ) -> Iterator[tuple[IndexResult, Findings]]:
        """Each index of the segment, and the log where it is damaged; raises InputError.

        advance: is told how many bytes of the log more were read.
        """
        rows = {kind: read_rows(file) for kind, file in segment.indexes.items()}
        if segment.log is None:
            for kind, file in segment.indexes.items():
                if kind in segment.wanted:
                    yield self._result(file, rows[kind], _alone(segment, file, rows[kind]))
            return
        result = IndexResult(segment.log.name, "log")
        damage = Findings(self.most_findings)
        facts = self._walk(segment.log, rows, advance, result, damage)
        if damage:
            yield result, damage
        for kind in (k for k in SUFFIX_OF if k in segment.wanted):
            if kind in rows:
                file = segment.indexes[kind]
                check = IndexRules(segment, file, rows[kind], facts, bool(damage))
                findings = check.findings(self.interval, result.bytes or 0)
                yield self._result(file, rows[kind], findings)
            elif code := _missing(segment, kind, facts, bool(damage)):
                yield self._absent(segment.log, kind, code, facts)

    def _walk(
        self,
        log: Input,
        rows: dict[FileKind, Rows],
        advance: Callable[[int], None],
        result: IndexResult,
        damage: Findings,
    ) -> Facts:
        """What the log says of the entries; its own findings go into `result` and `damage`."""

        def table(kind: FileKind) -> Table | None:
            return rows[kind].table if kind in rows else None

        offsets, times = table(FileKind.OFFSET_INDEX), table(FileKind.TIME_INDEX)
        with_offset = [it for it in (offsets, times) if it is not None]
        facts = Facts(offsets, with_offset, table(FileKind.TRANSACTION_INDEX), self.limit)
        with open_log(log, read_ahead=True) as opened:
            for block in opened.blocks:
                advance(len(block.data))
                result.count(block.findings)
                damage.take(block.findings)
                facts.take(block)
            result.bytes = opened.reader.bytes_read
        facts.finish(result.bytes)
        return facts

    def _result(
        self, file: Input, rows: Rows, found: Iterable[Finding]
    ) -> tuple[IndexResult, Findings]:
        """The line of an index, with its findings in the order of the file."""
        result = IndexResult(file.name, file.kind.value, rows.size, len(rows.table))
        findings = Findings(self.most_findings)
        for finding in found:
            result.count([finding])
            findings.take([finding])
        findings.held.sort(key=lambda finding: finding.position or 0)
        return result, findings

    def _absent(
        self, log: Input, kind: FileKind, code: Code, facts: Facts
    ) -> tuple[IndexResult, Findings]:
        """The line of an index that is not there, under the name that it would have."""
        name = sibling_name(log.name, kind)
        words, offset = f"{log.name} is there, {SUFFIX_OF[kind]} is not", None
        if kind is FileKind.TRANSACTION_INDEX:
            producer, offset, last = facts.aborted[0]
            words = (
                f"aborted transactions in {log.name}: {len(facts.aborted)}; the first is of "
                f"producer {producer} at offsets {offset}–{last}"
            )
        result = IndexResult(name, kind.value, None)
        finding = Finding(name, code, None, words, offset)
        result.count([finding])
        findings = Findings(self.most_findings)
        findings.take([finding])
        return result, findings


def _missing(segment: Segment, kind: FileKind, facts: Facts, damaged: bool) -> Code | None:
    """The finding for an index that is not there, None where none has to be."""
    assert segment.log is not None
    if kind is FileKind.TRANSACTION_INDEX:
        return codes.TRANSACTION_INDEX_MISSING if facts.aborted and not damaged else None
    if segment.log.base_offset is None or not facts.end:
        return None
    if kind is FileKind.OFFSET_INDEX:
        return codes.INDEX_MISSING
    if kind is not FileKind.TIME_INDEX:
        return None
    if not facts.has_v2:
        return codes.TIME_INDEX_NOT_YET
    if FileKind.OFFSET_INDEX not in segment.indexes:
        return beside_missing_index(codes.TIME_INDEX_MISSING)
    return codes.TIME_INDEX_MISSING


def _alone(segment: Segment, file: Input, rows: Rows) -> Iterator[Finding]:
    """What an index shows without its log."""
    yield from rows.findings
    yield from order_findings(file, rows.table)
    if not segment.log_may_be_elsewhere:
        yield Finding(file.name, codes.INDEX_WITHOUT_LOG, None, "no log beside it")
    if rows.padding:
        yield padding_finding(segment, file, rows)
