"""The table of results: a line a file, as wide as the screen, and the words of the last lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.render.style import Theme, clip_left, count, grouped, hidden_words, safe
from kfmt_cli.rows.result import Result, ResultType, Summary

NO_DAMAGE = "none damaged"
VERDICT = 12
MIN_NAME = 16


@dataclass(slots=True)
class ResultTable:
    """Lines of one type of results."""

    type: ResultType
    theme: Theme
    room: int
    """The screen's columns."""
    name_width: int = 0
    """The longest name's."""
    _fit: tuple[list[str], int] | None = None

    def heading(self) -> str:
        """The line above the first file's."""
        heads = [(name, name.replace("_", " ")) for name in self.type.widths]
        return self.theme.paint("bold", self._cells(self.type.noun[0], heads, "result"))

    def line(self, result: Result) -> str:
        """A file's line."""
        numbers = [
            (name, "" if result.of_directory else _number(result.numbers[name]))
            for name in self.type.widths
        ]
        return self._cells(safe(result.file), numbers, self._verdict_of(result))

    def _verdict_of(self, result: Result) -> str:
        verdict = self.theme.paint("good", "ok")
        if result.errors:
            return self.theme.paint("bad", count(result.errors, "error"))
        if result.warnings:
            return self.theme.paint("warn", count(result.warnings, "warning"))
        if result.notes:
            verdict += self.theme.paint("dim", f", {count(result.notes, 'note')}")
        return verdict

    def _cells(self, name: str, numbers: list[tuple[str, str]], verdict: str) -> str:
        """A line; on a narrow screen without the numbers that matter less."""
        if self._fit is None:  # for all lines, so that they stay aligned
            shown = self._shown()
            room = max(self.room - self._width(shown), MIN_NAME)
            self._fit = shown, min(self.name_width, room)
        shown, width = self._fit
        cells = [f" {clip_left(name, width):<{width}}"]
        cells += [f"{words:>{self.type.widths[name]}}" for name, words in numbers if name in shown]
        return "  ".join([*cells, verdict]) + "\n"

    def _shown(self) -> list[str]:
        """The numbers for which there is room."""
        shown = list(self.type.widths)
        while shown and self._width(shown) + MIN_NAME > self.room:
            shown.pop()
        return shown

    def _width(self, shown: list[str]) -> int:
        """What a line takes besides the name."""
        return 1 + sum(self.type.widths[name] + 2 for name in shown) + 2 + VERDICT

    def last_lines(self, summary: Summary) -> Iterator[str]:
        """What the table does not show, and the line that answers the question."""
        for remark in self._remarks(summary):
            yield self.theme.paint("dim", remark) + "\n"
        total = summary.totals
        words = [count(summary.files, *self.type.noun)]
        words += [
            _counted(total[width], width) for width in self.type.widths if "bytes" not in width
        ]
        words += _verdict(summary)
        words += [_counted(total[name], name) for name in ("warnings", "notes") if total[name]]
        bad = summary.damaged or summary.folders or any(summary.aside.values())
        style = "bad" if bad else "warn" if summary.unread else "good"
        line = self.theme.paint(style, ", ".join(words))
        yield f"{line}   exit {int(summary.exit_code)}\n"

    def _remarks(self, summary: Summary) -> Iterator[str]:
        hidden = len(self.type.widths) - len(self._shown())
        if hidden:
            yield hidden_words(hidden, self.type.hint)
        if summary.unlisted:
            empty = count(summary.unlisted, *self.type.empty_noun)
            yield f"{empty} not listed; --all lists them"
        if summary.passed_over:
            kinds = ", ".join(_kind_words(*item) for item in sorted(summary.passed_over.items()))
            yield f"not looked at: {kinds}"


def _verdict(summary: Summary) -> Iterator[str]:
    """How many files are damaged, which nobody knows of those that were not read."""
    others = [_counted(n, name) for name, n in summary.aside.items() if n]
    if summary.unread:
        yield f"{grouped(summary.damaged)} of these damaged"
        yield f"{grouped(summary.unread)} not read"
    elif summary.damaged or not others:
        yield f"{grouped(summary.damaged)} damaged" if summary.damaged else NO_DAMAGE
    yield from others
    if summary.folders:
        yield f"{count(summary.folders, 'directory', 'directories')} with errors"


def _number(value: int | None) -> str:
    return "–" if value is None else grouped(value)


def _counted(number: int, nouns: str) -> str:
    words = nouns.replace("_", " ")
    noun = {"batches": "batch", "entries": "entry"}.get(words, words.removesuffix("s"))
    return count(number, noun, words)


def _kind_words(kind: str, number: int) -> str:
    """How many files of a kind; what begins with a dot is the suffix of a file that is done."""
    words = "other file" if kind == "other" else kind.replace("_", " ")
    if kind in ("deleted", "cleaned", "swap"):
        words = f".{kind} file"
    return count(number, words, words + ("es" if words.endswith("x") else "s"))
