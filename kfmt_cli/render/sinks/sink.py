"""The destination of a command's output: one interface that every output format implements.

A format is a file next to this one and a line in `render/output_formats.py`. It receives rows of
any type, findings, results and a summary, and knows no commands. A format of plain objects only
writes one object; `render/sinks/objects.py` does the rest.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import MAX_LOCATIONS, Finding, FindingCode
from kfmt_cli.render.finding import format_finding, format_suppressed
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.file_result import FileResult, FileResultType, RunSummary

if TYPE_CHECKING:
    from kfmt_cli.render.start_lines import NextStep
    from kfmt_cli.rows.column import RowType
    from kfmt_cli.rows.columnar_rows import NestedRows

MAX_FLUSH_DELAY_SECONDS = 0.05  # for lines that wait to be written together


class OutputStreams(Protocol):
    """The streams of a process, as a sink needs them.

    width, err_width: columns of standard output and standard error, None if unlimited. exit_code:
    the exit code of the command so far.
    """

    theme: Theme
    err_theme: Theme
    exit_code: ExitCode

    @property
    def width(self) -> int | None: ...
    @property
    def err_width(self) -> int | None: ...

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes to standard output without delay; raises OutputClosed, OutputError."""

    def write_text(self, text: str) -> None:
        """Write text to standard output."""

    def write_error(self, text: str) -> None:
        """Write text to standard error."""

    def raise_exit_code(self, exit_code: ExitCode) -> None:
        """Raise the exit code to at least this one."""


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """Options for showing rows."""

    bytes_mode: str = "auto"
    """How bytes become text."""
    wide: bool = False
    """Show all columns, whatever the screen width."""
    columns: tuple[str, ...] = ()
    """Columns of the batch table; empty for all."""
    bits: bool = False
    """Draw the attribute bits of batches."""
    table: str = ""
    """The row type to write, for formats that write a single table; empty for the first."""
    shows_findings: bool = False
    """Show people findings on standard output, because they are the command's result."""
    lists_all: bool = False
    """Also show people a line for each healthy file."""
    shows_notes: bool = False
    """Show people notes like other findings."""
    quiet: bool = False
    """Show people only errors and warnings, or nothing."""
    max_locations: int = MAX_LOCATIONS
    """Number of locations shown to people per kind of finding, if findings are grouped."""


@dataclass(frozen=True, slots=True)
class FileHeading:
    """A file whose rows follow."""

    file: str
    file_bytes: int | None = None
    """The size in bytes, None for a stream."""
    base_offset: int | None = None
    """The offset in the file's name."""
    notes: tuple[str, ...] = ()
    """Other details from the file's name."""
    row_nouns: tuple[str, str] = ("entry", "entries")
    """Singular and plural of the noun for a row."""
    title_lines: tuple[str, ...] = ()
    """Lines shown to people in place of the file's name."""
    files: tuple[str, ...] = ()
    """For formats that write small logs together: the files, to which the rows refer by
    `file_number`."""


class RowWriter(ABC):
    """Writes the rows of one file.

    is_stateless: several threads may render rows at the same time.
    """

    is_stateless: ClassVar[bool] = True

    @abstractmethod
    def render(self, rows: NestedRows, first_row: int, end_row: int) -> Iterator[memoryview]:
        """The text of outer rows first..last-1, with their inner rows, in chunks."""

    def closing_text(self) -> str:
        """The text below the rows."""
        return ""


class NullRowWriter(RowWriter):
    """Writes nothing, for rows that a format omits."""

    def render(self, rows: NestedRows, first_row: int, end_row: int) -> Iterator[memoryview]:
        del rows, first_row, end_row
        return iter(())


class Sink:
    """One output format, for one run of a command; omits everything that it has no method for.

    is_for_people: omits details and writes text for people. writes_small_logs: can write the rows
    of many small files together. mixes_types: rows of different types may alternate.
    has_only_findings: contains only findings, for programs that show them.
    """

    is_for_people: ClassVar[bool] = False
    writes_small_logs: ClassVar[bool] = False
    mixes_types: ClassVar[bool] = True
    has_only_findings: ClassVar[bool] = False

    def __init__(
        self, streams: OutputStreams, display_options: DisplayOptions | None = None
    ) -> None:
        self.streams = streams
        self.display_options = display_options or DisplayOptions()
        self._buffered_texts: list[str] = []
        self._flush_seconds = 0.0

    # Text.

    def write_line(self, text: str) -> None:
        """Write text to standard output, with a short delay so that many lines are written
        together."""
        self._buffered_texts.append(text)
        now_seconds = time.monotonic()
        if now_seconds - self._flush_seconds > MAX_FLUSH_DELAY_SECONDS:
            self.flush_texts()
            self._flush_seconds = now_seconds

    def flush_texts(self) -> None:
        """Write the buffered text."""
        self.streams.write_text("".join(self._buffered_texts))
        self._buffered_texts.clear()

    def write_to_stderr(self, text: str) -> None:
        """Write text to standard error, after all earlier output."""
        if text:
            self.flush_texts()
            self.streams.write_error(text)

    def write_hint(self, text: str, style: str = "dim") -> None:
        """Write a line that only people need."""

    def add_answer(self, text: str) -> None:
        """Add a line to the answer of `check`, which people read below everything else."""

    def add_next_steps(self, steps: Sequence[NextStep]) -> None:
        """Add the next steps to the answer of `check`."""

    # Rows.

    def begin_rows(
        self, file_heading: FileHeading, outer_type: RowType, inner_type: RowType | None = None
    ) -> RowWriter:
        """Begin the rows of a file, of these types: write the text above them and return their
        writer."""
        del file_heading, outer_type, inner_type
        return NullRowWriter()

    # Findings and results.

    def write_finding(self, finding: Finding) -> None:
        """Report a finding."""

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        """Report how many findings of a kind in a file are not shown."""

    def write_finding_to_stderr(self, finding: Finding) -> None:
        """Write a finding to standard error."""
        self.write_to_stderr(
            format_finding(finding, self.streams.err_theme, self.streams.err_width)
        )

    def write_suppressed_to_stderr(self, code: FindingCode, n_suppressed: int) -> None:
        """Write to standard error how many findings of a kind are not shown."""
        self.write_to_stderr(format_suppressed(code, n_suppressed))

    def begin_results(self, type_: FileResultType) -> None:
        """Announce results of this type; from here on, findings for people are grouped."""

    def end_findings(self) -> None:
        """Show people the grouped findings, after the last finding."""

    def write_result(self, result: FileResult) -> None:
        """Report the result for a file, without its findings."""

    def write_summary(self, summary: RunSummary) -> None:
        """Report the summary of the run."""

    def write_document(
        self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]
    ) -> None:
        """Write a standalone object with the members of its type. lines: the same content as text
        for people."""
