"""How `index-check` goes through its segments, and how it shows a look-up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from kfmt_cli.checks.index import IndexChecker, IndexResult
from kfmt_cli.cli.report import Report
from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.finding import Findings
from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import size_of
from kfmt_cli.files.lookup import Lookup, choose, look_up
from kfmt_cli.files.segment import Segment, segments
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.lookup import lookup_lines
from kfmt_cli.render.style import safe

# The numbers of the table and their columns, the more important ones first.
NUMBERS = {"entries": 9, "bytes": 12}
# What has a line without being an index, as the summary calls it.
MISSING, DAMAGED_LOG = "missing", "damaged_logs"


@dataclass(slots=True)
class Task:
    """One call of `index-check`. all_files: what belongs to empty logs has lines in the table."""

    report: Report
    checker: IndexChecker
    all_files: bool = False

    @staticmethod
    def report_on(
        screen: Screen, format_: str, strict: bool, most_findings: int, wide: bool
    ) -> Report:
        """The command's report."""
        return Report(
            screen,
            format_,
            IndexResult("", ""),
            NUMBERS,
            ("index", "indexes"),
            ("index of an empty segment", "indexes of empty segments"),
            strict=strict,
            most_findings=most_findings,
            wide=wide,
            hint="--wide",
            aside={MISSING: 0, DAMAGED_LOG: 0},
        )

    def run(self, paths: tuple[str, ...]) -> int:
        """Check every segment; the exit code."""
        found = self._segments(paths)
        sizes = [0 if it.log is None else size_of(it.log) for it in found]
        listed = [bool(size) or self._is_listed(it) for it, size in zip(found, sizes, strict=True)]
        names = [
            len(safe(it.name)) + len(".timeindex") - len(".log")
            for segment, has_line in zip(found, listed, strict=True)
            for it in (segment.log, *segment.indexes.values())
            if it is not None and has_line
        ]
        self.report.name_width = max([len("index"), *names])
        with self.report.screen.progress(sum(sizes)) as progress:
            for segment, has_line in zip(found, listed, strict=True):
                try:
                    for result, findings in self.checker.check(segment, progress.advance):
                        self._add(result, findings, has_line)
                except InputError as error:
                    self.report.complain(str(error))
        return self.report.end()

    def _is_listed(self, segment: Segment) -> bool:
        """Whether the table has lines for a segment whose log is empty."""
        given = segment.log is None or segment.given
        return given or self.all_files or self.report.format != "table"

    def _add(self, result: IndexResult, findings: Findings, listed: bool) -> None:
        aside = MISSING if result.bytes is None else DAMAGED_LOG if result.kind == "log" else ""
        if listed or aside or result.entries or result.errors or result.warnings:
            self.report.add(result, findings, aside)
        else:
            self.report.pass_by(result)

    def _segments(self, paths: tuple[str, ...]) -> list[Segment]:
        """The segments of all paths, each once."""
        found: dict[str, Segment] = {}
        complain, passed_over = self.report.complain, self.report.passed_over
        for path in paths:
            try:
                for segment in segments(path, len(paths) > 1, complain, passed_over):
                    known = found.setdefault(segment.real_path, segment)
                    known.wanted |= segment.wanted
                    known.given |= segment.given
            except InputError as error:
                self.report.complain(str(error))
        return list(found.values())


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
            self.screen.complain(words)
        return self.screen.exit_code

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
