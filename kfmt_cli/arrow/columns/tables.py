"""Reads splits as rows of the tables, in Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.columns.arrow_batches import (
    ArrowRows,
    arrow_batch,
    arrow_rows,
    split_arrow_rows,
)
from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.input_files import create_split_reader, group_small_splits, input_file
from kfmt_cli.arrow.split_checks import check_split, finding_row, segment_row
from kfmt_cli.arrow.topic_ids import TopicIdCache, find_broker_id, log_directory_name
from kfmt_cli.checks.log.small_logs import read_checked_logs
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit, name_file_in_errors
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import SplitBoundary, SplitReader
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, split_runs
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.log.derived_columns import (
    batch_rows,
    fill_derived_columns,
    read_complete_records,
    record_rows,
)
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.columnar_rows import NestedRows
from kfmt_cli.rows.table_types import has_records
from kfmt_cli.topics.decoder import Decoder

ArrowBatches = Iterator[pa.RecordBatch]
SharedColumnFactory = Callable[[str, int], "pa.Array | None"]
"""Creates a column that all rows share, by name and length; None for other columns."""


def split_column_factory(
    split: FileSplit, topic_id_cache: TopicIdCache | None = None
) -> SharedColumnFactory:
    """Return a function for the columns that all rows of a split share."""
    topic_ids = TopicIdCache() if topic_id_cache is None else topic_id_cache
    return file_column_factory(
        split.path, split.kind.name, split.topic_partition, lambda: topic_ids.find_topic_id(split)
    )


def file_column_factory(
    path: str,
    kind_name: str,
    topic_partition: tuple[str | None, int | None],
    find_topic_id: Callable[[], str | None],
) -> SharedColumnFactory:
    """Return a function for the columns that all rows of a file share."""
    topic, partition = topic_partition
    scalar_by_column: dict[str, Callable[[], pa.Scalar]] = {
        "file": lambda: pa.scalar(format_display_name(path), pa.string()),
        "kind": lambda: pa.scalar(kind_name, pa.string()),
        "topic": lambda: pa.scalar(topic and format_display_name(topic), pa.string()),
        "partition": lambda: pa.scalar(partition, pa.int32()),
        "topic_id": lambda: pa.scalar(find_topic_id(), pa.string()),
        "log_dir": lambda: pa.scalar(log_directory_name(path), pa.string()),
        "broker_id": lambda: pa.scalar(find_broker_id(path), pa.int32()),
    }
    return lambda name, n: (
        pa.repeat(scalar_by_column[name](), n) if name in scalar_by_column else None
    )


def iter_split_batches(
    request: ReadRequest, reader: SplitReader, split: FileSplit, topic_ids: TopicIdCache
) -> ArrowBatches:
    """The requested records or batches of a split. If its topic id is requested but cannot be read,
    the split is not read, and the reader gets a finding."""
    columns, create_shared_column = request.output_columns, split_column_factory(split, topic_ids)
    try:
        if any(column.name == "topic_id" for column in columns):
            create_shared_column("topic_id", 0)
    except InputError as error:
        reader.add_finding(Finding(split.path, codes.FILE_UNREADABLE, None, str(error)))
        return
    for rows in iter_split_rows(
        request.table, reader, split, request.find_decoder(split.topic_partition[0])
    ):
        for arrow_rows_part in split_arrow_rows(arrow_rows(rows), request.arrow_batch_rows):
            yield arrow_batch(arrow_rows_part, columns, create_shared_column)


def iter_split_rows(
    table_name: str, reader: SplitReader, split: FileSplit, decoder: Decoder | None
) -> Iterator[NestedRows]:
    """The requested batches of a split, or the requested records nested in their batches, with the
    decoder's text."""
    if not has_records(table_name):
        for block in reader.iter_blocks(split):
            selected_block = reader.selection.select_batches(block, reader.decompression_limit)
            if len(selected_block.batches):
                yield batch_rows(selected_block)
        return
    for run, records in reader.iter_record_runs(split):
        fill_derived_columns(run, records)
        record_mask = reader.selection.record_mask(run, records) if reader.selection else None
        yield record_rows(run, select_records(records, record_mask), decoder)


