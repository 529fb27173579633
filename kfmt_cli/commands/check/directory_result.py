"""check: the result for one directory, with the predicted starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.broker.log_reading.offset_intervals import count_offsets
from kfmt_cli.broker.start.outcome import PredictedStart
from kfmt_cli.checks.history.log_history import LogFingerprint
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.findings.finding import Finding, FindingCollector, SeverityCounts, is_error
from kfmt_cli.rows.file_result import FileResultType

CHECK_RESULT = FileResultType(
    ("segments", "records", "bytes"),
    {"segments": 8, "records": 11, "bytes": 14},
    ("directory", "directories"),
)


@dataclass(slots=True)
class DirectoryCheckResult(SeverityCounts):
    """The result of checking one directory."""

    display_path: str
    """Its name in output."""
    path: str
    """Its path in suggested commands."""
    listing: DirectoryListing | None
    segments: int = 0
    records: int = 0
    bytes: int = 0
    findings: FindingCollector = field(default_factory=FindingCollector)
    all_findings: list[Finding] = field(default_factory=list)
    """The first findings of each file and kind, including those hidden by --only or --ignore."""
    n_hidden_findings: int = 0
    """Number of findings hidden by --only or --ignore."""
    offset_intervals: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First offset and end offset of each log, by base offset."""
    has_transactions: bool = False
    fingerprints: list[LogFingerprint] = field(default_factory=list)
    """Fingerprints of the readable logs, in order."""
    lost_offsets: list[tuple[int, int]] = field(default_factory=list)
    n_partly_read_logs: int = 0
    """Number of logs with bytes that the disk cannot read."""
    n_records_at_risk: int = 0
    """Number of undamaged records that a start loses, hides or, if it fails, does not serve."""
    predicted_starts: list[PredictedStart] = field(default_factory=list)
    next_start_kind: str | None = None
    """The kind of the next start; None if it is unknown how the broker stopped."""
    clean_shutdown_path: str | None = None
    """Path of `.kafka_cleanshutdown` in its log directory; None if missing."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to report about it."""
        reportable_values = (
            self.segments,
            self.records,
            self.n_partly_read_logs,
            self.predicted_starts,
            self.all_findings,
        )
        return not any(reportable_values)

    @property
    def needs_attention(self) -> bool:
        """Whether it needs attention: errors, warnings, or a start that fails or loses offsets."""
        return bool(
            self.errors
            or self.warnings
            or any(start.is_failure or start.loses_data for start in self.predicted_starts)
        )

    @property
    def rank(self) -> tuple[int, ...]:
        """Sort key: worse directories first."""
        has_failing_start = any(not start.starts for start in self.predicted_starts)
        n_lost_offsets = sum(count_offsets(start.lost) for start in self.predicted_starts)
        return (-has_failing_start, -self.errors, -n_lost_offsets, -self.warnings, -self.notes)

    @property
    def log_errors(self) -> list[Finding]:
        """The findings of severity error in its logs."""
        return [
            finding
            for finding in self.all_findings
            if is_error(finding) and finding.file.endswith(LOG_KIND.suffix)
        ]

    @property
    def next_starts(self) -> list[PredictedStart]:
        """The predicted start that will happen; both kinds if that is unknown."""
        return [
            start for start in self.predicted_starts if self.next_start_kind in (None, start.after)
        ]

    def find_start(self, shutdown_kind: str) -> PredictedStart | None:
        """The predicted start, AFTER_CRASH or AFTER_CLEAN_SHUTDOWN; None if not predicted."""
        return next(
            (start for start in self.predicted_starts if start.after == shutdown_kind), None
        )
