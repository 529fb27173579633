"""What checking commands print: a line a file, its findings, a summary, an exit code."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import MOST_FINDINGS, Finding, Findings, Tally
from kfmt_cli.errors import ExitCode
from kfmt_cli.files.discover import FileKind
from kfmt_cli.render.columns import hidden_words
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.finding import finding_json, finding_line, left_out_json, left_out_line
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.style import Theme, clip_left, count, grouped, safe

KINDS = frozenset(kind.value for kind in FileKind)
NO_DAMAGE = "none damaged"
VERDICT = 12
MIN_NAME = 16
PATIENCE = 0.05  # seconds that lines may wait for others to be written with


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
    their widths, those that matter more first. noun: what a file is called. empty_noun: what is
    counted in one line instead of being listed. wide: show all numbers on a narrow terminal, too;
    hint: the option that does. aside: what has a line without being such a file, by name.
    passed_over: files of directories that were not looked at, by kind. damaged, folders: files and
    directories with errors. unread: inputs that could not be read.
    """

    screen: Screen
    format: str
    empty: Result
    numbers: dict[str, int]
    noun: tuple[str, str]
    empty_noun: tuple[str, str] = ("empty segment", "empty segments")
    strict: bool = False
    most_findings: int = MOST_FINDINGS
    wide: bool = False
    hint: str = "--json"
    aside: dict[str, int] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    name_width: int = 0
    files: int = 0
    damaged: int = 0
    folders: int = 0
    unread: int = 0
    unlisted: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    _has_heading: bool = False
    _held: list[str] = field(default_factory=list)
    _flushed: float = 0.0
    _summed: list[str] = field(default_factory=list)
    _fit: tuple[list[str], int] | None = None

    def _text(self, words: str) -> None:
        """Words on standard output, a little later where many lines follow one another."""
        self._held.append(words)
        now = time.monotonic()
        if now - self._flushed > PATIENCE:
            self._flush()
            self._flushed = now

    def _flush(self) -> None:
        self.screen.text("".join(self._held))
        self._held.clear()

    def note(self, words: str) -> None:
        """Words on standard error, behind what was said before."""
        if words:
            self._flush()
            self.screen.note(words)

    def complain(self, words: str) -> None:
        """Say that an input could not be read."""
        self.unread += 1
        self._flush()
        self.screen.complain(words)

    def left_over(self, paths: Iterable[Path]) -> None:
        """Say what runs that were killed had left, and what has been taken away."""
        for path in paths:
            words = "was left by a run that was killed; it has been taken away"
            self.note(f"{safe(str(path))}: {words}\n")

    def tell_now(self, finding: Finding) -> None:
        """A finding of JSON, as soon as it is made."""
        self.screen.seen(finding.code.severity, self.strict)
        self._text(finding_json(finding))

    def add(self, result: Result, findings: Iterable[Finding], aside: str = "") -> None:
        """A file and what was found in it. aside: what it counts as, if not as one of the files."""
        self._count(result, aside)
        self._add(result, findings)

    def add_folder(self, result: Result, findings: Iterable[Finding]) -> None:
        """A directory and what was found in it beside its files; it counts as none of them."""
        self.folders += result.errors > 0
        self._total(result)
        self._add(result, findings, with_numbers=False)

    def _add(self, result: Result, findings: Iterable[Finding], with_numbers: bool = True) -> None:
        if not isinstance(findings, Findings):
            findings, every = Findings(self.most_findings), findings
            findings.take(every)
        if self.format == "json":
            self._text("".join(finding_json(it) for it in findings))
            self._text("".join(left_out_json(result.file, *it) for it in findings.left_out()))
            self._text(json_text({"type": "file", **row_of(result)}) + "\n")
            return
        if not self._has_heading:
            self._heading()
            self._has_heading = True
        if self.format == "csv":
            self._text(csv_line(row_of(result).values()))
        else:
            self._text(self._line(result, self.screen.theme, with_numbers))
        self._tell(findings)

    def pass_by(self, result: Result) -> None:
        """An empty file that a table counts without a line of its own."""
        self._count(result, "")
        self.unlisted += 1

    def end(self) -> ExitCode:
        """The summary; the exit code."""
        exit_code = self.screen.exit_code
        self._summary(exit_code)
        self._flush()
        return exit_code

    def _summary(self, exit_code: ExitCode) -> None:
        total = {name: self.totals.get(name, 0) for name in self._number_names()}
        if self.format == "json":
            summary = {"type": "summary", "files": self.files, **self.aside, **total}
            summary["unread"] = self.unread
            if self.passed_over:
                summary["not_looked_at"] = dict(sorted(self.passed_over.items()))
            self._text(json_text({**summary, "exit_code": int(exit_code)}) + "\n")
        elif self.format == "table" and (self.files or self._has_heading):
            theme = self.screen.theme
            self._text("".join(theme.paint("dim", it) + "\n" for it in self._remarks()))
            words = [count(self.files, *self.noun)]
            words += [_counted(total[name], name) for name in self.numbers if "bytes" not in name]
            words += self._verdict()
            words += [_counted(total[it], it) for it in ("warnings", "notes") if total[it]]
            bad = self.damaged or self.folders or any(self.aside.values())
            line = theme.paint(
                "bad" if bad else "warn" if self.unread else "good", ", ".join(words)
            )
            self._text(f"{line}   exit {int(exit_code)}\n")

    def _verdict(self) -> Iterator[str]:
        """How many files are damaged, which nobody knows of those that were not read."""
        others = [_counted(n, name) for name, n in self.aside.items() if n]
        if self.unread:
            yield f"{grouped(self.damaged)} of these damaged"
            yield f"{grouped(self.unread)} not read"
        elif self.damaged or not others:
            yield f"{grouped(self.damaged)} damaged" if self.damaged else NO_DAMAGE
        yield from others
        if self.folders:
            yield f"{count(self.folders, 'directory', 'directories')} with errors"

    def _count(self, result: Result, aside: str) -> None:
        if aside:
            self.aside[aside] = self.aside.get(aside, 0) + 1
        else:
            self.files += 1
            self.damaged += result.errors > 0
        self._total(result)

    def _total(self, result: Result) -> None:
        if result.errors or (self.strict and result.warnings):
            self.screen.reached(ExitCode.FINDINGS)
        for name in self._number_names():
            self.totals[name] = self.totals.get(name, 0) + (getattr(result, name) or 0)

    def _remarks(self) -> Iterator[str]:
        """What a table does not show, a line each."""
        hidden = len(self.numbers) - len(self._shown())
        if hidden:
            yield hidden_words(hidden, self.hint)
        if self.unlisted:
            yield f"{count(self.unlisted, *self.empty_noun)} not listed; --all lists them"
        if self.passed_over:
            kinds = ", ".join(_kind_words(*it) for it in sorted(self.passed_over.items()))
            yield f"not looked at: {kinds}"

    def _number_names(self) -> list[str]:
        if not self._summed:
            row = row_of(self.empty)
            self._summed = [name for name, value in row.items() if isinstance(value, int)]
        return self._summed

    def _tell(self, findings: Findings) -> None:
        """Findings on standard error."""
        if not findings:
            return
        theme, width = self.screen.err_theme, self.screen.err_width
        self.note("".join(finding_line(it, theme, width) for it in findings))
        self.note("".join(left_out_line(*it) for it in findings.left_out()))

    def _heading(self) -> None:
        """The line above the first file's."""
        if self.format == "csv":
            self._text(csv_line(row_of(self.empty)))
        elif self.format == "table":
            heads = [(name, name.replace("_", " ")) for name in self.numbers]
            self._text(self.screen.theme.paint("bold", self._cells(self.noun[0], heads, "result")))

    def _line(self, result: Result, theme: Theme, with_numbers: bool) -> str:
        verdict = theme.paint("good", "ok")
        if result.errors:
            verdict = theme.paint("bad", count(result.errors, "error"))
        elif result.warnings:
            verdict = theme.paint("warn", count(result.warnings, "warning"))
        elif result.notes:
            verdict += theme.paint("dim", f", {count(result.notes, 'note')}")
        numbers = [
            (name, _number(getattr(result, name, 0)) if with_numbers else "")
            for name in self.numbers
        ]
        return self._cells(safe(result.file), numbers, verdict)

    def _cells(self, name: str, numbers: list[tuple[str, str]], verdict: str) -> str:
        """A line of the table; on a narrow screen without the numbers that matter less."""
        if self._fit is None:  # for all lines, so that they stay aligned
            shown = self._shown()
            self._fit = (
                shown,
                min(self.name_width, max(self._room() - self._width(shown), MIN_NAME)),
            )
        shown, width = self._fit
        cells = [f" {clip_left(name, width):<{width}}"]
        cells += [f"{words:>{self.numbers[it]}}" for it, words in numbers if it in shown]
        return "  ".join([*cells, verdict]) + "\n"

    def _room(self) -> int:
        return (None if self.wide else self.screen.width) or 1 << 30

    def _shown(self) -> list[str]:
        """The numbers for which there is room."""
        shown = list(self.numbers)
        while shown and self._width(shown) + MIN_NAME > self._room():
            shown.pop()
        return shown

    def _width(self, shown: list[str]) -> int:
        """What a line takes beside the name."""
        return 1 + sum(self.numbers[name] + 2 for name in shown) + 2 + VERDICT


def row_of(result: Result) -> dict[str, object]:
    """The result's fields by name."""
    return {name: getattr(result, name) for name in _names(type(result))}


@cache
def _names(kind: type[Result]) -> tuple[str, ...]:
    return tuple(it.name for it in fields(kind))


def _number(value: int | None) -> str:
    return "–" if value is None else grouped(value)


def _counted(number: int, nouns: str) -> str:
    words = nouns.replace("_", " ")
    noun = {"batches": "batch", "entries": "entry"}.get(words, words.removesuffix("s"))
    return count(number, noun, words)


def _kind_words(kind: str, number: int) -> str:
    """How many files of a kind, or with the suffix of one that a broker is done with."""
    words = kind.replace("_", " ")
    if kind not in KINDS:
        words = "other file" if kind == "other" else f".{kind} file"
    return count(number, words, words + ("es" if words.endswith("x") else "s"))
