"""How `index-check` goes through its segments, and how it shows a look-up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from kfmt_cli.checks.index import IndexChecker, IndexResult
from kfmt_cli.cli.report import Report
from kfmt_cli.cli.screen import Screen
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.files.discover import size_of
from kfmt_cli.files.lookup import Lookup, choose, look_up
from kfmt_cli.files.segment import Segment, segments
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.lookup import lookup_lines
from kfmt_cli.render.style import safe

# The numbers of the table and their columns, the more important ones first.
NUMBERS = {"entries": 9, "bytes": 12}


@dataclass(slots=True)
class Task:
    """One call of `index-check`."""

    report: Report
    checker: IndexChecker

    @classmethod
    def of(cls, screen: Screen, format_: str, checker: IndexChecker) -> Task:
        """A task that reports on the screen."""
        report = Report(screen, format_, IndexResult("", ""), NUMBERS, ("index", "indexes"))
        return cls(report, checker)

    def run(self, paths: tuple[str, ...], strict: bool) -> int:
        """Check every segment; the exit code."""
        found = list(_segments(paths, self.report))
        names = [
            len(safe(it.name)) + len(".timeindex") - len(".log")
            for segment in found
            for it in (segment.log, *segment.indexes.values())
            if it is not None
        ]
        self.report.name_width = max([len("index"), *names])
        total = sum(size_of(it.log) for it in found if it.log is not None)
        with self.report.screen.progress(total) as progress:
            for segment in found:
                try:
                    for result, findings in self.checker.check(segment, progress.advance):
                        self.report.add(result, findings)
                except InputError as error:
                    self.report.complain(str(error))
        return self.report.end(strict)


def _segments(paths: tuple[str, ...], report: Report) -> list[Segment]:
    found: list[Segment] = []
    for path in paths:
        try:
            found += segments(path, len(paths) > 1, report.complain)
        except InputError as error:
            report.complain(str(error))
    return found


@dataclass(slots=True)
class Lookups:
    """One call with --lookup-offset or --lookup-timestamp."""

    screen: Screen
    format: str
    offset: int | None
    timestamp: int | None

    def run(self, paths: tuple[str, ...]) -> int:
        """Show the look-up in each partition; the exit code."""
        unread: list[str] = []
        for path in paths:
            everything = segments(path, len(paths) > 1, unread.append)
            found = [it for it in everything if it.log is not None]
            folders = {str(Path(it.log.path).parent) for it in found if it.log is not None}
            for folder in sorted(folders):
                here = [it for it in found if it.log and str(Path(it.log.path).parent) == folder]
                self._show(look_up(choose(here, self.offset, self.timestamp), *self._target()))
            if not found and not unread:
                raise InputError(f"{path}: no log to look in")
        for words in unread:
            self.screen.note(f"kfmt: {safe(words)}\n")
        return ExitCode.UNREADABLE if unread else ExitCode.CLEAN

    def _target(self) -> tuple[int | None, int | None]:
        return self.offset, self.timestamp

    def _show(self, lookup: Lookup) -> None:
        if self.format == "json":
            self.screen.text(json_text({"type": "lookup", **_row(lookup)}) + "\n")
        else:
            self.screen.text("".join(lookup_lines(lookup, self.screen.theme)))


def _row(lookup: Lookup) -> dict[str, object]:
    row = asdict(lookup)
    return {"file": row.pop("log"), **row}
