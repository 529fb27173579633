"""export: records, batches or both as files ready for a data lake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from kfmt_cli.arrow.checking import results_of
from kfmt_cli.arrow.exporting import export_bundle
from kfmt_cli.arrow.lake import DEFAULTS, Lake, Output, lake_of
from kfmt_cli.arrow.manifest import ExportManifest
from kfmt_cli.arrow.output import remove
from kfmt_cli.arrow.table_file import table_file
from kfmt_cli.core.stores import listing
from kfmt_cli.errors import InputError
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Result, Work
from kfmt_cli.spark.jobs.context import Context, JobFindings, JobSummary, rows_table
from kfmt_cli.spark.ledger import Ledger
from kfmt_cli.spark.wanted import digest, in_folders
from kfmt_cli.spark.work import run

_MADE = re.compile(r"-\d{12}-[0-9a-f]{12}(-\d+)?\.\w+$")


def export(lake: Lake) -> Work:
    """The work on a bundle of pieces; the first result lists all files written for the bundle."""

    def work(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
        done = export_bundle(request, pieces, to, lake)
        results: list[Result] = []
        for made in done.pieces():
            kept = results_of(made.findings, made.edges)
            about = {"rows": made.rows, "offsets": made.offsets, "bundle": done.stem}
            results.append({**about, "outputs": [], **kept})
        results[0]["outputs"] = [output.name for output in done.outputs]
        results[0]["files"] = [asdict(output) for output in done.outputs]
        return results

    return work


def job_of(context: Context, request: Request, lake: Lake) -> Job:
    """The export job for a request."""
    asked, wanted = request.asked, request.asked.wanted
    options: dict[str, object] = {
        "format": context.format,
        "tables": list(lake.tables),
        "columns": list(request.columns),
        "schema": lake.schema,
        "bundling": asdict(lake.bundling),
        "target": lake.target,
        "offsets": [wanted.first_offset, wanted.last_offset],
        "times": [wanted.first_time, wanted.last_time],
        "payloads": repr(request.payloads) if request.payloads else None,
        "match": repr(wanted.match) if wanted.match else None,
        "last": asked.last,
        "committed": asked.committed,
        # A directory's selection may change with any of its files.
        "in_folders": digest(request.in_folders) if request.in_folders else None,
    }
    return Job("export", export(lake), options, bundling=lake.bundling)


def _sweep(to: str, tables: Iterable[str], outputs: set[str]) -> None:
    """Delete files of killed tasks that never reported them; other files have their data."""
    known = {output.rpartition("/")[2] for output in outputs}
    for table in tables:
        with suppress(InputError):  # no such directory
            for file in listing(f"{to}/{table}"):
                name = file.path.rpartition("/")[2]
                if _MADE.search(name) and name not in known:
                    remove(file.path)


def run_job(context: Context) -> JobSummary:
    """Export everything."""
    files = context.inputs()
    lake = lake_of({**DEFAULTS, **context.options}, context.format)
    share = min(context.request.max_split, lake.target)
    known = in_folders(context.request, files)
    request = replace(context.request, in_folders=known, max_split=share)
    ledger = Ledger(context.to, job_of(context, request, lake))
    ledger.open()
    ledger.plan(request, files)
    tables = lake.tables
    summary = JobSummary(dict.fromkeys(("segments", "bytes", *tables, "errors"), 0))
    manifest = ExportManifest()
    results = run(context.spark, request, ledger, context.advance)
    outputs = {result["bundle"]: result["outputs"] for _, result in results if "files" in result}
    place, schema = f"{context.to}/findings/part-0", rows_table("findings")
    with table_file(place, schema, context.format) as table:
        findings = JobFindings(table)
        for piece, result in results:
            summary.numbers["segments"] += piece.start == 0
            summary.numbers["bytes"] += piece.end - piece.start
            manifest.add_outputs(Output(**file) for file in result.get("files", ()))
            names = outputs[result["bundle"]]
            manifest.add_piece(piece, result["rows"], result["offsets"], names)
            for name, n in result["rows"].items():
                summary.numbers[name] += n
            findings.take(result)
    findings.sum_up(summary)
    summary.numbers["errors"] = summary.errors
    _sweep(context.to, tables, {name for names in outputs.values() for name in names})
    manifest.write(context.to)
    summary.written = [*(f"{context.to}/{name}" for name in tables), table.path]
    return summary
