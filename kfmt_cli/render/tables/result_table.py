"""Results of files for people: a line for each file that needs attention, and an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import SeverityCounts
from kfmt_cli.render.style import (
    Theme,
    format_count,
    format_hidden_columns,
    format_thousands,
    wrap_long_lines,
)
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.rows.file_result import FileResult, FileResultType, RunSummary

NO_DAMAGE_LABEL = "no damage"
MIN_NAME_WIDTH = 16


@dataclass(slots=True)
class ResultTable:
    """Results of one type. Healthy files are only counted, unless `lists_all` or there is just
    one."""

    result_type: FileResultType
    lists_all: bool = False
    _unhealthy_results: list[FileResult] = field(default_factory=list)
    _healthy_results: list[FileResult] = field(default_factory=list)
    _n_healthy: int = 0

    def add_result(self, result: FileResult) -> None:
        """Add the result of a file."""
        if result.errors or result.warnings:
            self._unhealthy_results.append(result)
            return
        self._n_healthy += not result.counted_as
        if self.lists_all or self._n_healthy == 1:
            self._healthy_results.append(result)

    def format_lines(
        self, summary: RunSummary, theme: Theme, max_width: int | None
    ) -> Iterator[str]:
        """The lines of the table, with unhealthy files at the end; notes on omitted rows; the
        answer. max_width: columns of the screen, None if unlimited."""
        is_single_file = self._n_healthy == 1 and not self._unhealthy_results
        listed_results = [
            *(self._healthy_results if self.lists_all or is_single_file else ()),
            *self._unhealthy_results,
        ]
        columns = [
            LineColumn(
                name.replace("_", " "), partial(_format_count_cell, name), hide_rank=hide_rank
            )
            for hide_rank, name in enumerate(self.result_type.column_widths, 1)
        ]
        columns.append(
            LineColumn("result", verdict_label, align_right=False, cell_style=verdict_style)
        )
        if listed_results:
            rows = [(result.file, result) for result in listed_results]
            line_table = LineTable(
                self.result_type.nouns[0], rows, columns, theme, max_width, MIN_NAME_WIDTH
            )
            yield line_table.format_heading()
            yield from (line_table.format_line(name, result) for name, result in rows)
            if line_table.n_hidden_columns:
                yield (
                    theme.paint(
                        "dim",
                        format_hidden_columns(
                            line_table.n_hidden_columns, self.result_type.wide_option
                        ),
                    )
                    + "\n"
                )
        if (
            self._n_healthy
            and not self.lists_all
            and not is_single_file
            and self._unhealthy_results
        ):
            omitted_text = (
                f"{format_count(self._n_healthy, 'healthy file')} not shown; use --all to list them"
            )
            yield theme.paint("dim", omitted_text) + "\n"
        if summary.skipped_counts:
            kinds_text = ", ".join(
                _format_kind_count(*kind_and_count)
                for kind_and_count in sorted(summary.skipped_counts.items())
            )
            yield wrap_long_lines(
                theme.paint("dim", f"not checked: {kinds_text}") + "\n", max_width
            )
        if summary.n_files or listed_results:
            yield wrap_long_lines(self._format_answer(summary, theme), max_width)

    def _format_answer(self, summary: RunSummary, theme: Theme) -> str:
        totals = summary.totals
        answer_parts = [format_count(summary.n_files, *self.result_type.nouns)]
        answer_parts += [
            format_total(totals[count_name], count_name)
            for count_name in self.result_type.column_widths
            if "bytes" not in count_name
        ]
        answer_parts += _verdict_parts(summary)
        answer_parts += [
            format_total(totals[count_name], count_name)
            for count_name in ("warnings", "notes")
            if totals[count_name]
        ]
        is_damaged = (
            summary.n_damaged_files
            or summary.n_damaged_directories
            or any(summary.other_counts.values())
        )
        answer_style = "bad" if is_damaged else "warn" if summary.n_unread_inputs else "good"
        answer_line = theme.paint(answer_style, ", ".join(answer_parts))
        answer_line += f"; {summary.closing_text}" if summary.closing_text else ""
        if summary.exit_code is ExitCode.CLEAN:
            return f"{answer_line}\n"
        return f"{answer_line}   exit code {int(summary.exit_code)}\n"


def _format_count_cell(count_name: str, result: FileResult) -> str:
    cell_count = result.counts[count_name]
    return (
        "" if result.is_directory else "–" if cell_count is None else format_thousands(cell_count)
    )


def verdict_label(counts: SeverityCounts) -> str:
    """A short label for the counts of findings by severity."""
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
    other_counts = [
        format_total(count, count_name)
        for count_name, count in summary.other_counts.items()
        if count
    ]
    if summary.n_unread_inputs:
        yield f"{format_thousands(summary.n_damaged_files)} of these damaged"
        yield f"{format_thousands(summary.n_unread_inputs)} not read"
    elif summary.n_damaged_files or not other_counts:
        yield (
            f"{format_thousands(summary.n_damaged_files)} damaged"
            if summary.n_damaged_files
            else "no new damage"
            if summary.n_known_findings
            else NO_DAMAGE_LABEL
        )
    yield from other_counts
    if summary.n_known_findings:
        yield format_count(summary.n_known_findings, "known finding")
    if summary.n_damaged_directories:
        yield (
            f"{format_count(summary.n_damaged_directories, 'directory', 'directories')} with errors"
        )


def format_total(total: int, plural_name: str) -> str:
    """A count with its noun, as a summary shows it."""
    plural = plural_name.replace("_", " ")
    noun = {"batches": "batch", "entries": "entry"}.get(plural, plural.removesuffix("s"))
    return format_count(total, noun, plural)


def _format_kind_count(file_kind: str, n_files: int) -> str:
    """The number of files of a kind, with a noun; leftover files are named by their suffix."""
    noun = "other file" if file_kind == "other" else file_kind.replace("_", " ")
    if file_kind in ("deleted", "cleaned", "swap"):
        noun = f".{file_kind} file"
    return format_count(n_files, noun, noun + ("es" if noun.endswith("x") else "s"))