def select_records(records: RecordColumns, record_mask: BoolArray | None) -> RecordColumns:
    """The records selected by a mask, in the same batches; all records without a mask."""
    if record_mask is None or record_mask.all():
        return records
    n_selected_before = np.concatenate([[0], np.cumsum(record_mask)])
    return replace(
        records,
        rows=records.rows.select_rows(record_mask),
        row_ends=n_selected_before[records.row_ends],
    )


@dataclass(slots=True)
class SplitReadResult:
    """The result of reading a split."""

    n_rows: int = 0
    first_offset: int | None = None
    """The first offset of the rows; None without rows or without a requested offset column."""
    last_offset: int | None = None
    latest_epoch: int = -1
    """The latest leader epoch of the rows; -1 without a requested column of it."""
    findings: list[Finding] = field(default_factory=list)
    boundary: SplitBoundary | None = None

    def count_rows(self, n_rows: int, first_offset: int | None, last_offset: int | None) -> None:
        """Add rows and their offsets to the result."""
        self.n_rows += n_rows
        if first_offset is not None and last_offset is not None:
            previous_offsets = self.first_offset, self.last_offset
            self.first_offset = (
                first_offset
                if previous_offsets[0] is None
                else min(previous_offsets[0], first_offset)
            )
            self.last_offset = (
                last_offset
                if previous_offsets[1] is None
                else max(previous_offsets[1], last_offset)
            )

    def add_epochs(self, batch: pa.RecordBatch, row_mask: BoolArray | None = None) -> None:
        """Add the leader epochs of rows to the result. row_mask: selects rows; None for all."""
        for column_name in ("leader_epoch", "partition_leader_epoch"):
            if column_name in batch.schema.names:
                epochs = batch.column(column_name)
                epochs = epochs if row_mask is None else epochs.filter(pa.array(row_mask))
                self.latest_epoch = max(
                    self.latest_epoch, -1 if (latest := pc.max(epochs).as_py()) is None else latest
                )


def read_table_rows(
    request: ReadRequest,
    splits: Sequence[FileSplit],
    split_results: Sequence[SplitReadResult] | None = None,
    create_row_mask: Callable[[pa.RecordBatch], pa.Array] | None = None,
    topic_ids: TopicIdCache | None = None,
) -> ArrowBatches:
    """The records or batches of splits, with small logs read in groups; raises SplitError.

    split_results: receives the result for each split. create_row_mask: returns a mask of the rows
    to keep. topic_ids: a cache of topic ids, to share between calls.
    """
    split_results = [SplitReadResult() for _ in splits] if split_results is None else split_results
    read_group = _read_group_records if has_records(request.table) else _read_group_batches
    n_previous_splits, topic_ids = 0, TopicIdCache() if topic_ids is None else topic_ids
    for split_group in group_small_splits(splits):
        # All logs of a group must have the same selection.
        is_grouped = len(split_group) > 1 and not request.selection_by_directory
        group_rows = None
        with suppress(InputError):  # raised again when the logs are read individually
            group_rows = read_group(request, split_group, topic_ids) if is_grouped else None
        for unfiltered_batch, unfiltered_file_indexes in group_rows or ():
            batch, file_indexes = unfiltered_batch, unfiltered_file_indexes
            if create_row_mask is not None:
                mask = create_row_mask(batch)
                batch = batch.filter(mask)
                file_indexes = file_indexes[mask.to_numpy(zero_copy_only=False)]
            for index_in_group, n_rows, first_offset, last_offset in _iter_file_row_counts(
                batch, file_indexes
            ):
                split_result = split_results[n_previous_splits + index_in_group]
                split_result.count_rows(n_rows, first_offset, last_offset)
                split_result.add_epochs(batch, file_indexes == index_in_group)
            if len(batch):
                yield batch
        for index_in_group, split in enumerate(split_group if group_rows is None else ()):
            with name_file_in_errors(split):
                reader = create_split_reader(request, split)
                for unfiltered_batch in iter_split_batches(request, reader, split, topic_ids):
                    batch = (
                        unfiltered_batch
                        if create_row_mask is None
                        else unfiltered_batch.filter(create_row_mask(unfiltered_batch))
                    )
                    split_results[n_previous_splits + index_in_group].count_rows(
                        len(batch), *_offset_bounds(batch)
                    )
                    split_results[n_previous_splits + index_in_group].add_epochs(batch)
                    if len(batch):
                        yield batch
                split_results[n_previous_splits + index_in_group].findings = reader.findings
                split_results[n_previous_splits + index_in_group].boundary = reader.boundary
        n_previous_splits += len(split_group)


