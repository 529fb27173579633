"""A run of a command: counts and shows what tasks report.

A task yields events in order: findings, each file's result after its findings, unreadable inputs.
A run counts them, passes them to the sink and determines the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kfmt_cli.errors import Caught, ExitCode, InputError
from kfmt_cli.findings.finding import MOST_FINDINGS, Finding, Findings, Severity
from kfmt_cli.render.sinks.sink import Head, Out, Sink
from kfmt_cli.render.style import safe
from kfmt_cli.rows.result import Result, ResultType, Summary

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType

AT_ONCE = 1000  # rows to write together
Cells = Sequence[str | int | None]
Event = Finding | Result | InputError


class Progress(Protocol):
    """Shows the progress of the work."""

    def advance(self, n_bytes: int) -> None:
        """Report that `n_bytes` more are done."""


class Host(Out, Protocol):
    """The environment of a run: output streams and a progress display."""

    def progress(
        self, total: int | None, *, beside_rows: bool = False
    ) -> AbstractContextManager[Progress]:
        """A progress bar for `total` bytes; None or 0 for a stream of unknown length.

        beside_rows: rows are written at the same time.
        """

    def expect(self, n_bytes: int) -> None:
        """Count bytes that will be read; notes once if they are many."""


class Task(Protocol):
    """Work on many files, each with a result."""

    @property
    def total(self) -> int:
        """Bytes of all files; known after `plan`."""

    def plan(self, paths: tuple[str, ...]) -> Iterable[Event]:
        """Find the files; yields unreadable inputs."""

    def events(self, advance: Callable[[int], None]) -> Iterable[Event]:
        """Process the files. advance: called with the number of bytes done since the last call."""


def in_pieces(rows: Iterable[Cells]) -> Iterator[list[Cells]]:
    """Rows in groups of a size worth writing."""
    every = iter(rows)
    while piece := list(islice(every, AT_ONCE)):
        yield piece


def told(result: Result) -> Iterator[Event]:
    """The findings of a result, then the result."""
    yield from result.findings
    yield result


@dataclass(slots=True)
class Run:
    """One run of a command."""

    host: Host
    sink: Sink
    type: ResultType | None = None
    strict: bool = False
    """Count warnings as errors."""
    most_findings: int = MOST_FINDINGS
    """Limit of findings shown per kind and file."""
    summary: Summary = field(init=False)
    _unread: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.summary = Summary(self.type or ResultType((), {}))

    def whole(self, task: Task, paths: tuple[str, ...]) -> ExitCode:
        """Plan and run a task; returns the exit code."""
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
        """Count and show an event of a task."""
        if isinstance(event, Finding):
            self.seen(event)
            self.sink.finding(event)
        elif isinstance(event, Result):
            self._result(event)
        else:
            self.complain(str(event))

    def seen(self, finding: Finding) -> None:
        """Count a finding for the exit code."""
        severity = finding.code.severity
        self._count(severity is Severity.ERROR, severity is Severity.WARNING)

    def _count(self, errors: int, warnings: int) -> None:
        if errors or (self.strict and warnings):
            self.host.reached(ExitCode.FINDINGS)

    def _result(self, result: Result) -> None:
        self._count(result.errors, result.warnings)
        self.summary.add(result)
        self.left_out(result.file, result.findings)
        if not result.is_partial:
            self.sink.result(result)

    def tell(self, found: Iterable[Finding], findings: Findings) -> None:
        """Count findings and show them, except those of which too many of their kind were shown."""
        for finding in found:
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
        """Show rows about a file or directory, piece by piece; returns their number.

        nouns: noun for a row, singular and plural. title: lines shown to people instead of
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
        """Show how many findings of each kind were omitted."""
        for code, number in findings.left_out():
            self.sink.left_out(file, code, number)

    def complain(self, words: str) -> None:
        """Count and report an unreadable input, once: a command may read it more than once."""
        if words in self._unread:
            return
        self._unread.add(words)
        self.summary.unread += 1
        self.host.reached(ExitCode.UNREADABLE)
        self.sink.note(f"kfmt: {safe(words)}\n")

    def complaining(self) -> Caught:
        """Report an input that cannot be read, and go on after the block."""
        return Caught(lambda error: self.complain(str(error)))

    def left_over(self, paths: Iterable[Path]) -> None:
        """Report removed leftovers of killed runs."""
        for path in paths:
            words = "leftover of an interrupted run, removed"
            self.sink.note(f"{safe(str(path))}: {words}\n")

    def end(self) -> ExitCode:
        """Show the summary; returns the exit code."""
        exit_code = self.summary.exit_code = self.host.exit_code
        self.sink.summary(self.summary)
        self.sink.flush()
        return exit_code
