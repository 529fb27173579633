"""Results: of a file, of a directory, and of a whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import Finding, FindingCollector, SeverityCounts

SEVERITY_COUNTS = ("errors", "warnings", "notes")
SEGMENT_NOUNS = ("segment", "segments")


@dataclass(frozen=True, slots=True)
class FileResultType:
    """The counters of a command for each file."""

    count_names: tuple[str, ...]
    """In the order of JSON and CSV."""
    column_widths: Mapping[str, int]
    """The counts that a table shows, with their column widths, the most important first."""
    nouns: tuple[str, str] = SEGMENT_NOUNS
    """The noun for a file, singular and plural."""
    wide_option: str = "--json"
    """The option that shows the columns a narrow table hides."""


@dataclass(slots=True)
class FileResult(SeverityCounts):
    """The result for one file."""

    type: FileResultType
    file: str
    kind: str
    initial_counts: InitVar[Mapping[str, int | None]] = MappingProxyType({})
    """The counts that are not 0, by name."""
    findings: FindingCollector = field(default_factory=FindingCollector)
    """The findings to show; more may be counted."""
    counted_as: str = ""
    """The name under which the summary counts this result instead of as a file."""
    is_directory: bool = False
    """Whether the result is for a directory, without numbers."""
    is_partial: bool = False
    """Whether the file could not be read to its end, so that only its findings count."""
    counts: dict[str, int | None] = field(init=False)
    """The counts of the type, by name; None if the file has no such count."""

    def __post_init__(self, initial_counts: Mapping[str, int | None]) -> None:
        self.counts = {**dict.fromkeys(self.type.count_names, 0), **initial_counts}

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Count findings and keep those to show."""
        for finding in findings:
            self.count_findings(finding.code)
            self.findings.add_findings([finding])

    def to_row(self) -> dict[str, object]:
        """The result's row in the JSON contract, without its type."""
        n_findings_by_severity = {name: getattr(self, name) for name in SEVERITY_COUNTS}
        return {"file": self.file, "kind": self.kind, **self.counts, **n_findings_by_severity}


@dataclass(slots=True)
class RunSummary:
    """The result of a run."""

    type: FileResultType
    n_files: int = 0
    n_damaged_files: int = 0
    """Files with errors."""
    n_damaged_directories: int = 0
    """Directories with errors."""
    n_unread_inputs: int = 0
    """Inputs that could not be read."""
    n_known_findings: int = 0
    """Findings that the baseline has."""
    totals: FieldDict = field(default_factory=FieldDict)
    """The sums over all results, by name."""
    other_counts: dict[str, int] = field(default_factory=dict)
    """Results that are not counted as files, by name."""
    skipped_counts: Counter[str] = field(default_factory=Counter)
    """Files that were not checked, by kind."""
    exit_code: ExitCode = ExitCode.CLEAN
    closing_text: str = ""
    """Text at the end of the last line, for people."""

    def __post_init__(self) -> None:
        self.totals = FieldDict(dict.fromkeys((*self.type.count_names, *SEVERITY_COUNTS), 0))

    def add_result(self, result: FileResult) -> None:
        """Count a result."""
        if result.is_directory:
            self.n_damaged_directories += result.errors > 0
        elif result.counted_as:
            self.other_counts[result.counted_as] = self.other_counts.get(result.counted_as, 0) + 1
        elif not result.is_partial:
            self.n_files += 1
            self.n_damaged_files += result.errors > 0
        for count_name, count_value in result.counts.items():
            self.totals[count_name] += count_value or 0
        for count_name in SEVERITY_COUNTS:
            self.totals[count_name] += getattr(result, count_name)

    def to_row(self) -> dict[str, object]:
        """The summary's row in the JSON contract, without its type."""
        row: dict[str, object] = {
            "files": self.n_files,
            **self.other_counts,
            **self.totals,
            "unread": self.n_unread_inputs,
        }
        if self.skipped_counts:
            row["not_looked_at"] = dict(sorted(self.skipped_counts.items()))
        return {**row, "exit_code": int(self.exit_code)}
