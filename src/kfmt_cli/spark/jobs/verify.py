"""verify: every batch of a fleet checked; the tables `segments` and `findings`, and a summary."""

from __future__ import annotations

from kfmt_cli.files.codes import FILE_VANISHED
from kfmt_cli.spark.checking import Summary as FileSummary
from kfmt_cli.spark.checking import check_piece, finding_row
from kfmt_cli.spark.jobs.context import MOST_KEPT, Context, Summary, table_of, write_table
from kfmt_cli.spark.plan import Piece
from kfmt_cli.spark.request import Request
from kfmt_cli.spark.work import Job, Ledger, Result, run


def check(request: Request, piece: Piece, to: str) -> Result:
    """What a piece holds and what is wrong with it."""
    del to
    summary, findings = check_piece(request, piece)
    return {
        "summary": summary.as_dict(),
        "findings": [finding_row(piece, it) for it in findings[:MOST_KEPT]],
        "outputs": [],
    }


def collect(context: Context, job: Job) -> tuple[list[FileSummary], list[dict[str, object]]]:
    """Do the job; a summary of each file, and the rows of all findings."""
    ledger = Ledger(context.to, job)
    ledger.open()
    pieces = ledger.plan(context.request, context.inputs())
    files: dict[str, FileSummary] = {}
    findings: list[dict[str, object]] = []
    for piece, result in run(context.spark, context.request, ledger, pieces, context.advance):
        part = FileSummary.of_dict(piece, result["summary"])
        if piece.path in files:
            files[piece.path].add(part)
        else:
            files[piece.path] = part
        findings += result["findings"]
    return list(files.values()), findings


def job_options(context: Context) -> dict[str, object]:
    """What the results of a check depend on."""
    return {"deep": context.request.deep, "format": context.format}


def run_job(context: Context) -> Summary:
    """Check everything."""
    files, findings = collect(context, Job("verify", check, job_options(context)))
    columns = [it.as_row() for it in files]
    written = [
        write_table(f"{context.to}/segments/part-0", table_of("segments", columns), context.format),
        write_table(
            f"{context.to}/findings/part-0", table_of("findings", findings), context.format
        ),
    ]
    return summarize(files, findings, written)


def summarize(
    files: list[FileSummary], findings: list[dict[str, object]], written: list[str]
) -> Summary:
    """The numbers of all files, and the kinds of findings."""
    names = ("bytes", "batches", "records", "errors", "warnings", "notes")
    numbers = {"segments": len(files)}
    for name in names:
        numbers[name] = sum(it.piece.size if name == "bytes" else getattr(it, name) for it in files)
    numbers["damaged"] = sum(it.errors > 0 for it in files)
    codes: dict[str, int] = {}
    for it in findings:
        codes[str(it["code"])] = codes.get(str(it["code"]), 0) + 1
    lines = [f"{n:>8}  {code}" for code, n in sorted(codes.items(), key=lambda kv: -kv[1])]
    vanished = sum(it["code"] == FILE_VANISHED.name for it in findings)
    return Summary(numbers, written, lines, numbers["errors"], vanished)
