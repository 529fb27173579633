"""How `verify-crc` goes through its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kfmt_cli.checks.verify import FileResult, Verifier
from kfmt_cli.cli.report import Report
from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import Finding, Findings
from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import LOGS, Input, discover, distinct, size_of
from kfmt_cli.render.style import safe

# Processes are worth their start from here on.
MANY_BYTES = 64 << 20
# A process hands so many findings over at once; a file with more is done again, one by one.
MOST_HANDED = 10_000

# The numbers of the table and their columns, the more important ones first.
NUMBERS = {"batches": 9, "records": 11, "bytes": 14}

Found = tuple[Input, FileResult | str, Findings]


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
        inputs = list(self._inputs(paths))
        sizes = [size_of(file) for file in inputs]
        names = (
            len(safe(file.name))
            for file, size in zip(inputs, sizes, strict=True)
            if size or self._is_listed(file, paths)
        )
        self.report.name_width = max([len("segment"), *names])
        many = len(inputs) > 1 and self.jobs > 1 and sum(sizes) >= MANY_BYTES
        with self.report.screen.progress(sum(sizes)) as progress:
            done = self._in_processes(inputs) if many else self._here(inputs, progress.advance)
            for file, result, findings in done:
                if many:
                    progress.advance(size_of(file))
                self._finish(result, findings, self._is_listed(file, paths))
        return self.report.end(self.report.strict)

    def _is_listed(self, file: Input, paths: tuple[str, ...]) -> bool:
        """Whether the table has a line for the file even if it is empty."""
        return self.all_files or self.report.format != "table" or file.path in paths

    def _inputs(self, paths: tuple[str, ...]) -> Iterator[Input]:
        seen: set[str] = set()
        for path in paths:
            try:
                found = discover(path, LOGS, len(paths) > 1, self.report.passed_over)
                yield from distinct(found, seen)
            except InputError as error:
                self.report.complain(str(error))

    def _here(self, inputs: list[Input], advance: Callable[[int], None]) -> Iterator[Found]:
        for file in inputs:
            yield self._one(file, advance)

    def _one(self, file: Input, advance: Callable[[int], None]) -> Found:
        """Verify a file here, saying what is found as it is found."""
        findings = Findings(self.report.most_findings)

        def tell(finding: Finding) -> None:
            if self.report.format != "json":
                findings.take([finding])
            elif findings.admits(finding):
                self.report.tell_now(finding)

        try:
            return file, self.verifier.verify(file, tell, advance), findings
        except InputError as error:
            return file, str(error), findings

    def _in_processes(self, inputs: list[Input]) -> Iterator[Found]:
        """Verify the files in as many processes as there are jobs; results in the files' order."""
        from concurrent.futures import ProcessPoolExecutor

        alone = replace(self.verifier, workers=0)
        most = [self.report.most_findings] * len(inputs)
        with ProcessPoolExecutor(self.jobs) as pool:
            apart = pool.map(verify_apart, inputs, [alone] * len(inputs), most)
            for file, done in zip(inputs, apart, strict=True):
                yield self._one(file, lambda _: None) if done is None else (file, *done)

    def _finish(self, result: FileResult | str, findings: Findings, listed: bool) -> None:
        if isinstance(result, str):
            self.report.complain(result)
        elif listed or result.bytes or findings:
            self.report.add(result, findings)
        else:
            self.report.pass_by(result)


def verify_apart(
    file: Input, verifier: Verifier, most_findings: int
) -> tuple[FileResult | str, Findings] | None:
    """Verify a file in a process of its own; None when it has too many findings to hand over."""
    findings = Findings(most_findings)

    def report(finding: Finding) -> None:
        findings.take([finding])
        if len(findings) > MOST_HANDED:
            raise OverflowError

    try:
        return verifier.verify(file, report, lambda _: None), findings
    except OverflowError:
        return None
    except InputError as error:
        return str(error), findings
