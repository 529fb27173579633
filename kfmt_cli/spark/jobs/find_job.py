"""find: the segment, batch and byte of records with a key, a value or a header.

Records are found in columns: rows are made of the matches only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.columns.schema import schema_of
from kfmt_cli.arrow.columns.sections import ArrowPart, record_batch
from kfmt_cli.arrow.columns.tables import shared_by
from kfmt_cli.arrow.part_files import keep_rows, parts_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import Table
from kfmt_cli.errors import UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.section import Section
from kfmt_cli.rows.table_types import FINDINGS, FOUND_RECORDS
from kfmt_cli.rows.types.found import FOUND
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Result
from kfmt_cli.spark.jobs.context import Context, JobSummary, opened
from kfmt_cli.spark.ledger import Ledger, part_name
from kfmt_cli.spark.wanted import selected_by_tasks

_VIA = b"scan"
_OF_BATCH = ("position", "size", "base_offset", "has_base_offset", "last_offset")
MOST_SHOWN = 20  # matches as lines


def find(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """Find records in pieces."""
    columns = FOUND_RECORDS.leaves

    def rows_in(piece: Piece, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        wanted, shared = request.wanted_of(piece), shared_by(piece)
        for block in blocks:
            for table in matches(wanted, block, request.limit):
                yield record_batch(ArrowPart(Section(FOUND, table, _VIA)), columns, shared)

    return keep_rows(request, pieces, to, part_name(pieces), schema_of(columns), rows_in)


def matches(wanted: Selection, block: Block, limit: Limit) -> Iterator[Table]:
    """The columns of `FOUND` of the wanted records of a block, or of its batches if only a producer
    is asked for."""
    if wanted == Selection(match=Match(producer_id=wanted.match.producer_id)):
        chosen = np.flatnonzero(wanted.match.batches(block.batches))
        if len(chosen):
            yield _of_batches(block, chosen)
        return
    for part, records in wanted.near(block, limit):
        rows = np.flatnonzero(wanted.of_records(part, records))
        if len(rows):
            yield _of_records(part, records, rows)


def _of_batches(block: Block, chosen: IntArray) -> Table:
    table = Table.empty(FOUND.sources, len(chosen))
    for name in _OF_BATCH:
        table[name] = block.batches[name][chosen]
    table["timestamp"] = block.batches.max_timestamp[chosen]
    table["has_timestamp"] = block.batches.has_timestamp[chosen]
    table["via_size"] = len(_VIA)
    return table


def _of_records(part: Block, records: Records, chosen: IntArray) -> Table:
    table = _of_batches(part, np.searchsorted(records.ends, chosen, side="right"))
    rows = records.rows
    table["offset"], table["has_offset"] = rows.offset[chosen], 1
    table["record_position"] = rows.position[chosen]
    table["has_record_position"] = rows.has_position[chosen]
    table["timestamp"], table["has_timestamp"] = rows.timestamp[chosen], rows.has_timestamp[chosen]
    return table


def prepare(context: Context) -> Ledger:
    """The directory of the job; raises UsageError if it holds other results."""
    asked = context.request.asked
    if not asked:
        raise UsageError("give a record filter such as --key")
    return opened(context, Job("find", find, {"asked": repr(asked)}))


def run_job(context: Context) -> JobSummary:
    """Find records in every file."""
    ledger: Ledger = context.prepared or prepare(context)
    known = selected_by_tasks(context.spark, context.request, context.inputs())
    request = replace(context.request, in_folders=known)
    summary = JobSummary(dict.fromkeys(("segments", "bytes", "places", "errors"), 0))
    folder = ledger.job.folder(ledger.to)
    with (
        context.table_file("findings/part-0", FINDINGS) as summary.table,
        context.table_file("found/part-0", FOUND_RECORDS) as table,
    ):
        for piece, result in context.results(ledger, summary, request):
            summary.numbers["segments"] += piece.start == 0
            summary.numbers["bytes"] += piece.end - piece.start
            for batch in parts_of(f"{folder}/{result['file']}", result["first"], result["end"]):
                summary.lines += islice(_lines(batch), MOST_SHOWN - len(summary.lines))
                table.add_batch(batch)
    if left := table.rows - len(summary.lines):
        summary.lines.append(f"and {grouped(left)} more")
    summary.sum_up()
    summary.numbers |= {"places": table.rows, "errors": summary.errors}
    summary.errors += not table.rows  # as `kfmt find`
    summary.written = [table.path, summary.table.path]
    return summary


def _lines(batch: pa.RecordBatch) -> Iterator[str]:
    names = ("file", "position", "base_offset", "last_offset", "offset")
    for i in range(len(batch)):
        file, position, first, last, offset = (batch.column(name)[i].as_py() for name in names)
        place = f"offsets {first}–{last}" if offset is None else f"offset {offset}"
        yield f"{file}  {place}  batch at byte {position}"
