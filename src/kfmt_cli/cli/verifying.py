"""How `verify-crc` goes through its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kfmt_cli.checks.extent import Extent
from kfmt_cli.checks.packs import Healthy, packs, verify_pack
from kfmt_cli.checks.partition import PartitionCheck, SegmentFacts, check_names, is_segment
from kfmt_cli.checks.verify import FileResult, Verifier
from kfmt_cli.cli.report import Report
from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import Finding, Findings
from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import (
    LOGS,
    Folder,
    Input,
    classify,
    distinct,
    inputs_in,
    is_folder,
    no_log,
    size_of,
    walk,
)
from kfmt_cli.render.style import safe

# Processes are worth their start from here on.
MANY_BYTES = 64 << 20
# A process hands so many findings over at once; a file with more is done again, one by one.
MOST_HANDED = 10_000
AT_ONCE = 4  # packs of small files that a process is given in one go

# The numbers of the table and their columns, the more important ones first.
NUMBERS = {"batches": 9, "records": 11, "bytes": 14}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file. result: None where it could not be read, and `trouble` says why."""

    file: Input
    result: FileResult | None
    extent: Extent
    findings: Findings
    trouble: str = ""


@dataclass(slots=True)
class Part:
    """Files that belong together. folder: the directory that they were found in, if one was."""

    folder: Folder | None
    files: list[Input]


@dataclass(slots=True)
class Task:
    """One call of `verify-crc`. all_files: empty ones of a directory have a line in the table."""

    report: Report
    verifier: Verifier
    jobs: int
    all_files: bool = False

    @staticmethod
    def report_on(
        screen: Screen, format_: str, strict: bool, most_findings: int, wide: bool
    ) -> Report:
        """The command's report."""
        return Report(
            screen,
            format_,
            FileResult("", ""),
            NUMBERS,
            ("segment", "segments"),
            strict=strict,
            most_findings=most_findings,
            wide=wide,
            hint="--wide",
        )

    def run(self, paths: tuple[str, ...]) -> int:
        """Verify every file; the exit code."""
        parts = list(self._parts(paths))
        inputs = [file for part in parts for file in part.files]
        sizes = [size_of(file) for file in inputs]
        given = set(paths)
        names = (
            len(safe(file.name))
            for file, size in zip(inputs, sizes, strict=True)
            if size or self._is_listed(file, given)
        )
        self.report.name_width = max([len("segment"), *names])
        units = list(packs(inputs, sizes))
        many = len(units) > 1 and self.jobs > 1 and sum(sizes) >= MANY_BYTES
        with self.report.screen.progress(sum(sizes)) as progress:
            outcomes = (self._in_processes if many else self._here)(units, progress.advance)
            for part in parts:
                self._part(part, outcomes, given)
        return self.report.end()

    def _is_listed(self, file: Input, given: set[str]) -> bool:
        """Whether the table has a line for the file even if it is empty."""
        return self.all_files or self.report.format != "table" or file.path in given

    def _parts(self, paths: tuple[str, ...]) -> Iterator[Part]:
        several = len(paths) > 1
        seen: set[str] = set()
        for path in paths:
            if not is_folder(path):
                yield Part(None, list(distinct([classify(path, path)], seen)))
                continue
            unread, n_files = self.report.unread, 0
            for folder in walk(path, several, self.report.complain):
                files = list(inputs_in([folder], LOGS, self.report.passed_over))
                n_files += len(files)
                yield Part(folder, list(distinct(files, seen)))
            if unread == self.report.unread and not n_files:
                self.report.complain(no_log(path))

    def _part(self, part: Part, outcomes: Iterator[Outcome], given: set[str]) -> None:
        """Report the files of a part, then what is wrong among them."""
        check = PartitionCheck()
        for file in part.files:
            outcome = next(outcomes)
            self._finish(outcome, self._is_listed(file, given))
            if not is_segment(file):
                continue
            if outcome.result is None:
                check.pass_over()
            else:
                facts = SegmentFacts(
                    file.name,
                    file.base_offset or 0,
                    outcome.result.bytes,
                    outcome.result.batches,
                    outcome.extent,
                )
                check.take(facts)
        if part.folder is not None and (findings := [*check_names(part.folder), *check.finish()]):
            kind = "partition" if any(map(is_segment, part.files)) else "directory"
            result = FileResult(part.folder.name, kind)
            result.count(findings)
            self.report.add_folder(result, findings)

    def _finish(self, outcome: Outcome, listed: bool) -> None:
        """Report a file."""
        if outcome.result is None:
            self.report.complain(outcome.trouble)
        elif listed or outcome.result.bytes or outcome.findings:
            self.report.add(outcome.result, outcome.findings)
        else:
            self.report.pass_by(outcome.result)

    def _here(self, units: list[list[Input]], advance: Callable[[int], None]) -> Iterator[Outcome]:
        """Verify the files here, one pack after the other."""
        for unit in units:
            for file, found in zip(unit, _healthy(unit, self.verifier), strict=True):
                if found is None:
                    yield self._one(file, advance)
                else:
                    advance(found.bytes)
                    yield self._of_healthy(file, found)

    def _in_processes(
        self, units: list[list[Input]], advance: Callable[[int], None]
    ) -> Iterator[Outcome]:
        """Verify the files in as many processes as there are jobs; in the files' order."""
        from concurrent.futures import ProcessPoolExecutor

        alone = replace(self.verifier, workers=0)
        n = len(units)
        with ProcessPoolExecutor(min(self.jobs, n)) as pool:
            done = pool.map(
                verify_apart,
                units,
                [alone] * n,
                [self.report.most_findings] * n,
                chunksize=AT_ONCE if n > AT_ONCE * 4 * self.jobs else 1,
            )
            for unit, apart in zip(units, done, strict=True):
                for file, found in zip(unit, apart, strict=True):
                    if found is None:  # it has too much to hand over
                        outcome = self._one(file, lambda _: None)
                    elif isinstance(found, Healthy):
                        outcome = self._of_healthy(file, found)
                    else:
                        outcome = found
                    advance(0 if outcome.result is None else outcome.result.bytes)
                    yield outcome

    def _of_healthy(self, file: Input, found: Healthy) -> Outcome:
        result = FileResult(file.name, file.kind.value, found.bytes, found.batches, found.records)
        return Outcome(file, result, found.extent, Findings(self.report.most_findings))

    def _one(self, file: Input, advance: Callable[[int], None]) -> Outcome:
        """Verify a file here, saying what is found as it is found."""
        findings = Findings(self.report.most_findings)

        def tell(finding: Finding) -> None:
            if self.report.format != "json":
                findings.take([finding])
            elif findings.admits(finding):
                self.report.tell_now(finding)

        return _verified(file, self.verifier, findings, tell, advance)


