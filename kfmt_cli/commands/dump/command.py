"""dump: every row of every file, in any format, on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice

import numpy as np

from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.each_partition import LogStarts
from kfmt_cli.commands.partition_selection import wanted_of
from kfmt_cli.commands.run import Run
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.disk.kinds import UNKNOWN, kind_of
from kfmt_cli.disk.kinds.kind import Input, Kind, Level
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOGS
from kfmt_cli.disk.names import mark_of
from kfmt_cli.disk.targets import targets
from kfmt_cli.disk.tree import distinct, is_empty, is_segment, size_of, topic_of
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, Findings, in_order
from kfmt_cli.log.block import Block
from kfmt_cli.log.decompress import is_heavy
from kfmt_cli.log.open_log import OpenLog
from kfmt_cli.log.reading import RowsPart, RowsReading
from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.render.sinks.sink import Head, RowWriter
from kfmt_cli.render.style import after, count, grouped, safe
from kfmt_cli.render.write import recycle
from kfmt_cli.rows.documents import UNKNOWN_FILE
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.section import Rows
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.record import DECODED_RECORD, RECORD
from kfmt_cli.topics import decoder_for, known_topic
from kfmt_cli.topics.decoder import NOTHING, Decoder

Piece = memoryview | Finding


@dataclass(slots=True)
class Dump:
    """One call of `dump`."""

    run: Run
    reading: RowsReading = field(default_factory=RowsReading)
    """Which rows of logs to read."""
    most_rows: int | None = None
    """Total number of rows to write; None for all."""
    jobs: int = 1
    all_files: bool = False
    """Also show empty files of directories."""
    topic: str | None = None
    """The files' topic, if their directory names do not tell it."""
    kinds: frozenset[Kind] | None = LOGS
    """Kinds of file to read in directories; None for all."""
    layout: Kind | None = None
    """Kind of the given files, regardless of their names."""
    decoder: Decoder | None = None
    _no_decoder: Decoder | None = None
    asked: Asked = field(default_factory=Asked)
    """The selection for every partition."""
    _given: tuple[str, ...] = ()
    _is_unknown: bool = False
    _starts: LogStarts = field(init=False)
    _n_empty: int = 0
    _n_read: int = 0

    def paths(self, paths: tuple[str, ...]) -> None:
        """Dump every file."""
        run, seen = self.run, set[str]()
        self._starts = LogStarts(run)
        self._given = paths
        every: list[Input] = []
        has_one_heading = self.reading.records and not run.sink.mixes_types
        for target in targets(paths, run.complain, takes_pipe=not self.asked.needs_logs):
            with run.complaining():
                files = self._listed(distinct(target.inputs(self.kinds), seen), target.path)
                # Logs that were given individually may share a partition, or a heading.
                if self.asked or has_one_heading:
                    every += files
                else:
                    self._files(files)
            if self.most_rows == 0:
                break
        if has_one_heading:
            decoders = {self._decoder_of(file) for file in every}
            self._no_decoder = NOTHING if len(decoders) > 1 else None
        if self.asked:
            self._partitions(every)
        elif every:
            self._files(iter(every))
        if self._n_empty:
            run.sink.remark(
                f"{count(self._n_empty, 'empty file')} not shown; use --all to list them"
            )
        unread = run.summary.unread
        if unread and self._n_read:
            run.sink.note(
                f"kfmt: {count(self._n_read, 'file')} read, {grouped(unread)} could not be read\n"
            )

    def _listed(self, files: Iterator[Input], path: str) -> Iterator[Input]:
        """The files to show; counts omitted empty ones."""
        for given in files:
            file = given if self.layout is None else replace(given, kind=self.layout)
            shown = self.all_files or file.path == path or file.kind.level is not Level.SEGMENT
            if shown or not is_empty(file):
                if is_segment(file):
                    self._starts.tell(file.path, file.base_offset, file.name)
                yield file
            else:
                self._n_empty += 1

    def _files(self, files: Iterator[Input]) -> None:
        """Dump files in order, many small ones together if the format allows."""
        packs_wanted = self.run.sink.writes_packs and self.kinds is not None
        if not packs_wanted or self.most_rows is not None:
            self._each(files)
            return
        first = list(islice(files, 2))
        if len(first) < 2:
            self._each(first)
            return
        from kfmt_cli.checks.log.packs import packs

        units = packs(chain(first, files))  # the others are listed while these are read
        packed = map_ordered(self._pack, units, self.jobs, lambda files: len(files) == 1)
        for pieces, n_read in packed:
            self._n_read += n_read
            for piece in pieces:
                if isinstance(piece, Input):
                    self._file(piece)
                else:
                    self.run.sink.flush()
                    self.run.host.write(piece)
                    recycle(piece)

    def _pack(self, files: list[Input]) -> tuple[list[Input | memoryview], int]:
        """The text of a pack, and how many files that is of; the files themselves that must be read
        individually."""
        if len(files) == 1:
            return [*files], 0
        from kfmt_cli.commands.dump.dump_packs import written

        pieces = written(self.run.sink, self.reading, self._decoder_of, files)
        return pieces, len(files) - sum(isinstance(piece, Input) for piece in pieces)

    def _decoder_of(self, file: Input) -> Decoder | None:
        known = self.decoder or decoder_for(self.topic or topic_of(file))
        return known or self._no_decoder

    def _file(self, file: Input) -> None:
        """Dump one file, or say why it cannot be read."""
        try:
            if file.kind.read is not None:
                self._contents(file)
            elif self.kinds is None and file.kind is UNKNOWN and file.path not in self._given:
                self._unknown(file)
            else:
                self._log(file)
        except InputError as error:
            self.run.complain(str(error))
        else:
            self._n_read += 1

    def _partitions(self, files: list[Input]) -> None:
        """Dump the selected records of partitions, and of files that are not logs."""
        # A metadata log snapshot has its own offsets.
        logs = (
            file for file in files if not self.asked.needs_logs or file.kind is not KRAFT_SNAPSHOT
        )
        for _, its in groupby(logs, key=lambda file: file.path.rpartition(os.sep)[0]):
            self._partition(sorted(its, key=lambda file: file.base))

    def _partition(self, logs: list[Input]) -> None:
        """Dump the selected records of a partition's logs."""
        with self.run.complaining():
            wanted = wanted_of(self.asked, logs, self.reading.limit)
            self.reading = replace(self.reading, wanted=wanted)
            self._each(wanted.logs(logs))

    def _each(self, files: Iterable[Input]) -> None:
        """Dump files one by one."""
        for file in files:
            if self.most_rows != 0:
                self._file(file)

    def _contents(self, file: Input) -> None:
        """Dump a file that is not a log; raises InputError."""
        wanted = self.asked.wanted
        if self.asked != Asked(Selection(wanted.first_offset, wanted.last_offset)):
            words = "of the conditions, only --from-offset and --to-offset apply to it"
            raise InputError(f"{file.name}: this is {file.kind.words}: {words}")
        contents = file.contents()
        findings = Findings(self.run.most_findings)
        for section in contents.sections:
            rows = self._wanted(Rows(section))
            head = Head(file.name, contents.size, file.base_offset, notes_of(file))
            writer = self.run.sink.rows(head, section.type)
            self.run.sink.flush()
            for piece in writer.text(rows, 0, len(rows)):
                self._write(piece, findings)
            self.run.sink.put(writer.end())
        for finding in contents.findings:
            self._write(finding, findings)
        self.run.left_out(file.name, findings)

    def _unknown(self, file: Input) -> None:
        """Show a file of a directory as unknown."""
        sink, size = self.run.sink, size_of(file)
        name, details = safe(file.name), f"   {grouped(size)} bytes   not a file kfmt recognises"
        line = name + after(name, details, sink.out.width)
        apart = "" if self._is_unknown else "\n"
        self._is_unknown = True
        sink.document(UNKNOWN_FILE, {"file": file.name, "bytes": size}, [f"{apart}{line}\n"])

    def _wanted(self, rows: Rows) -> Rows:
        """The selected rows, up to the number still wanted."""
        section, wanted = rows.outer, self.reading.wanted
        if "offset" in section.table.names and wanted:
            section.table = section.table.select(wanted.holds(section.table["offset"]))
        if self.most_rows is not None:
            rows = rows.first(self.most_rows)
            self.most_rows -= len(rows)
        return rows

    def _log(self, file: Input) -> None:
        reading = self._reading_of(file)
        run = self.run
        with open_checked(file, read_ahead=not reading.records) as log:
            inner = None
            if reading.records:
                inner = RECORD if reading.decoder is None else DECODED_RECORD
            writer = run.sink.rows(
                Head(file.name, log.size, log.base_offset, notes_of(file)), BATCH, inner
            )
            run.sink.flush()
            findings = Findings(run.most_findings)
            with run.host.progress(log.size) as progress:
                blocks = reading.ahead(log.blocks, progress.advance)
                for piece in self._pieces(reading, writer, blocks, log):
                    self._write(piece, findings)
            run.sink.put(writer.end())
            run.left_out(file.name, findings)

    def _reading_of(self, file: Input) -> RowsReading:
        """How to read a log, with the decoder of its topic."""
        decoder = self._decoder_of(file) if self.reading.records else None
        return replace(self.reading, decoder=decoder, words=self.run.sink.for_people)

    def _pieces(
        self, reading: RowsReading, writer: RowWriter, blocks: Iterator[Block], log: OpenLog
    ) -> Iterator[Piece]:
        """Output and findings in file order."""
        if self.most_rows is not None:
            for part in self._first(reading, blocks):
                yield from arrange(writer, part)
            return
        workers = self.jobs if log.is_large and (reading.records or writer.stateless) else 0
        if not writer.stateless:
            for parts in map_ordered(reading.decoded, blocks, workers, is_heavy):
                for part in parts:
                    yield from arrange(writer, part)
            return

        def write(block: Block) -> Iterable[Piece]:
            pieces = (
                arranged for part in reading.parts(block) for arranged in arrange(writer, part)
            )
            return pieces if is_heavy(block) else list(pieces)

        for written in map_ordered(write, blocks, workers, is_heavy):
            yield from written

    def _first(self, reading: RowsReading, blocks: Iterator[Block]) -> Iterator[RowsPart]:
        """The first rows only, up to the number still wanted."""
        for block in blocks:
            for part in reading.parts(block):
                assert self.most_rows is not None
                shown = part.first(self.most_rows)
                self.most_rows -= len(shown.rows)
                yield shown
                if self.most_rows == 0:
                    return

    def _write(self, piece: Piece, findings: Findings) -> None:
        run = self.run
        if isinstance(piece, memoryview):
            run.sink.flush()
            run.host.write(piece)
            recycle(piece)
            return
        run.tell([piece], findings)


def notes_of(file: Input) -> tuple[str, ...]:
    """Notes from the names of a file and its directory: topic, markers."""
    folder, _, name = file.path.rpartition(os.sep)
    marks = (kind_of(name)[2], mark_of(folder.rpartition(os.sep)[2]))
    topic = None if file.base_offset is None else known_topic(topic_of(file))
    words = (
        "" if topic is None or topic.name.startswith("__") else topic.doc,
        f"a copy marked .{marks[0]}" if marks[0] else "",
        f"in a directory marked -{marks[1]}" if marks[1] else "",
    )
    return tuple(word for word in words if word)


def arrange(writer: RowWriter, part: RowsPart) -> Iterator[Piece]:
    """The part's rows as text, each finding after the outer row that contains it."""
    findings = in_order(part.findings)
    positions = part.rows.outer.table.typed(BatchTable).position
    done = 0
    for finding in findings:
        upto = int(np.searchsorted(positions, finding.position or 0, side="right"))
        if upto > done:
            yield from writer.text(part.rows, done, upto)
            done = upto
        yield finding
    if done < len(positions):
        yield from writer.text(part.rows, done, len(positions))