def _offset_bounds(batch: pa.RecordBatch) -> tuple[int | None, int | None]:
    """First and last offset of the rows; None for both without offset columns."""
    column_names = batch.schema.names
    first_column, last_column = (
        ("offset", "offset") if "offset" in column_names else ("base_offset", "last_offset")
    )
    if first_column not in column_names or last_column not in column_names:
        return None, None
    min_offset, max_offset = pc.min(batch.column(first_column)), pc.max(batch.column(last_column))
    return min_offset.as_py(), max_offset.as_py()


def _iter_file_row_counts(
    batch: pa.RecordBatch, file_indexes: IntArray
) -> Iterator[tuple[int, int, int | None, int | None]]:
    """For each file in a batch: index, number of rows, first and last offset."""
    file_starts = np.flatnonzero(np.diff(file_indexes, prepend=-1))
    for start_row, end_row in zip(
        file_starts.tolist(), [*file_starts[1:].tolist(), len(file_indexes)], strict=True
    ):
        first_offset, last_offset = _offset_bounds(batch.slice(start_row, end_row - start_row))
        yield int(file_indexes[start_row]), end_row - start_row, first_offset, last_offset


GroupRows = list[tuple[pa.RecordBatch, IntArray]]
"""Arrow batches, each with the file index of every row."""
MAX_GROUP_BYTES = 128 << 20  # bytes of Arrow


def _read_group_batches(
    request: ReadRequest, splits: Sequence[FileSplit], topic_ids: TopicIdCache
) -> GroupRows | None:
    """The batches of healthy logs; None if one must be read individually."""
    block = read_undamaged_logs(splits)
    if block is None:
        return None
    selected_block = request.selection_options.selection.select_batches(
        block, request.decompression_limit
    )
    file_indexes = selected_block.batches.file_number
    create_shared_column = _group_column_factory(splits, file_indexes, topic_ids)
    return [
        (
            arrow_batch(
                arrow_rows(batch_rows(selected_block)), request.output_columns, create_shared_column
            ),
            file_indexes,
        )
    ]


def _read_group_records(
    request: ReadRequest, splits: Sequence[FileSplit], topic_ids: TopicIdCache
) -> GroupRows | None:
    """The records of healthy logs; None if one must be read individually."""
    topics = {split.topic_partition[0] for split in splits}
    if any(request.find_decoder(topic) is not None for topic in topics):
        return None
    block = read_undamaged_logs(splits)
    if block is None:
        return None
    columns, selection = request.output_columns, request.selection_options.selection
    selected_block = selection.select_batches(block) if selection else block
    group_rows: GroupRows = []
    for decompressed_block in decompress_ahead(
        replace(selected_block, findings=[]), request.decompression_limit
    ):
        for run in split_runs(decompressed_block):
            records = read_complete_records(run, request.decompression_limit)
            if decompressed_block.findings or records.findings:
                return None
            record_mask = selection.record_mask(run, records) if selection else None
            rows = arrow_rows(record_rows(run, select_records(records, record_mask)))
            for rows_part in split_arrow_rows(rows, request.arrow_batch_rows):
                file_indexes = rows_part["file_number"]
                group_rows.append(
                    (
                        arrow_batch(
                            rows_part,
                            columns,
                            _group_column_factory(splits, file_indexes, topic_ids),
                        ),
                        file_indexes,
                    )
                )
            if sum(batch.nbytes for batch, _ in group_rows) > MAX_GROUP_BYTES:
                return None
    return group_rows


