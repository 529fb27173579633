"""compare: compares two copies of partitions by batches and checksums, and by records only where
those differ.

Tasks read the headers and checksums of both copies, as `verify` does, and store the batches as
columns. Then one task compares both copies of a partition, however many tasks wrote their columns.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from kfmt_cli.arrow.batch_columns import write_batch_columns
from kfmt_cli.arrow.export.exported_rows import (
    clear_row_group_cache,
    find_exported_files,
    is_exported_file,
    scan_exported_file,
)
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.broker.cluster.replica_comparison import ReplicaRelation
from kfmt_cli.checks.replica_comparison import MISSING_FROM_OTHER, ComparedRecord
from kfmt_cli.core.parallel import group_by_cost
from kfmt_cli.core.urls import format_display_name, path_in_listings
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import MIN_SPLIT_BYTES, ReadRequest
from kfmt_cli.render.style import format_thousands
from kfmt_cli.rows.documents import COMPARED_RANGE_ROW
from kfmt_cli.rows.table_types import FINDINGS_TABLE
from kfmt_cli.spark.copy_pairing import (
    CopyPairing,
    merge_adjacent_rows,
    require_single_directory,
)
from kfmt_cli.spark.job import JobDefinition, SplitResult
from kfmt_cli.spark.job_directory import JobDirectory, intermediate_file_name
from kfmt_cli.spark.jobs.context import JobContext, JobSummary, open_report_directory
from kfmt_cli.spark.pair_comparison import CopyPair, RangeStatus, compare_pair
from kfmt_cli.spark.tasks import run_in_tasks
from kfmt_cli.spark.worker import prepare_driver_environment, wrap_with_driver_kfmt

MAX_LISTED_RANGES = 20  # ranges that the summary lists
TASKS_PER_CORE = 4
_COUNT_NAME_BY_STATUS = {
    RangeStatus.IDENTICAL: "identical_ranges",
    RangeStatus.EXPLAINED: "explained_ranges",
    RangeStatus.MISSING: "missing_ranges",
    RangeStatus.DIFFERS: "differing_ranges",
}


def list_inputs(
    request: ReadRequest,
    report: Callable[[str], None] | None = None,
    *,
    require_topics: bool = False,
) -> FileSplits:
    """The segments and the table files of both copies; raises InputError. A topic without files in
    a copy counts as missing there."""
    del require_topics
    inputs: list[FileSplit] = []
    for path in request.paths:
        exported_files = find_exported_files(path)
        inputs += (
            list_input_files(replace(request, paths=(path,)), report)
            if exported_files is None
            else exported_files
        )
    return FileSplits(inputs).sorted_unique()


def store_batches(
    request: ReadRequest, splits: Sequence[FileSplit], output_directory: str
) -> list[SplitResult]:
    """Check splits as `verify` does and store their batches; scan table files for partitions."""
    segment_splits = [split for split in splits if not is_exported_file(split)]
    stored_results = iter(
        write_batch_columns(
            request, segment_splits, output_directory, intermediate_file_name(splits)
        )
        if segment_splits
        else ()
    )
    return [
        scan_exported_file(split, request.includes_topic)
        if is_exported_file(split)
        else next(stored_results)
        for split in splits
    ]


def prepare(context: JobContext) -> JobDirectory:
    """The directory of the job; raises UsageError if it has other results, or if there are not
    two copies to compare."""
    paths = context.request.paths
    if len(paths) != 2:
        raise UsageError("compare takes two paths, A and B")
    if path_in_listings(paths[0]) == path_in_listings(paths[1]):
        raise UsageError(
            f"compare takes two paths, A and B: {format_display_name(paths[0])} is given twice"
        )
    return open_report_directory(context, JobDefinition("compare", store_batches, {}))


def run_job(context: JobContext) -> JobSummary:
    """Compare every partition."""
    job_directory: JobDirectory = context.preparation or prepare(context)
    require_single_directory(context.request.paths, context.readable_inputs())
    summary = JobSummary(
        dict.fromkeys(("partitions", "segments", "bytes", "batches", "records"), 0)
    )
    n_ranges_by_status: Counter[str] = Counter()
    with (
        context.open_table_file("ranges/part-0", COMPARED_RANGE_ROW) as ranges_table,
        context.open_table_file("findings/part-0", FINDINGS_TABLE) as summary.findings_table,
    ):
        pairs = _pair_copies(context, job_directory, summary)
        listed_rows: list[dict[str, object]] = []
        for row in merge_adjacent_rows(_compare_in_tasks(context, pairs)):
            ranges_table.add_rows((row,))
            n_ranges_by_status[str(row["status"])] += 1
            if row["status"] != RangeStatus.IDENTICAL.value:
                listed_rows = _select_worst_rows((*listed_rows, row))
    summary.count_findings()
    summary.counts["partitions"] = len(pairs)
    for status, count_name in _COUNT_NAME_BY_STATUS.items():
        summary.counts[count_name] = n_ranges_by_status[status.value]
    n_different_ranges = (
        n_ranges_by_status[RangeStatus.MISSING.value]
        + n_ranges_by_status[RangeStatus.DIFFERS.value]
    )
    summary.counts["errors"] = summary.n_errors
    summary.n_errors += n_different_ranges
    summary.lines = [*map(_format_range_line, listed_rows), *summary.lines]
    n_omitted = (
        sum(n_ranges_by_status.values())
        - n_ranges_by_status[RangeStatus.IDENTICAL.value]
        - len(listed_rows)
    )
    if n_omitted:
        summary.lines.append(
            f"and {format_thousands(n_omitted)} more ranges that are not identical"
        )
    summary.output_paths = [ranges_table.path, summary.findings_table.path]
    return summary


def _pair_copies(
    context: JobContext, job_directory: JobDirectory, summary: JobSummary
) -> list[CopyPair]:
    """Both copies of each partition, after all batches have been stored."""
    pairing = CopyPairing(
        context.request.paths, job_directory.job.staging_directory(job_directory.path)
    )
    for split, result in context.process_inputs(job_directory, summary):
        summary.counts["segments"] += split.start == 0 and not is_exported_file(split)
        summary.counts["bytes"] += split.end - split.start
        summary.counts["records" if is_exported_file(split) else "batches"] += result["rows"]
        pairing.add_result(split, result)
    return list(pairing.iter_pairs())


def _compare_in_tasks(context: JobContext, pairs: list[CopyPair]) -> Iterator[ComparedRecord]:
    """The rows of all pairs, compared in tasks of about the same number of bytes."""
    if not pairs:
        return
    spark, request = context.spark, context.request
    task_bytes = sum(pair.n_bytes for pair in pairs) // (request.parallelism * TASKS_PER_CORE)
    partial_pairs = [
        partial_pair
        for pair in pairs
        for partial_pair in pair.iter_parts(max(task_bytes, MIN_SPLIT_BYTES))
    ]
    task_inputs = [
        pickle.dumps(task_pairs)
        for task_pairs in group_by_cost(partial_pairs, task_bytes, attrgetter("n_bytes"))
    ]
    compare_task = wrap_with_driver_kfmt(
        prepare_driver_environment(spark), partial(_compare_task, request)
    )
    for pickled_rows in run_in_tasks(
        spark, compare_task, task_inputs, f"kfmt compare into {context.output_directory}"
    ):
        yield from pickle.loads(pickled_rows)  # noqa: S301 (the tasks' own)


def _compare_task(request: ReadRequest, task_input: bytes) -> bytes:
    clear_row_group_cache()
    pairs: list[CopyPair] = pickle.loads(task_input)  # noqa: S301 (the driver's own)
    return pickle.dumps([row for pair in pairs for row in compare_pair(request, pair)])


def _select_worst_rows(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    status_order = [status.value for status in reversed(RangeStatus)]
    return sorted(rows, key=lambda row: status_order.index(str(row["status"])))[:MAX_LISTED_RANGES]


def _format_range_line(row: dict[str, object]) -> str:
    partition_name = (
        row["a"] or row["b"] if row["topic"] is None else f"{row['topic']}-{row['partition']}"
    )
    relation, status_text = ReplicaRelation(row["relation"]), str(row["status"])
    if status_text == RangeStatus.MISSING.value:
        status_text = f"missing in {'B' if relation is ReplicaRelation.ONLY_A else 'A'}"
    elif relation in (ReplicaRelation.ONLY_A, ReplicaRelation.ONLY_B):
        status_text = f"{relation.value}, {status_text}"
    reason_text = "" if row["why"] == MISSING_FROM_OTHER else f": {row['why']}"
    return (
        f"{partition_name}  {row['first_offset']}–{row['last_offset']}  {status_text}{reason_text}"
    )
