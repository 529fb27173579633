"""JUnit XML, as CI systems read test results: a suite per partition, a failed case per finding."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from kfmt_cli.findings.finding import Code, Finding, Severity
from kfmt_cli.render.finding import consequences
from kfmt_cli.render.sinks.repository import path_in_repository
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.result import Result, Summary


class JUnit(Sink):
    """Suites in order; warnings and notes become the output of passed cases."""

    only_findings = True

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._suite: Result | None = None
        self._cases: list[str] = []
        self._failures = 0
        self._has_begun = False

    def result(self, result: Result) -> None:
        self._end_suite()
        self._suite = result

    def finding(self, finding: Finding) -> None:
        code = finding.code
        words = [finding.message, *(f"{label}: {text}" for label, text in consequences(code))]
        place = "" if finding.position is None else f" byte {finding.position}"
        text = _text(f"{finding.file}{place}\n" + "\n".join(words))
        name = _attribute(f"{code.name} {finding.file}{place}")
        case = self._case(name, finding.file)
        if code.severity is Severity.ERROR:
            self._failures += 1
            about = f"message={_attribute(finding.message)} type={_attribute(code.name)}"
            case += f"      <failure {about}>{text}</failure>\n"
        else:
            case += f"      <system-out>{code.severity.value}: {text}</system-out>\n"
        self._cases.append(case + "    </testcase>\n")

    def left_out(self, file: str, code: Code, number: int) -> None:
        name = _attribute(f"{number} more {code.name} {file}")
        case = self._case(name, file)
        if code.severity is Severity.ERROR:
            self._failures += 1
            case += f"      <failure message={name} type={_attribute(code.name)}></failure>\n"
        self._cases.append(case + "    </testcase>\n")

    def _case(self, name: str, file: str) -> str:
        """The opening tag of a case. name: quoted as an attribute."""
        path, _ = path_in_repository(file)
        about = f"classname={_attribute(self._name)} file={_attribute(path)}"
        return f'    <testcase name={name} {about} time="0">\n'

    @property
    def _name(self) -> str:
        return "kfmt" if self._suite is None else self._suite.file

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.put('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="kfmt check">\n')

    def _end_suite(self) -> None:
        self._begin()
        if self._suite is None:
            return
        name = _attribute(self._name)
        cases = self._cases or [
            f'    <testcase name="no finding" classname={name} time="0"></testcase>\n'
        ]
        numbers = f'tests="{len(cases)}" failures="{self._failures}" errors="0" skipped="0"'
        self.put(f'  <testsuite name={name} {numbers} time="0">\n')
        self.put("".join(cases) + "  </testsuite>\n")
        self._cases, self._failures, self._suite = [], 0, None

    def summary(self, summary: Summary) -> None:
        del summary
        self._end_suite()
        self.put("</testsuites>\n")


def _plain(words: str) -> str:
    """Words with characters that XML does not allow escaped."""
    return "".join(
        word if word in "\n\t" or word.isprintable() else f"\\x{ord(word):02x}" for word in words
    )


def _text(words: str) -> str:
    return escape(_plain(words))


def _attribute(words: str) -> str:
    return quoteattr(_plain(words))
