"""The output formats. To add one, write its sink next to the others and add a line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfmt_cli.core.lazy import import_object

if TYPE_CHECKING:
    from kfmt_cli.render.sinks.sink import Sink


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """A value of --format."""

    name: str
    description: str
    """Description for programs; empty for the format for people."""
    sink_path: str
    """Module and class, imported when the format is requested."""


_SINKS_PACKAGE = "kfmt_cli.render.sinks"
OUTPUT_FORMATS: list[OutputFormat] = [
    OutputFormat("table", "", f"{_SINKS_PACKAGE}.table:TableSink"),
    OutputFormat("json", "JSON Lines", f"{_SINKS_PACKAGE}.json:JsonSink"),
    OutputFormat("csv", "CSV", f"{_SINKS_PACKAGE}.csv:CsvSink"),
]
# Formats for findings only.
FINDING_FORMATS: list[OutputFormat] = [
    OutputFormat("junit", "JUnit XML", f"{_SINKS_PACKAGE}.junit:JUnitSink"),
    OutputFormat("sarif", "SARIF", f"{_SINKS_PACKAGE}.sarif:SarifSink"),
    OutputFormat("github", "GitHub annotations", f"{_SINKS_PACKAGE}.github:GitHubSink"),
]
# Formats of commands that report only findings.
REPORT_FORMATS: list[OutputFormat] = [
    *(format_ for format_ in OUTPUT_FORMATS if format_.name != "csv"),
    *FINDING_FORMATS,
]


def load_sink_class(format_name: str) -> type[Sink]:
    """The class that writes the format of this name."""
    output_format = next(
        known_format
        for known_format in (*OUTPUT_FORMATS, *FINDING_FORMATS)
        if known_format.name == format_name
    )
    sink_type: type[Sink] = import_object(output_format.sink_path)
    return sink_type
