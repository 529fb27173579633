"""check: the result for one directory, with the predicted starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.broker.start.outcome import Start
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.checks.history.facts import LogPrint
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import Folder
from kfmt_cli.findings.finding import Finding, Findings, Tally, is_error
from kfmt_cli.rows.result import ResultType

CHECK_RESULT = ResultType(
    ("segments", "records", "bytes"),
    {"segments": 8, "records": 11, "bytes": 14},
    ("directory", "directories"),
)


@dataclass(slots=True)
class CheckedDirectory(Tally):
    """The result of checking one directory."""

    shown: str
    """Its name in output."""
    path: str
    """Its path in suggested commands."""
    folder: Folder | None
    segments: int = 0
    records: int = 0
    bytes: int = 0
    findings: Findings = field(default_factory=Findings)
    all: list[Finding] = field(default_factory=list)
    """Its findings, including those that --only or --ignore hide; of each file and kind, the first
    ones."""
    hidden: int = 0
    """The number of those that --only or --ignore hide."""
    extents: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First offset and end offset of each log, by base offset."""
    has_transactions: bool = False
    prints: list[LogPrint] = field(default_factory=list)
    """The prints of the readable logs, in order."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    partly_read: int = 0
    """The number of logs with bytes that the disk cannot give."""
    starts: list[Start] = field(default_factory=list)
    marker: str | None = None
    """Path of `.kafka_cleanshutdown` in its log directory; None if missing."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to report about it."""
        seen = self.segments, self.records, self.partly_read, self.starts, self.all
        return not any(seen)

    @property
    def is_bad(self) -> bool:
        """Whether it needs attention: errors, warnings, or a start that fails or loses offsets."""
        return bool(
            self.errors or self.warnings or any(start.fails or start.loses for start in self.starts)
        )

    @property
    def rank(self) -> tuple[int, ...]:
        """Sort key: worse directories first."""
        fails = any(not start.starts for start in self.starts)
        lost = sum(size_of_ranges(start.lost) for start in self.starts)
        return (-fails, -self.errors, -lost, -self.warnings, -self.notes)

    @property
    def errors_in_logs(self) -> list[Finding]:
        """The findings of severity error in its logs."""
        return [each for each in self.all if is_error(each) and each.file.endswith(LOG.suffix)]

    def after(self, kind: str) -> Start | None:
        """The predicted start of this kind, CRASH or CLEAN; None if not predicted."""
        return next((start for start in self.starts if start.after == kind), None)
