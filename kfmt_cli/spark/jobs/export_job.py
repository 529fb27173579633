"""export: records, batches or both as files, by topic and partition, ready for SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kfmt_cli.arrow.checking import count_severities, results_of
from kfmt_cli.arrow.exporting import export_piece
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
from kfmt_cli.spark.wanted import digest, in_folders
from kfmt_cli.spark.work import Job, Ledger, Result, Work, run


def export(tables: tuple[str, ...], format_: str) -> Work:
    """The work on pieces."""

    def work(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
        results: list[Result] = []
        for piece in pieces:
            done = export_piece(request, piece, to, tables, format_)
            kept = results_of(done.findings, done.edges)
            results.append({"outputs": done.outputs, "rows": done.rows, **kept})
        return results

    return work


def run_job(context: Context) -> JobSummary:
    """Export everything."""
    files = context.inputs()
    request = replace(context.request, in_folders=in_folders(context.request, files))
    asked, wanted = request.asked, request.asked.wanted
    tables = tuple(str(context.options.get("tables", "records")).split(","))
    options: dict[str, object] = {
        "format": context.format,
        "tables": list(tables),
        "columns": list(request.columns),
        "offsets": [wanted.first_offset, wanted.last_offset],
        "times": [wanted.first_time, wanted.last_time],
        "match": repr(wanted.match) if wanted.match else None,
        "last": asked.last,
        "committed": asked.committed,
        # What that is in each directory may change with any of its files.
        "in_folders": digest(request.in_folders) if request.in_folders else None,
    }
    job = Job("export", export(tables, context.format), options)
    ledger = Ledger(context.to, job)
    ledger.open()
    pieces = ledger.plan(request, files)
    summary = JobSummary(dict.fromkeys(("segments", "bytes", *tables, "errors"), 0))
    findings: list[dict[str, object]] = []
    counts: Counter[str] = Counter()
    for piece, result in run(context.spark, request, ledger, pieces, context.advance):
        summary.numbers["segments"] += piece.start == 0
        summary.numbers["bytes"] += piece.end - piece.start
        for table, n in result["rows"].items():
            summary.numbers[table] += n
        findings += result["findings"]
        counts.update(result["codes"])
    errors = count_severities(counts)["errors"] or 0
    summary.errors = summary.numbers["errors"] = errors
    summary.vanished = counts[FILE_VANISHED.name]
    summary.lines, summary.unread = left_out(counts, findings), unread_of(findings)
    summary.written = [f"{context.to}/{table}" for table in tables]
    place = f"{context.to}/findings/part-0"
    summary.written.append(write_table(place, table_of("findings", findings), context.format))
    return summary
