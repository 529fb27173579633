"""Results of files for people: a line for each file that needs attention, and an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import SeverityCounts
from kfmt_cli.render.style import (
    Theme,
    fit_lines,
    format_count,
    format_grouped,
    format_hidden_columns,
)
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.rows.file_result import FileResult, FileResultType, RunSummary

NO_DAMAGE_LABEL = "no damage"
MIN_NAME_WIDTH = 16


@dataclass(slots=True)
class ResultTable:
    """Results of one type. Healthy files are only counted, unless `lists_all` or there is just
    one."""

    type: FileResultType
    lists_all: bool = False
    _unhealthy_results: list[FileResult] = field(default_factory=list)
    _healthy_results: list[FileResult] = field(default_factory=list)
    _n_healthy: int = 0

    def add(self, result: FileResult) -> None:
        """Add the result of a file."""
        if result.errors or result.warnings:
            self._unhealthy_results.append(result)
            return
        self._n_healthy += not result.counted_as
        if self.lists_all or self._n_healthy == 1:
            self._healthy_results.append(result)

    def lines(self, summary: RunSummary, theme: Theme, max_width: int | None) -> Iterator[str]:
        """The lines of the table, with unhealthy files at the end; notes on omitted rows; the
        answer. max_width: columns of the screen, None if unlimited."""
        is_single = self._n_healthy == 1 and not self._unhealthy_results
        listed_results = [
            *(self._healthy_results if self.lists_all or is_single else ()),
            *self._unhealthy_results,
        ]
        columns = [
            LineColumn(name.replace("_", " "), partial(_format_cell, name), hide_rank=i)
            for i, name in enumerate(self.type.column_widths, 1)
        ]
        columns.append(LineColumn("result", verdict_label, align_right=False, style=verdict_style))
        if listed_results:
            rows = [(result.file, result) for result in listed_results]
            table = LineTable(self.type.nouns[0], rows, columns, theme, max_width, MIN_NAME_WIDTH)
            yield table.format_heading()
            yield from (table.format_line(name, result) for name, result in rows)
            if table.n_hidden:
                yield (
                    theme.paint("dim", format_hidden_columns(table.n_hidden, self.type.wide_option))
                    + "\n"
                )
        if self._n_healthy and not self.lists_all and not is_single and self._unhealthy_results:
            text = (
                f"{format_count(self._n_healthy, 'healthy file')} not shown; use --all to list them"
            )
            yield theme.paint("dim", text) + "\n"
        if summary.skipped_counts:
            kinds_text = ", ".join(
                _format_kind_count(*item) for item in sorted(summary.skipped_counts.items())
            )
            yield fit_lines(theme.paint("dim", f"not checked: {kinds_text}") + "\n", max_width)
        if summary.n_files or listed_results:
            yield fit_lines(self._format_answer(summary, theme), max_width)

    def _format_answer(self, summary: RunSummary, theme: Theme) -> str:
        totals = summary.totals
        parts = [format_count(summary.n_files, *self.type.nouns)]
        parts += [
            format_total(totals[name], name)
            for name in self.type.column_widths
            if "bytes" not in name
        ]
        parts += _verdict_parts(summary)
        parts += [
            format_total(totals[name], name) for name in ("warnings", "notes") if totals[name]
        ]
        is_damaged = (
            summary.n_damaged or summary.n_damaged_directories or any(summary.other_counts.values())
        )
        style = "bad" if is_damaged else "warn" if summary.n_unread else "good"
        line = theme.paint(style, ", ".join(parts))
        line += f"; {summary.answer}" if summary.answer else ""
        if summary.exit_code is ExitCode.CLEAN:
            return f"{line}\n"
        return f"{line}   exit code {int(summary.exit_code)}\n"


def _format_cell(name: str, result: FileResult) -> str:
    value = result.counts[name]
    return "" if result.is_directory else "–" if value is None else format_grouped(value)


def verdict_label(counts: SeverityCounts) -> str:
    """A short label for the numbers of findings by severity."""
    if counts.errors:
        return format_count(counts.errors, "error")
    if counts.warnings:
        return format_count(counts.warnings, "warning")
    return f"ok, {format_count(counts.notes, 'note')}" if counts.notes else "ok"


def verdict_style(counts: SeverityCounts) -> str:
    """The style of `verdict_label`."""
    return "bad" if counts.errors else "warn" if counts.warnings else "good"


def _verdict_parts(summary: RunSummary) -> Iterator[str]:
    """The parts of the answer that count damaged and unread files, and damaged directories."""
    other_counts = [format_total(n, name) for name, n in summary.other_counts.items() if n]
    if summary.n_unread:
        yield f"{format_grouped(summary.n_damaged)} of these damaged"
        yield f"{format_grouped(summary.n_unread)} not read"
    elif summary.n_damaged or not other_counts:
        yield (
            f"{format_grouped(summary.n_damaged)} damaged" if summary.n_damaged else NO_DAMAGE_LABEL
        )
    yield from other_counts
    if summary.n_damaged_directories:
        yield (
            f"{format_count(summary.n_damaged_directories, 'directory', 'directories')} with errors"
        )


def format_total(n: int, nouns: str) -> str:
    """A count with its noun, as a summary shows it."""
    plural = nouns.replace("_", " ")
    noun = {"batches": "batch", "entries": "entry"}.get(plural, plural.removesuffix("s"))
    return format_count(n, noun, plural)


def _format_kind_count(kind: str, n: int) -> str:
    """The number of files of a kind, with a noun; leftover files are named by their suffix."""
    noun = "other file" if kind == "other" else kind.replace("_", " ")
    if kind in ("deleted", "cleaned", "swap"):
        noun = f".{kind} file"
    return format_count(n, noun, noun + ("es" if noun.endswith("x") else "s"))
