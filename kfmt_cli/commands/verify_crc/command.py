"""verify-crc: checks every log, small ones in groups, large ones in splits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.checks.log.checker import CheckOutcome, LogChecker, LogCheckResult, ReturnCapture
from kfmt_cli.checks.partition.directory import DirectoryChecks
from kfmt_cli.checks.second_look import select_about_existing
from kfmt_cli.commands.command_run import CommandRun, RunEvent, iter_result_events
from kfmt_cli.commands.verify_crc.log_processor import LogCheckProcessor
from kfmt_cli.commands.verify_crc.options import VerifyCrcOptions
from kfmt_cli.disk.directory_listing import (
    DirectoryListing,
    classify_file,
    distinct_files,
    file_size,
    format_no_logs_message,
    is_segment_log,
    iter_input_files,
)
from kfmt_cli.disk.file_names import path_identity
from kfmt_cli.disk.input_paths import resolve_paths
from kfmt_cli.disk.kinds.kind import FileKind, InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND, LOG_KINDS
from kfmt_cli.disk.kinds.notes_v0 import NOTES_LAYOUTS
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.execution.item_processor import WorkOutcome, process_items
from kfmt_cli.execution.processes import useful_process_count
from kfmt_cli.findings.finding import Finding, FindingCollector
from kfmt_cli.rows.file_result import FileResult, FileResultType

LOG_RESULT = FileResultType(
    ("bytes", "batches", "records"),
    {"batches": 9, "records": 11, "bytes": 14},
    wide_option="--wide",
)


@dataclass(slots=True)
class _FileGroup:
    """The log files of a directory, or a single file."""

    directory: DirectoryListing | None
    """Their directory; None for a single file."""
    files: list[InputFile]


@dataclass(slots=True)
class VerifyCrcCommand:
    """One call of `verify-crc`."""

    run: CommandRun
    options: VerifyCrcOptions
    _log_checker: LogChecker = field(init=False)
    _file_groups: list[_FileGroup] = field(default_factory=list)
    _file_sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._log_checker = LogChecker(
            self.options.deep, self.options.decompression_limit, self.options.n_jobs
        )

    def execute(self) -> ExitCode:
        """Check every file under some paths; returns the exit code. Raises UsageError."""
        self.run.set_result_type(LOG_RESULT)
        if self.options.layout is not None:
            kind = NOTES_LAYOUTS[self.options.layout][0]
            return check_as_kind(self.run, kind, self.options.paths)
        return self.run.run_task(self, self.options.paths)

    def find_files(self, paths: tuple[str, ...]) -> Iterator[InputError]:
        """Find the files; yields unreadable inputs."""
        error_messages: list[str] = []
        for input_path in resolve_paths(
            paths, error_messages.append, accepts_stdin=True, includes_duplicates=True
        ):
            if input_path.file is not None:
                self._file_groups.append(_FileGroup(None, [input_path.file]))
                continue
            n_files = 0
            for directory in input_path.directories:
                files = list(
                    iter_input_files([directory], LOG_KINDS, self.run.summary.skipped_counts)
                )
                n_files += len(files)
                self._file_groups.append(_FileGroup(directory, files))
            if not input_path.listing_errors and not n_files:
                error_messages.append(format_no_logs_message(input_path.path))
        yield from map(InputError, error_messages)
        visited: set[str] = set()
        for group in sorted(self._file_groups, key=lambda group: group.directory is None):
            group.files = list(distinct_files(group.files, visited))
        self._file_sizes = [file_size(file) for file in self._files]

    @property
    def _files(self) -> list[InputFile]:
        return [file for group in self._file_groups for file in group.files]

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(self._file_sizes)

    def process_files(
        self, on_progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[RunEvent]:
        """Check all files; yields findings and results in order."""
        files_and_sizes = zip(self._files, self._file_sizes, strict=True)
        n_processes = useful_process_count(self.options.n_jobs, self.total_bytes)
        check_outcomes = process_items(
            LogCheckProcessor(self._log_checker), files_and_sizes, n_processes, on_progress
        )
        explicit_files = (
            file for group in self._file_groups if group.directory is None for file in group.files
        )
        explicit_identities = {path_identity(file.path) for file in explicit_files}
        for group in self._file_groups:
            yield from self._iter_group_events(
                group, explicit_identities, check_outcomes, on_progress
            )

    def _iter_group_events(
        self,
        group: _FileGroup,
        explicit_identities: Collection[str],
        check_outcomes: Iterator[WorkOutcome[CheckOutcome[LogCheckResult]]],
        on_progress: Callable[[int], None],
    ) -> Iterator[RunEvent]:
        """Yield the events of the files of a group, then findings across them. explicit_identities:
        identities of the files that the user named."""
        directory_checks = DirectoryChecks()
        for file in group.files:
            outcome = next(check_outcomes)
            result = self._create_result(file.name, _kind_name(file))
            if outcome is None:
                finding_capture = ReturnCapture(self._log_checker.iter_findings(file, on_progress))
                yield from _iter_counted_findings(result, finding_capture)
                check_result = finding_capture.value
            else:
                check_result, findings = (
                    (outcome, []) if isinstance(outcome, InputError) else outcome
                )
                yield from _iter_counted_findings(result, findings)
            if isinstance(check_result, InputError):
                yield check_result
                result.is_partial, complete_result = True, None
            else:
                result.counts = {
                    name: getattr(check_result, name) for name in LOG_RESULT.count_names
                }
                complete_result = check_result
            yield result
            directory_checks.add_log(file, complete_result)
        if group.directory is not None and (
            directory_findings := select_about_existing(
                group.directory,
                directory_checks.final_findings(group.directory, explicit_identities),
            )
        ):
            result_kind = "partition" if any(map(is_segment_log, group.files)) else "directory"
            result = self._create_result(group.directory.name, result_kind)
            result.is_directory = True
            yield from _iter_counted_findings(result, directory_findings)
            yield result

    def _create_result(self, name: str, kind: str) -> FileResult:
        return FileResult(
            LOG_RESULT, name, kind, findings=FindingCollector(self.options.max_findings)
        )


def _iter_counted_findings(result: FileResult, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Count all findings in the result and yield those to show."""
    for finding in findings:
        result.count_findings(finding.code)
        if result.findings.count_and_admit(finding):
            yield finding


def _kind_name(file: InputFile) -> str:
    """The file's kind; a file of unknown kind counts as a log."""
    return file.kind.name if file.kind in LOG_KINDS else LOG_KIND.name


def check_as_kind(run: CommandRun, kind: FileKind, paths: tuple[str, ...]) -> ExitCode:
    """Check files as one kind, regardless of their names; returns the exit code."""
    files = [replace(classify_file(path, path), kind=kind) for path in paths]
    run.sink.begin_results(LOG_RESULT)
    with run.output.progress(sum(map(file_size, files))) as progress:
        for file in files:
            with run.catch_input_errors():
                contents = file.read_contents()
                progress.on_progress(contents.size)
                counts = {"bytes": contents.size, "records": len(contents.table)}
                findings = FindingCollector(run.max_findings)
                result = FileResult(LOG_RESULT, file.name, kind.name, counts, findings=findings)
                result.add_findings(contents.findings)
                run.handle_events(iter_result_events(result))
    return run.finish()
