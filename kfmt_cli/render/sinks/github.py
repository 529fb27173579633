"""GitHub workflow annotations: a line per finding, which the workflow run shows as an
annotation."""

from __future__ import annotations

from kfmt_cli.core.urls import is_url
from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.sinks.repository import format_located_message, path_in_repository
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.render.style import escape_unprintable

_LEVEL_BY_SEVERITY = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


class GitHubSink(Sink):
    """Workflow commands: `::error file=…,title=…::message`."""

    has_only_findings = True

    def write_finding(self, finding: Finding) -> None:
        position_text = "" if finding.position is None else f"byte {finding.position}: "
        consequences_text = "".join(
            f"\n{label}: {text}" for label, text in finding.code.consequences
        )
        self._write_annotation(
            finding.code, finding.file, f"{position_text}{finding.message}{consequences_text}"
        )

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        self._write_annotation(code, file, f"{n_suppressed} more findings of this kind")

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
