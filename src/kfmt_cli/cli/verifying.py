"""How `verify-crc` goes through its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kfmt_cli.checks.extent import Extent
from kfmt_cli.checks.partition import PartitionCheck, SegmentFacts, check_names, is_segment
from kfmt_cli.checks.verify import FileResult, Verifier
from kfmt_cli.cli.report import MOST_SHOWN, Report
from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import Finding
from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import (
    LOGS,
    Folder,
    Input,
    classify,
    inputs_in,
    is_folder,
    no_log,
    size_of,
    walk,
)
from kfmt_cli.render.finding import finding_json
from kfmt_cli.render.style import safe

# Processes are worth their start from here on.
MANY_BYTES = 64 << 20
# A process hands so many findings over at once; a file with more is done again, one by one.
MOST_HANDED = 10_000

# The numbers of the table and their columns, the more important ones first.
NUMBERS = {"batches": 9, "records": 11, "bytes": 14}

Verified = tuple[FileResult, Extent]
# What became of a file; the words why it cannot be read; None: too much to hand over.
Outcome = Verified | str | None
Found = tuple[Input, Outcome, list[Finding]]


@dataclass(slots=True)
class Part:
    """Files that belong together. folder: the directory that they were found in, if one was."""

    folder: Folder | None
    files: list[Input]


@dataclass(slots=True)
class Task:
    """One call of `verify-crc`."""

    report: Report
    verifier: Verifier
    jobs: int

    @classmethod
    def of(cls, screen: Screen, format_: str, verifier: Verifier, jobs: int) -> Task:
        """A task that reports on the screen."""
        report = Report(screen, format_, FileResult("", ""), NUMBERS, ("segment", "segments"))
        return cls(report, verifier, jobs)

    def run(self, paths: tuple[str, ...], strict: bool) -> int:
        """Verify every file; the exit code."""
        parts = list(self._parts(paths))
        inputs = [file for part in parts for file in part.files]
        sizes = [size_of(file) for file in inputs]
        names = (len(safe(file.name)) for file in inputs)
        self.report.name_width = max([len("segment"), *names])
        many = len(inputs) > 1 and self.jobs > 1 and sum(sizes) >= MANY_BYTES
        with self.report.screen.progress(sum(sizes)) as progress:
            if many:
                found = self._in_processes(inputs, progress.advance)
            else:
                found = (self._here(file, progress.advance) for file in inputs)
            for part in parts:
                self._part(part, found)
        return self.report.end(strict)

    def _parts(self, paths: tuple[str, ...]) -> Iterator[Part]:
        several = len(paths) > 1
        for path in paths:
            if not is_folder(path):
                yield Part(None, [classify(path, path)])
                continue
            unread = self.report.unread
            parts = [
                Part(folder, list(inputs_in([folder], LOGS)))
                for folder in walk(path, several, self.report.complain)
            ]
            yield from parts
            if unread == self.report.unread and not any(part.files for part in parts):
                self.report.complain(no_log(path))

    def _part(self, part: Part, found: Iterator[Found]) -> None:
        """Report the files of a part, then what is wrong among them."""
        check = PartitionCheck()
        for file in part.files:
            extent = self._finish(*next(found))
            if not is_segment(file):
                continue
            if extent is None:
                check.pass_over()
            else:
                result, offsets = extent
                facts = SegmentFacts(
                    file.name, file.base_offset or 0, result.bytes, result.batches, offsets
                )
                check.take(facts)
        if part.folder is not None and (findings := [*check_names(part.folder), *check.finish()]):
            kind = "partition" if any(map(is_segment, part.files)) else "directory"
            result = FileResult(part.folder.name, kind)
            result.count(findings)
            self.report.add_folder(result, findings)

    def _here(self, file: Input, advance: Callable[[int], None]) -> Found:
        """Verify a file here; findings in JSON are said as they are found."""
        held: list[Finding] = []

        def tell(finding: Finding) -> None:
            if self.report.format == "json":
                self.report.screen.text(finding_json(finding))
            elif len(held) < MOST_SHOWN:
                held.append(finding)

        try:
            return file, self.verifier.verify(file, tell, advance), held
        except InputError as error:
            return file, str(error), held

    def _in_processes(self, inputs: list[Input], advance: Callable[[int], None]) -> Iterator[Found]:
        """Verify the files in as many processes as there are jobs; results in the files' order."""
        from concurrent.futures import ProcessPoolExecutor

        alone = replace(self.verifier, workers=0)
        with ProcessPoolExecutor(self.jobs) as pool:
            for file, (outcome, findings) in zip(
                inputs, pool.map(verify_apart, inputs, [alone] * len(inputs)), strict=True
            ):
                advance(size_of(file))
                yield file, outcome, findings

    def _finish(self, file: Input, outcome: Outcome, findings: list[Finding]) -> Verified | None:
        """Report a file; None where it could not be read."""
        if outcome is None:
            _, outcome, findings = self._here(file, lambda _: None)
        if isinstance(outcome, tuple):
            self.report.add(outcome[0], findings)
            return outcome
        self.report.complain(str(outcome))
        return None


def verify_apart(file: Input, verifier: Verifier) -> tuple[Outcome, list[Finding]]:
    """Verify a file in a process of its own; None when it has too many findings to hand over."""
    findings: list[Finding] = []

    def report(finding: Finding) -> None:
        findings.append(finding)
        if len(findings) > MOST_HANDED:
            raise OverflowError

    try:
        return verifier.verify(file, report, lambda _: None), findings
    except OverflowError:
        return None, []
    except InputError as error:
        return str(error), []
