"""A run of a command: what tasks report, and what becomes of it.

A task gives events, in order: findings, each file's result after its findings, inputs that could
not be read. A run counts them, hands them to the sink and knows the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.findings.finding import MOST_FINDINGS, Finding, Findings, Severity
from kfmt_cli.render.sinks.sink import Head, Out, Sink
from kfmt_cli.render.style import safe
from kfmt_cli.rows.result import Result, ResultType, Summary

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType

AT_ONCE = 1000  # rows that are written together
Cells = Sequence[str | int | None]


@dataclass(frozen=True, slots=True)
class Unread:
    """An input that could not be read, and why."""

    words: str
    file: str = ""
    """The file, as an `InputError` has it."""
    is_gone: bool = False
    """Whether there is no such file, as an `InputError` has it."""

    @classmethod
    def of(cls, error: InputError) -> Unread:
        """What an error says."""
        return cls(str(error), error.file, error.is_gone)


Event = Finding | Result | Unread


class Progress(Protocol):
    """How far the work is."""

    def advance(self, n_bytes: int) -> None:
        """That many bytes more are done."""


class Host(Out, Protocol):
    """Where a run takes place: streams, and someone to tell how far it is."""

    def progress(
        self, total: int | None, *, beside_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        """A bar for `total` bytes; None or 0 for a stream, whose bytes count as they come.

        beside_rows: rows are written meanwhile.
        """

    def expect(self, n_bytes: int) -> None:
        """Count bytes that are to be read, and say once that they take long if that is so."""


class Task(Protocol):
    """What goes over many files, each with a result."""

    @property
    def total(self) -> int:
        """Bytes of all files; known once it is planned."""

    def plan(self, paths: tuple[str, ...]) -> Iterable[Event]:
        """Find the files; what cannot be looked at."""

    def events(self, advance: Callable[[int], None]) -> Iterable[Event]:
        """Do it. advance: is told how many bytes more are done."""


def in_pieces(rows: Iterable[Cells]) -> Iterator[list[Cells]]:
    """Rows that come one by one, in groups that are worth writing."""
    every = iter(rows)
    while piece := list(islice(every, AT_ONCE)):
        yield piece


def told(result: Result) -> Iterator[Event]:
    """A result after the findings that it holds."""
    yield from result.findings
    yield result


@dataclass(slots=True)
class Run:
    """One run of a command."""

    host: Host
    sink: Sink
    type: ResultType | None = None
    strict: bool = False
    """Warnings count like errors."""
    most_findings: int = MOST_FINDINGS
    """Findings of one kind in one file that are shown."""
    summary: Summary = field(init=False)

    def __post_init__(self) -> None:
        self.summary = Summary(self.type or ResultType((), {}))

    def whole(self, task: Task, paths: tuple[str, ...]) -> ExitCode:
        """Plan a task and do it; the exit code."""
        self.all(task.plan(paths))
        self.sink.results(self.summary.type)
        with self.host.progress(task.total) as progress:
            self.all(task.events(progress.advance))
        return self.end()

    def all(self, events: Iterable[Event]) -> None:
        """Take every event."""
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """An event of a task."""
        if isinstance(event, Finding):
            self.seen(event)
            self.sink.finding(event)
        elif isinstance(event, Result):
            self._result(event)
        else:
            self.complain(event.words)

    def seen(self, finding: Finding) -> None:
        """A finding counts for the exit code."""
        severity = finding.code.severity
        if severity is Severity.ERROR or (self.strict and severity is Severity.WARNING):
            self.host.reached(ExitCode.FINDINGS)

    def _result(self, result: Result) -> None:
        if result.errors or (self.strict and result.warnings):
            self.host.reached(ExitCode.FINDINGS)
        self.summary.add(result)
        self.left_out(result.file, result.findings)
        self.sink.result(result)

    def tell(self, finding: Finding, findings: Findings) -> None:
        """Show a finding as soon as it is found, unless there were too many of its kind."""
        self.seen(finding)
        if findings.admits(finding):
            self.sink.finding(finding)

    def rows(
        self,
        name: str,
        type_: RowType,
        pieces: Iterable[Sequence[Cells]],
        nouns: tuple[str, str] = ("entry", "entries"),
        *,
        title: tuple[str, ...] = (),
    ) -> int:
        """Show rows about a file or directory, each piece when it is there; how many there were.

        nouns: what one row is, and what many are. title: lines that people read in place of
        the name.
        """
        from kfmt_cli.rows.section import Rows, section_of

        writer = self.sink.rows(Head(name, nouns=nouns, title=title), type_)
        n_rows = 0
        for piece in pieces:
            self.sink.flush()
            for text in writer.text(Rows(section_of(type_, piece)), 0, len(piece)):
                self.host.write(text)
            n_rows += len(piece)
        self.sink.put(writer.end())
        return n_rows

    def left_out(self, file: str, findings: Findings) -> None:
        """Say how many findings of each kind are not shown."""
        for code, number in findings.left_out():
            self.sink.left_out(file, code, number)

    def complain(self, words: str) -> None:
        """Say that an input could not be read."""
        self.summary.unread += 1
        self.host.reached(ExitCode.UNREADABLE)
        self.sink.note(f"kfmt: {safe(words)}\n")

    def left_over(self, paths: Iterable[Path]) -> None:
        """Say what runs that were killed had left, and what has been taken away."""
        for path in paths:
            words = "leftover of an interrupted run, removed"
            self.sink.note(f"{safe(str(path))}: {words}\n")

    def end(self) -> ExitCode:
        """The summary; the exit code."""
        exit_code = self.summary.exit_code = self.host.exit_code
        self.sink.summary(self.summary)
        self.sink.flush()
        return exit_code
