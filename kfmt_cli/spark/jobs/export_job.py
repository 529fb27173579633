"""export: records, batches or both as files ready for a data lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

from kfmt_cli.arrow.checking import results_of
from kfmt_cli.arrow.export.exporting import export_bundle
from kfmt_cli.arrow.export.lake import DEFAULTS, Lake, lake_of
from kfmt_cli.arrow.export.manifest import source_of
from kfmt_cli.arrow.topic_ids import TopicIds
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import count, grouped
from kfmt_cli.rows.table_types import FINDINGS
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Result, Work
from kfmt_cli.spark.jobs.context import Context, JobSummary
from kfmt_cli.spark.lake.lake_table import APPEND, LakeTable, Live
from kfmt_cli.spark.lake.table_formats import TableTarget
from kfmt_cli.spark.ledger import Ledger
from kfmt_cli.spark.wanted import in_folders, selected_by_tasks
from kfmt_cli.spark.work import run

MOST_TOLD = 10  # inputs that a dry run names


def export(lake: Lake, run: int = 0) -> Work:
    """The work on a bundle of pieces; the first result lists all files written for the bundle.

    run: its number is in the names of all files, so that a later run writes others.
    """

    def work(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
        done, ids = export_bundle(request, pieces, to, lake, str(run)), TopicIds()
        results: list[Result] = []
        for piece, made in zip(pieces, done.pieces(), strict=True):
            source = source_of(piece, ids, made.findings)
            about = {"input": source, "rows": made.rows, "offsets": made.offsets}
            results.append({**about, **results_of(made.findings, made.edges)})
        results[0]["outputs"] = [output.name for output in done.outputs]
        results[0]["files"] = [asdict(output) for output in done.outputs]
        return results

    return work


def lake_in(context: Context) -> Lake:
    """How the job writes; raises UsageError."""
    return lake_of({**DEFAULTS, **context.options}, context.format)


def job_of(context: Context, lake: Lake) -> Job:
    """The export job for a request."""
    request = context.request
    asked, wanted = request.asked, request.asked.wanted
    options: dict[str, object] = {
        "format": context.format,
        "tables": list(lake.tables),
        "columns": list(request.columns),
        "schema": lake.schema,
        "bundling": asdict(lake.bundling),
        "target": lake.target,
        "table": asdict(target) if (target := target_of(context)) else None,
        "offsets": [wanted.first_offset, wanted.last_offset],
        "times": [wanted.first_time, wanted.last_time],
        "payloads": repr(request.payloads) if request.payloads else None,
        "match": repr(wanted.match) if wanted.match else None,
        "last": asked.last,
        "committed": asked.committed,
    }
    return Job("export", export(lake), options, bundling=lake.bundling)


def target_of(context: Context) -> TableTarget | None:
    """The tables of a table format that the job writes to."""
    named, catalog = context.options.get("table"), context.options.get("catalog") or ""
    if catalog and not named:
        raise UsageError("--catalog needs --table iceberg")
    return TableTarget(named, catalog) if named else None


def prepare(context: Context) -> LakeTable:
    """The table that the job writes to; raises UsageError if its rows are others."""
    lake = lake_in(context)
    mode = context.options.get("mode") or APPEND
    ledger = Ledger(context.to, job_of(context, lake), is_dry=context.is_dry)
    ledger.open()
    request, tables = context.request, target_of(context)
    if tables is not None:
        tables.check(context.to, context.format)
    target = LakeTable(ledger, mode, request.paths, request.topics, context.format, tables)
    target.open()
    ledger.job = replace(ledger.job, work=export(lake, ledger.run))
    return target


def _planned(context: Context) -> tuple[LakeTable, Request]:
    """The table with the plan of this run, and the request with what the logs had to say."""
    target: LakeTable = context.prepared or prepare(context)
    lake = lake_in(context)
    share = min(context.request.max_split, lake.target)
    asks = in_folders if context.spark is None else partial(selected_by_tasks, context.spark)
    known = asks(context.request, context.inputs())
    request = replace(context.request, in_folders=known, max_split=share)
    target.plan(request, context.listed())
    return target, request


def forecast(context: Context) -> Iterator[str]:
    """What the run would remove, as text."""
    target, _ = _planned(context)
    found = [result for _, _, result, _ in target.removed() if target.is_gone(result)]
    if found:
        n_rows = sum(sum(result.rows.values()) for result in found)
        inputs = count(len(found), "input that is gone", "inputs that are gone")
        yield f"would remove {count(n_rows, 'row')} of {inputs}:"
        for result in found[:MOST_TOLD]:
            yield f"  {result.input.path}: {grouped(sum(result.rows.values()))}"
        if len(found) > MOST_TOLD:
            yield f"  and {grouped(len(found) - MOST_TOLD)} more"


def run_job(context: Context) -> JobSummary:
    """Export everything."""
    target, request = _planned(context)
    ledger, tables = target.ledger, lake_in(context).all_tables(context.inputs())
    summary = JobSummary(dict.fromkeys(("segments", "bytes", *tables, "errors"), 0))
    results = run(context.spark, request, ledger, context.advance)
    live = Live(bool(ledger.stale))
    with context.table_file("findings/part-0", FINDINGS) as summary.table:
        for piece, result in results:
            summary.numbers["segments"] += piece.start == 0
            summary.numbers["bytes"] += piece.end - piece.start
            for name, n in result.rows.items():
                summary.numbers[name] += n
            summary.take(result)
            live.take(piece, result)
    summary.sum_up()
    summary.numbers["errors"] = summary.errors
    context.lease.check(context.to)
    target.commit(live)
    summary.lines += target.told()
    summary.written = [*(f"{context.to}/{name}" for name in tables), summary.table.path]
    return summary
