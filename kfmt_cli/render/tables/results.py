"""Results of files for people: a line for each that needs attention, and an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import Tally
from kfmt_cli.render.style import Theme, count, fitted, grouped, hidden_words
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.rows.result import Result, ResultType, Summary

NO_DAMAGE = "no damage"
LEAST_NAME = 16


@dataclass(slots=True)
class ResultTable:
    """Results of one type. Healthy ones are only counted, unless all are requested or there is just
    one."""

    type: ResultType
    lists_all: bool = False
    _bad: list[Result] = field(default_factory=list)
    _healthy: list[Result] = field(default_factory=list)
    _n_healthy: int = 0

    def add(self, result: Result) -> None:
        """Add a result."""
        if result.errors or result.warnings:
            self._bad.append(result)
            return
        self._n_healthy += not result.aside
        if self.lists_all or self._n_healthy == 1:
            self._healthy.append(result)

    def lines(self, summary: Summary, theme: Theme, room: int | None) -> Iterator[str]:
        """The table, the worst at its end; a note on omitted rows; the line that answers the
        question. room: the screen's columns."""
        is_alone = self._n_healthy == 1 and not self._bad
        shown = [*(self._healthy if self.lists_all or is_alone else ()), *self._bad]
        columns = [
            LineColumn(name.replace("_", " "), partial(_cell, name), keep=i)
            for i, name in enumerate(self.type.widths, 1)
        ]
        columns.append(LineColumn("result", verdict_words, right=False, style=verdict_style))
        if shown:
            rows = [(result.file, result) for result in shown]
            table = LineTable(self.type.noun[0], rows, columns, theme, room, LEAST_NAME)
            yield table.heading()
            yield from (table.line(name, result) for name, result in rows)
            if table.n_hidden:
                yield theme.paint("dim", hidden_words(table.n_hidden, self.type.hint)) + "\n"
        if self._n_healthy and not self.lists_all and not is_alone and self._bad:
            words = f"{count(self._n_healthy, 'healthy file')} not shown; use --all to list them"
            yield theme.paint("dim", words) + "\n"
        if summary.passed_over:
            kinds = ", ".join(_kind_words(*item) for item in sorted(summary.passed_over.items()))
            yield fitted(theme.paint("dim", f"not checked: {kinds}") + "\n", room)
        if summary.files or shown:
            yield fitted(self._last_line(summary, theme), room)

    def _last_line(self, summary: Summary, theme: Theme) -> str:
        total = summary.totals
        words = [count(summary.files, *self.type.noun)]
        words += [counted(total[name], name) for name in self.type.widths if "bytes" not in name]
        words += _verdict(summary)
        words += [counted(total[name], name) for name in ("warnings", "notes") if total[name]]
        bad = summary.damaged or summary.folders or any(summary.aside.values())
        style = "bad" if bad else "warn" if summary.unread else "good"
        line = theme.paint(style, ", ".join(words))
        line += f"; {summary.answer}" if summary.answer else ""
        if summary.exit_code is ExitCode.CLEAN:
            return f"{line}\n"
        return f"{line}   exit code {int(summary.exit_code)}\n"


def _cell(name: str, result: Result) -> str:
    value = result.numbers[name]
    return "" if result.of_directory else "–" if value is None else grouped(value)


def verdict_words(found: Tally) -> str:
    """A short label for findings."""
    if found.errors:
        return count(found.errors, "error")
    if found.warnings:
        return count(found.warnings, "warning")
    return f"ok, {count(found.notes, 'note')}" if found.notes else "ok"


def verdict_style(found: Tally) -> str:
    """The style of their label."""
    return "bad" if found.errors else "warn" if found.warnings else "good"


def _verdict(summary: Summary) -> Iterator[str]:
    """How many files are damaged, and how many were not read."""
    others = [counted(n, name) for name, n in summary.aside.items() if n]
    if summary.unread:
        yield f"{grouped(summary.damaged)} of these damaged"
        yield f"{grouped(summary.unread)} not read"
    elif summary.damaged or not others:
        yield f"{grouped(summary.damaged)} damaged" if summary.damaged else NO_DAMAGE
    yield from others
    if summary.folders:
        yield f"{count(summary.folders, 'directory', 'directories')} with errors"


def counted(number: int, nouns: str) -> str:
    """A count with its noun, as a summary shows it."""
    words = nouns.replace("_", " ")
    noun = {"batches": "batch", "entries": "entry"}.get(words, words.removesuffix("s"))
    return count(number, noun, words)


def _kind_words(kind: str, number: int) -> str:
    """The number of files of a kind, with a noun; leftover files are named by their suffix."""
    words = "other file" if kind == "other" else kind.replace("_", " ")
    if kind in ("deleted", "cleaned", "swap"):
        words = f".{kind} file"
    return count(number, words, words + ("es" if words.endswith("x") else "s"))
