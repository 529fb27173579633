"""A run of a command: counts and shows what tasks report.

A task yields events in order: findings, each file's result after its findings, unreadable inputs.
A run counts them, passes them to the sink and determines the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kfmt_cli.errors import ExitCode, InputError, InputErrorHandler
from kfmt_cli.findings.finding import MAX_FINDINGS, Finding, FindingCollector, Severity
from kfmt_cli.render.sinks.sink import FileHeading, OutputStreams, Sink
from kfmt_cli.render.style import escape_terminal
from kfmt_cli.rows.file_result import FileResult, FileResultType, RunSummary

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType

ROWS_PER_CHUNK = 1000  # rows to write together
RowCells = Sequence[str | int | None]
RunEvent = Finding | FileResult | InputError


class Progress(Protocol):
    """Shows the progress of the work."""

    def on_progress(self, n_bytes: int) -> None:
        """Report that `n_bytes` more bytes are done."""


class RunHost(OutputStreams, Protocol):
    """The environment of a run: output streams and a progress display."""

    def progress(
        self, total: int | None, *, with_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        """A progress bar for `total` bytes; None or 0 for a stream of unknown length.

        with_rows: rows are written at the same time.
        """

    def expect_bytes(self, n_bytes: int) -> None:
        """Count bytes that will be read; adds a note once if they are many."""


class FileTask(Protocol):
    """Work on many files, each with a result."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all files; known after `plan`."""

    def find_files(self, paths: tuple[str, ...]) -> Iterable[RunEvent]:
        """Find the files; yields unreadable inputs."""

    def process(self, on_progress: Callable[[int], None]) -> Iterable[RunEvent]:
        """Process the files. on_progress: called with the number of bytes done since the last
        call."""


def chunk_rows(rows: Iterable[RowCells]) -> Iterator[list[RowCells]]:
    """Rows in groups of a size worth writing."""
    iterator = iter(rows)
    while chunk := list(islice(iterator, ROWS_PER_CHUNK)):
        yield chunk


def iter_result_events(result: FileResult) -> Iterator[RunEvent]:
    """The findings of a result, then the result."""
    yield from result.findings
    yield result


@dataclass(slots=True)
class CommandRun:
    """One run of a command."""

    host: RunHost
    sink: Sink
    result_type: FileResultType | None = None
    strict: bool = False
    """Count warnings as errors."""
    max_findings: int = MAX_FINDINGS
    """Limit of findings shown per kind and file."""
    summary: RunSummary = field(init=False)
    _reported_errors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.summary = RunSummary(self.result_type or FileResultType((), {}))

    def run_task(self, task: FileTask, paths: tuple[str, ...]) -> ExitCode:
        """Plan and run a task; returns the exit code."""
        self.handle_all(task.find_files(paths))
        self.sink.begin_results(self.summary.type)
        with self.host.progress(task.total_bytes) as progress:
            self.handle_all(task.process(progress.on_progress))
        return self.finish()

    def handle_all(self, events: Iterable[RunEvent]) -> None:
        """Count and show every event."""
        for event in events:
            self.handle_event(event)

    def handle_event(self, event: RunEvent) -> None:
        """Count and show an event of a task."""
        if isinstance(event, Finding):
            self.count_finding(event)
            self.sink.write_finding(event)
        elif isinstance(event, FileResult):
            self._handle_result(event)
        else:
            self.report_unreadable(str(event))

    def count_finding(self, finding: Finding) -> None:
        """Count a finding for the exit code."""
        severity = finding.code.severity
        self._raise_exit_code(severity is Severity.ERROR, severity is Severity.WARNING)

    def _raise_exit_code(self, errors: int, warnings: int) -> None:
        if errors or (self.strict and warnings):
            self.host.raise_exit_code(ExitCode.FINDINGS)

    def _handle_result(self, result: FileResult) -> None:
        self._raise_exit_code(result.errors, result.warnings)
        self.summary.add(result)
        self.report_suppressed(result.file, result.findings)
        if not result.is_partial:
            self.sink.write_result(result)

    def report_findings(self, findings: Iterable[Finding], collector: FindingCollector) -> None:
        """Count findings, and show as many of each kind as the collector admits."""
        for finding in findings:
            self.count_finding(finding)
            if collector.count_and_admit(finding):
                self.sink.write_finding(finding)

    def output_rows(
        self,
        name: str,
        type_: RowType,
        chunks: Iterable[Sequence[RowCells]],
        row_nouns: tuple[str, str] = ("entry", "entries"),
        *,
        title: tuple[str, ...] = (),
    ) -> int:
        """Show rows about a file or directory, chunk by chunk; returns their number.

        row_nouns: noun for a row, singular and plural. title: lines shown to people instead of
        the name.
        """
        from kfmt_cli.rows.columnar_rows import NestedRows, build_columnar_rows

        writer = self.sink.begin_rows(FileHeading(name, row_nouns=row_nouns, title=title), type_)
        n_rows = 0
        for chunk in chunks:
            self.sink.flush()
            for text in writer.render(NestedRows(build_columnar_rows(type_, chunk)), 0, len(chunk)):
                self.host.write(text)
            n_rows += len(chunk)
        self.sink.write_line(writer.closing_text())
        return n_rows

    def report_suppressed(self, file: str, collector: FindingCollector) -> None:
        """Show how many findings of each kind were suppressed."""
        for code, n_suppressed in collector.iter_suppressed():
            self.sink.write_suppressed(file, code, n_suppressed)

    def report_unreadable(self, message: str) -> None:
        """Count and report an unreadable input, once: a command may read it more than once."""
        if message in self._reported_errors:
            return
        self._reported_errors.add(message)
        self.summary.n_unread += 1
        self.host.raise_exit_code(ExitCode.UNREADABLE)
        self.sink.note(f"kfmt: {escape_terminal(message)}\n")

    def catch_unreadable(self) -> InputErrorHandler:
        """Report an input that cannot be read, and continue after the block."""
        return InputErrorHandler(lambda error: self.report_unreadable(str(error)))

    def report_leftovers(self, paths: Iterable[Path]) -> None:
        """Report removed leftovers of killed runs."""
        for path in paths:
            note = "leftover of an interrupted run, removed"
            self.sink.note(f"{escape_terminal(str(path))}: {note}\n")

    def finish(self) -> ExitCode:
        """Show the summary; returns the exit code."""
        exit_code = self.summary.exit_code = self.host.exit_code
        self.sink.write_summary(self.summary)
        self.sink.flush()
        return exit_code
