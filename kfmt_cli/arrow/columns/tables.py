"""Reads splits as rows of the tables, in Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.columns.arrow_batches import ArrowRows, arrow_batch, arrow_rows, split_rows
from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.input_files import create_split_reader, group_small_splits, input_file
from kfmt_cli.arrow.split_checks import check_split, finding_row, segment_row
from kfmt_cli.arrow.topic_ids import TopicIdCache
from kfmt_cli.checks.log.small_logs import read_checked_logs
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit, name_file_in_errors
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import SplitBoundary, SplitReader
from kfmt_cli.findings import damage as codes
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
    split: FileSplit, known_topic_ids: TopicIdCache | None = None
) -> SharedColumnFactory:
    """Return a function for the columns that all rows of a split share."""
    topic_ids = TopicIdCache() if known_topic_ids is None else known_topic_ids
    return file_column_factory(
        split.path, split.kind.name, split.topic_partition, lambda: topic_ids.find(split)
    )


def file_column_factory(
    path: str,
    kind: str,
    topic_partition: tuple[str | None, int | None],
    find_topic_id: Callable[[], str | None],
) -> SharedColumnFactory:
    """Return a function for the columns that all rows of a file share."""
    topic, partition = topic_partition
    scalar_by_column: dict[str, Callable[[], pa.Scalar]] = {
        "file": lambda: pa.scalar(format_display_name(path), pa.string()),
        "kind": lambda: pa.scalar(kind, pa.string()),
        "topic": lambda: pa.scalar(topic and format_display_name(topic), pa.string()),
        "partition": lambda: pa.scalar(partition, pa.int32()),
        "topic_id": lambda: pa.scalar(find_topic_id(), pa.string()),
    }
    return lambda name, n: (
        pa.repeat(scalar_by_column[name](), n) if name in scalar_by_column else None
    )


def iter_split_batches(
    request: ReadRequest, reader: SplitReader, split: FileSplit, topic_ids: TopicIdCache
) -> ArrowBatches:
    """The requested records or batches of a split. If its topic id is requested but cannot be read,
    the split is not read, and the reader gets a finding."""
    columns, create_shared_column = request.result_columns, split_column_factory(split, topic_ids)
    try:
        if any(column.name == "topic_id" for column in columns):
            create_shared_column("topic_id", 0)
    except InputError as error:
        reader.add_finding(Finding(split.path, codes.FILE_UNREADABLE, None, str(error)))
        return
    for rows in iter_split_rows(
        request.table, reader, split, request.find_decoder(split.topic_partition[0])
    ):
        for rows_part in split_rows(arrow_rows(rows), request.batch_rows):
            yield arrow_batch(rows_part, columns, create_shared_column)


def iter_split_rows(
    table: str, reader: SplitReader, split: FileSplit, decoder: Decoder | None
) -> Iterator[NestedRows]:
    """The requested batches of a split, or the requested records nested in their batches, with the
    decoder's text."""
    if not has_records(table):
        for block in reader.blocks(split):
            selected_block = reader.selection.select_batches(block, reader.decompression_limit)
            if len(selected_block.batches):
                yield batch_rows(selected_block)
        return
    for run, records in reader.records(split):
        fill_derived_columns(run, records)
        mask = reader.selection.record_mask(run, records) if reader.selection else None
        yield record_rows(run, select_records(records, mask), decoder)


def select_records(records: RecordColumns, mask: BoolArray | None) -> RecordColumns:
    """The records selected by a mask, in the same batches; all records without a mask."""
    if mask is None or mask.all():
        return records
    n_selected_before = np.concatenate([[0], np.cumsum(mask)])
    return replace(
        records, rows=records.rows.select_rows(mask), row_ends=n_selected_before[records.row_ends]
    )


@dataclass(slots=True)
class SplitReadResult:
    """The result of reading a split."""

    n_rows: int = 0
    first_offset: int | None = None
    """The first offset of the rows; None without rows or without a requested offset column."""
    last_offset: int | None = None
    findings: list[Finding] = field(default_factory=list)
    boundary: SplitBoundary | None = None

    def add_rows(self, n_rows: int, first_offset: int | None, last_offset: int | None) -> None:
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


