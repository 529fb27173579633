"""The text of many small logs, decoded as one block and written by one template."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kfmt_cli.checks.log.small_logs import read_checked_logs
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.log.derived_columns import fill_derived_columns, record_rows
from kfmt_cli.log.rows_reader import LogRowsReader
from kfmt_cli.log.small_logs import SmallLogs
from kfmt_cli.render.sinks.sink import FileHeading, Sink
from kfmt_cli.rows.columnar_rows import ColumnarRows, NestedRows
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import RECORD_ROW
from kfmt_cli.topics.decoder import Decoder

MAX_DECOMPRESSED_BLOCKS = 2  # a group of logs that decompresses to more is read file by file

OutputOrInputFile = InputFile | memoryview


def render_small_logs(
    sink: Sink,
    rows_reader: LogRowsReader,
    find_decoder: Callable[[InputFile], Decoder | None],
    files: list[InputFile],
) -> list[OutputOrInputFile]:
    """The text of files, in order; one that must be read individually replaces its text."""
    small_logs = read_checked_logs(files)
    for file_index, file in enumerate(files):
        if rows_reader.reads_records and find_decoder(file) is not None:
            small_logs.is_valid[file_index] = False
    small_logs.batches.file_number = small_logs.file_of_batch
    decompressed_rows = list(_iter_decompressed_rows(small_logs, rows_reader))
    if len(decompressed_rows) > MAX_DECOMPRESSED_BLOCKS or not small_logs.is_valid.any():
        return [*files]
    file_heading = FileHeading("", files=tuple(file.name for file in files))
    writer = sink.begin_rows(
        file_heading, BATCH_ROW, RECORD_ROW if rows_reader.reads_records else None
    )
    rendered_or_files: list[OutputOrInputFile] = []
    valid_range_boundaries = np.flatnonzero(
        np.diff(small_logs.is_valid.astype(np.int8), prepend=0, append=0)
    ).tolist()
    next_file_index = 0
    for first_file_index, end_file_index in zip(
        valid_range_boundaries[::2], valid_range_boundaries[1::2], strict=True
    ):
        rendered_or_files += files[next_file_index:first_file_index]
        for nested_rows in decompressed_rows:
            file_numbers = nested_rows.outer.table.as_type(BatchTable).file_number
            first_row, end_row = np.searchsorted(
                file_numbers, [first_file_index, end_file_index]
            ).tolist()
            rendered_or_files += writer.render(nested_rows, first_row, end_row)
        next_file_index = end_file_index
    rendered_or_files += files[next_file_index:]
    return rendered_or_files


def _iter_decompressed_rows(
    small_logs: SmallLogs, rows_reader: LogRowsReader
) -> Iterator[NestedRows]:
    """The rows of the valid files; marks files with findings as invalid."""
    block = small_logs.valid_block()
    if not rows_reader.reads_records:
        yield NestedRows(ColumnarRows(BATCH_ROW, block.batches))
        return
    for decompressed_block in decompress_ahead(block, rows_reader.decompression_limit):
        records = read_records(decompressed_block, rows_reader.decompression_limit)
        fill_derived_columns(decompressed_block, records)
        small_logs.mark_files_invalid([*decompressed_block.findings, *records.findings])
        yield record_rows(decompressed_block, records)