def read_undamaged_logs(splits: Sequence[FileSplit]) -> Block | None:
    """The batches of logs, each with the index of its file; None if any log is not healthy."""
    small_logs = read_checked_logs([input_file(split) for split in splits])
    if (
        not small_logs.is_valid.all()
        or (small_logs.sizes != np.array([split.file_size for split in splits])).any()
    ):
        return None
    small_logs.batches.file_number = small_logs.file_of_batch
    return small_logs.valid_block()


def _group_column_factory(
    splits: Sequence[FileSplit], file_indexes: IntArray, topic_ids: TopicIdCache
) -> SharedColumnFactory:
    """Return a function for the columns with one value per file."""
    topic_partitions = [split.topic_partition for split in splits]
    array_by_column: dict[str, Callable[[], pa.Array]] = {
        "file": lambda: pa.array(
            [format_display_name(split.path) for split in splits], pa.string()
        ),
        "topic": lambda: pa.array(
            [topic and format_display_name(topic) for topic, _ in topic_partitions], pa.string()
        ),
        "partition": lambda: pa.array([partition for _, partition in topic_partitions], pa.int32()),
        "topic_id": lambda: pa.array(
            [topic_ids.find_topic_id(split) for split in splits], pa.string()
        ),
        "log_dir": lambda: pa.array(
            [log_directory_name(split.path) for split in splits], pa.string()
        ),
        "broker_id": lambda: pa.array([find_broker_id(split.path) for split in splits], pa.int32()),
    }

    def create_shared_column(column_name: str, n_rows: int) -> pa.Array | None:
        del n_rows
        return (
            array_by_column[column_name]().take(pa.array(file_indexes))
            if column_name in array_by_column
            else None
        )

    return create_shared_column


def _read_segments(request: ReadRequest, split: FileSplit, _: list[Finding]) -> ArrowBatches:
    if not create_split_reader(request, split).report_planning_error(split):
        summary = check_split(request, split).summary
        yield _batch_from_rows(request, [segment_row(split, summary)])


def _read_findings(request: ReadRequest, split: FileSplit, _: list[Finding]) -> ArrowBatches:
    if findings := check_split(request, split).findings:
        yield _batch_from_rows(request, [finding_row(split, finding) for finding in findings])


def _batch_from_rows(request: ReadRequest, rows: list[dict[str, object]]) -> pa.RecordBatch:
    schema = arrow_schema(request.output_columns)
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_index_entries(
    request: ReadRequest, split: FileSplit, findings: list[Finding]
) -> ArrowBatches:
    split_reader = create_split_reader(request, split)
    if split_reader.report_planning_error(split):
        return
    try:
        index_contents = classify_file(split.path, split.path).read_contents()
    except InputError as error:
        split_reader.add_finding(Finding(split.path, codes.FILE_VANISHED, None, str(error)))
        return
    for finding in index_contents.findings:
        split_reader.add_finding(finding)
    findings += index_contents.findings
    if len(index_contents.table):
        yield arrow_batch(
            ArrowRows(index_contents.sections[0]),
            request.output_columns,
            split_column_factory(split),
        )


# Each reader adds its findings to a list, unless its rows contain them.
READER_BY_TABLE: dict[str, Callable[[ReadRequest, FileSplit, list[Finding]], ArrowBatches]] = {
    "findings": _read_findings,
    "segments": _read_segments,
    "index_entries": _read_index_entries,
}
