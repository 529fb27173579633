"""Where what a command finds goes: one interface that every output format implements.

A format is one file next to this one and a line in `render/formats.py`. It is given rows of
any type, findings, results and a summary, and knows no command. For a format of plain objects,
`render/sinks/objects.py` does all but the writing of one object.
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
    from kfmt_cli.rows.column import RowType
    from kfmt_cli.rows.section import Rows

PATIENCE = 0.05  # seconds that lines may wait for others to be written with


class Out(Protocol):
    """The streams of a process, as a sink needs them. width: None where nothing limits it.

    exit_code: what the command would end with now.
    """

    theme: Theme
    err_theme: Theme
    exit_code: ExitCode

    @property
    def width(self) -> int | None: ...
    @property
    def err_width(self) -> int | None: ...

    def write(self, data: bytes | memoryview) -> None:
        """Bytes on standard output, at once; raises OutputClosed, OutputError."""

    def text(self, words: str) -> None:
        """Words on standard output."""

    def note(self, words: str) -> None:
        """Words on standard error."""

    def reached(self, exit_code: ExitCode) -> None:
        """Something was seen that ends the command with this code, or a higher one."""


@dataclass(frozen=True, slots=True)
class Look:
    """How rows are to be shown."""

    mode: str = "auto"
    """How bytes become text."""
    wide: bool = False
    """All columns, whatever the screen."""
    columns: tuple[str, ...] = ()
    """Columns of the table of batches; all where there are none."""
    bits: bool = False
    """The attribute bits of batches are drawn."""
    table: str = ""
    """The type of the rows that a format writes that holds one table; empty for the first."""
    finds: bool = False
    """Findings are what the command was asked for: people read them on standard output."""
    lists_all: bool = False
    """People are shown a line for what is healthy, too."""
    shows_notes: bool = False
    """People are shown notes like other findings."""
    places: int = MOST_PLACES
    """Places of one kind of finding that people are shown, where findings are grouped."""


@dataclass(frozen=True, slots=True)
class Head:
    """A file whose rows follow."""

    file: str
    size: int | None = None
    """The size in bytes, None for a stream."""
    base_offset: int | None = None
    """The offset in its name."""
    notes: tuple[str, ...] = ()
    """What else names say of it."""
    nouns: tuple[str, str] = ("entry", "entries")
    """What one row is, and what many are."""
    title: tuple[str, ...] = ()
    """The lines that people read in place of the file's name."""


class RowWriter(ABC):
    """Writes the rows of one file.

    stateless: it may be asked for several parts at once, from several threads.
    """

    stateless: ClassVar[bool] = True

    @abstractmethod
    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        """Outer rows first..last-1, with their inner rows, in pieces."""

    def end(self) -> str:
        """What is below the rows."""
        return ""


class NoRows(RowWriter):
    """Writes nothing, for rows that a format leaves out."""

    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        del rows, first, last
        return iter(())


class Sink(ABC):
    """One output format, for one run of a command.

    for_people: what matters less is left out, and what matters is said in words. tells_inline:
    findings are rows of the output, and not lines on standard error. writes_packs: the rows of many
    small files can be written in one go. mixes_types: rows of any type may follow one another.
    only_findings: it is only about findings, and for machines that show them.
    """

    for_people: ClassVar[bool] = False
    tells_inline: ClassVar[bool] = False
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
        """Words on standard output, a little later where many lines follow one another."""
        self._held.append(words)
        now = time.monotonic()
        if now - self._flushed > PATIENCE:
            self.flush()
            self._flushed = now

    def flush(self) -> None:
        """Write what is held."""
        self.out.text("".join(self._held))
        self._held.clear()

    def note(self, words: str) -> None:
        """Words on standard error, after what was said before."""
        if words:
            self.flush()
            self.out.note(words)

    def remark(self, words: str, style: str = "dim") -> None:  # noqa: B027 (most have none)
        """A line that only people are told."""

    def answer(self, words: str) -> None:  # noqa: B027 (most have none)
        """A line of what `check` answers, which people read below all else."""

    # Rows.

    @abstractmethod
    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        """Begin the rows of a file, of these types; writes what is above them."""

    def rows_of_files(
        self, files: Sequence[str], outer: RowType, inner: RowType | None = None
    ) -> RowWriter:
        """Begin rows that say by their `file_number` in which of several files they are.

        Only of formats that write packs.
        """
        raise NotImplementedError

    # What was found.

    def finding(self, finding: Finding) -> None:
        """A finding."""
        self.note(finding_line(finding, self.out.err_theme, self.out.err_width))

    def left_out(self, file: str, code: Code, number: int) -> None:
        """How many findings of a kind in a file are not shown."""
        del file
        self.note(left_out_line(code, number))

    def results(self, type_: ResultType) -> None:  # noqa: B027
        """Results of this type are to come, and findings, which people read in groups."""

    def end_findings(self) -> None:  # noqa: B027
        """All findings have come: people can read them."""

    @abstractmethod
    def result(self, result: Result) -> None:
        """What came of a file, but for its findings."""

    def summary(self, summary: Summary) -> None:  # noqa: B027
        """What came of the run."""

    @abstractmethod
    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        """An object of its own, with members of its type. lines: the same for people."""
