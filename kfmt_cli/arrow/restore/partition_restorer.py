"""Restores the segments of a partition from exported records.

With the table of batches, each batch gets its original header, codec and segment. An uncompressed
log gets identical bytes; a codec may compress the same records differently. Without the table,
records are grouped by the position of their batch; codec, leader epoch and empty batches are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.columns.record_columns import LOG_APPEND_TIME, int_values, records_from_arrow
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.errors import InputError
from kfmt_cli.formats.batch import CONTROL, TRANSACTIONAL
from kfmt_cli.log.block import CRC_POSITION_BY_MAGIC, NO_TIMESTAMP
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.render.style import format_count
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.writers.batches import CALLER_FIELDS, CODEC_MASK, DraftTable, EncodedBatches
from kfmt_cli.writers.build.batch_assembler import BatchAssembler
from kfmt_cli.writers.build.batch_drafts import batch_start_mask, create_drafts
from kfmt_cli.writers.build.json_columns import BUILD_COLUMNS
from kfmt_cli.writers.output import StagingDirectory
from kfmt_cli.writers.rolling_writer import RollingWriter, RollSettings

CONTROL_KEY_BYTES = 4  # version and type
NO_ROW_INDEXES: IntArray = np.zeros(0, np.int64)
BATCHED_RECORD_COLUMNS = ("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
"""The columns of records to read if the table of batches exists."""
RECORD_COLUMNS = (
    *(
        *BATCHED_RECORD_COLUMNS,
        "producer_id",
        "producer_epoch",
        "sequence",
        "transactional",
        "control",
    ),
    *("file", "batch_position"),
)
_HEADER_COLUMNS = ("magic", *CALLER_FIELDS)
BATCH_COLUMNS = (*_HEADER_COLUMNS, "last_offset", "records_count", "crc", "crc_valid", "file")
_BATCH_KEY_COLUMNS = ("producer_id", "producer_epoch", "transactional", "control", "batch_position")


@dataclass(slots=True)
class RestoredCounts:
    """Counts of the written and the lost records and batches of a partition."""

    records: int = 0
    batches: int = 0
    unchanged_batches: int = 0
    """Batches with the same checksum as the original."""
    repeated_records: int = 0
    """Records that several files contain, for example of several replicas; written once."""
    missing_records: int = 0
    """Records that batches contained but the table of records does not."""
    damaged: int = 0
    """Batches that failed their checksum; they and their records are dropped."""
    malformed_controls: int = 0
    """Control records without a complete key, or without a value; they are written as they are."""

    def describe_losses(self) -> Iterator[str]:
        """The losses, as lines of text."""
        if self.missing_records:
            count_text = format_count(self.missing_records, "record")
            yield (
                f"{count_text} missing from the table of records, but counted in the table "
                "of batches"
            )
        if self.damaged:
            yield f"{format_count(self.damaged, 'damaged batch', 'damaged batches')} dropped"
        if self.malformed_controls:
            yield f"{format_count(self.malformed_controls, 'control record')} without key or value"
        if self.repeated_records:
            count_text = format_count(self.repeated_records, "record")
            yield f"{count_text} in more than one file, written once"

    @property
    def n_errors(self) -> int:
        """Number of records and batches that are missing or malformed."""
        return self.missing_records + self.damaged + self.malformed_controls

    def add_counts(self, other: RestoredCounts) -> None:
        """Add the counts of another partition."""
        for count_name in self.__slots__:
            setattr(self, count_name, getattr(self, count_name) + getattr(other, count_name))


@dataclass(slots=True)
class _BatchCursor:
    """Reads the batches of a partition in offset order, as they are needed."""

    remaining_batches: Iterator[pa.RecordBatch]
    buffered_columns: dict[str, Any] = field(default_factory=dict)
    last_offset: int = -1

    def consume_batches(self, offset: int) -> dict[str, Any]:
        """Consume the batches that begin at or before an offset; returns their columns by name."""
        column_chunks = [self.buffered_columns] if self.buffered_columns else []
        while not column_chunks or column_chunks[-1]["first"][-1] <= offset:
            batch_rows = next(self.remaining_batches, None)
            if batch_rows is None:
                break
            new_columns = self._new_batch_columns(batch_rows)
            if len(new_columns["first"]):
                column_chunks.append(new_columns)
        if not column_chunks:
            return {}
        all_columns = {
            name: np.concatenate([columns[name] for columns in column_chunks])
            for name in column_chunks[0]
        }
        n_consumed = int(np.searchsorted(all_columns["first"], offset, "right"))
        self.buffered_columns = {
            name: column_values[n_consumed:] for name, column_values in all_columns.items()
        }
        if not len(self.buffered_columns["first"]):
            self.buffered_columns = {}
        return (
            {name: column_values[:n_consumed] for name, column_values in all_columns.items()}
            if n_consumed
            else {}
        )

    def _new_batch_columns(self, rows: pa.RecordBatch) -> dict[str, Any]:
        """The columns of the batches that come after all previous ones."""
        columns: dict[str, Any] = {
            name: int_values(rows.column(name))
            for name in BATCH_COLUMNS
            if name not in ("file", "base_offset")
        }
        columns["file"] = rows.column("file").to_numpy(zero_copy_only=False)
        last_offsets = columns["last_offset"]
        base_offsets = int_values(rows.column("base_offset"), -1)
        # A wrapper of magic 0 or 1 contains only its last offset.
        columns["base_offset"] = np.where(base_offsets < 0, last_offsets, base_offsets)
        previous_last_offsets = np.maximum.accumulate(
            np.concatenate([[self.last_offset], last_offsets])
        )[:-1]
        columns["first"] = np.where(base_offsets < 0, previous_last_offsets + 1, base_offsets)
        new_batch_mask = last_offsets > previous_last_offsets
        self.last_offset = max(self.last_offset, int(last_offsets.max(initial=-1)))
        return {name: column_values[new_batch_mask] for name, column_values in columns.items()}


class PartitionRestorer:
    """Writes the records of a partition into segments under a staging directory.

    batches: the rows of the table of batches in offset order; None without such a table. codec: the
    number of the codec for all batches; None for the codecs in the table, or for no compression
    without a table. partition_name: the partition's name, for messages.
    """

    def __init__(
        self,
        partition_name: str,
        staging: StagingDirectory,
        directory: str,
        roll_settings: RollSettings,
        batch_rows: Iterable[pa.RecordBatch] | None = None,
        codec_number: int | None = None,
    ) -> None:
        self.partition_name = partition_name
        self.restored_counts = RestoredCounts()
        self.rolling_writer = RollingWriter(staging, roll_settings)
        self._staged_directory, self._rolls_by_file = directory, roll_settings.keeps_named_segments
        self._batch_cursor = None if batch_rows is None else _BatchCursor(iter(batch_rows))
        self._codec_number = codec_number
        self._batch_assembler = BatchAssembler(self._write_encoded_batches)
        self._last_offset = -1
        self._segment_base_offset = -1
        self._source_file: str | None = None
        self._last_batch_key: IntArray | None = None  # the last record's
        # Last offsets, checksums and magics of the batches being written.
        self._source_batches = np.zeros((3, 0), np.int64)
        # The open batch: last offset, whether it is undamaged, whether it has magic 2.
        self._open_batch = (
            -1,
            True,
            True,
        )
        self._n_declared_records = self._n_undeclared_records = (
            0  # records, in batches of magic 2 and older ones
        )

    def restore_records(self, record_batches: Iterable[pa.RecordBatch]) -> None:
        """Write all records, in offset order; raises InputError, OutputError."""
        write_rows = (
            self._write_unbatched_records
            if self._batch_cursor is None
            else self._write_in_source_batches
        )
        with self.rolling_writer:
            for arrow_rows in record_batches:
                if len(new_rows := self._drop_repeated_rows(arrow_rows)):
                    write_rows(new_rows)
            if self._batch_cursor is not None:
                self._write_in_source_batches(None)
            self._batch_assembler.close_open_batch()
        self.restored_counts.records = self._batch_assembler.n_accepted_records
        if self._batch_cursor is not None:
            n_v2_records = self._batch_assembler.n_accepted_records - self._n_undeclared_records
            self.restored_counts.missing_records = max(self._n_declared_records - n_v2_records, 0)

    def _drop_repeated_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with offsets above all earlier ones."""
        offsets = int_values(rows.column("offset"))
        previous_max_offsets = np.maximum.accumulate(
            np.concatenate([[self._last_offset], offsets])
        )[:-1]
        new_row_mask = offsets > previous_max_offsets
        self._last_offset = max(self._last_offset, int(offsets.max(initial=-1)))
        self.restored_counts.repeated_records += len(rows) - int(new_row_mask.sum())
        return rows if new_row_mask.all() else rows.filter(pa.array(new_row_mask))

    def _write_in_source_batches(self, rows: pa.RecordBatch | None) -> None:
        """Write records in their original batches. rows: None at the end."""
        assert self._batch_cursor is not None
        if rows is not None:
            rows = self._extend_open_batch(rows)
        last_offset = MAX_OFFSET if rows is None else self._last_offset
        batch_columns = (
            self._batch_cursor.consume_batches(last_offset) if rows is None or len(rows) else {}
        )
        offsets = np.zeros(0, np.int64) if rows is None else int_values(rows.column("offset"))
        if not batch_columns:
            self._require_batch_per_row(offsets, NO_ROW_INDEXES, NO_ROW_INDEXES)
            return
        end_rows = np.searchsorted(offsets, batch_columns["last_offset"], "right")
        start_rows = np.searchsorted(offsets, batch_columns["first"])
        self._require_batch_per_row(offsets, start_rows, end_rows)
        v2_mask, undamaged_mask = batch_columns["magic"] == 2, batch_columns["crc_valid"] == 1
        record_counts = end_rows - start_rows
        retained_mask = undamaged_mask & (
            (record_counts > 0) | (v2_mask & (batch_columns["records_count"] == 0))
        )
        self.restored_counts.damaged += int((~undamaged_mask).sum())
        self._n_declared_records += int(
            batch_columns["records_count"][undamaged_mask & v2_mask].sum()
        )
        self._n_undeclared_records += int(record_counts[undamaged_mask & ~v2_mask].sum())
        self._open_batch = (
            int(batch_columns["last_offset"][-1]),
            bool(undamaged_mask[-1]),
            bool(v2_mask[-1]),
        )
        if not retained_mask.all():
            row_mask = np.repeat(retained_mask, record_counts)
            rows = None if rows is None else rows.filter(pa.array(row_mask))
            batch_columns = {
                name: column_values[retained_mask] for name, column_values in batch_columns.items()
            }
            record_counts = record_counts[retained_mask]
        if len(record_counts):
            self._write_batches(batch_columns, record_counts, rows)

    def _extend_open_batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Write the records that belong to the open batch; returns the other records."""
        last_offset, is_undamaged, is_v2 = self._open_batch
        n_open_batch_rows = int(
            np.searchsorted(int_values(rows.column("offset")), last_offset, "right")
        )
        if n_open_batch_rows and is_undamaged:
            records = records_from_arrow(rows.slice(0, n_open_batch_rows))
            self._n_undeclared_records += 0 if is_v2 else n_open_batch_rows
            self._batch_assembler.extend_open_batch(records)
        return rows.slice(n_open_batch_rows)

    def _require_batch_per_row(
        self, offsets: IntArray, start_rows: IntArray, end_rows: IntArray
    ) -> None:
        """Raise InputError if a record is in none of the batches.

        start_rows, end_rows: the range of rows in each batch, end exclusive.
        """
        previous_end_rows = np.concatenate([[0], end_rows])
        uncovered_indexes = np.flatnonzero(np.append(start_rows, len(offsets)) > previous_end_rows)
        if len(uncovered_indexes):
            offset = int(offsets[previous_end_rows[uncovered_indexes[0]]])
            raise InputError(
                f"{self.partition_name}: offset {offset} is in none of the exported batches"
            )

    def _write_batches(
        self, batch_columns: dict[str, Any], record_counts: IntArray, rows: pa.RecordBatch | None
    ) -> None:
        """Write batches with their records, in runs of one source file and one magic."""
        end_rows = np.cumsum(record_counts)
        records = _NO_RECORDS if rows is None or not len(rows) else records_from_arrow(rows)
        batch_headers = _headers_from_columns(batch_columns, records, record_counts)
        if self._codec_number is not None:
            data_batch_mask = batch_headers.attributes & CONTROL.mask == 0
            recompressed_attributes = batch_headers.attributes & ~CODEC_MASK | self._codec_number
            batch_headers.attributes = np.where(
                data_batch_mask, recompressed_attributes, batch_headers.attributes
            )
        control_mask = batch_headers.attributes & CONTROL.mask != 0
        self._count_malformed_controls(np.repeat(control_mask, record_counts), records.rows)
        source_batches = np.array(
            [batch_columns["last_offset"], batch_columns["crc"], batch_headers.magic]
        )
        open_batches = (
            self._source_batches[:, -1:]
            if self._batch_assembler.open_batch
            else self._source_batches[:, :0]
        )
        self._source_batches = np.concatenate([open_batches, source_batches], axis=1)
        source_files, magics = batch_columns["file"], batch_headers.magic
        run_start_mask = np.ones(len(record_counts), np.bool_)
        run_start_mask[1:] = (source_files[1:] != source_files[:-1]) | (np.diff(magics) != 0)
        run_starts = np.flatnonzero(run_start_mask).tolist()
        for first_batch, end_batch in pairwise([*run_starts, len(record_counts)]):
            self._batch_assembler.close_open_batch()
            self._begin_segment(source_files[first_batch], is_whole_file=True)
            start_row = int(end_rows[first_batch] - record_counts[first_batch])
            end_row = int(end_rows[end_batch - 1])
            record_table = records.rows.select_rows(slice(start_row, end_row))
            run_records = RecordColumns(
                records.data,
                record_table,
                records.headers,
                end_rows[first_batch:end_batch] - start_row,
            )
            self._batch_assembler.add_batches(
                batch_headers.select_rows(slice(first_batch, end_batch)), run_records
            )

    def _count_malformed_controls(self, control_mask: BoolArray, rows: RecordTable) -> None:
        """Count control records whose key or value is too short. control_mask: whether each record
        is a control record."""
        is_too_short = (rows.key_size < CONTROL_KEY_BYTES) | (rows.value_size < 0)
        self.restored_counts.malformed_controls += int((control_mask & is_too_short).sum())

    def _begin_segment(self, source_file: str | None, *, is_whole_file: bool) -> None:
        """Begin a segment if the next records are from another file."""
        if source_file == self._source_file:
            return
        self._source_file = source_file
        base_offset = (
            None if source_file is None else classify_name(source_file.rpartition("/")[2])[1]
        )
        is_first_segment = self._segment_base_offset < 0
        if (
            base_offset is not None
            and base_offset > self._segment_base_offset
            and (is_first_segment or self._rolls_by_file)
        ):
            self._segment_base_offset = base_offset
            self.rolling_writer.begin_file(
                self._staged_directory,
                base_offset,
                is_named_by_lines=is_whole_file and self._rolls_by_file,
            )

    def _write_unbatched_records(self, arrow_rows: pa.RecordBatch) -> None:
        """Write records, grouped into batches by batch position and shared values."""
        records = records_from_arrow(arrow_rows)
        record_table = records.rows
        batch_keys = np.array([int_values(arrow_rows.column(name)) for name in _BATCH_KEY_COLUMNS])
        append_times = np.where(
            record_table.timestamp_type == LOG_APPEND_TIME, record_table.timestamp, 0
        )
        batch_keys = np.concatenate([batch_keys, [record_table.timestamp_type, append_times]])
        file_dictionary = arrow_rows.column("file").dictionary_encode()
        file_indexes, file_names = (
            int_values(file_dictionary.indices),
            file_dictionary.dictionary.to_pylist(),
        )
        first_and_last_file = [
            None if file_index < 0 else file_names[file_index]
            for file_index in file_indexes[[0, -1]].tolist()
        ]
        new_batch_mask = batch_start_mask(record_table)
        new_batch_mask[1:] |= (batch_keys[:, 1:] != batch_keys[:, :-1]).any(axis=0) | (
            file_indexes[1:] != file_indexes[:-1]
        )
        if self._last_batch_key is not None and first_and_last_file[0] == self._source_file:
            new_batch_mask[0] = (batch_keys[:, 0] != self._last_batch_key).any()
        if self._last_batch_key is None:
            self._begin_segment(first_and_last_file[0], is_whole_file=False)
        self._last_batch_key, self._source_file = batch_keys[:, -1], first_and_last_file[1]
        first_rows = np.flatnonzero(new_batch_mask)
        n_open_batch_records = int(first_rows[0]) if len(first_rows) else len(record_table)
        if n_open_batch_records:
            open_batch_records = RecordColumns(
                records.data,
                record_table.select_rows(slice(0, n_open_batch_records)),
                records.headers,
                np.array([n_open_batch_records]),
            )
            self._batch_assembler.extend_open_batch(open_batch_records)
        if not len(first_rows):
            return
        remaining_rows = record_table.select_rows(slice(n_open_batch_records, None))
        end_rows = np.append(first_rows[1:], len(record_table)) - n_open_batch_records
        control_mask = batch_keys[_BATCH_KEY_COLUMNS.index("control"), first_rows] == 1
        row_control_mask = batch_keys[_BATCH_KEY_COLUMNS.index("control")] == 1
        self._count_malformed_controls(row_control_mask, record_table)
        batch_headers = create_drafts(
            remaining_rows,
            first_rows - n_open_batch_records,
            np.where(control_mask, 0, self._codec_number or 0),
        )
        batch_headers.producer_id, batch_headers.producer_epoch = batch_keys[:2, first_rows]
        transactional_mask = batch_keys[_BATCH_KEY_COLUMNS.index("transactional"), first_rows] == 1
        batch_headers.attributes |= (
            transactional_mask * TRANSACTIONAL.mask | control_mask * CONTROL.mask
        )
        batch_headers.base_sequence = int_values(arrow_rows.column("sequence"))[first_rows]
        batch_headers.declared_count = -1
        self._batch_assembler.add_batches(
            batch_headers, RecordColumns(records.data, remaining_rows, records.headers, end_rows)
        )

    def _write_encoded_batches(self, encoded_batches: EncodedBatches) -> None:
        self.restored_counts.batches += len(encoded_batches)
        n_source_batches = self._source_batches.shape[1]
        if n_source_batches and len(encoded_batches):
            last_offsets, crcs, magics = self._source_batches
            batch_indexes = np.searchsorted(last_offsets, encoded_batches.last_offset).clip(
                max=n_source_batches - 1
            )
            crc_positions = (
                encoded_batches.start_positions
                + np.array(CRC_POSITION_BY_MAGIC)[magics[batch_indexes]]
            )
            batch_bytes: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(
                encoded_batches.data, np.uint8
            )
            crc_bytes = batch_bytes[crc_positions[:, None] + np.arange(4)].astype(np.int64)
            written_crcs = crc_bytes @ (1 << np.arange(24, -1, -8))
            unchanged_mask = (last_offsets[batch_indexes] == encoded_batches.last_offset) & (
                crcs[batch_indexes] & 0xFFFFFFFF == written_crcs
            )
            self.restored_counts.unchanged_batches += int(unchanged_mask.sum())
        self.rolling_writer.append_batches(encoded_batches)


_NO_RECORDS = RecordColumns(
    b"",
    RecordTable.zeros_with_columns(BUILD_COLUMNS, 0),
    np.zeros((4, 0), np.int64),
    NO_ROW_INDEXES,
)


def _headers_from_columns(
    batch_columns: dict[str, Any], records: RecordColumns, record_counts: IntArray
) -> DraftTable:
    """The headers of batches from the table of batches. Timestamps that are missing there, because
    a table cannot represent them, are computed from the records."""
    batch_headers = DraftTable.zeros(len(record_counts))
    for field_name in _HEADER_COLUMNS:
        batch_headers[field_name] = batch_columns[field_name]
    batch_headers.last_offset_delta = batch_columns["last_offset"] - batch_columns["base_offset"]
    batch_headers.declared_count, batch_headers.has_explicit_max = -1, 1
    nonempty_indexes = np.flatnonzero(record_counts)
    first_records = (np.cumsum(record_counts) - record_counts)[nonempty_indexes]
    record_times = records.rows.timestamp
    max_record_times = np.maximum.reduceat(record_times, first_records)
    for field_name, computed_times in (
        ("base_timestamp", record_times[first_records]),
        ("max_timestamp", max_record_times),
    ):
        stored_times = batch_columns[field_name][nonempty_indexes]
        batch_headers[field_name][nonempty_indexes] = np.where(
            stored_times == NO_TIMESTAMP, computed_times, stored_times
        )
    return batch_headers