def read_table_rows(
    request: ReadRequest,
    splits: Sequence[FileSplit],
    results: Sequence[SplitReadResult] | None = None,
    row_mask: Callable[[pa.RecordBatch], pa.Array] | None = None,
    topic_ids: TopicIdCache | None = None,
) -> ArrowBatches:
    """The records or batches of splits, with small logs read in groups; raises SplitError.

    results: receives the result for each split. row_mask: returns a mask of the rows to keep.
    topic_ids: a cache of topic ids, to share between calls.
    """
    results = [SplitReadResult() for _ in splits] if results is None else results
    read_group = _read_group_records if has_records(request.table) else _read_group_batches
    n_previous_splits, topic_ids = 0, TopicIdCache() if topic_ids is None else topic_ids
    for group in group_small_splits(splits):
        # All logs of a group must have the same selection.
        is_grouped = len(group) > 1 and not request.selection_by_directory
        group_rows = None
        with suppress(InputError):  # raised again when the logs are read individually
            group_rows = read_group(request, group, topic_ids) if is_grouped else None
        for unfiltered_batch, unfiltered_file_index in group_rows or ():
            batch, file_index = unfiltered_batch, unfiltered_file_index
            if row_mask is not None:
                mask = row_mask(batch)
                batch = batch.filter(mask)
                file_index = file_index[mask.to_numpy(zero_copy_only=False)]
            for i, n_rows, first_offset, last_offset in _count_by_file(batch, file_index):
                results[n_previous_splits + i].add_rows(n_rows, first_offset, last_offset)
            if len(batch):
                yield batch
        for i, split in enumerate(group if group_rows is None else ()):
            with name_file_in_errors(split):
                reader = create_split_reader(request, split)
                for unfiltered_batch in iter_split_batches(request, reader, split, topic_ids):
                    batch = (
                        unfiltered_batch
                        if row_mask is None
                        else unfiltered_batch.filter(row_mask(unfiltered_batch))
                    )
                    results[n_previous_splits + i].add_rows(len(batch), *_offset_bounds(batch))
                    if len(batch):
                        yield batch
                results[n_previous_splits + i].findings = reader.findings
                results[n_previous_splits + i].boundary = reader.boundary
        n_previous_splits += len(group)


def _offset_bounds(batch: pa.RecordBatch) -> tuple[int | None, int | None]:
    """First and last offset of the rows; None for both without offset columns."""
    names = batch.schema.names
    first_column, last_column = (
        ("offset", "offset") if "offset" in names else ("base_offset", "last_offset")
    )
    if first_column not in names or last_column not in names:
        return None, None
    lowest, highest = pc.min(batch.column(first_column)), pc.max(batch.column(last_column))
    return lowest.as_py(), highest.as_py()


def _count_by_file(
    batch: pa.RecordBatch, file_index: IntArray
) -> Iterator[tuple[int, int, int | None, int | None]]:
    """For each file in a batch: index, number of rows, first and last offset."""
    starts = np.flatnonzero(np.diff(file_index, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(file_index)], strict=True):
        first, last = _offset_bounds(batch.slice(start, end - start))
        yield int(file_index[start]), end - start, first, last


GroupRows = list[tuple[pa.RecordBatch, IntArray]]
"""Arrow batches, each with the file index of every row."""
MAX_GROUP_BYTES = 128 << 20  # bytes of Arrow


def _read_group_batches(
    request: ReadRequest, splits: Sequence[FileSplit], topic_ids: TopicIdCache
) -> GroupRows | None:
    """The batches of healthy logs; None if one must be read individually."""
    block = read_healthy_logs(splits)
    if block is None:
        return None
    selected_block = request.selection_options.selection.select_batches(
        block, request.decompression_limit
    )
    file_index = selected_block.batches.file_number
    create_shared_column = _group_column_factory(splits, file_index, topic_ids)
    return [
        (
            arrow_batch(
                arrow_rows(batch_rows(selected_block)), request.result_columns, create_shared_column
            ),
            file_index,
        )
    ]


