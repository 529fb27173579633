"""The destination of a command's output: one interface that every output format implements.

A format is a file next to this one and a line in `render/formats.py`. It receives rows of any type,
findings, results and a summary, and knows no commands. A format of plain objects only writes one
object; `render/sinks/objects.py` does the rest.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import MOST_PLACES, Code, Finding
from kfmt_cli.render.finding import finding_line, left_out_line
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.result import Result, ResultType, Summary

if TYPE_CHECKING:
    from kfmt_cli.render.start_lines import NextStep
    from kfmt_cli.rows.column import RowType
    from kfmt_cli.rows.section import Rows

PATIENCE = 0.05  # seconds that lines may wait to be written together


class Out(Protocol):
    """The streams of a process, as a sink needs them. width: None if unlimited.

    exit_code: the exit code the command would end with now.
    """

    theme: Theme
    err_theme: Theme
    exit_code: ExitCode

    @property
    def width(self) -> int | None: ...
    @property
    def err_width(self) -> int | None: ...

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes to standard output at once; raises OutputClosed, OutputError."""

    def text(self, words: str) -> None:
        """Write text to standard output."""

    def note(self, words: str) -> None:
        """Write text to standard error."""

    def reached(self, exit_code: ExitCode) -> None:
        """Raise the exit code to at least this one."""


@dataclass(frozen=True, slots=True)
class Look:
    """Options for showing rows."""

    mode: str = "auto"
    """How bytes become text."""
    wide: bool = False
    """Show all columns, whatever the screen width."""
    columns: tuple[str, ...] = ()
    """Columns of the batch table; empty for all."""
    bits: bool = False
    """Draw the attribute bits of batches."""
    table: str = ""
    """The row type to write, for formats that write a single table; empty for the first."""
    finds: bool = False
    """Findings are the command's result: people read them on standard output."""
    lists_all: bool = False
    """Also show people a line for each healthy file."""
    shows_notes: bool = False
    """Show people notes like other findings."""
    places: int = MOST_PLACES
    """Number of places shown to people per kind of finding, if findings are grouped."""


@dataclass(frozen=True, slots=True)
class Head:
    """A file whose rows follow."""

    file: str
    size: int | None = None
    """The size in bytes, None for a stream."""
    base_offset: int | None = None
    """The offset in its name."""
    notes: tuple[str, ...] = ()
    """Other details from its name."""
    nouns: tuple[str, str] = ("entry", "entries")
    """Singular and plural of a row."""
    title: tuple[str, ...] = ()
    """Lines shown to people in place of the file's name."""
    files: tuple[str, ...] = ()
    """For formats that write packs: several files, which the rows name by `file_number`."""


class RowWriter(ABC):
    """Writes the rows of one file.

    stateless: several threads may request parts at once.
    """

    stateless: ClassVar[bool] = True

    @abstractmethod
    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        """Outer rows first..last-1, with their inner rows, in pieces."""

    def end(self) -> str:
        """The text below the rows."""
        return ""


class NoRows(RowWriter):
    """Writes nothing, for rows that a format omits."""

    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        del rows, first, last
        return iter(())


class Sink:
    """One output format, for one run of a command; leaves out what it has no method for.

    for_people: omits details and describes the rest in words. writes_packs: can write the rows of
    many small files in one go. mixes_types: rows of different types may alternate. only_findings:
    contains only findings, for machines that show them.
    """

    for_people: ClassVar[bool] = False
    writes_packs: ClassVar[bool] = False
    mixes_types: ClassVar[bool] = True
    only_findings: ClassVar[bool] = False

    def __init__(self, out: Out, look: Look | None = None) -> None:
        self.out = out
        self.look = look or Look()
        self._held: list[str] = []
        self._flushed = 0.0

    # Text.

    def put(self, words: str) -> None:
        """Write text to standard output, with a short delay so that many lines are written
        together."""
        self._held.append(words)
        now = time.monotonic()
        if now - self._flushed > PATIENCE:
            self.flush()
            self._flushed = now

    def flush(self) -> None:
        """Write the buffered text."""
        self.out.text("".join(self._held))
        self._held.clear()

    def note(self, words: str) -> None:
        """Write text to standard error, after all earlier output."""
        if words:
            self.flush()
            self.out.note(words)

    def remark(self, words: str, style: str = "dim") -> None:
        """Show a line to people only."""

    def answer(self, words: str) -> None:
        """Add a line to the answer of `check`, which people read below everything else."""

    def next_steps(self, steps: Sequence[NextStep]) -> None:
        """Add the next steps to the answer of `check`."""

    # Rows.

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        """Begin the rows of a file, of these types; writes the text above them."""
        del head, outer, inner
        return NoRows()

    # Findings and results.

    def finding(self, finding: Finding) -> None:
        """Report a finding."""

    def left_out(self, file: str, code: Code, number: int) -> None:
        """Report how many findings of a kind in a file are not shown."""

    def note_finding(self, finding: Finding) -> None:
        """Write a finding to standard error."""
        self.note(finding_line(finding, self.out.err_theme, self.out.err_width))

    def note_left_out(self, code: Code, number: int) -> None:
        """Write to standard error how many findings of a kind are not shown."""
        self.note(left_out_line(code, number))

    def results(self, type_: ResultType) -> None:
        """Announce results of this type, and findings, which people read in groups."""

    def end_findings(self) -> None:
        """Show people the findings: all have arrived."""

    def result(self, result: Result) -> None:
        """Report the result for a file, without its findings."""

    def summary(self, summary: Summary) -> None:
        """Report the result of the run."""

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        """Write a standalone object with the members of its type. lines: the same for people."""
