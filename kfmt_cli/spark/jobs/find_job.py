"""find: the segment, batch and byte of records with a key, a value or a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice

import pyarrow as pa

from kfmt_cli.arrow.found_rows import keep_found
from kfmt_cli.arrow.part_files import parts_of
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.table_types import FINDINGS, FOUND_RECORDS
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Result
from kfmt_cli.spark.jobs.context import Context, JobFindings, JobSummary, opened
from kfmt_cli.spark.ledger import Ledger, part_name
from kfmt_cli.spark.selecting import selected_by_tasks
from kfmt_cli.spark.work import run

MOST_SHOWN = 20  # matches as lines


def find(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """Find records in pieces."""
    return keep_found(request, pieces, to, part_name(pieces))


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
    ledger.plan(request, context.inputs())
    summary = JobSummary(dict.fromkeys(("segments", "bytes", "places", "errors"), 0))
    folder = ledger.job.folder(ledger.to)
    with ExitStack() as files:
        of_findings = files.enter_context(context.table_file("findings/part-0", FINDINGS))
        table = files.enter_context(context.table_file("found/part-0", FOUND_RECORDS))
        findings = JobFindings(of_findings)
        for piece, result in run(context.spark, request, ledger, context.advance):
            findings.take(result)
            summary.numbers["segments"] += piece.start == 0
            summary.numbers["bytes"] += piece.end - piece.start
            for batch in parts_of(f"{folder}/{result['file']}", result["first"], result["end"]):
                summary.lines += islice(_lines(batch), MOST_SHOWN - len(summary.lines))
                table.add_batch(batch)
    if left := table.rows - len(summary.lines):
        summary.lines.append(f"and {grouped(left)} more")
    findings.sum_up(summary)
    summary.numbers |= {"places": table.rows, "errors": summary.errors}
    summary.errors += not table.rows  # as `kfmt find`
    summary.written = [table.path, of_findings.path]
    return summary


def _lines(batch: pa.RecordBatch) -> Iterator[str]:
    names = ("file", "position", "base_offset", "last_offset", "offset")
    for i in range(len(batch)):
        file, position, first, last, offset = (batch.column(name)[i].as_py() for name in names)
        place = f"offsets {first}–{last}" if offset is None else f"offset {offset}"
        yield f"{file}  {place}  batch at byte {position}"
