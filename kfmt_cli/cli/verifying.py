"""How `verify-crc` goes through its files and says what it found."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from kfmt_cli.checks.verify import FileResult, Verifier
from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import Finding
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.files.discover import LOGS, Input, discover
from kfmt_cli.render.finding import finding_json, finding_line
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.style import Theme, clip_left, count, grouped, safe

# Processes are worth their start from here on.
MANY_BYTES = 64 << 20
# In a table so many findings of a file are written out; JSON has them all.
MOST_SHOWN = 100
# A process hands so many findings over at once; a file with more is done again, one by one.
MOST_HANDED = 10_000

# The numbers of the table and their columns, the more important ones first.
NUMBERS = {"batches": 9, "records": 11, "bytes": 14}
VERDICT = 12
MIN_NAME = 16

Result = tuple[Input, FileResult | str | None, list[Finding]]


@dataclass(slots=True)
class Task:
    """One call of `verify-crc`."""

    screen: Screen
    format: str
    verifier: Verifier
    jobs: int
    total: FileResult = field(default_factory=lambda: FileResult("", ""))
    files: int = 0
    damaged: int = 0
    failed: bool = False
    name_width: int = 0

    def run(self, paths: tuple[str, ...], strict: bool) -> int:
        """Verify every file; the exit code."""
        inputs = list(self._inputs(paths))
        sizes = [_size(file) for file in inputs]
        self.name_width = max([len("segment"), *(len(safe(file.name)) for file in inputs)])
        many = len(inputs) > 1 and self.jobs > 1 and sum(sizes) >= MANY_BYTES
        with self.screen.progress(sum(sizes)) as progress:
            if many:
                for file, result, findings in self._in_processes(inputs):
                    progress.advance(_size(file))
                    self._finish(file, result, findings)
            else:
                for file in inputs:
                    self._one(file, progress.advance)
        exit_code = self._exit_code(strict)
        self._end(exit_code)
        return exit_code

    def _inputs(self, paths: tuple[str, ...]) -> Iterator[Input]:
        for path in paths:
            try:
                yield from discover(path, LOGS, several=len(paths) > 1)
            except InputError as error:
                self._complain(str(error))

    def _complain(self, words: str) -> None:
        self.failed = True
        self.screen.note(f"kfmt: {safe(words)}\n")

    def _one(self, file: Input, advance: Callable[[int], None]) -> None:
        """Verify a file here, saying what is found as it is found."""
        held: list[Finding] = []

        def report(finding: Finding) -> None:
            if self.format == "json":
                self.screen.text(finding_json(finding))
            elif len(held) < MOST_SHOWN:
                held.append(finding)

        try:
            result: FileResult | str = self.verifier.verify(file, report, advance)
        except InputError as error:
            result = str(error)
        self._finish(file, result, held)

    def _in_processes(self, inputs: list[Input]) -> Iterator[Result]:
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
            return
        if isinstance(result, str):
            self._complain(result)
            return
        if not self.files:
            self._heading()
        self.files += 1
        self.damaged += result.errors > 0
        for name in ("bytes", "batches", "records", "errors", "warnings", "notes"):
            setattr(self.total, name, getattr(self.total, name) + getattr(result, name))
        if self.format == "json":
            self.screen.text("".join(finding_json(it) for it in findings))
            self.screen.text(json_text({"type": "file", **_row(result)}) + "\n")
        elif self.format == "csv":
            self.screen.text(_csv_line([str(value) for value in _row(result).values()]))
            self._tell(result, findings)
        else:
            self.screen.text(self._line(result, self.screen.theme))
            self._tell(result, findings)

    def _tell(self, result: FileResult, findings: list[Finding]) -> None:
        """Findings on standard error."""
        theme = self.screen.err_theme
        width = self.screen.err_width
        self.screen.note("".join(finding_line(it, theme, width) for it in findings[:MOST_SHOWN]))
        more = result.errors + result.warnings + result.notes - len(findings[:MOST_SHOWN])
        if more > 0:
            self.screen.note(f"         … and {grouped(more)} more: --format json shows them all\n")

    def _heading(self) -> None:
        """The line above the first file's."""
        if self.format == "csv":
            self.screen.text(_csv_line([*_row(FileResult("", ""))]))
        elif self.format == "table":
            heads = [(name, name) for name in NUMBERS]
            self.screen.text(
                self.screen.theme.paint("bold", self._cells("segment", heads, "result"))
            )

    def _line(self, result: FileResult, theme: Theme) -> str:
        verdict = theme.paint("good", "ok")
        if result.errors:
            verdict = theme.paint("bad", count(result.errors, "error"))
        elif result.warnings:
            verdict = theme.paint("warn", count(result.warnings, "warning"))
        numbers = [(name, grouped(getattr(result, name))) for name in NUMBERS]
        return self._cells(safe(result.file), numbers, verdict)

    def _cells(self, name: str, numbers: list[tuple[str, str]], verdict: str) -> str:
        """A line of the table; on a narrow screen without the numbers that matter less."""
        room = self.screen.width or 1 << 30
        shown = list(NUMBERS)
        while shown and self._width(shown) + MIN_NAME > room:
            shown.pop()
        width = min(self.name_width, max(room - self._width(shown), MIN_NAME))
        cells = [f" {clip_left(name, width):<{width}}"]
        cells += [f"{words:>{NUMBERS[it]}}" for it, words in numbers if it in shown]
        return "  ".join([*cells, verdict]) + "\n"

    @staticmethod
    def _width(shown: list[str]) -> int:
        """What a line takes beside the name."""
        return 1 + sum(NUMBERS[name] + 2 for name in shown) + 2 + VERDICT

    def _exit_code(self, strict: bool) -> ExitCode:
        if self.failed:
            return ExitCode.UNREADABLE
        bad = self.total.errors or (strict and self.total.warnings)
        return ExitCode.FINDINGS if bad else ExitCode.CLEAN

    def _end(self, exit_code: ExitCode) -> None:
        total = self.total
        if self.format == "json":
            numbers = {k: v for k, v in _row(total).items() if k not in ("file", "kind")}
            summary = {"type": "summary", "files": self.files, **numbers}
            self.screen.text(json_text({**summary, "exit_code": int(exit_code)}) + "\n")
        elif self.format == "table" and self.files:
            words = [
                count(self.files, "segment"),
                count(total.batches, "batch", "batches"),
                count(total.records, "record"),
                f"{grouped(self.damaged)} damaged" if self.damaged else "none damaged",
            ]
            if total.warnings:
                words.append(count(total.warnings, "warning"))
            style = "bad" if self.damaged else "good"
            line = self.screen.theme.paint(style, ", ".join(words))
            self.screen.text(f"{line}   exit {int(exit_code)}\n")


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


def _size(file: Input) -> int:
    try:
        return 0 if file.path == "-" else Path(file.path).stat().st_size
    except OSError:
        return 0


def _row(result: FileResult) -> dict[str, object]:
    return {it.name: getattr(result, it.name) for it in fields(result)}


def _csv_line(values: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
