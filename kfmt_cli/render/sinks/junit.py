"""JUnit XML, as CI systems read test results: a suite per partition or file, a failed case per
error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.sinks.repository import path_in_repository
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.file_result import FileResult, RunSummary

if TYPE_CHECKING:
    from kfmt_cli.render.start_lines import NextStep


class JUnitSink(Sink):
    """Suites in the order of the results; warnings and notes become the output of passed cases."""

    has_only_findings = True

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._cases: list[tuple[str, str, str]] = []
        """Of the next suite: the name and the file, quoted as attributes, and the content."""
        self._n_failures = 0
        self._has_begun = False

    def write_finding(self, finding: Finding) -> None:
        code = finding.code
        message_lines = [
            finding.message,
            *(f"{label}: {text}" for label, text in code.consequences),
        ]
        position_text = "" if finding.position is None else f" byte {finding.position}"
        message_text = _xml_text(f"{finding.file}{position_text}\n" + "\n".join(message_lines))
        if code.severity is Severity.ERROR:
            failure_attributes = (
                f"message={_xml_attribute(finding.message)} type={_xml_attribute(code.name)}"
            )
            content = f"      <failure {failure_attributes}>{message_text}</failure>\n"
        else:
            content = f"      <system-out>{code.severity.value}: {message_text}</system-out>\n"
        self._add_case(code, finding.file, f"{code.name} {finding.file}{position_text}", content)

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        name, content = f"{n_suppressed} more {code.name} {file}", ""
        if code.severity is Severity.ERROR:
            attributes = f"message={_xml_attribute(name)} type={_xml_attribute(code.name)}"
            content = f"      <failure {attributes}></failure>\n"
        self._add_case(code, file, name, content)

    def _add_case(self, code: FindingCode, file: str, name: str, content: str) -> None:
        self._n_failures += code.severity is Severity.ERROR
        path, _ = path_in_repository(file)
        self._cases.append((_xml_attribute(name), _xml_attribute(path), content))

    def write_result(self, result: FileResult) -> None:
        """A suite with the findings since the last result."""
        self._write_suite(result.file)

    def _write_suite(self, name: str) -> None:
        self._begin_document()
        suite_name = _xml_attribute(name)
        case_texts = [
            f'    <testcase name={case_name} classname={suite_name} file={path} time="0">\n'
            f"{content}    </testcase>\n"
            for case_name, path, content in self._cases
        ] or [f'    <testcase name="no finding" classname={suite_name} time="0"></testcase>\n']
        counts_text = (
            f'tests="{len(case_texts)}" failures="{self._n_failures}" errors="0" skipped="0"'
        )
        self.write_line(f'  <testsuite name={suite_name} {counts_text} time="0">\n')
        self.write_line("".join(case_texts) + "  </testsuite>\n")
        self._cases, self._n_failures = [], 0

    def _begin_document(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.write_line('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="kfmt">\n')

    def add_next_steps(self, steps: Sequence[NextStep]) -> None:
        """A suite with a passed case for each step."""
        self._begin_document()
        if not steps:
            return
        self.write_line(
            f'  <testsuite name="plan" tests="{len(steps)}" failures="0" errors="0" skipped="0"'
            ' time="0">\n'
        )
        for step in steps:
            text = _xml_text(f"{step.command}\n{step.price}")
            self.write_line(
                f'    <testcase name="step {step.order}" classname="plan" time="0">\n'
                f"      <system-out>{text}</system-out>\n    </testcase>\n"
            )
        self.write_line("  </testsuite>\n")

    def write_summary(self, summary: RunSummary) -> None:
        del summary
        if self._cases:  # of inputs without a result
            self._write_suite("kfmt")
        self._begin_document()
        self.write_line("</testsuites>\n")


def _escape_control_chars(text: str) -> str:
    """Text with the characters escaped that XML does not allow."""
    return "".join(
        char if char in "\n\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in text
    )


def _xml_text(text: str) -> str:
    return escape(_escape_control_chars(text))


def _xml_attribute(text: str) -> str:
    return quoteattr(_escape_control_chars(text))
