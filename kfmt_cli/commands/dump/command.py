"""dump: every row of every file, in any format, on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice

import numpy as np

from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.dump.options import DumpOptions
from kfmt_cli.commands.each_partition import LogStartReporter
from kfmt_cli.commands.partition_selection import resolve_selection
from kfmt_cli.commands.payload_formats import payload_declarations
from kfmt_cli.commands.schema_id_hints import SchemaIdHints
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.disk.directory_listing import (
    distinct_files,
    file_size,
    file_topic,
    is_empty_file,
    is_segment_log,
)
from kfmt_cli.disk.file_names import directory_marker_suffix
from kfmt_cli.disk.input_paths import resolve_paths
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name
from kfmt_cli.disk.kinds.kind import FileKind, FileLevel, InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KINDS
from kfmt_cli.disk.kinds.notes_v0 import NOTES_LAYOUTS
from kfmt_cli.disk.topic_filter import TOPIC_PATTERNS
from kfmt_cli.errors import InputError, NotFoundError, UsageError
from kfmt_cli.findings.finding import Finding, FindingCollector, sort_findings
from kfmt_cli.log.block import Block
from kfmt_cli.log.decompression import needs_separate_decoding
from kfmt_cli.log.log_opening import OpenLog
from kfmt_cli.log.rows_reader import LogRowsReader, RowsAndFindings
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.options.declaration import deprecation_message
from kfmt_cli.render.row_rendering import recycle_buffer
from kfmt_cli.render.sinks.sink import FileHeading, RowWriter, Sink
from kfmt_cli.render.style import (
    details_after_name,
    escape_unprintable,
    format_count,
    format_thousands,
)
from kfmt_cli.rows.columnar_rows import NestedRows
from kfmt_cli.rows.documents import FINDING_ROW, UNKNOWN_FILE_ROW
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import DECODED_RECORD_ROW, RECORD_ROW
from kfmt_cli.topics import find_decoder, find_known_topic
from kfmt_cli.topics.decoder import NO_DECODER, Decoder

OutputChunk = memoryview | Finding


@dataclass(slots=True)
class DumpCommand:
    """One call of `dump`."""

    run: CommandRun
    options: DumpOptions
    _rows_reader: LogRowsReader = field(init=False)
    """Which rows of logs to read."""
    _n_remaining_rows: int | None = field(init=False)
    """Number of rows still to write; None for all."""
    _directory_kinds: frozenset[FileKind] | None = field(init=False)
    """Kinds of file to read in directories; None for all."""
    _as_topic: str | None = field(init=False)
    """The topic that decides how records are decoded; None for the directory's."""
    _forced_kind: FileKind | None = None
    """Kind of all files, regardless of their names."""
    _decoder: Decoder | None = None
    _fallback_decoder: Decoder | None = None
    _schema_id_hints: SchemaIdHints = field(default_factory=SchemaIdHints)
    _follows_unknown_file: bool = False
    _log_start_notes: LogStartReporter = field(init=False)
    _has_row: bool = False
    _n_empty_files: int = 0
    _n_read_files: int = 0

    def execute(self) -> None:
        """Dump every file; raises UsageError, InputError."""
        self._prepare()
        run, selection_options, visited = self.run, self.options.selection_options, set[str]()
        input_files: list[InputFile] = []
        has_one_heading = self._rows_reader.reads_records and not run.sink.mixes_types
        for input_path in resolve_paths(
            self.options.paths,
            run.report_input_error,
            accepts_stdin=not selection_options.needs_logs,
        ):
            with run.catch_input_errors():
                files = self._iter_shown_files(
                    distinct_files(input_path.iter_files(self._directory_kinds), visited),
                    input_path.path,
                )
                # Logs that the user named individually may share a partition, or a heading.
                if selection_options or has_one_heading:
                    input_files += files
                else:
                    self._dump_files(files)
            if self._n_remaining_rows == 0:
                break
        if has_one_heading:
            decoders = {self._find_decoder(file) for file in input_files}
            self._fallback_decoder = NO_DECODER if len(decoders) > 1 else None
        if selection_options:
            self._dump_partitions(input_files)
            if not self._has_row:
                run.report_empty_answer(input_files, self.options)
        elif input_files:
            self._dump_files(iter(input_files))
        if self._n_empty_files:
            run.sink.write_hint(
                f"{format_count(self._n_empty_files, 'empty file')} not shown; use --all to "
                "list them"
            )
        for hint in self._schema_id_hints.iter_hints():
            run.sink.write_hint(hint)
        n_unread = run.summary.n_unread_inputs
        if n_unread and self._n_read_files:
            run.sink.write_to_stderr(
                f"kfmt: {format_count(self._n_read_files, 'file')} read, "
                f"{format_thousands(n_unread)} "
                "could not be read\n"
            )

    def _prepare(self) -> None:
        """Find out what to read and how; raises UsageError, InputError."""
        options, sink = self.options, self.run.sink
        self._as_topic = options.as_topic or self._former_decoder_topic()
        selection_options = options.selection_options
        is_record_table = sink.display_options.table in (RECORD_ROW.name, DECODED_RECORD_ROW.name)
        reads_records = options.reads_records or is_record_table
        self._rows_reader = LogRowsReader(
            reads_records, selection_options.selection, options.decompression_limit
        )
        self._n_remaining_rows = options.limit
        selects_rows_of_logs = bool(
            reads_records or options.bits or options.column_names or selection_options
        )
        self._directory_kinds = LOG_KINDS if _reads_only_logs(sink, selects_rows_of_logs) else None
        if options.layout is not None:
            self._forced_kind = NOTES_LAYOUTS[options.layout][0]
        payloads = payload_declarations(options, options.paths)
        if payloads and not reads_records:
            raise UsageError("--key-format and --value-format require --records")
        self._decoder = payloads.decoder
        self._log_start_notes = LogStartReporter(self.run)

    def _former_decoder_topic(self) -> str | None:
        """The topic of --topic if it is no filter, but names the decoder, as it did before
        --as-topic: an internal topic without a directory under the paths."""
        (*_, topic) = self.options.topic or ("",)
        if find_decoder(topic) is None:
            return None
        try:
            paths = resolve_paths(self.options.paths, lambda _: None, accepts_stdin=True)
            if any(input_path.directories for input_path in paths):
                return None
        except NotFoundError:
            pass
        TOPIC_PATTERNS.set(())
        self.run.sink.write_to_stderr(f"kfmt: {deprecation_message('--topic', '--as-topic')}\n")
        return topic

    def _iter_shown_files(
        self, files: Iterator[InputFile], explicit_path: str
    ) -> Iterator[InputFile]:
        """The files to show; counts omitted empty ones."""
        for listed_file in files:
            file = (
                listed_file
                if self._forced_kind is None
                else replace(listed_file, kind=self._forced_kind)
            )
            is_shown = (
                self.options.all_files
                or not self.run.sink.is_for_people
                or file.path == explicit_path
                or file.kind.level is not FileLevel.SEGMENT
            )
            if is_shown or not is_empty_file(file):
                if is_segment_log(file):
                    self._log_start_notes.report_log_start(file.path, file.base_offset, file.name)
                yield file
            else:
                self._n_empty_files += 1

    def _dump_files(self, files: Iterator[InputFile]) -> None:
        """Dump files in order, small ones in groups if the format allows it."""
        can_group_logs = self.run.sink.writes_small_logs and self._directory_kinds is not None
        if not can_group_logs or self._n_remaining_rows is not None:
            self._dump_separately(files)
            return
        first_files = list(islice(files, 2))
        if len(first_files) < 2:
            self._dump_separately(first_files)
            return
        from kfmt_cli.checks.log.small_logs import group_small_logs

        # The other files are listed while the first ones are read.
        log_groups = group_small_logs(chain(first_files, files))
        rendered_groups = map_ordered(
            self._render_small_logs, log_groups, self.options.n_jobs, lambda files: len(files) == 1
        )
        for group_chunks, n_read_files in rendered_groups:
            self._n_read_files += n_read_files
            for chunk in group_chunks:
                if isinstance(chunk, InputFile):
                    self._dump_file(chunk)
                else:
                    self.run.sink.flush_texts()
                    self.run.output.write(chunk)
                    recycle_buffer(chunk)

    def _render_small_logs(
        self, files: list[InputFile]
    ) -> tuple[list[InputFile | memoryview], int]:
        """The text of a group of files, and the number of files in it. A file that must be read
        individually replaces its text."""
        if len(files) == 1:
            return [*files], 0
        from kfmt_cli.commands.dump.dump_small_logs import render_small_logs

        chunks = render_small_logs(self.run.sink, self._rows_reader, self._find_decoder, files)
        return chunks, len(files) - sum(isinstance(chunk, InputFile) for chunk in chunks)

    def _find_decoder(self, file: InputFile) -> Decoder | None:
        decoder = self._decoder or find_decoder(self._as_topic or file_topic(file))
        return decoder or self._fallback_decoder

    def _dump_file(self, file: InputFile) -> None:
        """Dump one file, or report why it cannot be read."""
        try:
            if file.kind.reader is not None:
                self._dump_contents(file)
            elif (
                self._directory_kinds is None
                and file.kind is UNKNOWN_KIND
                and file.path not in self.options.paths
            ):
                self._show_unknown_file(file)
            else:
                self._dump_log(file)
        except InputError as error:
            self.run.report_input_error(error)
        else:
            self._n_read_files += 1

    def _dump_partitions(self, files: list[InputFile]) -> None:
        """Dump the selected records of partitions, and of files that are not logs."""
        # A metadata log snapshot has its own offsets.
        logs = (
            file
            for file in files
            if not self.options.selection_options.needs_logs or file.kind is not KRAFT_SNAPSHOT_KIND
        )
        for _, partition_logs in groupby(logs, key=lambda file: file.path.rpartition(os.sep)[0]):
            self._dump_partition(sorted(partition_logs, key=lambda file: file.base_offset_or_zero))

    def _dump_partition(self, logs: list[InputFile]) -> None:
        """Dump the selected records of a partition's logs."""
        with self.run.catch_input_errors():
            selection = resolve_selection(
                self.options.selection_options,
                logs,
                self._rows_reader.decompression_limit,
                self.run.sink.write_to_stderr,
                self.options.paths,
            )
            self._rows_reader = replace(self._rows_reader, selection=selection)
            self._dump_separately(selection.select_logs(logs))

    def _dump_separately(self, files: Iterable[InputFile]) -> None:
        """Dump files one by one."""
        for file in files:
            if self._n_remaining_rows != 0:
                self._dump_file(file)

    def _dump_contents(self, file: InputFile) -> None:
        """Dump a file that is not a log; raises InputError."""
        selection = self.options.selection_options.selection
        if self.options.selection_options != SelectionOptions(
            Selection(selection.first_offset, selection.last_offset)
        ):
            reason = "of the conditions, only --from-offset and --to-offset apply to it"
            raise InputError(f"{file.name}: this is {file.kind.description}: {reason}")
        contents = file.read_contents()
        collector = FindingCollector(self.run.max_findings)
        for columnar_rows in contents.sections:
            nested_rows = self._select_rows(NestedRows(columnar_rows))
            file_heading = FileHeading(file.name, contents.size, file.base_offset, file_notes(file))
            writer = self.run.sink.begin_rows(file_heading, columnar_rows.type)
            self.run.sink.flush_texts()
            for chunk in writer.render(nested_rows, 0, len(nested_rows)):
                self._write_chunk(chunk, collector)
            self.run.sink.write_line(writer.closing_text())
        for finding in contents.findings:
            self._write_chunk(finding, collector)
        self.run.report_suppressed_findings(file.name, collector)

    def _show_unknown_file(self, file: InputFile) -> None:
        """Show a file of a directory as unknown."""
        sink, n_bytes = self.run.sink, file_size(file)
        display_name = escape_unprintable(file.name)
        details = f"   {format_thousands(n_bytes)} bytes   not a file kfmt recognises"
        file_line = display_name + details_after_name(display_name, details, sink.streams.width)
        blank_line = "" if self._follows_unknown_file else "\n"
        self._follows_unknown_file = True
        sink.write_document(
            UNKNOWN_FILE_ROW, {"file": file.name, "bytes": n_bytes}, [f"{blank_line}{file_line}\n"]
        )

    def _select_rows(self, nested_rows: NestedRows) -> NestedRows:
        """The selected rows, up to the number that remains to be written."""
        columnar_rows, selection = nested_rows.outer, self._rows_reader.selection
        if "offset" in columnar_rows.table.index_by_name and selection:
            columnar_rows.table = columnar_rows.table.select_rows(
                selection.contains_offsets(columnar_rows.table["offset"])
            )
        if self._n_remaining_rows is not None:
            nested_rows = nested_rows.first_rows(self._n_remaining_rows)
            self._n_remaining_rows -= len(nested_rows)
        return nested_rows

    def _dump_log(self, file: InputFile) -> None:
        rows_reader = self._create_rows_reader(file)
        run = self.run
        with open_checked_log(file, read_ahead=not rows_reader.reads_records) as log:
            record_type = None
            if rows_reader.reads_records:
                record_type = RECORD_ROW if rows_reader.decoder is None else DECODED_RECORD_ROW
            writer = run.sink.begin_rows(
                FileHeading(file.name, log.size, log.base_offset, file_notes(file)),
                BATCH_ROW,
                record_type,
            )
            run.sink.flush_texts()
            collector = FindingCollector(run.max_findings)
            with run.output.progress(log.size) as progress:
                blocks = rows_reader.iter_prepared_blocks(log.blocks, progress.on_progress)
                for chunk in self._iter_output_chunks(rows_reader, writer, blocks, log):
                    self._write_chunk(chunk, collector)
            run.sink.write_line(writer.closing_text())
            run.report_suppressed_findings(file.name, collector)

    def _create_rows_reader(self, file: InputFile) -> LogRowsReader:
        """The rows reader for a log, with the decoder of its topic."""
        decoder = self._find_decoder(file) if self._rows_reader.reads_records else None
        is_for_people = self.run.sink.is_for_people
        on_records = self._schema_id_hints.add_records if is_for_people and not decoder else None
        return replace(
            self._rows_reader, decoder=decoder, as_text=is_for_people, on_records=on_records
        )

    def _iter_output_chunks(
        self, rows_reader: LogRowsReader, writer: RowWriter, blocks: Iterator[Block], log: OpenLog
    ) -> Iterator[OutputChunk]:
        """Output and findings in file order."""
        if self._n_remaining_rows is not None:
            for rows_and_findings in self._iter_first_rows(rows_reader, blocks):
                yield from interleave_findings(writer, rows_and_findings)
            return
        n_workers = (
            self.options.n_jobs
            if log.is_large and (rows_reader.reads_records or writer.is_stateless)
            else 0
        )
        if not writer.is_stateless:
            for block_results in map_ordered(
                rows_reader.read_rows, blocks, n_workers, needs_separate_decoding
            ):
                for rows_and_findings in block_results:
                    yield from interleave_findings(writer, rows_and_findings)
            return

        def render_block(block: Block) -> Iterable[OutputChunk]:
            chunks = (
                chunk
                for rows_and_findings in rows_reader.iter_rows(block)
                for chunk in interleave_findings(writer, rows_and_findings)
            )
            return chunks if needs_separate_decoding(block) else list(chunks)

        for chunks in map_ordered(render_block, blocks, n_workers, needs_separate_decoding):
            yield from chunks

    def _iter_first_rows(
        self, rows_reader: LogRowsReader, blocks: Iterator[Block]
    ) -> Iterator[RowsAndFindings]:
        """The first rows, up to the number that remains to be written."""
        for block in blocks:
            for rows_and_findings in rows_reader.iter_rows(block):
                assert self._n_remaining_rows is not None
                first_rows = rows_and_findings.first_rows(self._n_remaining_rows)
                self._n_remaining_rows -= len(first_rows.rows)
                yield first_rows
                if self._n_remaining_rows == 0:
                    return

    def _write_chunk(self, chunk: OutputChunk, collector: FindingCollector) -> None:
        run = self.run
        if isinstance(chunk, memoryview):
            self._has_row |= bool(len(chunk))
            run.sink.flush_texts()
            run.output.write(chunk)
            recycle_buffer(chunk)
            return
        run.report_findings([chunk], collector)