def _read_group_records(
    request: ReadRequest, splits: Sequence[FileSplit], topic_ids: TopicIdCache
) -> GroupRows | None:
    """The records of healthy logs; None if one must be read individually."""
    topics = {split.topic_partition[0] for split in splits}
    if any(request.find_decoder(topic) is not None for topic in topics):
        return None
    block = read_healthy_logs(splits)
    if block is None:
        return None
    columns, selection = request.result_columns, request.selection_options.selection
    selected_block = selection.select_batches(block) if selection else block
    group_rows: GroupRows = []
    for decompressed_block in decompress_ahead(
        replace(selected_block, findings=[]), request.decompression_limit
    ):
        for run in split_runs(decompressed_block):
            records = read_complete_records(run, request.decompression_limit)
            if decompressed_block.findings or records.findings:
                return None
            mask = selection.record_mask(run, records) if selection else None
            rows = arrow_rows(record_rows(run, select_records(records, mask)))
            for rows_part in split_rows(rows, request.batch_rows):
                file_index = rows_part["file_number"]
                group_rows.append(
                    (
                        arrow_batch(
                            rows_part, columns, _group_column_factory(splits, file_index, topic_ids)
                        ),
                        file_index,
                    )
                )
            if sum(batch.nbytes for batch, _ in group_rows) > MAX_GROUP_BYTES:
                return None
    return group_rows


def read_healthy_logs(splits: Sequence[FileSplit]) -> Block | None:
    """The batches of logs, each with the index of its file; None if any log is not healthy."""
    small_logs = read_checked_logs([input_file(split) for split in splits])
    if (
        not small_logs.is_valid.all()
        or (small_logs.sizes != np.array([split.size for split in splits])).any()
    ):
        return None
    small_logs.batches.file_number = small_logs.file_of_batch
    return small_logs.valid_batches()


def _group_column_factory(
    splits: Sequence[FileSplit], file_index: IntArray, topic_ids: TopicIdCache
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
        "topic_id": lambda: pa.array([topic_ids.find(split) for split in splits], pa.string()),
    }

    def create_shared_column(name: str, n: int) -> pa.Array | None:
        del n
        return (
            array_by_column[name]().take(pa.array(file_index)) if name in array_by_column else None
        )

    return create_shared_column


def _read_segments(request: ReadRequest, split: FileSplit, _: list[Finding]) -> ArrowBatches:
    if not create_split_reader(request, split).report_planning_error(split):
        summary = check_split(request, split).numbers
        yield _batch_from_rows(request, [segment_row(split, summary)])


def _read_findings(request: ReadRequest, split: FileSplit, _: list[Finding]) -> ArrowBatches:
    if findings := check_split(request, split).findings:
        yield _batch_from_rows(request, [finding_row(split, finding) for finding in findings])


def _batch_from_rows(request: ReadRequest, rows: list[dict[str, object]]) -> pa.RecordBatch:
    schema = arrow_schema(request.result_columns)
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_index_entries(
    request: ReadRequest, split: FileSplit, findings: list[Finding]
) -> ArrowBatches:
    reader = create_split_reader(request, split)
    if reader.report_planning_error(split):
        return
    try:
        contents = classify_file(split.path, split.path).read_contents()
    except InputError as error:
        reader.add_finding(Finding(split.path, codes.FILE_VANISHED, None, str(error)))
        return
    for finding in contents.findings:
        reader.add_finding(finding)
    findings += contents.findings
    if len(contents.table):
        yield arrow_batch(
            ArrowRows(contents.sections[0]), request.result_columns, split_column_factory(split)
        )


# Each reader adds its findings to a list, unless its rows contain them.
TABLE_READERS: dict[str, Callable[[ReadRequest, FileSplit, list[Finding]], ArrowBatches]] = {
    "findings": _read_findings,
    "segments": _read_segments,
    "index_entries": _read_index_entries,
}
