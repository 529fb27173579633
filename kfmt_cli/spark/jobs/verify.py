"""verify: checks every batch of a fleet; writes tables of segments and findings, and a summary.

segments: the same, but only the table of segments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby

from kfmt_cli.arrow.checking import check_pieces, count_severities, results_of, segment_row
from kfmt_cli.rows.table_types import FINDINGS, SEGMENTS
from kfmt_cli.rows.types.segment_row import NOTHING, Numbers, merged
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Result, Stored
from kfmt_cli.spark.jobs.context import Context, JobSummary, opened
from kfmt_cli.spark.ledger import Ledger

SUMS = ("batches", "records", "errors", "warnings", "notes")


def check(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """Check pieces; their totals and findings."""
    del to
    return [
        {"summary": checked.numbers, **results_of(checked.findings, checked.edges)}
        for checked in check_pieces(request, pieces)
    ]


def prepare(context: Context, name: str = "verify") -> Ledger:
    """The directory of the job; raises UsageError if it holds other results."""
    return opened(context, Job(name, check, {"deep": context.request.deep}))


def prepare_segments(context: Context) -> Ledger:
    """The same of a job that writes no findings."""
    return prepare(context, "segments")


def run_job(context: Context) -> JobSummary:
    """Check every file."""
    ledger: Ledger = context.prepared or prepare(context)
    tables = (SEGMENTS,) if ledger.job.name == "segments" else (SEGMENTS, FINDINGS)
    summary = JobSummary(dict.fromkeys(("segments", "bytes", *SUMS, "damaged"), 0))
    results, numbers = context.results(ledger, summary), summary.numbers
    with ExitStack() as open_files:
        files = {
            rows.name: open_files.enter_context(context.table_file(f"{rows.name}/part-0", rows))
            for rows in tables
        }
        summary.table = files.get("findings")
        for piece, its in summed_up(results):
            files["segments"].add([segment_row(piece, its)])
            numbers["segments"] += 1
            numbers["bytes"] += piece.size
            for sum_of in SUMS:
                numbers[sum_of] += its[sum_of] or 0
            numbers["damaged"] += (its["errors"] or 0) > 0
    summary.written = [file.path for file in files.values()]
    summary.lines = [f"{n:>8}  {code}" for code, n in summary.codes.most_common()]
    summary.sum_up()
    return summary


def summed_up(results: Iterable[tuple[Piece, Stored]]) -> Iterator[tuple[Piece, Numbers]]:
    """A piece of each file, and the numbers of all its pieces together."""
    for _, parts in groupby(results, key=lambda done: done[0].path):
        numbers, codes = NOTHING, Counter[str]()
        for piece, result in parts:
            file, numbers = piece, merged(numbers, result.summary)
            codes.update(result.codes)
        yield file, {**numbers, **count_severities(codes)}
