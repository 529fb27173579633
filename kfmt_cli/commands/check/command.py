"""check: everything about partitions that can be verified offline, and the effect on a broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.broker.start.directory import LogDirectory, read_log_directory
from kfmt_cli.broker.start.own_files import is_log_directory
from kfmt_cli.broker.version import PredictedFor
from kfmt_cli.checks.history.scopes import HistoryCheck
from kfmt_cli.checks.index.checker import IndexChecker
from kfmt_cli.checks.log.verifier import Checked, Returning, Verified, Verifier
from kfmt_cli.checks.partition.folder import FolderChecks
from kfmt_cli.checks.whole_segment import CheckedSegment, SegmentChecker
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT, CheckedDirectory
from kfmt_cli.commands.check.directories import CheckedPartitions
from kfmt_cli.commands.check.read_segments import SegmentGroup, SegmentWork, segments_in, sized
from kfmt_cli.commands.check.show import show
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.given import is_tiered
from kfmt_cli.disk.kinds import INDEXES, UNKNOWN, is_transient
from kfmt_cli.disk.kinds.kind import LEFT_BEHIND, Input
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOGS
from kfmt_cli.disk.names import identity
from kfmt_cli.disk.segment import SEGMENT_KINDS, Segment
from kfmt_cli.disk.targets import GivenPath, normalized, targets
from kfmt_cli.disk.tree import Folder, is_segment, no_log, size_of
from kfmt_cli.errors import Caught, ExitCode, InputError, LostBytesError, UsageError
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.damage import BATCH_TRUNCATED, FILE_GREW, GARBAGE, ZERO_TAIL
from kfmt_cli.findings.finding import MOST_FINDINGS, Finding, Findings
from kfmt_cli.sharing.engine import Outcome, outcomes
from kfmt_cli.sharing.processes import worth

if TYPE_CHECKING:
    from kfmt_cli.commands.stat.log_shapes import CountedLogs

# A file of unknown type is read as a log; reading fails if it is not one.
_LOGS = LOGS | {UNKNOWN}
# What a running broker leaves briefly at the end of a log that it is writing.
_UNFINISHED = frozenset({BATCH_TRUNCATED, ZERO_TAIL, GARBAGE})


@dataclass(slots=True)
class CheckPaths:
    """One call of `check`."""

    run: Run
    jobs: int = 1
    limit: Limit = field(default_factory=Limit)
    interval: int = INDEX_INTERVAL_BYTES
    kafka: PredictedFor | None = None
    """The version that the user named."""
    most_findings: int = MOST_FINDINGS
    takes: Callable[[str], bool] = lambda _: True
    """Whether findings with this code count."""
    prints: bool = False
    """Whether replicas are compared after it: takes the prints of logs."""
    counted: CountedLogs | None = None
    """Receives the numbers of healthy logs, for `stat`."""
    _reports: dict[str, CheckedDirectory] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _places: set[str] = field(default_factory=set)
    _given: set[str] = field(default_factory=set)
    # Reported after the findings about logs.
    _of_indexes: list[Findings] = field(default_factory=list)
    _of_histories: list[Finding] = field(default_factory=list)

    def paths(self, paths: tuple[str, ...]) -> ExitCode:
        """Check everything under some paths and show the result. Returns the exit code; raises
        UsageError."""
        self.run.sink.results(CHECK_RESULT)
        return show(self.run, self.look(paths))

    def look(self, paths: Sequence[GivenPath | str], *, together: bool = True) -> CheckedPartitions:
        """Check everything under some paths; raises UsageError. together: whether directories with
        the same id are of one broker, not copies."""
        # A directory's name and its neighbours matter.
        named = [normalized(path) if isinstance(path, str) else path for path in paths]
        found = list(targets(named, self.run.complain, copies=True))
        folders = self._folders(found)
        self._complain_of_none(found, folders)
        groups = self._groups(found, folders)
        given = frozenset(
            str(Path(target.path))
            for target in found
            if target.file is None and not is_tiered(target.path)
        )
        self._given = {identity(target.path) for target in found if target.file is not None}
        partitions = CheckedPartitions(
            self._reports,
            self._finding,
            self._report_of,
            self._unread,
            self.interval,
            _log_directories(folders, given),
            self.kafka,
        )
        segments = sized(groups)
        total = sum(size for _, size in segments)
        with self.run.host.progress(total) as progress:
            work, jobs = SegmentWork(self._checker), worth(self.jobs, total)
            checked = outcomes(work, segments, jobs, progress.advance)
            for group in groups:
                self._group(group, checked, partitions, progress.advance)
        for of_index in self._of_indexes:
            self._findings(of_index)
            self._left_out(of_index)
        for folder in folders:
            self._other_files(folder.input(name) for name in folder.readable)
        files = (target.file for target in found if target.file is not None)
        self._other_files(file for file in files if file.kind not in SEGMENT_KINDS)
        self._findings(self._of_histories)
        partitions.losses(folders)
        partitions.predict(folders, given if together else frozenset())
        partitions.checkpoints(folders)
        partitions.tell_unread()
        return partitions

    @property
    def _checker(self) -> SegmentChecker:
        logs = Verifier(True, self.limit, self.jobs)
        indexes = IndexChecker(self.limit, self.interval, self.most_findings)
        return SegmentChecker(
            logs, indexes, self.prints, None if self.counted is None else self.counted.shapes
        )

    def _folders(self, found: list[GivenPath]) -> list[Folder]:
        """The distinct directories, by real path; creates a report for each."""
        by_path: dict[str, Folder] = {}
        for target in found:
            for folder in target.folders:
                by_path.setdefault(identity(folder.path), folder)
        for folder in by_path.values():
            self._report(folder.name, folder.path, folder)
            self._places.add(str(Path(folder.path)))
        return list(by_path.values())

    def _complain_of_none(self, found: list[GivenPath], folders: list[Folder]) -> None:
        """Complain about given directories without Kafka files."""
        is_broker = any(is_log_directory(folder) for folder in folders)
        for target in found:
            has_files = any(folder.is_of_kafka for folder in target.folders)
            if target.file or target.unlisted or has_files:
                continue
            # An empty directory given with a log directory may be a new log directory.
            if not (is_broker and _is_empty(target.folders)):
                self.run.complain(no_log(target.path))

    def _groups(self, found: list[GivenPath], folders: list[Folder]) -> list[SegmentGroup]:
        """The distinct segments to read, in the order of the paths."""
        taken = set(map(id, folders))
        groups: list[SegmentGroup] = []
        given: list[Segment] = []
        for target in found:
            if target.file is not None:
                path = target.path
                self._report(str(Path(path).parent) if "/" in path else ".", path)
                segment = self._segment_of(target, target.file)
                if segment is not None and target.file.kind in INDEXES:
                    given.append(segment)
                elif segment is not None:
                    groups.append(SegmentGroup(None, [segment]))
            groups += (
                SegmentGroup(folder, segments_in(folder))
                for folder in target.folders
                if id(folder) in taken
            )
        known: set[str] = set()
        for group in sorted(groups, key=lambda group: group.folder is None):
            group.segments = list(_distinct(group.segments, known))
        # The log of an index that was given is not checked.
        for segment in _distinct(given, known):
            self._of_indexes += self._alone(segment)
        return groups

    def _segment_of(self, target: GivenPath, file: Input) -> Segment | None:
        """The segment of a file that was given; None if the file belongs to no log."""
        if file.kind in SEGMENT_KINDS:
            with Caught(self._unread):
                return next(target.segments())
        return Segment(file, wanted=frozenset()) if file.kind in _LOGS else None

    def _group(
        self,
        group: SegmentGroup,
        checked: Iterator[Outcome[Checked[CheckedSegment]]],
        partitions: CheckedPartitions,
        advance: Callable[[int], None],
    ) -> None:
        """Check the segments of a directory, individually and relative to each other."""
        checks = FolderChecks()
        histories: list[HistoryCheck] | None = None
        for segment in group.segments:
            outcome = next(checked)
            if segment.log is None:
                self._of_indexes += self._alone(segment)
                continue
            done = self._segment(segment, segment.log, outcome, advance)
            checks.take(segment.log, None if done is None else done.verified)
            if group.folder is not None and is_segment(segment.log):
                if histories is None:
                    histories = partitions.histories_of(group.folder)
                if done is not None and done.history is not None:
                    report = self._reports[group.folder.name]
                    report.has_transactions |= done.history.has_transactions
                    if (log_print := done.history.print) is not None:
                        report.prints.append(log_print)
                    for check in histories:
                        self._of_histories += check.take(done.history)
        if group.folder is None:
            return
        self._findings(checks.finish(group.folder, self._given))
        for check in histories or ():
            self._of_histories += check.finish()

    def _segment(
        self,
        segment: Segment,
        log: Input,
        outcome: Outcome[Checked[CheckedSegment]],
        advance: Callable[[int], None],
    ) -> CheckedSegment | None:
        """Report on one segment; None if its log could not be read."""
        found: list[Finding] = []
        if outcome is None:
            self._sizes[log.name] = size_of(log)
            check = Returning(self._checker.check(segment, advance))
            self._findings(check)
            done = check.value
        else:
            done, found = (outcome, found) if isinstance(outcome, InputError) else outcome
        if isinstance(done, InputError):
            self._findings(found)
            self._unread(done)
            if isinstance(done, LostBytesError):
                self._report_of(log.name).partly_read += 1
            with Caught(self._unread):  # its indexes may be unreadable, too
                self._checker.indexes.begin(segment)
            return None
        if self.counted is not None and done.numbers is not None:
            self.counted.numbers[log.path] = done.numbers
        self._verified(log, done.verified)
        self._findings(found)
        self._of_indexes += done.index_findings
        if done.unread is not None:
            self._unread(done.unread)
        return done

    def _alone(self, segment: Segment) -> list[Findings]:
        """Findings about indexes whose log is missing or not checked."""
        with Caught(self._unread):
            results = self._checker.indexes.check(segment, lambda _: None)
            return [result.findings for result in results]
        return []

    def _report(self, name: str, path: str, folder: Folder | None = None) -> CheckedDirectory:
        """The report on a directory, created if missing."""
        if name not in self._reports:
            found = Findings(self.most_findings)
            self._reports[name] = CheckedDirectory(name, path, folder, findings=found)
        return self._reports[name]

    def _report_of(self, file: str) -> CheckedDirectory:
        """The report that a file belongs to."""
        if file in self._reports:
            return self._reports[file]
        folder = file.rpartition("/")[0] or "."
        return self._report(folder, folder)

    def _unread(self, error: InputError) -> None:
        """Complain about an unreadable input, unless it was deleted meanwhile."""
        # A file that was listed in a directory existed a moment ago.
        if error.is_gone and str(Path(error.file).parent) in self._places:
            self.run.sink.remark(f"{name_text(error.file)} was deleted while kfmt was reading it")
            return
        self.run.complain(str(error))

    def _findings(self, found: Iterable[Finding]) -> None:
        """Report findings; of each file and kind, what is predicted looks at the first ones."""
        looked_at: defaultdict[str, Findings] = defaultdict(Findings)
        for finding in found:
            self._finding(finding, looked_at[finding.file].admits(finding))

    def _left_out(self, findings: Findings) -> None:
        """Count the findings about an index that were not kept."""
        for code, number in findings.left_out():
            report = self._report_of(findings.held[0].file)
            if self.takes(code.name):
                report.count(code, number)
                report.findings.leave_out(code, number)
            else:
                report.hidden += number

    def _finding(self, finding: Finding, is_looked_at: bool = True) -> None:
        report = self._report_of(finding.file)
        if finding.code in _UNFINISHED and self._grew(report, finding.file):
            words = "the file was being written to; its end was not checked"
            finding = Finding(finding.file, FILE_GREW, finding.position, words)
        if is_looked_at:
            report.all.append(finding)
        if self.takes(finding.code.name):
            report.count(finding.code)
            report.findings.take([finding])
        else:
            report.hidden += 1

    def _grew(self, report: CheckedDirectory, file: str) -> bool:
        """Whether a file has grown since it was read."""
        before = self._sizes.get(file)
        if before is None or report.folder is None:
            return False
        now = size_of(report.folder.input(file.rpartition("/")[2]))
        return now > before

    def _verified(self, file: Input, verified: Verified) -> None:
        report = self._report_of(file.name)
        self._sizes[file.name] = verified.bytes
        report.bytes += verified.bytes
        # What a snapshot sums up is in the log, or was.
        report.records += verified.records if file.kind is not KRAFT_SNAPSHOT else 0
        if is_segment(file):
            base = file.base
            report.segments += 1
            first, last = verified.extent.first, verified.extent.last
            report.extents[base] = (
                base if first is None else first,
                base if last is None else last + 1,
            )

    def _other_files(self, files: Iterable[Input]) -> None:
        """Check the files that are neither logs nor indexes."""
        for file in files:
            if is_transient(file.path):
                if file.path.endswith(LEFT_BEHIND):
                    words = "leftover file: a broker had finished with it, or never completed it"
                    self._finding(Finding(file.name, codes.LEFT_OVER, None, words))
                continue
            if file.kind in SEGMENT_KINDS or file.kind.holds_batches or file.kind.read is None:
                continue
            if file.kind is UNKNOWN:
                continue
            with Caught(self._unread):
                self._findings(file.kind.read(file).findings)


def _distinct(found: Iterable[Segment], known: set[str]) -> Iterator[Segment]:
    """The segments not seen before, by real path; adds them to `known`."""
    for segment in found:
        path = segment.real_path
        if path not in known:
            yield segment
            known.add(path)


def _log_directories(folders: list[Folder], given: frozenset[str]) -> dict[str, LogDirectory]:
    """The log directories among some directories, by path; an empty one counts if it is given
    together with others."""
    found = {}
    for folder in folders:
        path = str(Path(folder.path))
        is_new = path in given and len(given) > 1 and _is_empty([folder])
        if is_new or is_log_directory(folder):
            found[path] = read_log_directory(folder)
    return found


def _is_empty(folders: list[Folder]) -> bool:
    """Whether directories have no files and no subdirectories."""
    return not any(folder.files or folder.folders for folder in folders)


def of_codes(only: Iterable[str], ignore: Iterable[str]) -> Callable[[str], bool]:
    """A test whether findings with this code count; raises UsageError for an unknown one."""
    from kfmt_cli.checks.registry import every_code

    chosen, hidden = (frozenset(map(str.lower, names)) for names in (only, ignore))
    known = every_code() if chosen or hidden else ()
    for name in sorted(chosen | hidden):
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 3, 0.6)
            words = f"did you mean {' or '.join(near)}?" if near else "run kfmt explain to list all"
            raise UsageError(f"no finding named {name!r}; {words}")
    return lambda name: (not chosen or name in chosen) and name not in hidden
