"""GitHub workflow annotations: a line per finding, which the workflow run shows as an
annotation, and a summary of the step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kfmt_cli.core.regular_files import open_regular_file
from kfmt_cli.core.urls import is_url
from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.finding import format_location
from kfmt_cli.render.sinks.repository import format_located_message, path_in_repository
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.render.style import escape_unprintable, format_count

if TYPE_CHECKING:
    from kfmt_cli.render.start_lines import NextStep
    from kfmt_cli.rows.file_result import RunSummary

_LEVEL_BY_SEVERITY = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MAX_SUMMARY_ROWS = 100  # GitHub shows 1 MiB
_MARKDOWN_ESCAPES = {ord(char): f"&#{ord(char)};" for char in "&<>\\|`*[]~@#"}


class GitHubSink(Sink):
    """Workflow commands, `::error file=…,title=…::message`, and one closing line. With the variable
    GITHUB_STEP_SUMMARY, a table of the findings and the plan are added to its file."""

    has_only_findings = True

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._table_rows: list[str] = []
        self._n_omitted_rows = 0
        self._steps: Sequence[NextStep] = ()

    def write_finding(self, finding: Finding) -> None:
        if not self._is_shown(finding.code):
            return
        position_text = "" if finding.position is None else f"byte {finding.position}: "
        consequences_text = "".join(
            f"\n{label}: {text}" for label, text in finding.code.consequences
        )
        self._write_annotation(
            finding.code, finding.file, f"{position_text}{finding.message}{consequences_text}"
        )
        self._add_table_row(finding.code, format_location(finding), finding.message)

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        if self._is_shown(code):
            message = f"{n_suppressed} more findings of this kind"
            self._write_annotation(code, file, message)
            self._add_table_row(code, file, message)

    def _is_shown(self, code: FindingCode) -> bool:
        return code.severity is not Severity.NOTE or self.display_options.shows_notes

    def add_next_steps(self, steps: Sequence[NextStep]) -> None:
        self._steps = steps
        for step in steps:
            title = _escape_property(f"plan, step {step.order}")
            message = _escape_message(f"{step.command}\n{step.price}")
            self.write_line(f"::notice title={title}::{message}\n")

    def write_summary(self, summary: RunSummary) -> None:
        totals = summary.totals
        counts = [format_count(totals.errors, "error"), format_count(totals.warnings, "warning")]
        if totals.notes:
            hint = "" if self.display_options.shows_notes else " (--notes shows them)"
            counts.append(f"{format_count(totals.notes, 'note')}{hint}")
        if summary.n_unread_inputs:
            counts.append(f"{format_count(summary.n_unread_inputs, 'input')} not read")
        text = f"{', '.join(counts)} in {format_count(summary.n_files, *summary.type.nouns)}"
        if totals.errors or totals.warnings or not self.display_options.quiet:
            self.write_line(f"kfmt: {text}\n")
        if path := os.environ.get(SUMMARY_VARIABLE):
            self._append_step_summary(path, text)

    def _append_step_summary(self, path: str, text: str) -> None:
        lines = [f"### kfmt: {text}", ""]
        if self._table_rows:
            lines += ["| | finding | place | message |", "| --- | --- | --- | --- |"]
            lines += [*self._table_rows, ""]
        if self._n_omitted_rows:
            lines += [f"… and {format_count(self._n_omitted_rows, 'more finding')}", ""]
        if self._steps:
            lines += ["What to do, in this order:", ""]
            lines += [
                f"{step.order}. <code>{_escape_cell(step.command)}</code>: "
                f"{_escape_cell(step.price)}"
                for step in self._steps
            ]
            lines.append("")
        try:
            fd = open_regular_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK)
            with os.fdopen(fd, "ab") as file:
                file.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
        except OSError as error:
            self.write_to_stderr(f"kfmt: {SUMMARY_VARIABLE}: {path}: {error.strerror}\n")

    def _add_table_row(self, code: FindingCode, place: str, message: str) -> None:
        if len(self._table_rows) == MAX_SUMMARY_ROWS:
            self._n_omitted_rows += 1
            return
        cells = (code.severity.value, code.name, place, message)
        self._table_rows.append(f"| {' | '.join(map(_escape_cell, cells))} |")

    def _write_annotation(self, code: FindingCode, file: str, message: str) -> None:
        annotation_level = _LEVEL_BY_SEVERITY[code.severity]
        path, properties_text = "", f"title={_escape_property(code.name)}"
        if not is_url(file):  # GitHub shows files of the repository
            path, _ = path_in_repository(file)
            properties_text = f"file={_escape_property(path)},line=1,{properties_text}"
        self.write_line(
            f"::{annotation_level} "
            f"{properties_text}::{_escape_message(format_located_message(path, file, message))}\n"
        )


def _escape_message(text: str) -> str:
    lines = (escape_unprintable(line).replace("%", "%25") for line in text.split("\n"))
    return "%0A".join(lines)


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


def _escape_cell(text: str) -> str:
    """Text for a cell of a Markdown table, without Markdown of its own."""
    return escape_unprintable(text.replace("\n", " ")).translate(_MARKDOWN_ESCAPES)
