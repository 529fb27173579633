"""find: the segment, batch and byte of records with a key, a value or a header.

Records are matched in columns; only matches become rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.columns.arrow_batches import ArrowRows, arrow_batch
from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.columns.tables import split_column_factory
from kfmt_cli.arrow.intermediate_files import read_intermediate_batches, write_intermediate_file
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import Table
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.record_filter import RecordFilter
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.render.style import format_thousands
from kfmt_cli.rows.columnar_rows import ColumnarRows
from kfmt_cli.rows.documents import MATCH_ROW
from kfmt_cli.rows.table_types import FINDINGS_TABLE, FOUND_RECORDS_TABLE
from kfmt_cli.spark.job import JobDefinition, SplitResult
from kfmt_cli.spark.job_directory import JobDirectory, intermediate_file_name
from kfmt_cli.spark.jobs.context import JobContext, JobSummary, open_report_directory
from kfmt_cli.spark.selections import find_selections_in_tasks
from kfmt_cli.spark.stored_options import rc1_text, selection_values

_VIA_SCAN = b"scan"
_BATCH_COLUMNS = ("position", "size", "base_offset", "has_base_offset", "last_offset")
MAX_LISTED_MATCHES = 20  # matches that the summary lists


def find_records_in_splits(
    request: ReadRequest, splits: Sequence[FileSplit], output_directory: str
) -> list[SplitResult]:
    """Find records in splits."""
    columns = FOUND_RECORDS_TABLE.leaves

    def iter_match_batches(split: FileSplit, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        selection, create_shared_column = request.selection_for(split), split_column_factory(split)
        for block in blocks:
            for table in iter_match_tables(selection, block, request.decompression_limit):
                yield arrow_batch(
                    ArrowRows(ColumnarRows(MATCH_ROW, table, _VIA_SCAN)),
                    columns,
                    create_shared_column,
                )

    return write_intermediate_file(
        request,
        splits,
        output_directory,
        intermediate_file_name(splits),
        arrow_schema(columns),
        iter_match_batches,
    )


def iter_match_tables(
    selection: Selection, block: Block, decompression_limit: DecompressionLimit
) -> Iterator[Table]:
    """Tables with the columns of `MATCH_ROW`, for the selected records of a block, or for its
    batches if the selection has only a producer id."""
    if selection == Selection(
        record_filter=RecordFilter(producer_id=selection.record_filter.producer_id)
    ):
        batch_indexes = np.flatnonzero(selection.record_filter.batch_mask(block.batches))
        if len(batch_indexes):
            yield _create_batch_matches(block, batch_indexes)
        return
    for batch_run, records in selection.iter_candidate_runs(block, decompression_limit):
        record_indexes = np.flatnonzero(selection.record_mask(batch_run, records))
        if len(record_indexes):
            yield _create_record_matches(batch_run, records, record_indexes)


def _create_batch_matches(block: Block, batch_indexes: IntArray) -> Table:
    table = Table.zeros_with_columns(MATCH_ROW.table_columns, len(batch_indexes))
    for name in _BATCH_COLUMNS:
        table[name] = block.batches[name][batch_indexes]
    table["timestamp"] = block.batches.max_timestamp[batch_indexes]
    table["has_timestamp"] = block.batches.has_timestamp[batch_indexes]
    table["via_size"] = len(_VIA_SCAN)
    return table


def _create_record_matches(block: Block, records: RecordColumns, record_indexes: IntArray) -> Table:
    table = _create_batch_matches(
        block, np.searchsorted(records.row_ends, record_indexes, side="right")
    )
    record_rows = records.rows
    table["offset"], table["has_offset"] = record_rows.offset[record_indexes], 1
    table["record_position"] = record_rows.position[record_indexes]
    table["has_record_position"] = record_rows.has_position[record_indexes]
    table["timestamp"] = record_rows.timestamp[record_indexes]
    table["has_timestamp"] = record_rows.has_timestamp[record_indexes]
    return table


def prepare(context: JobContext) -> JobDirectory:
    """The directory of the job; raises UsageError if it has other results."""
    selection_options = context.request.selection_options
    if not selection_options:
        raise UsageError("give a record filter such as --key")
    return open_report_directory(
        context,
        JobDefinition(
            "find",
            find_records_in_splits,
            {"asked": selection_values(selection_options)},
            {"asked": rc1_text(selection_options)},
        ),
    )


def run_job(context: JobContext) -> JobSummary:
    """Find records in every file."""
    job_directory: JobDirectory = context.preparation or prepare(context)
    selections = find_selections_in_tasks(context.spark, context.request, context.readable_inputs())
    request = replace(context.request, selection_by_directory=selections)
    summary = JobSummary(dict.fromkeys(("segments", "bytes", "places", "errors"), 0))
    staging_directory = job_directory.job.staging_directory(job_directory.path)
    with (
        context.open_table_file("findings/part-0", FINDINGS_TABLE) as summary.findings_table,
        context.open_table_file("found/part-0", FOUND_RECORDS_TABLE) as matches_table,
    ):
        for split, result in context.process_inputs(job_directory, summary, request):
            summary.counts["segments"] += split.start == 0
            summary.counts["bytes"] += split.end - split.start
            for match_batch in read_intermediate_batches(
                f"{staging_directory}/{result['file']}", result["first"], result["end"]
            ):
                summary.lines += islice(
                    _format_match_lines(match_batch), MAX_LISTED_MATCHES - len(summary.lines)
                )
                matches_table.add_arrow_batch(match_batch)
    if n_omitted := matches_table.n_rows - len(summary.lines):
        summary.lines.append(f"and {format_thousands(n_omitted)} more")
    summary.count_findings()
    summary.counts |= {"places": matches_table.n_rows, "errors": summary.n_errors}
    summary.n_errors += not matches_table.n_rows  # as in `kfmt find`, no match is an error
    summary.output_paths = [matches_table.path, summary.findings_table.path]
    return summary


def _format_match_lines(match_batch: pa.RecordBatch) -> Iterator[str]:
    column_names = ("file", "position", "base_offset", "last_offset", "offset")
    for i in range(len(match_batch)):
        file_name, position, first_offset, last_offset, offset = (
            match_batch.column(name)[i].as_py() for name in column_names
        )
        offsets_text = (
            f"offsets {first_offset}–{last_offset}" if offset is None else f"offset {offset}"
        )
        yield f"{file_name}  {offsets_text}  batch at byte {position}"
