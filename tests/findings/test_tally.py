"""How findings are counted, and which of a code are shown."""

from __future__ import annotations

import pytest

from kfmt_cli.findings.codes import CODES_BY_SUBJECT
from kfmt_cli.findings.finding import (
    MAX_FINDINGS,
    Finding,
    FindingCode,
    FindingCollector,
    Severity,
    SeverityCounts,
    sort_findings,
)
from tests.support.samples import kfmt
from tools.kafka import ROOT


def finding_code(severity: Severity, index: int = 0) -> FindingCode:
    """The finding code with this severity at an index."""
    all_codes = [code for _, codes in CODES_BY_SUBJECT.items() for code in codes]
    return [code for code in all_codes if code.severity is severity][index]


class SeverityTotals(SeverityCounts):
    def __init__(self) -> None:
        self.errors = self.warnings = self.notes = 0


@pytest.mark.parametrize("counts", [(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 3), (3, 2, 1)])
def test_findings_are_counted_by_severity(counts: tuple[int, int, int]) -> None:
    totals = SeverityTotals()
    for _ in range(2):
        for severity, n in zip(Severity, counts, strict=True):
            totals.count_findings(finding_code(severity), n)
    assert (totals.errors, totals.warnings, totals.notes) == tuple(2 * n for n in counts)


def test_the_first_of_each_kind_are_kept_and_the_others_counted() -> None:
    code, other_code = finding_code(Severity.ERROR), finding_code(Severity.ERROR, 1)
    for n, suppressed in ((2, []), (3, [(code, 1)]), (9, [(code, 7)])):
        collector = FindingCollector(2)
        collector.add_findings([Finding("f", code, i, "x") for i in range(n)])
        collector.add_findings([Finding("f", other_code, 0, "y")])
        assert [finding.position for finding in collector] == [0, 1, 0]
        assert list(collector.iter_suppressed_counts()) == suppressed
    assert FindingCollector().max_per_code == MAX_FINDINGS


def test_findings_are_ordered_by_their_byte() -> None:
    code = finding_code(Severity.NOTE)
    positions = (7, None, 3, 0, 7)
    findings = sort_findings(
        Finding("f", code, position, str(i)) for i, position in enumerate(positions)
    )
    assert [finding.detail for finding in findings] == ["1", "3", "2", "0", "4"]


def test_a_finding_of_a_batch_says_its_number() -> None:
    code = finding_code(Severity.ERROR)
    assert Finding("f", code, 0, ": it is bad").message == ": it is bad"
    assert Finding("f", code, 0, ": it is bad", batch=0).message == "batch 0: it is bad"


@pytest.mark.parametrize("command", ["verify-crc", "index-check"])
def test_a_file_counts_the_findings_that_are_about_it(command: str) -> None:
    result = kfmt(command, ROOT / "damaged_segments", "--json", "--notes")
    rows = result.of("file") or result.of("index")
    assert rows
    for severity in ("error", "warning", "note"):
        findings = [row for row in result.of("finding") if row["severity"] == severity]
        assert result.of("summary")[0][f"{severity}s"] == len(findings)