def _healthy(unit: list[Input], verifier: Verifier) -> list[Healthy | None]:
    """Which files of a pack need no second look; a file that stands alone is read by itself."""
    if len(unit) == 1:
        return [None]
    return verify_pack(unit, verifier.deep, verifier.limit)


def _verified(
    file: Input,
    verifier: Verifier,
    findings: Findings,
    tell: Callable[[Finding], None],
    advance: Callable[[int], None],
) -> Outcome:
    try:
        result, extent = verifier.verify(file, tell, advance)
    except InputError as error:
        return Outcome(file, None, Extent(), findings, str(error))
    return Outcome(file, result, extent, findings)


def verify_apart(
    unit: list[Input], verifier: Verifier, most_findings: int
) -> list[Outcome | Healthy | None]:
    """Verify a pack in a process of its own; None for a file with too much to hand over."""
    done: list[Outcome | Healthy | None] = []
    for file, found in zip(unit, _healthy(unit, verifier), strict=True):
        if found is not None:
            done.append(found)
            continue
        findings = Findings(most_findings)

        def report(finding: Finding, findings: Findings = findings) -> None:
            findings.take([finding])
            if len(findings) > MOST_HANDED:
                raise OverflowError

        try:
            done.append(_verified(file, verifier, findings, report, lambda _: None))
        except OverflowError:
            done.append(None)
    return done
