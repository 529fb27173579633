"""What checking commands print: a line a file, its findings, a summary, an exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import Finding, Tally
from kfmt_cli.errors import ExitCode
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.finding import finding_json, finding_line
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.style import Theme, clip_left, count, grouped, safe

# In a table so many findings of a file are written out; JSON has them all.
MOST_SHOWN = 100
VERDICT = 12
MIN_NAME = 16


class Result(Protocol):
    """What was found in a file: a dataclass with these and more numbers."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    file: str
    kind: str
    errors: int
    warnings: int
    notes: int


@dataclass(slots=True)
class SegmentResult(Tally):
    """What was written of a segment, by the commands that write some."""

    file: str
    kind: str
    bytes: int = 0
    batches: int = 0
    entries: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0


@dataclass(slots=True)
class Report:
    """The lines of one run.

    empty: a result of the command's own kind, without a file. numbers: its columns in the table and
    their widths, those that matter more first. noun: what a file is called.
    """

    screen: Screen
    format: str
    empty: Result
    numbers: dict[str, int]
    noun: tuple[str, str]
    name_width: int = 0
    files: int = 0
    damaged: int = 0
    failed: bool = False
    totals: dict[str, int] = field(default_factory=dict)

    def complain(self, words: str) -> None:
        """Say that an input could not be read."""
        self.failed = True
        self.screen.note(f"kfmt: {safe(words)}\n")

    def left_over(self, paths: Iterable[Path]) -> None:
        """Say what runs that were killed had left, and what has been taken away."""
        for path in paths:
            words = "was left by a run that was killed; it has been taken away"
            self.screen.note(f"{safe(str(path))}: {words}\n")

    def add(self, result: Result, findings: list[Finding]) -> None:
        """A file and what was found in it; JSON's findings are not shown again when they were."""
        if not self.files:
            self._heading()
        self.files += 1
        self.damaged += result.errors > 0
        for name, value in row_of(result).items():
            if isinstance(value, int):
                self.totals[name] = self.totals.get(name, 0) + value
        if self.format == "json":
            self.screen.text("".join(finding_json(it) for it in findings))
            self.screen.text(json_text({"type": "file", **row_of(result)}) + "\n")
        elif self.format == "csv":
            self.screen.text(csv_line(row_of(result).values()))
            self._tell(result, findings)
        else:
            self.screen.text(self._line(result, self.screen.theme))
            self._tell(result, findings)

    def end(self, strict: bool) -> ExitCode:
        """The summary; the exit code."""
        exit_code = self._exit_code(strict)
        total = {name: self.totals.get(name, 0) for name in self._number_names()}
        if self.format == "json":
            summary = {"type": "summary", "files": self.files, **total}
            self.screen.text(json_text({**summary, "exit_code": int(exit_code)}) + "\n")
        elif self.format == "table" and self.files:
            words = [count(self.files, *self.noun)]
            words += [_counted(total[name], name) for name in self.numbers if "bytes" not in name]
            words.append(f"{grouped(self.damaged)} damaged" if self.damaged else "none damaged")
            words += [_counted(total[it], it) for it in ("warnings", "notes") if total[it]]
            style = "bad" if self.damaged else "good"
            line = self.screen.theme.paint(style, ", ".join(words))
            self.screen.text(f"{line}   exit {int(exit_code)}\n")
        return exit_code

    def _exit_code(self, strict: bool) -> ExitCode:
        if self.failed:
            return ExitCode.UNREADABLE
        bad = self.totals.get("errors") or (strict and self.totals.get("warnings"))
        return ExitCode.FINDINGS if bad else ExitCode.CLEAN

    def _number_names(self) -> list[str]:
        return [name for name, value in row_of(self.empty).items() if isinstance(value, int)]

    def _tell(self, result: Result, findings: list[Finding]) -> None:
        """Findings on standard error."""
        theme, width = self.screen.err_theme, self.screen.err_width
        shown = findings[:MOST_SHOWN]
        self.screen.note("".join(finding_line(it, theme, width) for it in shown))
        more = result.errors + result.warnings + result.notes - len(shown)
        if more > 0:
            self.screen.note(f"         … and {grouped(more)} more: --format json shows them all\n")

    def _heading(self) -> None:
        """The line above the first file's."""
        if self.format == "csv":
            self.screen.text(csv_line(row_of(self.empty)))
        elif self.format == "table":
            heads = [(name, name.replace("_", " ")) for name in self.numbers]
            self.screen.text(
                self.screen.theme.paint("bold", self._cells(self.noun[0], heads, "result"))
            )

    def _line(self, result: Result, theme: Theme) -> str:
        verdict = theme.paint("good", "ok")
        if result.errors:
            verdict = theme.paint("bad", count(result.errors, "error"))
        elif result.warnings:
            verdict = theme.paint("warn", count(result.warnings, "warning"))
        elif result.notes:
            verdict += theme.paint("dim", f", {count(result.notes, 'note')}")
        numbers = [(name, grouped(getattr(result, name, 0))) for name in self.numbers]
        return self._cells(safe(result.file), numbers, verdict)

    def _cells(self, name: str, numbers: list[tuple[str, str]], verdict: str) -> str:
        """A line of the table; on a narrow screen without the numbers that matter less."""
        room = self.screen.width or 1 << 30
        shown = list(self.numbers)
        while shown and self._width(shown) + MIN_NAME > room:
            shown.pop()
        width = min(self.name_width, max(room - self._width(shown), MIN_NAME))
        cells = [f" {clip_left(name, width):<{width}}"]
        cells += [f"{words:>{self.numbers[it]}}" for it, words in numbers if it in shown]
        return "  ".join([*cells, verdict]) + "\n"

    def _width(self, shown: list[str]) -> int:
        """What a line takes beside the name."""
        return 1 + sum(self.numbers[name] + 2 for name in shown) + 2 + VERDICT


def row_of(result: Result) -> dict[str, object]:
    """The result's fields by name."""
    return {it.name: getattr(result, it.name) for it in fields(result)}


def _counted(number: int, nouns: str) -> str:
    words = nouns.replace("_", " ")
    noun = {"batches": "batch", "entries": "entry"}.get(words, words.removesuffix("s"))
    return count(number, noun, words)
