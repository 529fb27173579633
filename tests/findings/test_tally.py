"""How findings are counted, and which of a kind are shown."""

from __future__ import annotations

import pytest

from kfmt_cli.checks.registry import iter_codes_by_subject
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


def of(severity: Severity, number: int = 0) -> FindingCode:
    """A kind of finding of this severity."""
    every = [code for _, codes in iter_codes_by_subject() for code in codes]
    return [code for code in every if code.severity is severity][number]


class Counted(SeverityCounts):
    def __init__(self) -> None:
        self.errors = self.warnings = self.notes = 0


@pytest.mark.parametrize("numbers", [(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 3), (3, 2, 1)])
def test_findings_are_counted_by_severity(numbers: tuple[int, int, int]) -> None:
    counted = Counted()
    for _ in range(2):
        for severity, n in zip(Severity, numbers, strict=True):
            counted.add(of(severity), n)
    assert (counted.errors, counted.warnings, counted.notes) == tuple(2 * n for n in numbers)


def test_the_first_of_each_kind_are_kept_and_the_others_counted() -> None:
    one, other = of(Severity.ERROR), of(Severity.ERROR, 1)
    for n, left_out in ((2, []), (3, [(one, 1)]), (9, [(one, 7)])):
        found = FindingCollector(2)
        found.add_all([Finding("f", one, i, "x") for i in range(n)])
        found.add_all([Finding("f", other, 0, "y")])
        assert [finding.position for finding in found] == [0, 1, 0]
        assert list(found.iter_suppressed()) == left_out
    assert FindingCollector().max_per_code == MAX_FINDINGS


def test_findings_are_ordered_by_their_byte() -> None:
    code = of(Severity.NOTE)
    places = (7, None, 3, 0, 7)
    found = sort_findings(Finding("f", code, at, str(i)) for i, at in enumerate(places))
    assert [finding.detail for finding in found] == ["1", "3", "2", "0", "4"]


def test_a_finding_of_a_batch_says_its_number() -> None:
    code = of(Severity.ERROR)
    assert Finding("f", code, 0, ": it is bad").message == ": it is bad"
    assert Finding("f", code, 0, ": it is bad", batch=0).message == "batch 0: it is bad"


@pytest.mark.parametrize("command", ["verify-crc", "index-check"])
def test_a_file_counts_the_findings_that_are_about_it(command: str) -> None:
    done = kfmt(command, ROOT / "damaged_segments", "--json", "--notes")
    rows = done.of("file") or done.of("index")
    assert rows
    for severity in ("error", "warning", "note"):
        told = [row for row in done.of("finding") if row["severity"] == severity]
        assert done.of("summary")[0][f"{severity}s"] == len(told)
