"""verify-crc: checks every log, small ones together, large ones in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.checks.log.verifier import Checked, Returning, Verified, Verifier
from kfmt_cli.checks.partition.folder import FolderChecks
from kfmt_cli.commands.run import Event, Run, told
from kfmt_cli.commands.verify_crc.log_work import LogWork
from kfmt_cli.disk.kinds.kind import Input, Kind
from kfmt_cli.disk.kinds.logs import LOG, LOGS
from kfmt_cli.disk.names import identity
from kfmt_cli.disk.targets import targets
from kfmt_cli.disk.tree import Folder, classify, distinct, inputs_in, is_segment, no_log, size_of
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.findings.finding import MOST_FINDINGS, Finding, Findings
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.sharing.engine import Outcome, outcomes
from kfmt_cli.sharing.processes import worth

LOG_RESULT = ResultType(
    ("bytes", "batches", "records"),
    {"batches": 9, "records": 11, "bytes": 14},
    hint="--wide",
)


@dataclass(slots=True)
class _Files:
    """Files that belong together."""

    folder: Folder | None
    """Their directory; None for a single file."""
    files: list[Input]


@dataclass(slots=True)
class Verify:
    """One call of `verify-crc`."""

    verifier: Verifier
    jobs: int = 1
    """Number of processes."""
    most_findings: int = MOST_FINDINGS
    passed_over: Counter[str] = field(default_factory=Counter)
    """Number of files in directories that are not checked, by kind."""
    _groups: list[_Files] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)

    def plan(self, paths: tuple[str, ...]) -> Iterator[InputError]:
        """Find the files; yields unreadable inputs."""
        unread: list[str] = []
        for target in targets(paths, unread.append, takes_pipe=True, copies=True):
            if target.file is not None:
                self._groups.append(_Files(None, [target.file]))
                continue
            n_files = 0
            for folder in target.folders:
                files = list(inputs_in([folder], LOGS, self.passed_over))
                n_files += len(files)
                self._groups.append(_Files(folder, files))
            if not target.unlisted and not n_files:
                unread.append(no_log(target.path))
        yield from map(InputError, unread)
        seen: set[str] = set()
        for group in sorted(self._groups, key=lambda group: group.folder is None):
            group.files = list(distinct(group.files, seen))
        self._sizes = [size_of(file) for file in self._files]

    @property
    def _files(self) -> list[Input]:
        return [file for group in self._groups for file in group.files]

    @property
    def total(self) -> int:
        """Bytes of all files."""
        return sum(self._sizes)

    def events(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[Event]:
        """Check all files; yields findings and results in order."""
        sized = zip(self._files, self._sizes, strict=True)
        jobs = worth(self.jobs, self.total)
        found = outcomes(LogWork(self.verifier), sized, jobs, advance)
        alone = (file for group in self._groups if group.folder is None for file in group.files)
        given = {identity(file.path) for file in alone}
        for group in self._groups:
            yield from self._group(group, given, found, advance)

    def _group(
        self,
        group: _Files,
        given: Collection[str],
        found: Iterator[Outcome[Checked[Verified]]],
        advance: Callable[[int], None],
    ) -> Iterator[Event]:
        """Yield the events of the files of a group, then findings across them. given: the real
        paths of files that are no directory's."""
        checks = FolderChecks()
        for file in group.files:
            outcome = next(found)
            result = self._result(file.name, _kind_name(file))
            if outcome is None:
                check = Returning(self.verifier.findings(file, advance))
                yield from _counted(result, check)
                verified = check.value
            else:
                verified, findings = (outcome, []) if isinstance(outcome, InputError) else outcome
                yield from _counted(result, findings)
            if isinstance(verified, InputError):
                yield verified
                result.is_partial, whole = True, None
            else:
                result.numbers = {name: getattr(verified, name) for name in LOG_RESULT.numbers}
                whole = verified
            yield result
            checks.take(file, whole)
        if group.folder is not None and (across := checks.finish(group.folder, given)):
            kind = "partition" if any(map(is_segment, group.files)) else "directory"
            result = self._result(group.folder.name, kind)
            result.of_directory = True
            yield from _counted(result, across)
            yield result

    def _result(self, name: str, kind: str) -> Result:
        return Result(LOG_RESULT, name, kind, findings=Findings(self.most_findings))


def _counted(result: Result, found: Iterable[Finding]) -> Iterator[Finding]:
    """Count all findings in the result and yield those to show."""
    for finding in found:
        result.count(finding.code)
        if result.findings.admits(finding):
            yield finding


def _kind_name(file: Input) -> str:
    """The file's kind; a file of unknown kind counts as a log."""
    return file.kind.name if file.kind in LOGS else LOG.name


def verify_kind(run: Run, kind: Kind, paths: tuple[str, ...]) -> ExitCode:
    """Check the files given as files of one kind; returns the exit code."""
    files = [replace(classify(path, path), kind=kind) for path in paths]
    run.sink.results(LOG_RESULT)
    with run.host.progress(sum(map(size_of, files))) as progress:
        for file in files:
            with run.complaining():
                contents = file.contents()
                progress.advance(contents.size)
                numbers = {"bytes": contents.size, "records": len(contents.table)}
                kept = Findings(run.most_findings)
                result = Result(LOG_RESULT, file.name, kind.name, numbers, findings=kept)
                result.take(contents.findings)
                run.all(told(result))
    return run.end()
