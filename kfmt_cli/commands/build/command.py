"""build: segments from lines of JSON or from exported tables, all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from kfmt_cli.commands.run import Run, told
from kfmt_cli.core.source import PIPE
from kfmt_cli.core.times import now_ms
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.errors import ExitCode, InputError, UsageError, unknown_name
from kfmt_cli.formats.batch import CODECS, TIMESTAMP_TYPES
from kfmt_cli.render.style import count
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.writing.build.builder import SegmentBuilder
from kfmt_cli.writing.build.jsonl import PIECE, Line, read_lines
from kfmt_cli.writing.build.notes import write_notes
from kfmt_cli.writing.build.options import Options
from kfmt_cli.writing.derived import write_derived
from kfmt_cli.writing.output import Staging, staged
from kfmt_cli.writing.rolling import Rolling, RollingWriter, Snapshot
from kfmt_cli.writing.segment_writer import SegmentWriter

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
    for kind, value, known in (
        ("codec", compression, CODECS),
        ("timestamp type", timestamp_type, TIMESTAMP_TYPES),
    ):
        if value is not None and value not in known:
            raise unknown_name(kind, value, known)
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
        now=now_ms(),
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
        """Build DST from the lines or tables; raises InputError, UsageError, OutputError."""
        run = self.run
        run.sink.results(BUILT)
        if (tables := _tables_at(source)) is not None:
            self._build_tables(tables, destination, force)
            return
        with staged(destination, force) as staging:
            run.left_over(staging.left_over)
            writer = RollingWriter(staging, self.rolling)
            builder = SegmentBuilder(self.options, writer, self.topic)
            with writer:
                builder.build(self._pieces(source))
            if not writer.logs and not writer.snapshots:
                raise InputError(f"{source}: contains no records")
            self._finish(staging, writer.logs, writer.snapshots)
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

    def _pieces(self, source: str) -> Iterator[list[Line]]:
        for lines in read_lines(source):
            self.run.host.expect(PIECE)
            yield lines

    def _build_tables(self, tables: list[Piece], destination: str, force: bool) -> None:
        """Build DST from exported tables."""
        from kfmt_cli.arrow.export.exported_rows import forget_rows, spans_in
        from kfmt_cli.arrow.restore.restored_partition import exported_partitions, restored

        run, options = self.run, self.options
        if options != Options(compression=options.compression, now=options.now):
            raise UsageError("--compression is the only batch option that applies to Parquet")
        partitions = exported_partitions((file, *spans_in(file.path)) for file in tables)
        if self.topic is not None and len({each.topic for each in partitions}) > 1:
            raise UsageError("--topic: the tables have records of several topics")
        forget_rows()
        logs: dict[str, list[SegmentWriter]] = {}
        n_records = 0
        with staged(destination, force) as staging:
            run.left_over(staging.left_over)
            for each in partitions:
                if self.topic is None:
                    each.check()
                    folder = each.name
                else:  # also of a directory that was no partition
                    folder = f"{self.topic}-{each.partition or 0}"
                made = restored(each, staging, folder, self.rolling, options.codec)
                logs |= made.writer.logs
                n_records += made.counts.records
                if made.counts.missing_records or made.counts.damaged:
                    run.host.reached(ExitCode.FINDINGS)
                for words in made.counts.losses():
                    run.sink.note(f"{each.name}: {words}\n")
            self._finish(staging, logs, {})
        run.end()
        run.sink.remark(count(n_records, "record"), "")

    def _finish(
        self,
        staging: Staging,
        logs: dict[str, list[SegmentWriter]],
        snapshots: dict[str, list[Snapshot]],
    ) -> None:
        """Read back the complete logs and write the files derived from them."""
        folders = {*logs, *snapshots}
        flat = len(folders) == 1 and self.topic is None
        for folder, segments in logs.items():
            interval = self.rolling.index_interval_bytes
            for done in write_derived(staging, folder, segments, interval):
                shown = PurePath(done.log.name).name if flat else done.log.name
                numbers = {"bytes": done.size, "batches": done.batches, "entries": done.entries}
                result = Result(BUILT, shown, LOG.name, numbers)
                result.take(done.findings)
                self.run.all(told(result))
        for snapshot in (snapshot for of_folder in snapshots.values() for snapshot in of_folder):
            shown = PurePath(snapshot.name).name if flat else snapshot.name
            numbers = {"bytes": snapshot.file.size, "batches": sum(snapshot.batches)}
            self.run.take(Result(BUILT, shown, KRAFT_SNAPSHOT.name, numbers))
        if flat:
            staging.lift(Path(folders.pop()))


def _tables_at(source: str) -> list[Piece] | None:
    """The files of exported tables at a path, None if it has lines; raises InputError,
    UsageError."""
    if source == PIPE or not (source.endswith(".parquet") or Path(source).is_dir()):
        return None
    if find_spec("pyarrow") is None:
        raise UsageError("pyarrow is not installed: pip install 'kfmt-cli[arrow]'")
    from kfmt_cli.arrow.restore.restored_partition import tables_at

    tables = tables_at(source)
    if tables is None:
        raise UsageError(f"{source}: no table of records in Parquet files")
    return tables


FILE = "notes-v0.bin"


def build_notes(run: Run, source: str, destination: str, force: bool) -> None:
    """Write DST/notes-v0.bin from lines; raises InputError, UsageError, OutputError."""
    n_messages = 0
    with staged(destination, force) as staging:
        run.left_over(staging.left_over)
        with staging.file(FILE) as file:
            for message in write_notes(source):
                file.write(message)
                n_messages += 1
        if not n_messages:
            raise InputError(f"{source}: contains no messages")
    run.sink.remark(f"{count(n_messages, 'message')} in {destination}/{FILE}", "")
