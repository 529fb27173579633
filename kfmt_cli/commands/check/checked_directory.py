"""check: what was found in a directory, and what starts make of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.broker.start.outcome import Start
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.disk.tree import Folder
from kfmt_cli.findings.finding import Finding, Findings, Tally
from kfmt_cli.render.style import count
from kfmt_cli.rows.result import ResultType

CHECK_RESULT = ResultType(
    ("segments", "records", "bytes"),
    {"segments": 8, "records": 11, "bytes": 14},
    ("directory", "directories"),
)


@dataclass(slots=True)
class CheckedDirectory(Tally):
    """What was found in a directory."""

    shown: str
    """The name that it is shown with."""
    path: str
    """The path to name it by in a command."""
    folder: Folder | None
    segments: int = 0
    records: int = 0
    bytes: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    findings: Findings = field(default_factory=Findings)
    all: list[Finding] = field(default_factory=list)
    """All of its findings, with those that do not count."""
    extents: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first offset and the end of its logs, by base offset."""
    has_transactions: bool = False
    lost: list[tuple[int, int]] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    marker: str | None = None
    """The `.kafka_cleanshutdown` of its log directory, where it is there."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say of it."""
        return not (self.segments or self.records or self.starts or self.all)

    @property
    def is_bad(self) -> bool:
        """Whether somebody should look at it."""
        return bool(
            self.errors or self.warnings or any(start.fails or start.loses for start in self.starts)
        )

    @property
    def rank(self) -> tuple[int, ...]:
        """Worse ones come first."""
        fails = any(not start.starts for start in self.starts)
        lost = sum(size_of_ranges(start.lost) for start in self.starts)
        return (-fails, -self.errors, -lost, -self.warnings, -self.notes)

    def after(self, kind: str) -> Start | None:
        """What a start of that kind makes of it."""
        return next((start for start in self.starts if start.after == kind), None)

    @property
    def verdict(self) -> tuple[str, str]:
        """The findings in a word or two, and the style of that."""
        if self.errors:
            return count(self.errors, "error"), "bad"
        if self.warnings:
            return count(self.warnings, "warning"), "warn"
        return (f"ok, {count(self.notes, 'note')}" if self.notes else "ok"), "good"
