"""GitHub workflow annotations: a line per finding, which the run's log shows as a note."""

from __future__ import annotations

from kfmt_cli.findings.finding import Code, Finding, Severity
from kfmt_cli.render.finding import consequences
from kfmt_cli.render.sinks.repository import path_in_repository, words_at
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.render.style import safe

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


class GitHub(Sink):
    """Workflow commands: `::error file=…,title=…::message`."""

    only_findings = True

    def finding(self, finding: Finding) -> None:
        place = "" if finding.position is None else f"byte {finding.position}: "
        more = "".join(f"\n{label}: {text}" for label, text in consequences(finding.code))
        self._line(finding.code, finding.file, f"{place}{finding.message}{more}")

    def left_out(self, file: str, code: Code, number: int) -> None:
        self._line(code, file, f"{number} more findings of this kind")

    def _line(self, code: Code, file: str, words: str) -> None:
        level = _LEVELS[code.severity]
        path, _ = path_in_repository(file)
        about = f"file={_property(path)},line=1,title={_property(code.name)}"
        self.put(f"::{level} {about}::{_data(words_at(path, file, words))}\n")


def _data(words: str) -> str:
    lines = (safe(part).replace("%", "%25") for part in words.split("\n"))
    return "%0A".join(lines)


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")
