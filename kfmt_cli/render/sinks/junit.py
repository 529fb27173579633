"""JUnit XML, as CI systems read test results: a suite per partition, a failed case per finding."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.finding import finding_consequences
from kfmt_cli.render.sinks.repository import path_in_repository
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.file_result import FileResult, RunSummary


class JUnitSink(Sink):
    """Suites in the order of the results; warnings and notes become the output of passed cases."""

    only_findings = True

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._suite: FileResult | None = None
        self._cases: list[str] = []
        self._n_failures = 0
        self._has_begun = False

    def write_result(self, result: FileResult) -> None:
        self._end_suite()
        self._suite = result

    def write_finding(self, finding: Finding) -> None:
        code = finding.code
        lines = [
            finding.message,
            *(f"{label}: {text}" for label, text in finding_consequences(code)),
        ]
        location = "" if finding.position is None else f" byte {finding.position}"
        text = _xml_text(f"{finding.file}{location}\n" + "\n".join(lines))
        name = _xml_attribute(f"{code.name} {finding.file}{location}")
        case = self._open_case(name, finding.file)
        if code.severity is Severity.ERROR:
            self._n_failures += 1
            attributes = (
                f"message={_xml_attribute(finding.message)} type={_xml_attribute(code.name)}"
            )
            case += f"      <failure {attributes}>{text}</failure>\n"
        else:
            case += f"      <system-out>{code.severity.value}: {text}</system-out>\n"
        self._cases.append(case + "    </testcase>\n")

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        name = _xml_attribute(f"{n_suppressed} more {code.name} {file}")
        case = self._open_case(name, file)
        if code.severity is Severity.ERROR:
            self._n_failures += 1
            case += f"      <failure message={name} type={_xml_attribute(code.name)}></failure>\n"
        self._cases.append(case + "    </testcase>\n")

    def _open_case(self, name: str, file: str) -> str:
        """The opening tag of a case. name: the name, already quoted as an attribute."""
        path, _ = path_in_repository(file)
        attributes = f"classname={_xml_attribute(self._suite_name)} file={_xml_attribute(path)}"
        return f'    <testcase name={name} {attributes} time="0">\n'

    @property
    def _suite_name(self) -> str:
        return "kfmt" if self._suite is None else self._suite.file

    def _begin_document(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.write_line(
                '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="kfmt check">\n'
            )

    def _end_suite(self) -> None:
        self._begin_document()
        if self._suite is None:
            return
        name = _xml_attribute(self._suite_name)
        cases = self._cases or [
            f'    <testcase name="no finding" classname={name} time="0"></testcase>\n'
        ]
        counts_text = f'tests="{len(cases)}" failures="{self._n_failures}" errors="0" skipped="0"'
        self.write_line(f'  <testsuite name={name} {counts_text} time="0">\n')
        self.write_line("".join(cases) + "  </testsuite>\n")
        self._cases, self._n_failures, self._suite = [], 0, None

    def write_summary(self, summary: RunSummary) -> None:
        del summary
        self._end_suite()
        self.write_line("</testsuites>\n")


def _escape_control(text: str) -> str:
    """Text with the characters escaped that XML does not allow."""
    return "".join(
        char if char in "\n\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in text
    )


def _xml_text(text: str) -> str:
    return escape(_escape_control(text))


def _xml_attribute(text: str) -> str:
    return quoteattr(_escape_control(text))
