"""A run of a command: counts and shows what tasks report.

A task yields events in order: findings, each file's result after its findings, unreadable inputs.
A run counts them, passes them to the sink and determines the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar, cast

from kfmt_cli.core.source import PASTED_NAMES
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.errors import DeletionMessage, ExitCode, InputError, InputErrorHandler
from kfmt_cli.findings.finding import (
    MAX_FINDINGS,
    Finding,
    FindingCode,
    FindingCollector,
    Severity,
)
from kfmt_cli.render.sinks.sink import FileHeading, OutputStreams, Sink
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.file_result import FileResult, FileResultType, RunSummary

if TYPE_CHECKING:
    from kfmt_cli.commands.baseline import Baseline
    from kfmt_cli.disk.kinds.kind import InputFile
    from kfmt_cli.options.selection import RecordSelectionOptions
    from kfmt_cli.rows.column import RowType

ROWS_PER_CHUNK = 1000  # rows to write together
RowCells = Sequence[str | int | None]
RunEvent = Finding | FileResult | InputError


class Progress(Protocol):
    """Shows the progress of the work."""

    def on_progress(self, n_bytes: int) -> None:
        """Report that `n_bytes` more bytes are done."""


class RunOutput(OutputStreams, Protocol):
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

    def process_files(self, on_progress: Callable[[int], None]) -> Iterable[RunEvent]:
        """Process the files. on_progress: called with the number of bytes done since the last
        call."""


def chunk_rows(rows: Iterable[RowCells]) -> Iterator[list[RowCells]]:
    """Rows in groups of a size worth writing."""
    row_iterator = iter(rows)
    while chunk := list(islice(row_iterator, ROWS_PER_CHUNK)):
        yield chunk


def iter_result_events(result: FileResult) -> Iterator[RunEvent]:
    """The findings of a result, then the result."""
    yield from result.findings
    yield result


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_cache_clear_functions: list[Callable[[], None]] = []


def cached_for_run(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Decorate a function that reads a disk: its results last until the next run begins, so that a
    process with several runs, as with the Python API, sees what has changed on the disk."""
    cached_function = lru_cache(maxsize=8)(function)
    _cache_clear_functions.append(cached_function.cache_clear)
    return cast("Callable[_Parameters, _Result]", cached_function)


def _format_deletion(path: str) -> str:
    """The message about a file that was deleted; the same for all files of a segment."""
    directory, _, file_name = path.rpartition("/")
    from kfmt_cli.disk.kinds import classify_name
    from kfmt_cli.disk.kinds.kind import FileLevel

    kind, base_offset, _ = classify_name(file_name)
    if base_offset is not None and kind.level is FileLevel.SEGMENT:
        return f"{format_display_name(directory)}: no segment {base_offset}"
    return f"{format_display_name(path)}: No such file or directory"


_SNAPSHOT_ADVICE = (
    "A start reads the newest snapshot of the metadata log, and no older one: kfmt check predicts "
    "it, and names the steps."
)


def adapt_to_place(finding: Finding) -> Finding:
    """The finding without what a broker does about one in a log segment, if it is in a snapshot of
    the metadata log, or in bytes that are not on a disk."""
    from kfmt_cli.disk.kinds import classify_name
    from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND

    if finding.file in PASTED_NAMES:
        advice = None
    elif classify_name(Path(finding.file).name)[0] is KRAFT_SNAPSHOT_KIND:
        advice = _SNAPSHOT_ADVICE
    else:
        return finding
    code = replace(finding.code, after_crash=None, after_clean_shutdown=None, advice=advice)
    return replace(finding, code=code)


