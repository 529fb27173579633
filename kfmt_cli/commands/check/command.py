"""check: everything about partitions that can be verified offline, and the effect on a broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kfmt_cli.broker.start.checkpoints import is_log_directory, names_in_place
from kfmt_cli.broker.start.directory import LogDirectory, read_log_directory
from kfmt_cli.broker.version import PredictedVersion
from kfmt_cli.checks.history.history_check import HistoryCheck
from kfmt_cli.checks.index.checker import IndexChecker
from kfmt_cli.checks.log.checker import CheckOutcome, LogChecker, LogCheckResult, ReturnCapture
from kfmt_cli.checks.partition.coordinators import CoordinatorLoadingCheck
from kfmt_cli.checks.partition.directory import DirectoryChecks
from kfmt_cli.checks.segment_checker import SegmentChecker, SegmentCheckResult
from kfmt_cli.commands.check.check_results import CheckResults
from kfmt_cli.commands.check.directory_result import CHECK_RESULT, DirectoryCheckResult
from kfmt_cli.commands.check.options import CheckOptions
from kfmt_cli.commands.check.read_positions import iter_range_findings
from kfmt_cli.commands.check.result_output import show_check_results
from kfmt_cli.commands.check.second_look import look_again
from kfmt_cli.commands.check.segment_processor import (
    SegmentCheckProcessor,
    SegmentGroup,
    iter_unvisited_segments,
    measure_segments,
    segments_in,
)
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.disk.directory_listing import (
    DirectoryListing,
    file_size,
    format_no_logs_message,
    is_segment_log,
)
from kfmt_cli.disk.file_names import path_identity
from kfmt_cli.disk.input_paths import InputPath, resolve_paths, resolve_trailing_parent
from kfmt_cli.disk.kinds import INDEX_KINDS, UNKNOWN_KIND, is_transient_file
from kfmt_cli.disk.kinds.kind import LEFTOVER_SUFFIXES, InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KINDS
from kfmt_cli.disk.path_resolution import is_tiered
from kfmt_cli.disk.segment import SEGMENT_KINDS, Segment
from kfmt_cli.errors import (
    ExitCode,
    InputError,
    InputErrorHandler,
    UnreadableBytesError,
    UsageError,
    unknown_name_question,
)
from kfmt_cli.execution.item_processor import WorkOutcome, process_items
from kfmt_cli.execution.processes import useful_process_count
from kfmt_cli.findings import codes
from kfmt_cli.findings.codes import BATCH_TRUNCATED, FILE_GREW, GARBAGE, ZERO_TAIL
from kfmt_cli.findings.finding import Finding, FindingCollector
from kfmt_cli.options.common import predicted_version

if TYPE_CHECKING:
    from kfmt_cli.commands.stat.shape_totals import LogSummaryCache

# A file of unknown type is read as a log; reading fails if it is not one.
_POSSIBLE_LOG_KINDS = LOG_KINDS | {UNKNOWN_KIND}
# Findings that a running broker causes briefly at the end of a log it is writing.
_ACTIVE_LOG_END_CODES = frozenset({BATCH_TRUNCATED, ZERO_TAIL, GARBAGE})


@dataclass(slots=True)
class CheckCommand:
    """One call of `check`."""

    run: CommandRun
    options: CheckOptions
    needs_fingerprints: bool = False
    """Whether to compute fingerprints of the logs, to compare replicas afterwards."""
    log_summaries: LogSummaryCache | None = None
    """Receives the statistics of healthy logs, for `stat`."""
    _result_by_name: dict[str, DirectoryCheckResult] = field(default_factory=dict)
    _size_by_name: dict[str, int] = field(default_factory=dict)
    _explicit_file_identities: set[str] = field(default_factory=set)
    # Reported after the findings about logs.
    _index_findings: list[FindingCollector] = field(default_factory=list)
    _history_findings: list[Finding] = field(default_factory=list)
    _is_shown_code: Callable[[str], bool] = field(init=False)
    """Whether findings with this code count."""
    _explicit_version: PredictedVersion | None = field(init=False)
    """The version that the user named."""

    def __post_init__(self) -> None:
        """Raise UsageError for unknown codes or versions."""
        self._is_shown_code = code_filter(self.options.only, self.options.ignore)
        self._explicit_version = predicted_version(self.options.kafka)

    def execute(self) -> ExitCode:
        """Check everything under some paths and show the result. Returns the exit code; raises
        UsageError."""
        self.run.set_result_type(CHECK_RESULT)
        self.run.sink.begin_results(CHECK_RESULT)
        throttle = self.options.throttle
        with READ_THROTTLE.limit_rate(None if throttle is None else int(throttle * 1_000_000)):
            return show_check_results(self.run, self.check_paths(self.options.paths or (".",)))

    def check_paths(
        self, paths: Sequence[InputPath | str], *, is_one_broker: bool = True
    ) -> CheckResults:
        """Check everything under some paths; raises UsageError. is_one_broker: whether directories
        with the same id belong to one broker and are not copies."""
        check_results, listings, explicit_paths = self._check_files(paths)
        listings = look_again(self._result_by_name, listings, self._check_again)
        check_results.predict_starts(listings, explicit_paths if is_one_broker else frozenset())
        check_results.check_coordinators()
        check_results.check_checkpoints(listings)
        self._check_reading_positions(check_results.log_directory_by_path)
        check_results.report_unreadable()
        return check_results

    def _check_again(self, paths: list[str]) -> dict[str, DirectoryCheckResult]:
        """The results of checking the files in some directories once more."""
        command = CheckCommand(self.run, self.options, self.needs_fingerprints)
        command._check_files(paths)
        return command._result_by_name

    def _check_files(
        self, paths: Sequence[InputPath | str]
    ) -> tuple[CheckResults, list[DirectoryListing], frozenset[str]]:
        """Check the files under some paths: returns the results, the directories, and the paths of
        those that the user named. Raises UsageError."""
        # A directory's name and its neighbours matter.
        normalized_paths = [
            resolve_trailing_parent(path) if isinstance(path, str) else path for path in paths
        ]
        input_paths = list(
            resolve_paths(normalized_paths, self.run.report_input_error, includes_duplicates=True)
        )
        listings = self._distinct_listings(input_paths)
        self._report_missing_logs(input_paths, listings)
        segment_groups = self._create_segment_groups(input_paths, listings)
        explicit_paths = frozenset(
            str(Path(input_path.path))
            for input_path in input_paths
            if input_path.file is None and not is_tiered(input_path.path)
        )
        self._explicit_file_identities = {
            path_identity(input_path.path)
            for input_path in input_paths
            if input_path.file is not None
        }
        check_results = CheckResults(
            self._result_by_name,
            self._add_finding,
            self._directory_result,
            self.run.report_input_error,
            self.options.index_interval_bytes,
            _read_log_directories(listings, explicit_paths),
            self._explicit_version,
            shows_both_kinds=self.options.both,
        )
        check_results.read_parents(listings)
        sized_segments = measure_segments(segment_groups)
        total_bytes = sum(size for _, size in sized_segments)
        with self.run.output.progress(total_bytes) as progress:
            processor = SegmentCheckProcessor(self._segment_checker)
            n_processes = useful_process_count(self.options.n_jobs, total_bytes)
            on_progress = progress.on_progress
            outcomes = process_items(processor, sized_segments, n_processes, on_progress)
            for segment_group in segment_groups:
                self._check_segment_group(segment_group, outcomes, check_results, on_progress)
        for collector in self._index_findings:
            self._add_findings(collector)
            self._count_suppressed(collector)
        for listing in listings:
            self._check_other_files(map(listing.input_file, names_in_place(listing)))
        files = filter(None, (input_path.file for input_path in input_paths))
        self._check_other_files(file for file in files if file.kind not in SEGMENT_KINDS)
        self._add_findings(self._history_findings)
        check_results.check_lost_offsets(listings)
        return check_results, listings, explicit_paths

    def _check_reading_positions(self, log_directories: Iterable[str]) -> None:
        """Check the offsets at which groups and mirrors continue, against the logs."""
        if self._is_shown_code(codes.COMMITTED_OFFSET_OUT_OF_RANGE.name):
            self._add_findings(
                iter_range_findings(
                    list(self._result_by_name.values()),
                    log_directories,
                    self.options.decompression_limit,
                    self.run.report_input_error,
                )
            )

    @property
    def _segment_checker(self) -> SegmentChecker:
        log_checker = LogChecker(True, self.options.decompression_limit, self.options.n_jobs)
        index_checker = IndexChecker(
            self.options.decompression_limit,
            self.options.index_interval_bytes,
            self.options.max_findings,
        )
        return SegmentChecker(
            log_checker,
            index_checker,
            self.needs_fingerprints,
            None if self.log_summaries is None else self.log_summaries.shape_factory,
        )

    def _distinct_listings(self, input_paths: list[InputPath]) -> list[DirectoryListing]:
        """The distinct directories, by real path; creates a result for each."""
        listing_by_path: dict[str, DirectoryListing] = {}
        for input_path in input_paths:
            for listing in input_path.directories:
                listing_by_path.setdefault(path_identity(listing.path), listing)
        for listing in listing_by_path.values():
            self._get_or_create_result(listing.name, listing.path, listing)
        return list(listing_by_path.values())

    def _report_missing_logs(
        self, input_paths: list[InputPath], listings: list[DirectoryListing]
    ) -> None:
        """Report directories that the user named and that contain no Kafka files."""
        has_log_directory = any(is_log_directory(listing) for listing in listings)
        for input_path in input_paths:
            has_files = any(listing.has_broker_files for listing in input_path.directories)
            if input_path.file or input_path.listing_errors or has_files:
                continue
            # An empty directory named together with a log directory may be a new log directory.
            if not (has_log_directory and _are_empty(input_path.directories)):
                self.run.report_input_error(format_no_logs_message(input_path.path))

    def _create_segment_groups(
        self, input_paths: list[InputPath], listings: list[DirectoryListing]
    ) -> list[SegmentGroup]:
        """The distinct segments to read, in the order of the paths."""
        listing_ids = set(map(id, listings))
        segment_groups: list[SegmentGroup] = []
        index_segments: list[Segment] = []
        for input_path in input_paths:
            if input_path.file is not None:
                path = input_path.path
                self._get_or_create_result(str(Path(path).parent) if "/" in path else ".", path)
                segment = self._find_segment(input_path, input_path.file)
                if segment is not None and input_path.file.kind in INDEX_KINDS:
                    index_segments.append(segment)
                elif segment is not None:
                    segment_groups.append(SegmentGroup(None, [segment]))
            segment_groups += (
                SegmentGroup(listing, segments_in(listing))
                for listing in input_path.directories
                if id(listing) in listing_ids
            )
        visited_paths: set[str] = set()
        for group in sorted(segment_groups, key=lambda group: group.listing is None):
            group.segments = list(iter_unvisited_segments(group.segments, visited_paths))
        # If the user named an index, its log is not checked.
        for segment in iter_unvisited_segments(index_segments, visited_paths):
            self._index_findings += self._check_indexes(segment)
        return segment_groups

    def _find_segment(self, input_path: InputPath, file: InputFile) -> Segment | None:
        """The segment of a file that the user named; None if the file belongs to no log."""
        if file.kind in SEGMENT_KINDS:
            with InputErrorHandler(self.run.report_input_error):
                return next(input_path.iter_segments())
        return (
            Segment(file, requested_index_kinds=frozenset())
            if file.kind in _POSSIBLE_LOG_KINDS
            else None
        )

    def _check_segment_group(
        self,
        segment_group: SegmentGroup,
        segment_outcomes: Iterator[WorkOutcome[CheckOutcome[SegmentCheckResult]]],
        check_results: CheckResults,
        on_progress: Callable[[int], None],
    ) -> None:
        """Check the segments of a directory, individually and relative to each other."""
        directory_checks = DirectoryChecks()
        history_checks: list[HistoryCheck] | None = None
        loading_check = check_results.create_loading_check(segment_group.listing)
        for segment in segment_group.segments:
            outcome = next(segment_outcomes)
            if segment.log is None:
                self._index_findings += self._check_indexes(segment)
                continue
            segment_result = self._report_segment(
                segment, segment.log, outcome, on_progress, loading_check
            )
            directory_checks.add_log(
                segment.log, None if segment_result is None else segment_result.log_result
            )
            if segment_group.listing is not None and is_segment_log(segment.log):
                if history_checks is None:
                    history_checks = check_results.create_history_checks(segment_group.listing)
                if segment_result is not None and segment_result.history is not None:
                    directory_result = self._result_by_name[segment_group.listing.name]
                    directory_result.has_transactions |= segment_result.history.has_transactions
                    if (fingerprint := segment_result.history.log_fingerprint) is not None:
                        directory_result.fingerprints.append(fingerprint)
                    for history_check in history_checks:
                        self._history_findings += history_check.check_log(segment_result.history)
        loading_check.finish()
        if segment_group.listing is None:
            return
        self._add_findings(
            directory_checks.final_findings(segment_group.listing, self._explicit_file_identities)
        )
        for history_check in history_checks or ():
            self._history_findings += history_check.finish()

    def _report_segment(
        self,
        segment: Segment,
        log_file: InputFile,
        outcome: WorkOutcome[CheckOutcome[SegmentCheckResult]],
        on_progress: Callable[[int], None],
        loading_check: CoordinatorLoadingCheck,
    ) -> SegmentCheckResult | None:
        """Report on one segment; None if its log could not be read."""
        findings: list[Finding] = []
        if outcome is None:
            self._size_by_name[log_file.name] = file_size(log_file)
            finding_capture = ReturnCapture(
                self._segment_checker.iter_findings(segment, on_progress, loading_check.add_block)
            )
            self._add_findings(finding_capture)
            segment_result = finding_capture.value
        else:
            segment_result, findings = (
                (outcome, findings) if isinstance(outcome, InputError) else outcome
            )
        if isinstance(segment_result, InputError):
            loading_check.finish()
            self._add_findings(findings)
            self.run.report_input_error(segment_result)
            if isinstance(segment_result, UnreadableBytesError):
                self._directory_result(log_file.name).n_partly_read_logs += 1
            with InputErrorHandler(
                self.run.report_input_error
            ):  # its indexes may also be unreadable
                self._segment_checker.index_checker.read_indexes(segment)
            return None
        if self.log_summaries is not None and segment_result.numbers is not None:
            self.log_summaries.summary_by_path[log_file.path] = segment_result.numbers
        self._add_log_result(log_file, segment_result.log_result)
        self._add_findings(findings)
        self._index_findings += segment_result.index_findings
        if segment_result.index_error is not None:
            self.run.report_input_error(segment_result.index_error)
        return segment_result

    def _check_indexes(self, segment: Segment) -> list[FindingCollector]:
        """Findings about indexes whose log is missing or not checked."""
        with InputErrorHandler(self.run.report_input_error):
            index_results = self._segment_checker.index_checker.iter_results(
                segment, lambda _: None
            )
            return [index_result.findings for index_result in index_results]
        return []

    def _get_or_create_result(
        self, directory_name: str, path: str, listing: DirectoryListing | None = None
    ) -> DirectoryCheckResult:
        """The result for a directory, created if missing."""
        if directory_name not in self._result_by_name:
            collector = FindingCollector(self.options.max_findings)
            self._result_by_name[directory_name] = DirectoryCheckResult(
                directory_name, path, listing, findings=collector
            )
        return self._result_by_name[directory_name]

    def _directory_result(self, file_name: str) -> DirectoryCheckResult:
        """The result for the directory of a file."""
        if file_name in self._result_by_name:
            return self._result_by_name[file_name]
        directory = file_name.rpartition("/")[0] or "."
        return self._get_or_create_result(directory, directory)

    def _add_findings(self, findings: Iterable[Finding]) -> None:
        """Report findings; predictions use only the first ones of each file and kind."""
        collector_by_file: defaultdict[str, FindingCollector] = defaultdict(FindingCollector)
        for finding in findings:
            self._add_finding(finding, collector_by_file[finding.file].count_and_admit(finding))

    def _count_suppressed(self, collector: FindingCollector) -> None:
        """Count the findings about an index that its collector suppressed."""
        for code, n_suppressed in collector.iter_suppressed_counts():
            directory_result = self._directory_result(collector.shown_findings[0].file)
            if self._is_shown_code(code.name):
                directory_result.count_findings(code, n_suppressed)
                directory_result.findings.count_suppressed(code, n_suppressed)
            else:
                directory_result.n_hidden_findings += n_suppressed

    def _add_finding(self, finding: Finding, is_for_predictions: bool = True) -> None:
        directory_result = self._directory_result(finding.file)
        if finding.code in _ACTIVE_LOG_END_CODES and self._has_file_grown(
            directory_result, finding.file
        ):
            message = "the file was being written to; its end was not checked"
            finding = Finding(finding.file, FILE_GREW, finding.position, message)
        if is_for_predictions:
            directory_result.all_findings.append(finding)
        if not self._is_shown_code(finding.code.name):
            directory_result.n_hidden_findings += 1
        elif not self.run.is_known(finding):
            directory_result.count_findings(finding.code)
            directory_result.findings.add_findings([finding])

    def _has_file_grown(self, directory_result: DirectoryCheckResult, file_name: str) -> bool:
        """Whether a file has grown since it was read."""
        previous_size = self._size_by_name.get(file_name)
        if previous_size is None or directory_result.listing is None:
            return False
        current_size = file_size(directory_result.listing.input_file(file_name.rpartition("/")[2]))
        return current_size > previous_size

    def _add_log_result(self, log_file: InputFile, log_result: LogCheckResult) -> None:
        directory_result = self._directory_result(log_file.name)
        self._size_by_name[log_file.name] = log_result.bytes
        directory_result.bytes += log_result.bytes
        # The log contains the state in a snapshot, or did.
        directory_result.records += (
            log_result.records if log_file.kind is not KRAFT_SNAPSHOT_KIND else 0
        )
        if is_segment_log(log_file):
            base_offset = log_file.base_offset_or_zero
            directory_result.segments += 1
            first_offset, last_offset = log_result.offset_range.first, log_result.offset_range.last
            directory_result.offset_intervals[base_offset] = (
                base_offset if first_offset is None else first_offset,
                base_offset if last_offset is None else last_offset + 1,
            )

    def _check_other_files(self, files: Iterable[InputFile]) -> None:
        """Check the files that are neither logs nor indexes."""
        for file in files:
            if is_transient_file(file.path):
                if file.path.endswith(LEFTOVER_SUFFIXES):
                    message = "leftover file: a broker had finished with it, or never completed it"
                    self._add_finding(Finding(file.name, codes.LEFT_OVER_FILE, None, message))
                continue
            if file.kind in SEGMENT_KINDS or file.kind.has_batches or file.kind.reader is None:
                continue
            if file.kind is UNKNOWN_KIND:
                continue
            with InputErrorHandler(self.run.report_input_error):
                self._add_findings(file.kind.reader(file).findings)


def _read_log_directories(
    listings: list[DirectoryListing], explicit_paths: frozenset[str]
) -> dict[str, LogDirectory]:
    """The log directories among some directories, by path; an empty one counts if the user named
    several directories."""
    log_directory_by_path = {}
    for listing in listings:
        path = str(Path(listing.path))
        is_empty_directory = (
            path in explicit_paths and len(explicit_paths) > 1 and _are_empty([listing])
        )
        if is_empty_directory or is_log_directory(listing):
            log_directory_by_path[path] = read_log_directory(listing)
    return log_directory_by_path


def _are_empty(listings: list[DirectoryListing]) -> bool:
    """Whether directories have no files and no subdirectories."""
    return not any(listing.files or listing.directories for listing in listings)


def code_filter(only: Iterable[str], ignore: Iterable[str]) -> Callable[[str], bool]:
    """A function that tells whether findings with a code count; raises UsageError for an unknown
    code."""
    from kfmt_cli.findings.codes import finding_code_by_name

    shown_codes, hidden_codes = (
        frozenset(map(str.lower, option_values)) for option_values in (only, ignore)
    )
    code_names = finding_code_by_name() if shown_codes or hidden_codes else ()
    for code_name in sorted(shown_codes | hidden_codes):
        if code_name not in code_names:
            question = unknown_name_question(
                code_name, code_names, "; run kfmt explain to list all"
            )
            raise UsageError(f"no finding named {code_name!r}{question}")
    return lambda code_name: (
        (not shown_codes or code_name in shown_codes) and code_name not in hidden_codes
    )
