"""check: everything about partitions that can be verified offline, and what a broker would do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.broker.start.directory import (
    LogDirectory,
    is_log_directory,
    read_log_directory,
)
from kfmt_cli.checks.index.checker import IndexChecker
from kfmt_cli.checks.log.verifier import Verified, Verifier
from kfmt_cli.commands.check.directories import CheckedPartitions
from kfmt_cli.commands.check.report import Report, show
from kfmt_cli.commands.index_check import IndexCheck
from kfmt_cli.commands.run import Event, Run, Unread
from kfmt_cli.commands.verify import Verify
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds import UNKNOWN, is_transient, kind_of
from kfmt_cli.disk.kinds.kind import LEFT_BEHIND, Input, Kind
from kfmt_cli.disk.kinds.logs import LOGS
from kfmt_cli.disk.segment import SEGMENT_KINDS
from kfmt_cli.disk.tree import (
    Folder,
    classify,
    is_folder,
    is_of_broker,
    is_segment,
    no_log,
    printable,
    size_of,
    walk,
)
from kfmt_cli.errors import InputError
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.damage import BATCH_TRUNCATED, FILE_GREW, GARBAGE, ZERO_TAIL
from kfmt_cli.findings.finding import MOST_FINDINGS, Finding
from kfmt_cli.rows.result import Result

# A file that is named like nothing else is taken for a log, and says so if it is none.
_LOGS = LOGS | {UNKNOWN}
# What a broker that goes on writing leaves at the end of a log for a moment.
_UNFINISHED = frozenset({BATCH_TRUNCATED, ZERO_TAIL, GARBAGE})


@dataclass(slots=True)
class CheckPaths:
    """One call of `check`. takes: which findings count."""

    run: Run
    jobs: int = 1
    limit: Limit = field(default_factory=Limit)
    interval: int = INDEX_INTERVAL_BYTES
    most_findings: int = MOST_FINDINGS
    takes: Callable[[str], bool] = lambda _: True
    _reports: dict[str, Report] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _below: dict[str, list[Folder]] = field(default_factory=dict)

    def paths(self, paths: tuple[str, ...]) -> None:
        """Check everything below some paths, and show what came of it."""
        folders, files = self._plan(paths)
        verify = Verify(Verifier(True, self.limit, self.jobs), self.jobs, self.most_findings)
        verify.told = self._verified
        index = IndexCheck(IndexChecker(self.limit, self.interval, self.most_findings), self.jobs)
        there = [it for it in paths if it in files or is_folder(it)]
        is_broker = any(is_log_directory(it) for it in folders)
        for path in there:
            if path in files or any(map(_is_of_kafka, self._below[path])):
                continue
            # An empty one next to a broker's may be a log directory that is new.
            if not (is_broker and _is_empty(self._below[path])):
                self.run.complain(no_log(path))
        logs = tuple(it for it in there if self._has(it, files, _LOGS))
        self._take(verify.plan(logs))
        planned = index.plan(tuple(it for it in there if self._has(it, files, SEGMENT_KINDS)))
        # What cannot be listed has been said.
        self._take(it for it in planned if it.file in files)
        given = {str(Path(it)) for it in there if it not in files}
        directories = _log_directories(folders, given)
        with self.run.host.progress(2 * verify.total + index.total) as progress:
            self._take(verify.events(progress.advance))
            partitions = CheckedPartitions(
                self._reports,
                self._finding,
                self._report_of,
                self.jobs,
                self.interval,
                directories,
            )
            index.checker = replace(index.checker, trusts=partitions.is_sound)
            # What is wrong with a log has been found by then.
            found = index.events(progress.advance)
            self._take(it for it in found if _file_of(it) not in self._sizes)
            for folder in folders:
                self._other_files(folder.input(it) for it in folder.readable)
            self._other_files(it for it in files.values() if it.kind not in SEGMENT_KINDS)
            partitions.histories(folders, progress.advance)
        partitions.losses(folders)
        starts = list(partitions.starts(folders, frozenset(given)))
        partitions.checkpoints(folders, starts)
        show(self.run, list(self._reports.values()), starts, partitions)

    def _plan(self, paths: tuple[str, ...]) -> tuple[list[Folder], dict[str, Input]]:
        """The directories below the paths, and the files among them."""
        folders: dict[str, Folder] = {}
        files: dict[str, Input] = {}
        for path in paths:
            if not is_folder(path):
                if not Path(path).exists():
                    self.run.complain(f"{printable(path)}: No such file or directory")
                    continue
                files[path] = classify(path, path)
                self._report(str(Path(path).parent) if "/" in path else ".", path)
                continue
            self._below[path] = walk(path, len(paths) > 1, lambda _: None)
            for folder in self._below[path]:
                folders.setdefault(str(Path(folder.path).resolve()), folder)
        for real, folder in folders.items():
            name = folder.name
            shown = real.rpartition("/")[2] if name == "." else name
            self._reports[name] = Report(shown, folder.path, folder)
        return list(folders.values()), files

    def _has(self, path: str, files: dict[str, Input], kinds: frozenset[Kind]) -> bool:
        """Whether a path has files of some kinds that are in use."""
        if path in files:
            return files[path].kind in kinds
        kinds -= {UNKNOWN}
        mine = (
            kind_of(name)
            for folder in self._below[path]
            for name in folder.files
            if folder.takes_any or is_of_broker(name)
        )
        return any(kind in kinds and not suffix for kind, _, suffix in mine)

    def _report(self, name: str, path: str) -> Report:
        """The report on a directory."""
        return self._reports.setdefault(name, Report(name, path, None))

    def _report_of(self, file: str) -> Report:
        """The report that a file belongs to."""
        if file in self._reports:
            return self._reports[file]
        folder = file.rpartition("/")[0] or "."
        return self._report(folder, folder)

    def _take(self, events: Iterable[Event]) -> None:
        """Sort what is found by partition."""
        for event in events:
            if isinstance(event, Finding):
                self._finding(event)
            elif isinstance(event, Result) and event.numbers.get("records"):
                self._report_of(event.file).records += event.numbers["records"] or 0
            elif isinstance(event, Unread):
                self._unread(event)

    def _unread(self, event: Unread) -> None:
        """An input that could not be read; a file that is gone by now is none."""
        if event.is_gone and self._is_below(event.file):
            self.run.sink.remark(f"{printable(event.file)} was deleted while kfmt was reading it")
            return
        self.run.complain(event.words)

    def _is_below(self, file: str) -> bool:
        """Whether a file was found in a directory, so that it was there a moment ago."""
        above = Path(file).parent
        return any(Path(it.path) == above for below in self._below.values() for it in below)

    def _finding(self, finding: Finding) -> None:
        report = self._report_of(finding.file)
        if finding.code in _UNFINISHED and self._grew(report, finding.file):
            words = "it was written to while it was read; its end was not checked"
            finding = Finding(finding.file, FILE_GREW, finding.position, words)
        report.all.append(finding)
        if self.takes(finding.code.name):
            report.count([finding])
            report.findings.take([finding])

    def _grew(self, report: Report, file: str) -> bool:
        """Whether a file is longer than it was found."""
        before = self._sizes.get(file)
        if before is None or report.folder is None:
            return False
        now = size_of(report.folder.input(file.rpartition("/")[2]))
        return now > before

    def _verified(self, file: Input, verified: Verified) -> None:
        report = self._report_of(file.name)
        self._sizes[file.name] = verified.bytes
        report.bytes += verified.bytes
        if is_segment(file):
            base = file.base_offset or 0
            report.segments += 1
            first, last = verified.extent.first, verified.extent.last
            report.extents[base] = (
                base if first is None else first,
                base if last is None else last + 1,
            )

    def _other_files(self, files: Iterable[Input]) -> None:
        """The files that are neither logs nor indexes."""
        for file in files:
            if is_transient(file.path):
                if file.path.endswith(LEFT_BEHIND):
                    words = "a broker was done with it, or has not finished it"
                    self._finding(Finding(file.name, codes.LEFT_OVER, None, words))
                continue
            if file.kind in SEGMENT_KINDS or file.kind.holds_batches or file.kind.read is None:
                continue
            if file.kind is UNKNOWN:
                continue
            try:
                contents = file.kind.read(file)
            except InputError as error:
                self._unread(Unread.of(error))
                continue
            for finding in contents.findings:
                self._finding(finding)


def _file_of(event: Event) -> str:
    """The file that something is about."""
    return event.file if isinstance(event, Finding | Result) else ""


def _log_directories(folders: list[Folder], given: set[str]) -> dict[str, LogDirectory]:
    """The log directories among some directories, by path; one that is empty is such where it is
    given together with others."""
    found = {}
    for folder in folders:
        path = str(Path(folder.path))
        is_new = path in given and len(given) > 1 and _is_empty([folder])
        if is_new or is_log_directory(folder):
            found[path] = read_log_directory(folder)
    return found


def _is_empty(folders: list[Folder]) -> bool:
    """Whether there is nothing in a directory."""
    return not any(it.files or it.folders for it in folders)


def _is_of_kafka(folder: Folder) -> bool:
    """Whether a directory has a file that a broker writes."""
    return any(folder.takes_any or is_of_broker(it) for it in folder.files)


def of_codes(only: tuple[str, ...], ignore: tuple[str, ...]) -> Callable[[str], bool]:
    """Which findings count."""
    return partial(_counts, frozenset(only), frozenset(ignore))


def _counts(only: frozenset[str], ignore: frozenset[str], name: str) -> bool:
    return (not only or name in only) and name not in ignore