@dataclass(slots=True)
class CommandRun:
    """One run of a command."""

    output: RunOutput
    sink: Sink
    strict: bool = False
    """Count warnings as errors."""
    max_findings: int = MAX_FINDINGS
    """Limit of findings shown per kind and file."""
    baseline: Baseline | None = None
    """Known findings, which are neither shown nor counted."""
    summary: RunSummary = field(default_factory=lambda: RunSummary(FileResultType((), {})))
    _reported_messages: set[str] = field(default_factory=set)
    _known_codes: list[FindingCode] = field(default_factory=list)
    """Of the known findings since the last result."""

    def __post_init__(self) -> None:
        for clear_cache in _cache_clear_functions:
            clear_cache()

    def set_result_type(self, result_type: FileResultType) -> None:
        """Set the type of the results, before anything is counted."""
        self.summary = RunSummary(result_type)

    def run_task(self, task: FileTask, paths: tuple[str, ...]) -> ExitCode:
        """Plan and run a task; returns the exit code."""
        self.handle_events(task.find_files(paths))
        self.sink.begin_results(self.summary.type)
        with self.output.progress(task.total_bytes) as progress:
            self.handle_events(task.process_files(progress.on_progress))
        return self.finish()

    def handle_events(self, events: Iterable[RunEvent]) -> None:
        """Count and show every event."""
        for event in events:
            self.handle_event(event)

    def handle_event(self, event: RunEvent) -> None:
        """Count and show an event of a task."""
        if isinstance(event, Finding):
            if self.is_known(event):
                self._known_codes.append(event.code)
                return
            self.count_finding(event)
            self._write_finding(event)
        elif isinstance(event, FileResult):
            self._handle_result(event)
        else:
            self.report_input_error(event)

    def is_known(self, finding: Finding) -> bool:
        """Whether a finding is in the baseline."""
        return self.baseline is not None and self.baseline.is_known(finding)

    def count_finding(self, finding: Finding) -> None:
        """Count a finding for the exit code and a new baseline."""
        if self.baseline is not None:
            self.baseline.add_finding(finding)
        severity = finding.code.severity
        self._update_exit_code(severity is Severity.ERROR, severity is Severity.WARNING)

    def _update_exit_code(self, n_errors: int, n_warnings: int) -> None:
        if n_errors or (self.strict and n_warnings):
            self.output.raise_exit_code(ExitCode.FINDINGS)

    def _handle_result(self, result: FileResult) -> None:
        for code in self._known_codes:
            result.count_findings(code, -1)
        self._known_codes.clear()
        self._update_exit_code(result.errors, result.warnings)
        self.summary.add_result(result)
        self.report_suppressed_findings(result.file, result.findings)
        if not result.is_partial or self.sink.has_only_findings:
            self.sink.write_result(result)

    def report_findings(self, findings: Iterable[Finding], collector: FindingCollector) -> None:
        """Count findings, and show as many of each kind as the collector admits."""
        for finding in findings:
            self.count_finding(finding)
            if collector.count_and_admit(finding):
                self._write_finding(finding)

    def _write_finding(self, finding: Finding) -> None:
        """Show a finding."""
        self.sink.write_finding(adapt_to_place(finding))

    def write_rows(
        self,
        display_name: str,
        row_type: RowType,
        chunks: Iterable[Sequence[RowCells]],
        row_nouns: tuple[str, str] = ("entry", "entries"),
        *,
        title_lines: tuple[str, ...] = (),
    ) -> int:
        """Show rows about a file or directory, chunk by chunk; returns their number.

        row_nouns: noun for a row, singular and plural. title_lines: lines shown to people instead
        of the name.
        """
        from kfmt_cli.rows.columnar_rows import NestedRows, build_columnar_rows

        writer = self.sink.begin_rows(
            FileHeading(display_name, row_nouns=row_nouns, title_lines=title_lines), row_type
        )
        n_rows = 0
        for chunk in chunks:
            self.sink.flush_texts()
            for output_chunk in writer.render(
                NestedRows(build_columnar_rows(row_type, chunk)), 0, len(chunk)
            ):
                self.output.write(output_chunk)
            n_rows += len(chunk)
        self.sink.write_line(writer.closing_text())
        return n_rows

    def report_suppressed_findings(self, display_name: str, collector: FindingCollector) -> None:
        """Show how many findings of each kind were suppressed."""
        for code, n_suppressed in collector.iter_suppressed_counts():
            self.sink.write_suppressed(display_name, code, n_suppressed)

    def report_input_error(self, error: InputError | str) -> None:
        """Count and report an unreadable input, once: a command may read it more than once. A file
        that was deleted after it was listed is only a note, for all files of a segment."""
        message: str = error.args[0] if isinstance(error, InputError) else error
        is_deleted = isinstance(message, DeletionMessage)
        from kfmt_cli.disk.changes import was_deleted_meanwhile

        if isinstance(error, InputError) and was_deleted_meanwhile(error):
            message, is_deleted = _format_deletion(error.file), True
        if message in self._reported_messages:
            return
        self._reported_messages.add(message)
        if is_deleted:
            note = "deleted while kfmt was reading"
            self.sink.write_to_stderr(f"{escape_unprintable(message)} ({note})\n")
            return
        self.summary.n_unread_inputs += 1
        self.output.raise_exit_code(ExitCode.UNREADABLE)
        self.sink.write_to_stderr(f"kfmt: {escape_unprintable(message)}\n")

    def catch_input_errors(self) -> InputErrorHandler:
        """Report an input that cannot be read, and continue after the block."""
        return InputErrorHandler(self.report_input_error)

    def report_leftovers(self, paths: Iterable[Path]) -> None:
        """Report removed leftovers of killed runs."""
        for path in paths:
            note = "leftover of an interrupted run, removed"
            self.sink.write_to_stderr(f"{escape_unprintable(str(path))}: {note}\n")

    def report_empty_answer(
        self, logs: Sequence[InputFile], options: RecordSelectionOptions
    ) -> None:
        """Report the contents of some logs if a selection of their records is empty."""
        from kfmt_cli.commands.empty_answers import describe_empty_answer

        if text := describe_empty_answer(logs, options):
            self.sink.write_to_stderr(f"kfmt: {text}\n")

    def finish(self) -> ExitCode:
        """Show the summary; returns the exit code."""
        exit_code = self.summary.exit_code = self.output.exit_code
        if self.baseline is not None:
            self.summary.n_known_findings = self.baseline.n_known
        self.sink.write_summary(self.summary)
        self.sink.flush_texts()
        return exit_code
