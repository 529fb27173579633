"""index-check: the indexes of a segment against its log; the rules are in `index_rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kfmt_cli.checks.index_facts import Facts
from kfmt_cli.checks.index_rules import (
    IndexRules,
    missing_aborts,
    order_findings,
    padding_finding,
)
from kfmt_cli.core.compression import Limit
from kfmt_cli.core.finding import Finding, Tally
from kfmt_cli.core.table import Table
from kfmt_cli.files import index_codes as codes
from kfmt_cli.files.discover import FileKind, Input
from kfmt_cli.files.fixed import Rows, read_rows
from kfmt_cli.files.open_log import open_log
from kfmt_cli.files.segment import SUFFIX_OF, Segment

MISSING = {
    FileKind.OFFSET_INDEX: codes.INDEX_MISSING,
    FileKind.TIME_INDEX: codes.TIME_INDEX_MISSING,
}


@dataclass(slots=True)
class IndexResult(Tally):
    """What was found in a file."""

    file: str
    kind: str
    bytes: int = 0
    entries: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0


@dataclass(frozen=True, slots=True)
class IndexChecker:
    """How to check. interval: `index.interval.bytes`, for the notes on sparse stretches."""

    limit: Limit
    interval: int = 4096

    def check(
        self, segment: Segment, advance: Callable[[int], None]
    ) -> Iterator[tuple[IndexResult, list[Finding]]]:
        """Each index of the segment, and the log where it is damaged; raises InputError.

        advance: is told how many bytes of the log more were read.
        """
        rows = {kind: read_rows(file) for kind, file in segment.indexes.items()}
        if segment.log is None:
            for kind, file in segment.indexes.items():
                if kind in segment.wanted:
                    yield _result(file, rows[kind], _alone(segment, file, rows[kind]))
            return
        facts, damage, size = self._walk(segment.log, rows, advance)
        if damage:
            result = IndexResult(segment.log.name, "log", size)
            result.count(damage)
            yield result, damage
        for kind in (k for k in SUFFIX_OF if k in segment.wanted):
            if kind in rows:
                check = IndexRules(segment, segment.indexes[kind], rows[kind], facts, bool(damage))
                findings = list(check.findings(self.interval, size))
                yield _result(segment.indexes[kind], rows[kind], findings)
            elif kind is FileKind.TRANSACTION_INDEX and facts.aborted and not damage:
                yield _without_aborts(segment.log, facts)
            elif kind in MISSING and segment.log.base_offset is not None and facts.end:
                yield _missing(segment.log, kind, facts)

    def _walk(
        self, log: Input, rows: dict[FileKind, Rows], advance: Callable[[int], None]
    ) -> tuple[Facts, list[Finding], int]:
        """What the log says of the entries; its own findings; its size."""

        def table(kind: FileKind) -> Table | None:
            return rows[kind].table if kind in rows else None

        offsets, times = table(FileKind.OFFSET_INDEX), table(FileKind.TIME_INDEX)
        with_offset = [it for it in (offsets, times) if it is not None]
        facts = Facts(offsets, with_offset, table(FileKind.TRANSACTION_INDEX), self.limit)
        damage: list[Finding] = []
        with open_log(log, read_ahead=True) as opened:
            for block in opened.blocks:
                advance(len(block.data))
                damage += block.findings
                facts.take(block)
            size = opened.reader.bytes_read
        facts.finish(size)
        return facts, damage, size


def _result(file: Input, rows: Rows, findings: list[Finding]) -> tuple[IndexResult, list[Finding]]:
    findings.sort(key=lambda finding: finding.position or 0)
    result = IndexResult(file.name, file.kind.value, rows.size, len(rows.table))
    result.count(findings)
    return result, findings


def _missing(log: Input, kind: FileKind, facts: Facts) -> tuple[IndexResult, list[Finding]]:
    """The line of an index that is not there, under the name that it would have."""
    code = MISSING[kind]
    if kind is FileKind.TIME_INDEX and not facts.has_v2:
        code = codes.TIME_INDEX_NOT_YET
    name = log.name.replace(".log", SUFFIX_OF[kind])
    finding = Finding(name, code, None, f"{log.name} is there, {SUFFIX_OF[kind]} is not")
    result = IndexResult(name, kind.value)
    result.count([finding])
    return result, [finding]


def _without_aborts(log: Input, facts: Facts) -> tuple[IndexResult, list[Finding]]:
    """The line of a transaction index that should be there."""
    name = log.name.replace(".log", SUFFIX_OF[FileKind.TRANSACTION_INDEX])
    findings = list(missing_aborts(replace(log, name=name), None, facts))
    result = IndexResult(name, FileKind.TRANSACTION_INDEX.value)
    result.count(findings)
    return result, findings


def _alone(segment: Segment, file: Input, rows: Rows) -> list[Finding]:
    """What an index shows without its log."""
    findings = [*rows.findings, *order_findings(file, rows.table)]
    if not segment.log_may_be_elsewhere:
        findings.append(Finding(file.name, codes.INDEX_WITHOUT_LOG, None, "no log beside it"))
    if rows.padding:
        findings.append(padding_finding(segment, file, rows))
    return findings
