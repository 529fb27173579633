"""JUnit XML, as CI systems read test results: a suite per partition, a failed case per finding."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.sinks.repository import path_in_repository
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.file_result import FileResult, RunSummary


class JUnitSink(Sink):
    """Suites in the order of the results; warnings and notes become the output of passed cases."""

    has_only_findings = True

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._suite_result: FileResult | None = None
        self._case_texts: list[str] = []
        self._n_failures = 0
        self._has_begun = False

    def write_result(self, result: FileResult) -> None:
        self._end_suite()
        self._suite_result = result

    def write_finding(self, finding: Finding) -> None:
        code = finding.code
        message_lines = [
            finding.message,
            *(f"{label}: {text}" for label, text in code.consequences),
        ]
        position_text = "" if finding.position is None else f" byte {finding.position}"
        message_text = _xml_text(f"{finding.file}{position_text}\n" + "\n".join(message_lines))
        case_name = _xml_attribute(f"{code.name} {finding.file}{position_text}")
        case_text = self._case_opening_tag(case_name, finding.file)
        if code.severity is Severity.ERROR:
            self._n_failures += 1
            failure_attributes = (
                f"message={_xml_attribute(finding.message)} type={_xml_attribute(code.name)}"
            )
            case_text += f"      <failure {failure_attributes}>{message_text}</failure>\n"
        else:
            case_text += f"      <system-out>{code.severity.value}: {message_text}</system-out>\n"
        self._case_texts.append(case_text + "    </testcase>\n")

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        case_name = _xml_attribute(f"{n_suppressed} more {code.name} {file}")
        case_text = self._case_opening_tag(case_name, file)
        if code.severity is Severity.ERROR:
            self._n_failures += 1
            case_text += (
                f"      <failure message={case_name} type={_xml_attribute(code.name)}></failure>\n"
            )
        self._case_texts.append(case_text + "    </testcase>\n")

    def _case_opening_tag(self, case_name: str, file: str) -> str:
        """The opening tag of a case. case_name: the name, already quoted as an attribute."""
        path, _ = path_in_repository(file)
        case_attributes = (
            f"classname={_xml_attribute(self._suite_name)} file={_xml_attribute(path)}"
        )
        return f'    <testcase name={case_name} {case_attributes} time="0">\n'

    @property
    def _suite_name(self) -> str:
        return "kfmt" if self._suite_result is None else self._suite_result.file

    def _begin_document(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.write_line(
                '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="kfmt check">\n'
            )

    def _end_suite(self) -> None:
        self._begin_document()
        if self._suite_result is None:
            return
        suite_name = _xml_attribute(self._suite_name)
        case_texts = self._case_texts or [
            f'    <testcase name="no finding" classname={suite_name} time="0"></testcase>\n'
        ]
        counts_text = (
            f'tests="{len(case_texts)}" failures="{self._n_failures}" errors="0" skipped="0"'
        )
        self.write_line(f'  <testsuite name={suite_name} {counts_text} time="0">\n')
        self.write_line("".join(case_texts) + "  </testsuite>\n")
        self._case_texts, self._n_failures, self._suite_result = [], 0, None

    def write_summary(self, summary: RunSummary) -> None:
        del summary
        self._end_suite()
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
