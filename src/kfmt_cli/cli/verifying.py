"""How `verify-crc` goes through its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kfmt_cli.checks.verify import FileResult, Verifier
from kfmt_cli.cli.report import MOST_SHOWN, Report
from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import Finding
from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import LOGS, Input, discover, size_of
from kfmt_cli.render.finding import finding_json
from kfmt_cli.render.style import safe

# Processes are worth their start from here on.
MANY_BYTES = 64 << 20
# A process hands so many findings over at once; a file with more is done again, one by one.
MOST_HANDED = 10_000

# The numbers of the table and their columns, the more important ones first.
NUMBERS = {"batches": 9, "records": 11, "bytes": 14}

Found = tuple[Input, FileResult | str | None, list[Finding]]


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
        inputs = list(self._inputs(paths))
        sizes = [size_of(file) for file in inputs]
        names = (len(safe(file.name)) for file in inputs)
        self.report.name_width = max([len("segment"), *names])
        many = len(inputs) > 1 and self.jobs > 1 and sum(sizes) >= MANY_BYTES
        with self.report.screen.progress(sum(sizes)) as progress:
            if many:
                for file, result, findings in self._in_processes(inputs):
                    progress.advance(size_of(file))
                    self._finish(file, result, findings)
            else:
                for file in inputs:
                    self._one(file, progress.advance)
        return self.report.end(strict)

    def _inputs(self, paths: tuple[str, ...]) -> Iterator[Input]:
        for path in paths:
            try:
                yield from discover(path, LOGS, len(paths) > 1, self.report.complain)
            except InputError as error:
                self.report.complain(str(error))

    def _one(self, file: Input, advance: Callable[[int], None]) -> None:
        """Verify a file here, saying what is found as it is found."""
        held: list[Finding] = []

        def tell(finding: Finding) -> None:
            if self.report.format == "json":
                self.report.screen.text(finding_json(finding))
            elif len(held) < MOST_SHOWN:
                held.append(finding)

        try:
            result: FileResult | str = self.verifier.verify(file, tell, advance)
        except InputError as error:
            result = str(error)
        self._finish(file, result, held)

    def _in_processes(self, inputs: list[Input]) -> Iterator[Found]:
        """Verify the files in as many processes as there are jobs; results in the files' order."""
        from concurrent.futures import ProcessPoolExecutor

        alone = replace(self.verifier, workers=0)
        with ProcessPoolExecutor(self.jobs) as pool:
            for file, (result, findings) in zip(
                inputs, pool.map(verify_apart, inputs, [alone] * len(inputs)), strict=True
            ):
                yield file, result, findings

    def _finish(
        self, file: Input, result: FileResult | str | None, findings: list[Finding]
    ) -> None:
        if result is None:
            self._one(file, lambda _: None)
        elif isinstance(result, str):
            self.report.complain(result)
        else:
            self.report.add(result, findings)


def verify_apart(file: Input, verifier: Verifier) -> tuple[FileResult | str | None, list[Finding]]:
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
