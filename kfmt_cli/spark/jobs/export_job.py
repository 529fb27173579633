"""export: records, batches or both as files ready for a data lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

from kfmt_cli.arrow.export.file_groups import export_file_group
from kfmt_cli.arrow.export.lake_options import DEFAULT_LAKE_OPTIONS, LakeOptions, parse_lake_options
from kfmt_cli.arrow.export.manifest import manifest_source
from kfmt_cli.arrow.split_checks import encode_findings
from kfmt_cli.arrow.topic_ids import TopicIdCache
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.render.style import format_count, format_thousands
from kfmt_cli.rows.table_types import FINDINGS_TABLE, RECORDS_TABLE
from kfmt_cli.spark.job import JobDefinition, SplitFunction, SplitResult
from kfmt_cli.spark.job_directory import EXPORT_JOB_NAME, JobDirectory
from kfmt_cli.spark.jobs.context import JobContext, JobSummary
from kfmt_cli.spark.lake.lake_table import APPEND_MODE, LakeTable
from kfmt_cli.spark.lake.removals import InputObservations
from kfmt_cli.spark.lake.table_formats import TargetTables
from kfmt_cli.spark.selections import find_selections_in_tasks, selections_by_directory
from kfmt_cli.spark.split_processing import process_job_splits
from kfmt_cli.spark.stored_options import rc1_text, record_filter_values, stored_payload_formats

MAX_LISTED_INPUTS = 10  # inputs that a dry run lists


def create_export_function(options: LakeOptions, run_number: int = 0) -> SplitFunction:
    """A function that exports splits as a file group; its first result lists all files of the
    group.

    run_number: part of the names of all files, so that a later run writes others.
    """

    def export_splits(
        request: ReadRequest, splits: Sequence[FileSplit], output_directory: str
    ) -> list[SplitResult]:
        group_export = export_file_group(
            request, splits, output_directory, options, str(run_number)
        )
        topic_ids = TopicIdCache()
        results: list[SplitResult] = []
        for split, split_export in zip(splits, group_export.iter_split_exports(), strict=True):
            source_fields = manifest_source(split, topic_ids, split_export.findings)
            input_fields = {
                "input": source_fields,
                "rows": split_export.n_rows_by_table,
                "offsets": split_export.offset_bounds,
                "epoch": split_export.latest_epoch,
            }
            results.append(
                {**input_fields, **encode_findings(split_export.findings, split_export.boundary)}
            )
        results[0]["outputs"] = [
            exported_file.name for exported_file in group_export.exported_files
        ]
        results[0]["files"] = [
            asdict(exported_file) for exported_file in group_export.exported_files
        ]
        return results

    return export_splits


def parse_job_lake_options(context: JobContext) -> LakeOptions:
    """The lake options of the job; raises UsageError."""
    return parse_lake_options({**DEFAULT_LAKE_OPTIONS, **context.options}, context.file_format)


def create_export_job(context: JobContext, lake_options: LakeOptions) -> JobDefinition:
    """The export job for a request."""
    request = context.request
    selection_options, selection = request.selection_options, request.selection_options.selection
    options: dict[str, object] = {
        "format": context.file_format,
        "tables": list(lake_options.table_names),
        "columns": list(request.columns),
        "schema": lake_options.schema_name,
        "bundling": asdict(lake_options.file_grouping),
        "target": lake_options.target_file_bytes,
        "table": asdict(target_tables) if (target_tables := find_target_tables(context)) else None,
        "offsets": [selection.first_offset, selection.last_offset],
        "times": [selection.first_time, selection.last_time],
        "payloads": stored_payload_formats(request.payload_declarations),
        "match": record_filter_values(selection.record_filter),
        "last": selection_options.n_last_records,
        "committed": selection_options.only_committed,
    }
    rc1_options: dict[str, object] = {
        "payloads": rc1_text(request.payload_declarations)
        if request.payload_declarations
        else None,
        "match": rc1_text(selection.record_filter) if selection.record_filter else None,
    }
    return JobDefinition(
        EXPORT_JOB_NAME,
        create_export_function(lake_options),
        options,
        rc1_options,
        grouping=lake_options.file_grouping,
    )


def find_target_tables(context: JobContext) -> TargetTables | None:
    """The tables of a table format that the job commits to, if any; raises UsageError."""
    table_format, catalog = context.options.get("table"), context.options.get("catalog") or ""
    if catalog and not table_format:
        raise UsageError("--catalog needs --table iceberg")
    return TargetTables(table_format, catalog) if table_format else None


def prepare(context: JobContext) -> LakeTable:
    """The table that the job writes to; raises UsageError if it has rows of other options."""
    lake_options = parse_job_lake_options(context)
    mode = context.options.get("mode") or APPEND_MODE
    job_directory = JobDirectory(
        context.output_directory,
        create_export_job(context, lake_options),
        is_dry_run=context.is_dry_run,
    )
    job_directory.check_stored_job()
    context.request = _with_stored_columns(context.request, job_directory.missing_columns)
    request, target_tables = context.request, find_target_tables(context)
    if target_tables is not None:
        target_tables.check_options(context.output_directory, context.file_format)
    lake_table = LakeTable(
        job_directory, mode, request.paths, request.topics, context.file_format, target_tables
    )
    lake_table.load_state()
    job_directory.job = replace(
        job_directory.job,
        process_splits=create_export_function(lake_options, job_directory.run_number),
    )
    return lake_table


def _with_stored_columns(request: ReadRequest, missing_columns: frozenset[str]) -> ReadRequest:
    """The request with the columns of records that an existing table has: Iceberg's field ids
    follow from all of them."""
    if request.columns or not missing_columns:
        return request
    columns = (column.name for column in RECORDS_TABLE.leaves)
    return replace(request, columns=tuple(name for name in columns if name not in missing_columns))


def _plan_run(context: JobContext) -> tuple[LakeTable, ReadRequest]:
    """The table with the plan of this run, and the request with selections found in the logs."""
    lake_table: LakeTable = context.preparation or prepare(context)
    lake_options = parse_job_lake_options(context)
    task_bytes = min(context.request.max_split_bytes, lake_options.target_file_bytes)
    find_selections = (
        selections_by_directory
        if context.spark is None
        else partial(find_selections_in_tasks, context.spark)
    )
    selections = find_selections(context.request, context.readable_inputs())
    request = replace(
        context.request, selection_by_directory=selections, max_split_bytes=task_bytes
    )
    lake_table.plan_run(request, context.list_inputs())
    return lake_table, request


def forecast(context: JobContext) -> Iterator[str]:
    """Lines about the rows that the run would remove."""
    lake_table, _ = _plan_run(context)
    results_of_deleted_inputs = [
        result
        for _, _, result, _ in lake_table.iter_removed_results()
        if lake_table.is_input_gone(result)
    ]
    if results_of_deleted_inputs:
        n_rows = sum(sum(result.rows.values()) for result in results_of_deleted_inputs)
        inputs_text = format_count(
            len(results_of_deleted_inputs), "input that is gone", "inputs that are gone"
        )
        yield f"would remove {format_count(n_rows, 'row')} of {inputs_text}:"
        for result in results_of_deleted_inputs[:MAX_LISTED_INPUTS]:
            yield f"  {result.input.path}: {format_thousands(sum(result.rows.values()))}"
        if len(results_of_deleted_inputs) > MAX_LISTED_INPUTS:
            yield (
                f"  and {format_thousands(len(results_of_deleted_inputs) - MAX_LISTED_INPUTS)} more"
            )


def run_job(context: JobContext) -> JobSummary:
    """Export all inputs, and commit the result."""
    lake_table, request = _plan_run(context)
    job_directory = lake_table.job_directory
    table_names = parse_job_lake_options(context).all_tables(context.readable_inputs())
    summary = JobSummary(dict.fromkeys(("segments", "bytes", *table_names, "errors"), 0))
    results = process_job_splits(context.spark, request, job_directory, context.on_progress)
    observations = InputObservations(bool(job_directory.stale_splits_by_file))
    with context.open_table_file("findings/part-0", FINDINGS_TABLE) as summary.findings_table:
        for split, result in results:
            summary.counts["segments"] += split.start == 0
            summary.counts["bytes"] += split.end - split.start
            for table_name, n_rows in result.rows.items():
                summary.counts[table_name] += n_rows
            summary.add_result(result)
            observations.add_result(split, result)
    summary.count_findings()
    summary.counts["errors"] = summary.n_errors
    context.directory_lease.raise_if_lost(context.output_directory)
    lake_table.commit_run(observations)
    summary.lines += lake_table.describe_retained_rows()
    summary.output_paths = [
        *(f"{context.output_directory}/{name}" for name in table_names),
        summary.findings_table.path,
    ]
    return summary
