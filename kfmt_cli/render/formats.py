"""The output formats. To add one, write its sink next to the others and add a line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfmt_cli.core.lazy import load

if TYPE_CHECKING:
    from kfmt_cli.render.sinks.sink import Sink


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """A value of --format."""

    name: str
    words: str
    """Description for programs; empty for the format for people."""
    sink: str
    """Module and class, imported when the format is requested."""


_SINKS = "kfmt_cli.render.sinks"
FORMATS: list[OutputFormat] = [
    OutputFormat("table", "", f"{_SINKS}.table:TableSink"),
    OutputFormat("json", "JSON Lines", f"{_SINKS}.json:Json"),
    OutputFormat("csv", "CSV", f"{_SINKS}.csv:Csv"),
]
# Formats of commands that report only findings.
REPORTS: list[OutputFormat] = [
    *(format_ for format_ in FORMATS if format_.name != "csv"),
    OutputFormat("junit", "JUnit XML", f"{_SINKS}.junit:JUnit"),
    OutputFormat("sarif", "SARIF", f"{_SINKS}.sarif:Sarif"),
    OutputFormat("github", "GitHub annotations", f"{_SINKS}.github:GitHub"),
]


def sink_named(name: str) -> type[Sink]:
    """The class that writes the format of this name."""
    found = next(output for output in (*FORMATS, *REPORTS) if output.name == name)
    sink: type[Sink] = load(found.sink)
    return sink
