"""cat: records as a stream for other programs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from kfmt_cli.broker.log_reading.offset_map import LatestKeyOffsets
from kfmt_cli.commands.cat.options import DEFAULT_FORMAT, CatOptions
from kfmt_cli.commands.cat.partition_tail import complete_end_position, tail_partition
from kfmt_cli.commands.cat.record_format import (
    OutputRecord,
    RecordFormatter,
    compile_format,
    escape_record,
    format_kcat_json,
)
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.each_partition import for_each_partition, iter_log_blocks
from kfmt_cli.commands.partition_selection import resolve_selection
from kfmt_cli.commands.payload_formats import payload_declarations
from kfmt_cli.commands.schema_id_hints import SchemaIdHints
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.findings.finding import FindingCollector
from kfmt_cli.log.block import Block, undamaged_data_block
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.record_filter import read_record_headers
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.topics import find_decoder
from kfmt_cli.topics.payloads import PayloadReader, format_decoded_value

MAX_DECODE_NOTES = 10  # notes about payloads that cannot be decoded
POLL_SECONDS = 0.2


@dataclass(slots=True)
class CatCommand:
    """One call of `cat`."""

    run: CommandRun
    options: CatOptions
    sleep: Callable[[float], None] = time.sleep
    _latest_keys: LatestKeyOffsets | None = None
    """The latest records of the partition's keys, if only these are selected."""
    _n_undecoded_payloads: int = 0
    _schema_id_hints: SchemaIdHints = field(default_factory=SchemaIdHints)
    _logs: list[InputFile] = field(default_factory=list)
    """The logs of all partitions."""
    _has_record: bool = False
    _n_remaining_records: int | None = field(init=False)
    """Number of records still to write; None for all."""
    _format_record: RecordFormatter = field(init=False)
    _selection_options: SelectionOptions = field(init=False)
    _key_reader: tuple[str, PayloadReader] | None = field(init=False)
    _value_reader: tuple[str, PayloadReader] | None = field(init=False)

    def execute(self) -> None:
        """Write the records of every partition under some paths; raises UsageError, InputError."""
        options = self.options
        self._n_remaining_records = options.limit
        self._selection_options = replace(options.selection_options, only_latest=options.latest)
        self._key_reader, self._value_reader = payload_declarations(options, options.paths).readers
        self._format_record = format_kcat_json
        if not options.json_:
            format_text = DEFAULT_FORMAT if options.form is None else options.form
            self._format_record = compile_format(format_text, os.fsencode(options.null))
        for_each_partition(
            self.run,
            options.paths,
            self._write_partition,
            accepts_stdin=not self._selection_options.needs_logs and not self.options.follow,
            shows_progress=True,
            single_partition_option="--follow" if self.options.follow else "",
        )
        has_chosen_form = options.form is not None or options.json_
        if not (has_chosen_form or self._key_reader or self._value_reader):
            for hint in self._schema_id_hints.iter_hints():
                self.run.sink.write_to_stderr(f"kfmt: {hint}\n")
        if not self._has_record and options.selection_options and not options.follow:
            self.run.report_empty_answer(self._logs, options)
        if self._n_undecoded_payloads > MAX_DECODE_NOTES:
            self.run.sink.write_to_stderr(
                f"… and {self._n_undecoded_payloads - MAX_DECODE_NOTES} more could not be decoded\n"
            )

    def _write_partition(self, partition: Partition) -> None:
        self._logs += partition.logs
        selection = resolve_selection(
            self._selection_options,
            partition.logs,
            self.options.decompression_limit,
            self.run.sink.write_to_stderr,
            self.options.paths,
        )
        if self._selection_options.only_latest:
            self._latest_keys = LatestKeyOffsets()
            self._latest_keys.add_logs(partition.logs, selection, self.options.decompression_limit)
        last_location = partition.logs[-1], 0
        for file in selection.select_logs(partition.logs):
            collector = FindingCollector(self.run.max_findings)
            last_location = file, 0
            with self.run.catch_input_errors():
                for _, block in iter_log_blocks([file]):
                    self.run.report_findings(block.findings, collector)
                    if self.options.follow:
                        last_location = file, complete_end_position(block, last_location[1])
                    self._write_block(file, block, selection, collector)
                    if self._n_remaining_records == 0:
                        break
            self.run.report_suppressed_findings(file.name, collector)
            if self._n_remaining_records == 0:
                return
        if self.options.follow:
            collector = FindingCollector(self.run.max_findings)
            for file, block in tail_partition(
                partition, last_location, lambda: self.sleep(POLL_SECONDS)
            ):
                self._write_block(file, block, selection, collector)
                if self._n_remaining_records == 0:
                    return

    def _write_block(
        self, file: InputFile, block: Block, selection: Selection, collector: FindingCollector
    ) -> None:
        """Write the selected records of a block."""
        topic, partition_index = file_topic_partition(file.path)
        topic_partition = topic or "", -1 if partition_index is None else partition_index
        for batch_run, records in selection.iter_candidate_runs(
            undamaged_data_block(block), self.options.decompression_limit
        ):
            self.run.report_findings([*batch_run.findings, *records.findings], collector)
            if find_decoder(topic) is None:
                self._schema_id_hints.add_records(records)
            self._write_records(batch_run, records, selection, topic_partition)
            if self._n_remaining_records == 0:
                return

    def _write_records(
        self,
        batch_run: Block,
        records: RecordColumns,
        selection: Selection,
        topic_partition: tuple[str, int],
    ) -> None:
        rows = records.rows
        selected_rows = np.arange(len(rows))
        if selection:
            selected_rows = np.flatnonzero(selection.record_mask(batch_run, records))
        if self._latest_keys is not None:
            selected_rows = selected_rows[
                self._latest_keys.latest_record_mask(records, selected_rows)
            ]
        if self._n_remaining_records is not None:
            selected_rows = selected_rows[: self._n_remaining_records]
            self._n_remaining_records -= len(selected_rows)
        if not len(selected_rows):
            return
        self._has_record = True
        column_names = (
            *("offset", "timestamp", "has_timestamp", "timestamp_type"),
            *("key", "key_size", "value", "value_size"),
        )
        columns = (rows[name][selected_rows].tolist() for name in column_names)
        record_bytes, chunks = records.data, []
        is_terminal = self.run.output.width is not None
        has_headers = "headers" in rows.index_by_name and bool(
            (rows.headers[selected_rows] > 0).any()
        )
        for (
            row,
            offset,
            timestamp,
            has_timestamp,
            timestamp_type,
            key_position,
            key_size,
            value_position,
            value_size,
        ) in zip(selected_rows.tolist(), *columns, strict=True):
            record = OutputRecord(
                *topic_partition,
                offset,
                timestamp if has_timestamp else -1,
                self._decode_payload(
                    self._key_reader, record_bytes, key_position, key_size, offset
                ),
                self._decode_payload(
                    self._value_reader, record_bytes, value_position, value_size, offset
                ),
                key_size,
                value_size,
                read_record_headers(records, row) if has_headers else [],
                timestamp_type,
            )
            chunks.append(self._format_record(escape_record(record) if is_terminal else record))
        self.run.sink.flush_texts()
        self.run.output.write(b"".join(chunks))

    def _decode_payload(
        self,
        decoder: tuple[str, PayloadReader] | None,
        record_bytes: bytes,
        position: int,
        size: int,
        offset: int,
    ) -> bytes | None:
        """A key or value to write, decoded if possible, otherwise as stored."""
        if size < 0:
            return None
        stored_payload = record_bytes[position : position + size]
        if decoder is None:
            return stored_payload
        format_name, decode_bytes = decoder
        try:
            return format_decoded_value(decode_bytes(stored_payload)).encode()
        except ValueError as error:
            self._n_undecoded_payloads += 1
            if self._n_undecoded_payloads <= MAX_DECODE_NOTES:
                self.run.sink.write_to_stderr(
                    f"offset {offset}: cannot be decoded as {format_name}: "
                    f"{escape_unprintable(str(error))}\n"
                )
            return stored_payload