def file_notes(file: InputFile) -> tuple[str, ...]:
    """Notes from the names of a file and its directory: topic, markers."""
    directory_path, _, file_name = file.path.rpartition(os.sep)
    markers = (
        classify_name(file_name)[2],
        directory_marker_suffix(directory_path.rpartition(os.sep)[2]),
    )
    topic = None if file.base_offset is None else find_known_topic(file_topic(file))
    notes = (
        "" if topic is None or topic.name.startswith("__") else topic.doc,
        f"a copy marked .{markers[0]}" if markers[0] else "",
        f"in a directory marked -{markers[1]}" if markers[1] else "",
    )
    return tuple(note for note in notes if note)


def interleave_findings(
    writer: RowWriter, rows_and_findings: RowsAndFindings
) -> Iterator[OutputChunk]:
    """The rows as text, each finding after the outer row that contains it."""
    findings = sort_findings(rows_and_findings.findings)
    batch_positions = rows_and_findings.rows.outer.table.as_type(BatchTable).position
    n_rendered_rows = 0
    for finding in findings:
        end_row = int(np.searchsorted(batch_positions, finding.position or 0, side="right"))
        if end_row > n_rendered_rows:
            yield from writer.render(rows_and_findings.rows, n_rendered_rows, end_row)
            n_rendered_rows = end_row
        yield finding
    if n_rendered_rows < len(batch_positions):
        yield from writer.render(rows_and_findings.rows, n_rendered_rows, len(batch_positions))


def _reads_only_logs(sink: Sink, selects_rows_of_logs: bool) -> bool:
    """Whether only logs are read; raises UsageError if the requested table is of other files."""
    table = sink.display_options.table
    is_log_table = table in ("", BATCH_ROW.name, RECORD_ROW.name, DECODED_RECORD_ROW.name)
    reads_only_logs = selects_rows_of_logs or (is_log_table and not sink.mixes_types)
    if reads_only_logs and not is_log_table and table != FINDING_ROW.name:
        raise UsageError(f"--table {table}: only logs are read with these options")
    return reads_only_logs
