"""verify: every batch of a fleet checked; the tables `segments` and `findings`, and a summary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kfmt_cli.files.codes import FILE_VANISHED
from kfmt_cli.spark.checking import Summary as FileSummary
from kfmt_cli.spark.checking import check_piece, count_severities, results_of
from kfmt_cli.spark.jobs.context import Context, Summary, left_out, table_of, unread_of, write_table
from kfmt_cli.spark.plan import Piece
from kfmt_cli.spark.request import Request
from kfmt_cli.spark.work import Job, Ledger, Result, run


@dataclass(slots=True)
class Found:
    """What a job collects. rows: of the findings that are kept. codes: how many there are of each,
    kept or not."""

    files: dict[str, FileSummary] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)


def check(request: Request, piece: Piece, to: str) -> Result:
    """What a piece holds and what is wrong with it."""
    del to
    summary, findings, edges = check_piece(request, piece)
    return {
        "summary": summary.as_dict(),
        **results_of(piece, findings, edges),
        "outputs": [],
    }


def collect(context: Context, job: Job) -> Found:
    """Do the job; a summary of each file, and all findings."""
    ledger = Ledger(context.to, job)
    ledger.open()
    pieces = ledger.plan(context.request, context.inputs())
    found = Found()
    for piece, result in run(context.spark, context.request, ledger, pieces, context.advance):
        numbers = {**result["summary"], **count_severities(result["codes"])}
        part = FileSummary.of_dict(piece, numbers)
        if piece.path in found.files:
            found.files[piece.path].add(part)
        else:
            found.files[piece.path] = part
        found.rows += result["findings"]
        found.codes.update(result["codes"])
    return found


def job_options(context: Context) -> dict[str, object]:
    """What the results of a check depend on."""
    return {"deep": context.request.deep, "format": context.format}


def run_job(context: Context) -> Summary:
    """Check everything."""
    found = collect(context, Job("verify", check, job_options(context)))
    written = [
        write_table(f"{context.to}/{name}/part-0", table_of(name, rows), context.format)
        for name, rows in (
            ("segments", [it.as_row() for it in found.files.values()]),
            ("findings", found.rows),
        )
    ]
    return summarize(found, written)


def summarize(found: Found, written: list[str]) -> Summary:
    """The numbers of all files, and the kinds of findings."""
    files = found.files.values()
    names = ("bytes", "batches", "records", "errors", "warnings", "notes")
    numbers = {"segments": len(files)}
    for name in names:
        numbers[name] = sum(it.piece.size if name == "bytes" else getattr(it, name) for it in files)
    numbers["damaged"] = sum(it.errors > 0 for it in files)
    lines = [f"{n:>8}  {code}" for code, n in found.codes.most_common()]
    return Summary(
        numbers,
        written,
        lines + left_out(found.codes, found.rows),
        numbers["errors"],
        found.codes[FILE_VANISHED.name],
        unread_of(found.rows),
    )
