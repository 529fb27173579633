"""build: segments from lines of JSON, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from kfmt_cli.broker.rolling import Rolling
from kfmt_cli.commands.run import Run, told
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.formats.batch import CODECS, TIMESTAMP_TYPES
from kfmt_cli.render.style import count
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.writing.build.builder import SegmentBuilder
from kfmt_cli.writing.build.derived import write_derived
from kfmt_cli.writing.build.jsonl import PIECE, Line, read_lines
from kfmt_cli.writing.build.notes import write_notes
from kfmt_cli.writing.build.options import Options
from kfmt_cli.writing.output import Staging, staged
from kfmt_cli.writing.rolling import RollingWriter

BUILT = ResultType(("bytes", "batches", "entries"), {"batches": 9, "entries": 9, "bytes": 14})


def options_of(
    magic: str | None = None,
    compression: str | None = None,
    timestamp_type: str | None = None,
    producer_id: int | None = None,
    transactional: bool = False,
    **others: Any,
) -> Options:
    """Options that shape batches; raises UsageError for unknown and for contradictory ones."""
    if unknown := sorted(others.keys() - Options.__dataclass_fields__.keys()):
        raise UsageError(f"no option named {unknown[0]!r}")
    for value, known in ((compression, CODECS), (timestamp_type, TIMESTAMP_TYPES)):
        if value is not None and value not in known:
            raise UsageError(f"{value!r} is unknown; choose from {', '.join(known)}")
    if transactional and producer_id is None:
        raise UsageError("--transactional needs --producer-id")
    if magic == "0" and timestamp_type == "LogAppendTime":
        raise UsageError("magic 0 has no timestamps")
    if magic in ("0", "1") and (producer_id is not None or compression == "zstd"):
        raise UsageError(f"magic {magic} supports neither producers nor zstd")
    return Options(
        magic=None if magic is None else int(magic),
        compression=compression,
        timestamp_type=None if timestamp_type is None else TIMESTAMP_TYPES.index(timestamp_type),
        producer_id=producer_id,
        transactional=transactional,
        now=int(time.time() * 1000),
        **others,
    )


@dataclass(slots=True)
class Build:
    """One call of `build`."""

    run: Run
    options: Options
    rolling: Rolling
    topic: str | None = None
    """The topic to which all records are to belong; None for that of their lines."""

    def build(self, source: str, destination: str, force: bool) -> None:
        """Build DST from the lines; raises InputError, UsageError, OutputError."""
        run = self.run
        run.sink.results(BUILT)
        with staged(destination, force) as staging:
            run.left_over(staging.left_over)
            writer = RollingWriter(staging, self.rolling)
            builder = SegmentBuilder(self.options, writer, self.rolling.by_file, self.topic)
            try:
                builder.build(self._pieces(source))
                writer.finish()
            finally:
                writer.abandon()
            if not writer.logs and not writer.snapshots:
                raise InputError(f"{source}: contains no records")
            self._finish(staging, writer)
        if builder.ignored:
            one, more = "line that is a finding or result", "lines that are findings or results"
            words = count(builder.ignored, one, more)
            run.sink.note(f"skipped {words}, not log contents\n")
        if builder.growing.other_counts:
            words = count(builder.growing.other_counts, "batch", "batches")
            why = "to match the records that follow"
            run.sink.note(f"changed records_count in {words} {why}\n")
        run.end()
        run.sink.remark(count(builder.growing.records, "record"), "")
        run.sink.flush()

    def _pieces(self, source: str) -> Iterator[list[Line]]:
        for lines in read_lines(source):
            self.run.host.expect(PIECE)
            yield lines

    def _finish(self, staging: Staging, writer: RollingWriter) -> None:
        """Read back the complete logs and write the files derived from them."""
        folders = {*writer.logs, *writer.snapshots}
        flat = len(folders) == 1 and self.topic is None
        for folder, segments in writer.logs.items():
            interval = self.rolling.index_interval_bytes
            for done in write_derived(staging, folder, segments, interval):
                shown = PurePath(done.log.name).name if flat else done.log.name
                numbers = {"bytes": done.size, "batches": done.batches, "entries": done.entries}
                result = Result(BUILT, shown, LOG.name, numbers)
                result.take(done.findings)
                self.run.all(told(result))
        for snapshot in (
            snapshot for of_folder in writer.snapshots.values() for snapshot in of_folder
        ):
            shown = PurePath(snapshot.name).name if flat else snapshot.name
            numbers = {"bytes": snapshot.file.size, "batches": sum(snapshot.batches)}
            self.run.take(Result(BUILT, shown, KRAFT_SNAPSHOT.name, numbers))
        if flat:
            staging.lift(Path(folders.pop()))


FILE = "notes-v0.bin"


def build_notes(run: Run, source: str, destination: str, force: bool) -> None:
    """Write DST/notes-v0.bin from lines; raises InputError, UsageError, OutputError."""
    n_messages = 0
    with staged(destination, force) as staging:
        run.left_over(staging.left_over)
        file = staging.file(FILE)
        try:
            for message in write_notes(source):
                file.write(message)
                n_messages += 1
            if not n_messages:
                raise InputError(f"{source}: contains no messages")
            file.close()
        finally:
            file.abandon()
    run.sink.remark(f"{count(n_messages, 'message')} in {destination}/{FILE}", "")
    run.sink.flush()
