"""SARIF 2.1.0, the static analysis format: a rule per kind of finding, a result per finding."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from kfmt_cli import __version__
from kfmt_cli.core.json_text import json_text
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.render.finding import consequences
from kfmt_cli.render.sinks.repository import path_in_repository, repository_root, words_at
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.result import Summary

ROOT = "%SRCROOT%"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class Sarif(Sink):
    """One run: results as they arrive, then the rules."""

    only_findings = True

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._rules: dict[str, Code] = {}
        self._n_results = 0

    def finding(self, finding: Finding) -> None:
        self._result(finding.code, finding.file, finding.message, finding.position)

    def left_out(self, file: str, code: Code, number: int) -> None:
        self._result(code, file, f"{number} more findings of this kind", None)

    def _result(self, code: Code, file: str, words: str, position: int | None) -> None:
        self._rules.setdefault(code.name, code)
        path, is_inside = path_in_repository(file)
        location = {"uri": quote(path), "uriBaseId": ROOT}
        if not is_inside:
            location = {"uri": f"file://{quote(path)}"}
        region = {"startLine": 1}  # without one, GitHub shows nothing
        if position is not None:
            region["byteOffset"] = position
        place: dict[str, Any] = {"artifactLocation": location, "region": region}
        row = {
            "ruleId": code.name,
            "level": code.severity.value,
            "message": {"text": words_at(path, file, words)},
            "locations": [{"physicalLocation": place}],
        }
        self._begin()
        self.put(f"{',' if self._n_results else ''}\n{json_text(row)}")
        self._n_results += 1

    def _begin(self) -> None:
        if not self._n_results:
            self.put(f'{{"$schema":"{SCHEMA}","version":"2.1.0","runs":[{{"results":[')

    def summary(self, summary: Summary) -> None:
        del summary
        self._begin()
        driver = {
            "name": "kfmt",
            "version": __version__,
            "rules": [_rule(rule) for rule in self._rules.values()],
        }
        bases = {ROOT: {"uri": f"{repository_root().as_uri()}/"}}
        self.put(f'\n],"originalUriBaseIds":{json_text(bases)},')
        self.put(f'"tool":{json_text({"driver": driver})}}}]}}\n')


def _rule(code: Code) -> dict[str, Any]:
    more = "\n".join(f"{label}: {text}" for label, text in consequences(code))
    return {
        "id": code.name,
        "shortDescription": {"text": code.meaning},
        "fullDescription": {"text": more or code.meaning},
        "help": {"text": f"{more or code.meaning}\nSee kfmt explain {code.name}."},
        "helpUri": f"urn:kfmt:finding:{code.name}",
        "defaultConfiguration": {"level": code.severity.value},
    }
