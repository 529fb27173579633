"""How `build` writes its segments, and its report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from kfmt_cli.cli.report import Report, SegmentResult
from kfmt_cli.cli.screen import Screen
from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import FileKind, classify
from kfmt_cli.render.style import count
from kfmt_cli.writers.build import Builder
from kfmt_cli.writers.jsonl import PIECE, Line, read_lines
from kfmt_cli.writers.options import Options
from kfmt_cli.writers.output import Staging, staged
from kfmt_cli.writers.rebuild import rebuild
from kfmt_cli.writers.rolling import Rolling, RollingWriter

NUMBERS = {"batches": 9, "entries": 9, "bytes": 14}
FROM_THE_LOG = (".txnindex", ".snapshot")


@dataclass(slots=True)
class Task:
    """One call of `build`."""

    report: Report
    options: Options
    rolling: Rolling

    @classmethod
    def of(cls, screen: Screen, format_: str, options: Options, rolling: Rolling) -> Task:
        """A task that reports on the screen."""
        report = Report(screen, format_, SegmentResult("", ""), NUMBERS, ("segment", "segments"))
        return cls(report, options, rolling)

    def run(self, source: str, destination: str, force: bool) -> int:
        """Build DST from the lines; the exit code."""
        self.report.name_width = len("00000000000000000000.log")
        with staged(destination, force) as staging:
            self.report.left_over(staging.left_over)
            writer = RollingWriter(staging, self.rolling)
            builder = Builder(self.options, writer, self.rolling.by_file)
            try:
                builder.build(self._pieces(source))
                writer.finish()
            finally:
                writer.abandon()
            if not writer.logs and not writer.snapshots:
                raise InputError(f"{source}: no record in it")
            self._finish(staging, writer)
        screen = self.report.screen
        if builder.ignored:
            words = count(builder.ignored, "line")
            self.report.note(f"left out: {words} that say what was found, not what is in a log\n")
        if builder.growing.other_counts:
            words = count(builder.growing.other_counts, "batch", "batches")
            why = "that of the records that follow"
            self.report.note(f"{words} got another records_count: {why}\n")
        exit_code = self.report.end()
        if self.report.format == "table":
            screen.text(f"{count(builder.growing.records, 'record')}\n")
        return exit_code

    def _pieces(self, source: str) -> Iterator[list[Line]]:
        for lines in read_lines(source):
            self.report.screen.expect(PIECE)
            yield lines

    def _finish(self, staging: Staging, writer: RollingWriter) -> None:
        """What follows from the logs once they are whole; they are read back for it."""
        folders = {*writer.logs, *writer.snapshots}
        flat = len(folders) == 1
        for folder, segments in writer.logs.items():
            names = [segment.name for segment in segments]
            logs = [classify(str(staging.folder / name), name) for name in names]
            for done in rebuild(logs, self.rolling.interval, lambda _: None, from_nothing=True):
                for name, data in done.files.items():
                    known = name.endswith(".txnindex") or done.has_producers
                    if data is not None and name.endswith(FROM_THE_LOG) and known:
                        staging.put(str(PurePath(folder) / name), data)
                shown = PurePath(done.log.name).name if flat else done.log.name
                result = SegmentResult(shown, "log", done.size, done.batches, done.entries)
                result.count(done.findings)
                self.report.add(result, done.findings)
        for snapshot in (it for of_folder in writer.snapshots.values() for it in of_folder):
            shown = PurePath(snapshot.name).name if flat else snapshot.name
            kind = FileKind.KRAFT_SNAPSHOT.value
            n = sum(snapshot.batches)
            self.report.add(SegmentResult(shown, kind, snapshot.file.size, n, 0), [])
        if flat:
            staging.lift(Path(folders.pop()))
