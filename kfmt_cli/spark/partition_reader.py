"""Reads the rows of one task of the data source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from kfmt_cli.arrow.columns.tables import READER_BY_TABLE, read_table_rows
from kfmt_cli.arrow.input_files import mount_split_files
from kfmt_cli.execution.file_split import name_file_in_errors
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.rows.table_types import BATCHES_TABLE, has_records
from kfmt_cli.spark.input_partition import KfmtInputPartition
from kfmt_cli.spark.selections import needs_log_selections, selections_by_directory
from kfmt_cli.spark.streaming.cleaned_logs import read_stream_partition


def read_input_partition(
    request: ReadRequest, input_partition: KfmtInputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of an input partition; raises KfmtError, naming the file, if it cannot be read."""
    selection_by_directory = {**input_partition.selection_by_directory}
    if needs_log_selections(request):
        first_splits = input_partition.splits.select_where(
            lambda split: split.start == 0 and split.directory not in selection_by_directory
        )
        selection_by_directory |= selections_by_directory(
            request, FileSplits(split.with_byte_range(0, split.file_size) for split in first_splits)
        )
    request = replace(request, selection_by_directory=selection_by_directory)
    with mount_split_files(request, input_partition.splits):
        if input_partition.read_limits:
            yield from read_stream_partition(request, input_partition)
            return
        if request.table == BATCHES_TABLE.name or has_records(request.table):
            yield from read_table_rows(request, input_partition.splits)
            return
        for split in input_partition.splits:
            with name_file_in_errors(split):
                yield from READER_BY_TABLE[request.table](request, split, [])
