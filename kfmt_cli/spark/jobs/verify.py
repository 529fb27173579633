"""verify: checks every batch; writes tables of segments and findings, and a summary.

segments: the same, but only the table of segments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby

from kfmt_cli.arrow.split_checks import check_splits, count_severities, encode_findings, segment_row
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.rows.table_types import FINDINGS_TABLE, SEGMENTS_TABLE
from kfmt_cli.rows.types.segment_row import EMPTY_SUMMARY, SegmentSummary, merge_summaries
from kfmt_cli.spark.job import JobDefinition, SplitResult, StoredResult
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.jobs.context import JobContext, JobSummary, open_report_directory

SUMMED_COUNT_NAMES = ("batches", "records", "errors", "warnings", "notes")


def check_splits_for_job(
    request: ReadRequest, splits: Sequence[FileSplit], output_directory: str
) -> list[SplitResult]:
    """Check splits; returns their totals and findings."""
    del output_directory
    return [
        {
            "summary": check_result.summary,
            **encode_findings(check_result.findings, check_result.boundary),
        }
        for check_result in check_splits(request, splits)
    ]


def prepare(context: JobContext, name: str = "verify") -> JobDirectory:
    """The directory of the job; raises UsageError if it has other results."""
    return open_report_directory(
        context,
        JobDefinition(name, check_splits_for_job, {"deep": context.request.decodes_records}),
    )


def prepare_segments(context: JobContext) -> JobDirectory:
    """Like `prepare`, for the job `segments`, which writes no findings."""
    return prepare(context, "segments")


def run_job(context: JobContext) -> JobSummary:
    """Check every file."""
    job_directory: JobDirectory = context.preparation or prepare(context)
    row_types = (
        (SEGMENTS_TABLE,)
        if job_directory.job.name == "segments"
        else (SEGMENTS_TABLE, FINDINGS_TABLE)
    )
    summary = JobSummary(dict.fromkeys(("segments", "bytes", *SUMMED_COUNT_NAMES, "damaged"), 0))
    results, counts = context.process_inputs(job_directory, summary), summary.counts
    with ExitStack() as exit_stack:
        table_file_by_name = {
            row_type.name: exit_stack.enter_context(
                context.open_table_file(f"{row_type.name}/part-0", row_type)
            )
            for row_type in row_types
        }
        summary.findings_table = table_file_by_name.get("findings")
        for split, segment_summary in merge_file_summaries(results):
            table_file_by_name["segments"].add_rows([segment_row(split, segment_summary)])
            counts["segments"] += 1
            counts["bytes"] += split.file_size
            for count_name in SUMMED_COUNT_NAMES:
                counts[count_name] += segment_summary[count_name] or 0
            counts["damaged"] += (segment_summary["errors"] or 0) > 0
    summary.output_paths = [file.path for file in table_file_by_name.values()]
    summary.lines = [f"{n:>8}  {code}" for code, n in summary.count_by_code.most_common()]
    summary.count_findings()
    return summary


def merge_file_summaries(
    results: Iterable[tuple[FileSplit, StoredResult]],
) -> Iterator[tuple[FileSplit, SegmentSummary]]:
    """The last split of each file, with the merged summary of all its splits."""
    for _, split_results in groupby(results, key=lambda pair: pair[0].path):
        file_summary, count_by_code = EMPTY_SUMMARY, Counter[str]()
        for split, result in split_results:
            last_split, file_summary = split, merge_summaries(file_summary, result.summary)
            count_by_code.update(result.codes)
        yield last_split, {**file_summary, **count_severities(count_by_code)}
