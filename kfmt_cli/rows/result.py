"""Results: of a file, of a directory, and of a whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType

from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import Finding, Findings, Tally

SEVERITIES = ("errors", "warnings", "notes")
SEGMENTS = ("segment", "segments")


@dataclass(frozen=True, slots=True)
class ResultType:
    """The numbers that a command counts per file."""

    numbers: tuple[str, ...]
    """In the order of JSON and CSV."""
    widths: Mapping[str, int]
    """The numbers that a table shows, with their column widths, the most important first."""
    noun: tuple[str, str] = SEGMENTS
    """The noun for a file, singular and plural."""
    hint: str = "--json"
    """The option that shows the columns a narrow table hides."""


@dataclass(slots=True)
class Result(Tally):
    """The result for one file."""

    type: ResultType
    file: str
    kind: str
    given: InitVar[Mapping[str, int | None]] = MappingProxyType({})
    """The numbers that are not 0."""
    findings: Findings = field(default_factory=Findings)
    """The kept findings, for display."""
    aside: str = ""
    """The name under which the summary counts this result instead of as a file."""
    of_directory: bool = False
    """Whether the result is for a directory, without numbers."""
    is_partial: bool = False
    """Whether the file could not be read to its end, so that only its findings count."""
    numbers: dict[str, int | None] = field(init=False)
    """The numbers of the type; None if the file has no such number."""

    def __post_init__(self, given: Mapping[str, int | None]) -> None:
        self.numbers = {**dict.fromkeys(self.type.numbers, 0), **given}

    def take(self, findings: Iterable[Finding]) -> None:
        """Count findings and keep those to show."""
        for finding in findings:
            self.count(finding.code)
            self.findings.take([finding])

    def row(self) -> dict[str, object]:
        """The result's row in the JSON contract, without its type."""
        severities = {name: getattr(self, name) for name in SEVERITIES}
        return {"file": self.file, "kind": self.kind, **self.numbers, **severities}


@dataclass(slots=True)
class Summary:
    """The result of a run."""

    type: ResultType
    files: int = 0
    damaged: int = 0
    """Files with errors."""
    folders: int = 0
    """Directories with errors."""
    unread: int = 0
    """Inputs that could not be read."""
    totals: Fields = field(default_factory=Fields)
    """The sums over all results, by name."""
    aside: dict[str, int] = field(default_factory=dict)
    """Results that are not counted as files, by name."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Files that were not checked, by kind."""
    exit_code: ExitCode = ExitCode.CLEAN
    answer: str = ""
    """Text at the end of the last line, for people."""

    def __post_init__(self) -> None:
        self.totals = Fields(dict.fromkeys((*self.type.numbers, *SEVERITIES), 0))

    def add(self, result: Result) -> None:
        """Count a result."""
        if result.of_directory:
            self.folders += result.errors > 0
        elif result.aside:
            self.aside[result.aside] = self.aside.get(result.aside, 0) + 1
        elif not result.is_partial:
            self.files += 1
            self.damaged += result.errors > 0
        for name, value in result.numbers.items():
            self.totals[name] += value or 0
        for name in SEVERITIES:
            self.totals[name] += getattr(result, name)

    def row(self) -> dict[str, object]:
        """The summary's row in the JSON contract, without its type."""
        row: dict[str, object] = {
            "files": self.files,
            **self.aside,
            **self.totals,
            "unread": self.unread,
        }
        if self.passed_over:
            row["not_looked_at"] = dict(sorted(self.passed_over.items()))
        return {**row, "exit_code": int(self.exit_code)}
