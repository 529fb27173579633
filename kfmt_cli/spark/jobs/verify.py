"""verify: every batch of a fleet checked; the tables `segments` and `findings`, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kfmt_cli.arrow.checking import FileSummary, check_pieces, results_of
from kfmt_cli.findings.damage import FILE_VANISHED
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.jobs.context import (
    Context,
    JobSummary,
    left_out,
    table_of,
    unread_of,
    write_table,
)
from kfmt_cli.spark.work import Job, Ledger, Result, run

NO_FINDINGS = {"errors": 0, "warnings": 0, "notes": 0}


@dataclass(slots=True)
class JobFindings:
    """What a job collects."""

    files: dict[str, FileSummary] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    """The rows of the findings that are kept."""
    codes: Counter[str] = field(default_factory=Counter)
    """How many there are of each, kept or not."""


def check(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """What pieces hold and what is wrong with them."""
    del to
    return [
        {
            "summary": checked.summary.numbers,
            **results_of(checked.findings, checked.edges),
            "outputs": [],
        }
        for checked in check_pieces(request, pieces)
    ]


def collect(context: Context, job: Job) -> JobFindings:
    """Do the job; a summary of each file, and all findings."""
    ledger = Ledger(context.to, job)
    ledger.open()
    pieces = ledger.plan(context.request, context.inputs())
    found = JobFindings()
    for piece, result in run(context.spark, context.request, ledger, pieces, context.advance):
        summary = found.files.setdefault(piece.path, FileSummary(piece))
        summary.add({**result["summary"], **NO_FINDINGS})
        summary.count(result["codes"])
        found.rows += result["findings"]
        found.codes.update(result["codes"])
    return found


def job_options(context: Context) -> dict[str, object]:
    """What the results of a check depend on."""
    return {"deep": context.request.deep, "format": context.format}


def run_job(context: Context) -> JobSummary:
    """Check everything."""
    found = collect(context, Job("verify", check, job_options(context), together=True))
    written = [
        write_table(f"{context.to}/{name}/part-0", table_of(name, rows), context.format)
        for name, rows in (
            ("segments", [file.as_row() for file in found.files.values()]),
            ("findings", found.rows),
        )
    ]
    return summarize(found, written)


def summarize(found: JobFindings, written: list[str]) -> JobSummary:
    """The numbers of all files, and the kinds of findings."""
    files = found.files.values()
    names = ("bytes", "batches", "records", "errors", "warnings", "notes")
    numbers = {"segments": len(files)}
    for name in names:
        sizes = (file.piece.size if name == "bytes" else file.numbers[name] for file in files)
        numbers[name] = sum(size or 0 for size in sizes)
    numbers["damaged"] = sum((file.numbers["errors"] or 0) > 0 for file in files)
    lines = [f"{n:>8}  {code}" for code, n in found.codes.most_common()]
    return JobSummary(
        numbers,
        written,
        lines + left_out(found.codes, found.rows),
        numbers["errors"],
        found.codes[FILE_VANISHED.name],
        unread_of(found.rows),
    )
