"""SARIF 2.1.0, the static analysis format: a rule per kind of finding, a result per finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kfmt_cli import __version__
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.urls import is_url, restore_url_slashes
from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.render.sinks.repository import (
    format_located_message,
    path_in_repository,
    repository_root,
)
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.file_result import RunSummary

if TYPE_CHECKING:
    from kfmt_cli.render.start_lines import NextStep

ROOT_BASE_ID = "%SRCROOT%"
SCHEMA_URL = "https://json.schemastore.org/sarif-2.1.0.json"


class SarifSink(Sink):
    """One run: results as they arrive, then the rules."""

    has_only_findings = True

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._code_by_name: dict[str, FindingCode] = {}
        self._n_results = 0
        self._notifications: list[dict[str, Any]] = []

    def write_finding(self, finding: Finding) -> None:
        self._write_result(finding.code, finding.file, finding.message, finding.position)

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        self._write_result(code, file, f"{n_suppressed} more findings of this kind", None)

    def _write_result(
        self, code: FindingCode, file: str, message: str, position: int | None
    ) -> None:
        self._code_by_name.setdefault(code.name, code)
        path, is_in_repository = path_in_repository(file)
        artifact_location = {"uri": quote(path), "uriBaseId": ROOT_BASE_ID}
        if is_url(path):
            artifact_location = {"uri": quote(restore_url_slashes(path), safe="/:")}
        elif not is_in_repository:
            artifact_location = {"uri": f"file://{quote(path)}"}
        region = {"startLine": 1}  # without one, GitHub shows nothing
        if position is not None:
            region["byteOffset"] = position
        physical_location: dict[str, Any] = {
            "artifactLocation": artifact_location,
            "region": region,
        }
        sarif_result = {
            "ruleId": code.name,
            "level": code.severity.value,
            "message": {"text": format_located_message(path, file, message)},
            "locations": [{"physicalLocation": physical_location}],
        }
        self._begin_document()
        self.write_line(f"{',' if self._n_results else ''}\n{json_text(sarif_result)}")
        self._n_results += 1

    def _begin_document(self) -> None:
        if not self._n_results:
            self.write_line(f'{{"$schema":"{SCHEMA_URL}","version":"2.1.0","runs":[{{"results":[')

    def add_next_steps(self, steps: Sequence[NextStep]) -> None:
        """A notification of the run for each step of the plan."""
        for step in steps:
            text = f"plan, step {step.order}: {step.command}\n{step.price}"
            self._notifications.append({"level": "note", "message": {"text": text}})

    def write_summary(self, summary: RunSummary) -> None:
        del summary
        self._begin_document()
        driver = {
            "name": "kfmt",
            "version": __version__,
            "rules": [_describe_rule(code) for code in self._code_by_name.values()],
        }
        uri_bases = {ROOT_BASE_ID: {"uri": f"{repository_root().as_uri()}/"}}
        self.write_line(f'\n],"originalUriBaseIds":{json_text(uri_bases)},')
        if self._notifications:
            invocation = {
                "executionSuccessful": True,
                "toolExecutionNotifications": self._notifications,
            }
            self.write_line(f'"invocations":{json_text([invocation])},')
        self.write_line(f'"tool":{json_text({"driver": driver})}}}]}}\n')


def _describe_rule(code: FindingCode) -> dict[str, Any]:
    consequences_text = "\n".join(f"{label}: {text}" for label, text in code.consequences)
    return {
        "id": code.name,
        "shortDescription": {"text": code.meaning},
        "fullDescription": {"text": consequences_text or code.meaning},
        "help": {"text": f"{consequences_text or code.meaning}\nSee kfmt explain {code.name}."},
        "helpUri": f"urn:kfmt:finding:{code.name}",
        "defaultConfiguration": {"level": code.severity.value},
    }
