"""Findings: damage and irregularities as plain values."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# Default limits per kind: findings shown per file, and locations shown in outputs that list each
# kind once.
MAX_FINDINGS, MAX_LOCATIONS = 100, 3


class Severity(enum.Enum):
    """error: bytes are lost, or a broker or its consumers fail on them; warning: a broker tolerates
    it, but you should know; note: for information, no action needed."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


SEVERITIES = tuple(severity.value for severity in Severity)  # the worst first
NEXT_START_LABEL, AFTER_CRASH_LABEL = "next start", "after a crash"
AFTER_CLEAN_SHUTDOWN_LABEL, ADVICE_LABEL = "clean shutdown", "what to do"


class Mend(enum.Enum):
    """A command that repairs what a finding reports."""

    REBUILD_INDEXES = "kfmt rebuild-index"
    REBUILD_ALL_FILES = "kfmt rebuild-index --all-files"


@dataclass(frozen=True, slots=True)
class FindingCode:
    """A kind of finding."""

    name: str
    """Stable kebab-case."""
    severity: Severity
    meaning: str
    """What it means for the file."""
    after_crash: str | None = None
    """What a broker does if it runs log recovery when it starts."""
    after_clean_shutdown: str | None = None
    """What a broker does if it finds `.kafka_cleanshutdown`, and the effect on its consumers."""
    advice: str | None = None
    """What to do, and its cost. Each of the three is None if there is nothing to report."""
    mends: frozenset[Mend] = frozenset()

    @property
    def consequences(self) -> list[tuple[str, str]]:
        """Pairs of label and text: what a broker does about a finding, then what to do.

        If the next start does the same after a crash and a clean shutdown, it is described once.
        """
        if self.after_crash == self.after_clean_shutdown:
            texts = [(NEXT_START_LABEL, self.after_crash)]
        else:
            texts = [
                (AFTER_CRASH_LABEL, self.after_crash),
                (AFTER_CLEAN_SHUTDOWN_LABEL, self.after_clean_shutdown),
            ]
        texts.append((ADVICE_LABEL, self.advice))
        return [(label, text) for label, text in texts if text is not None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    file: str
    code: FindingCode
    position: int | None
    """Byte in the file."""
    detail: str
    """The message; for a batch, the part of it after "batch N"."""
    offset: int | None = field(default=None, kw_only=True)
    """The Kafka offset it concerns, if known."""
    expected: str | int | None = field(default=None, kw_only=True)
    found: str | int | None = field(default=None, kw_only=True)
    batch: int | None = field(default=None, kw_only=True)
    """The number of the batch, counted from the start of the bytes read."""

    @property
    def message(self) -> str:
        """The complete message."""
        return self.detail if self.batch is None else f"batch {self.batch}{self.detail}"


def is_error(finding: Finding) -> bool:
    """Whether a finding is of severity error."""
    return finding.code.severity is Severity.ERROR


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether any finding is of severity error."""
    return any(map(is_error, findings))


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Findings sorted by position in the file."""
    return sorted(findings, key=lambda finding: finding.position or 0)


@dataclass(slots=True, kw_only=True)
class SeverityCounts:
    """Counts findings by severity; the base of classes that have these three numbers."""

    errors: int = 0
    warnings: int = 0
    notes: int = 0

    def count_findings(self, code: FindingCode, n_findings: int = 1) -> None:
        """Add findings of a kind to the counts."""
        self.errors += n_findings * (code.severity is Severity.ERROR)
        self.warnings += n_findings * (code.severity is Severity.WARNING)
        self.notes += n_findings * (code.severity is Severity.NOTE)


@dataclass(slots=True)
class FindingCollector:
    """The findings of one file: keeps the first `max_per_code` of each kind and counts the rest.

    Memory is bounded by the number of kinds, whatever a file contains.
    """

    max_per_code: int = MAX_FINDINGS
    shown_findings: list[Finding] = field(default_factory=list)
    """In order of arrival."""
    _count_by_code_name: dict[str, int] = field(default_factory=dict)
    _suppressed_code_by_name: dict[str, FindingCode] = field(default_factory=dict)

    def count_and_admit(self, finding: Finding) -> bool:
        """Count a finding, and return whether to show it."""
        code_name = finding.code.name
        n_findings = self._count_by_code_name[code_name] = (
            self._count_by_code_name.get(code_name, 0) + 1
        )
        if n_findings > self.max_per_code:
            self._suppressed_code_by_name[code_name] = finding.code
        return n_findings <= self.max_per_code

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Keep the findings to show, and count all."""
        self.shown_findings += filter(self.count_and_admit, findings)

    def count_suppressed(self, code: FindingCode, n_findings: int) -> None:
        """Count findings of a kind that has findings here, without keeping them."""
        n_shown = self._count_by_code_name.get(code.name, 0)
        self._count_by_code_name[code.name] = n_shown + n_findings
        self._suppressed_code_by_name[code.name] = code

    def iter_suppressed_counts(self) -> Iterator[tuple[FindingCode, int]]:
        """The kinds with more than `max_per_code` findings, each with the number not kept."""
        for code_name, code in self._suppressed_code_by_name.items():
            n_suppressed = self._count_by_code_name[code_name] - self.max_per_code
            if n_suppressed > 0:
                yield code, n_suppressed

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.shown_findings)

    def __len__(self) -> int:
        return len(self.shown_findings)
