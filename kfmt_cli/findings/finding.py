"""Findings: damage and oddities as plain values."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# What is shown of one kind, unless the user asks for more: findings in one file, and places where
# people are shown each kind once.
MOST_FINDINGS, MOST_PLACES = 100, 3


class Severity(enum.Enum):
    """error: bytes are lost, or a broker or its consumers fail on them; warning: a broker tolerates
    it, but you should know; note: for information, no action needed."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


SEVERITIES = tuple(severity.value for severity in Severity)  # the worst first


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding."""

    name: str
    """Stable kebab-case."""
    severity: Severity
    meaning: str
    """What it says about the file."""
    after_crash: str | None = None
    """What a broker does that recovers the log when it starts."""
    after_clean_shutdown: str | None = None
    """What one does that finds `.kafka_cleanshutdown`, and its consumers."""
    advice: str | None = None
    """What to do, and what it costs. Each of the three is None where there is nothing to say."""


def code(
    name: str,
    severity: Severity,
    meaning: str,
    advice: str | None = None,
    *,
    after_crash: str | None = None,
    after_clean_shutdown: str | None = None,
) -> Code:
    """A kind of finding, its advice before what a broker does."""
    return Code(name, severity, meaning, after_crash, after_clean_shutdown, advice)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    file: str
    code: Code
    position: int | None
    """Byte in the file."""
    words: str
    """What was found; of a batch, what follows "batch N"."""
    offset: int | None = field(default=None, kw_only=True)
    """The Kafka offset it concerns, if known."""
    expected: str | int | None = field(default=None, kw_only=True)
    found: str | int | None = field(default=None, kw_only=True)
    batch: int | None = field(default=None, kw_only=True)
    """The number of the batch that it is about, counted from the front of what was read."""

    @property
    def message(self) -> str:
        """What was found, in words."""
        return self.words if self.batch is None else f"batch {self.batch}{self.words}"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order of the file."""
    return sorted(findings, key=lambda finding: finding.position or 0)


class Tally:
    """What counts findings by severity: whatever has these three numbers."""

    errors: int
    warnings: int
    notes: int

    def count(self, findings: Iterable[Finding]) -> None:
        """Add findings to the counts."""
        for finding in findings:
            self.errors += finding.code.severity is Severity.ERROR
            self.warnings += finding.code.severity is Severity.WARNING
            self.notes += finding.code.severity is Severity.NOTE


@dataclass(slots=True)
class Findings:
    """The findings of one file: the first `most` of each kind are held, the others are counted.

    Memory is bounded by the number of kinds, whatever a file holds.
    """

    most: int = MOST_FINDINGS
    held: list[Finding] = field(default_factory=list)
    """In the order in which they were taken."""
    _seen: dict[str, int] = field(default_factory=dict)
    _codes: dict[str, Code] = field(default_factory=dict)

    def admits(self, finding: Finding) -> bool:
        """Count a finding; whether it is one of those that are shown."""
        name = finding.code.name
        seen = self._seen[name] = self._seen.get(name, 0) + 1
        if seen > self.most:
            self._codes[name] = finding.code
        return seen <= self.most

    def take(self, findings: Iterable[Finding]) -> None:
        """Hold those that are to be shown, and count all."""
        self.held += filter(self.admits, findings)

    def left_out(self) -> Iterator[tuple[Code, int]]:
        """Each kind of which there were too many, and how many of it are not held."""
        for name, code in self._codes.items():
            yield code, self._seen[name] - self.most

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)
