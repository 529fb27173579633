"""restore: rebuilds the segments of partitions from exported records."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

from kfmt_cli.arrow.export.exported_rows import (
    PartitionRowRange,
    clear_row_group_cache,
    scan_exported_file,
)
from kfmt_cli.arrow.restore.partition_restorer import RestoredCounts
from kfmt_cli.arrow.restore.restored_partition import (
    LOG_DIRECTORY_NAME,
    ExportedPartition,
    find_table_files,
    group_files_by_partition,
    group_partitions_sharing_files,
    restore_partition,
)
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.errors import KfmtError, UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.render.style import format_count, format_thousands
from kfmt_cli.spark.job import JobDefinition, SplitResult
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.jobs.context import JobContext, JobSummary, open_report_directory
from kfmt_cli.spark.tasks import run_in_tasks
from kfmt_cli.spark.worker import prepare_driver_environment, wrap_with_driver_kfmt
from kfmt_cli.topics import CLUSTER_METADATA
from kfmt_cli.writers.output import require_local_destination

TASKS_PER_CORE = 4
MAX_LISTED_LOSSES = 20  # losses that the summary lists


def list_inputs(
    request: ReadRequest,
    report: Callable[[str], None] | None = None,
    *,
    require_topics: bool = False,
) -> FileSplits:
    """The files of the tables of records and batches; raises InputError, UsageError."""
    del report, require_topics
    inputs: list[FileSplit] = []
    for path in request.paths:
        table_files = find_table_files(path)
        if table_files is None:
            raise UsageError(f"{format_display_name(path)}: no table of records in Parquet files")
        inputs += table_files
    return FileSplits(inputs).sorted_unique()


def find_row_ranges(
    request: ReadRequest, splits: Sequence[FileSplit], output_directory: str
) -> list[SplitResult]:
    """The partitions with rows in each file, and their row ranges."""
    del output_directory
    topics = request.topics

    def includes_topic(topic: str | None) -> bool:
        # A broker does not start on a metadata log without its snapshots, which no table has.
        return topic in topics if topics else topic != CLUSTER_METADATA

    return [scan_exported_file(split, includes_topic) for split in splits]


def prepare(context: JobContext) -> JobDirectory:
    """The directory of the job; raises UsageError if it has other results, or is in a store."""
    require_local_destination(context.output_directory)
    options = {"compression": context.options.get("compression")}
    return open_report_directory(context, JobDefinition("restore", find_row_ranges, options))


def run_job(context: JobContext) -> JobSummary:
    """Restore every partition."""
    job_directory: JobDirectory = context.preparation or prepare(context)
    summary = JobSummary()
    partitions = _find_partitions(context, job_directory, summary)
    total_counts, n_restored_partitions = RestoredCounts(), 0
    for partition, outcome in _restore_in_tasks(context, partitions):
        if isinstance(outcome, str):
            summary.unreadable_inputs.append(f"{partition.directory_name}: {outcome}")
            continue
        n_restored_partitions += 1
        total_counts.add_counts(outcome)
        summary.lines += [
            f"{partition.directory_name}: {loss}" for loss in outcome.describe_losses()
        ]
    if (n_omitted := len(summary.lines) - MAX_LISTED_LOSSES) > 0:
        summary.lines[MAX_LISTED_LOSSES:] = [f"and {format_thousands(n_omitted)} more"]
    summary.count_findings()
    summary.lines += _describe_unchanged_batches(partitions, total_counts)
    summary.counts = {"partitions": n_restored_partitions, **asdict(total_counts)}
    summary.n_errors += total_counts.n_errors
    summary.output_paths = [f"{context.output_directory}/{LOG_DIRECTORY_NAME}"]
    return summary


def _find_partitions(
    context: JobContext, job_directory: JobDirectory, summary: JobSummary
) -> list[ExportedPartition]:
    """The partitions with records, and their files."""

    def iter_file_ranges() -> Iterator[tuple[FileSplit, str, list[PartitionRowRange]]]:
        for split, result in context.process_inputs(job_directory, summary):
            yield (
                split,
                result["table"],
                [PartitionRowRange(*range_values) for range_values in result["spans"]],
            )

    return group_files_by_partition(iter_file_ranges())


def _restore_in_tasks(
    context: JobContext, partitions: list[ExportedPartition]
) -> Iterator[tuple[ExportedPartition, RestoredCounts | str]]:
    """The outcome of each partition: counts, or an error message. Each task restores about the same
    number of records."""
    if not partitions:
        return
    spark, codec_name = context.spark, context.options.get("compression")
    codec_index = None if codec_name is None else CODECS.index(codec_name)
    records_per_task = sum(partition.n_records for partition in partitions)
    records_per_task //= context.request.parallelism * TASKS_PER_CORE
    partitions_by_task: list[list[ExportedPartition]] = []
    for partition_group in group_partitions_sharing_files(partitions):
        if (
            partitions_by_task
            and sum(
                partition.n_records for partition in (*partitions_by_task[-1], *partition_group)
            )
            <= records_per_task
        ):
            partitions_by_task[-1] += partition_group
        else:
            partitions_by_task.append(partition_group)
    restore_task = wrap_with_driver_kfmt(
        prepare_driver_environment(spark),
        partial(_restore_task, context.output_directory, codec_index),
    )
    task_inputs = [pickle.dumps(group) for group in partitions_by_task]
    task_outputs = run_in_tasks(
        spark, restore_task, task_inputs, f"kfmt restore into {context.output_directory}"
    )
    for task_partitions, pickled_outcomes in zip(partitions_by_task, task_outputs, strict=True):
        yield from zip(task_partitions, pickle.loads(pickled_outcomes), strict=True)  # noqa: S301 (the tasks' own)


def _restore_task(output_directory: str, codec_index: int | None, task_input: bytes) -> bytes:
    clear_row_group_cache()
    outcomes: list[RestoredCounts | str] = []
    for partition in pickle.loads(task_input):  # noqa: S301 (the driver's own)
        try:
            outcomes.append(restore_partition(partition, output_directory, codec_index))
        except KfmtError as error:
            outcomes.append(str(error))
    return pickle.dumps(outcomes)


def _describe_unchanged_batches(
    partitions: list[ExportedPartition], total_counts: RestoredCounts
) -> Iterator[str]:
    """Lines about what could be restored unchanged, and what not."""
    n_without_batches = sum(not partition.batch_files for partition in partitions)
    if total_counts.unchanged_batches:
        unchanged_text = format_thousands(total_counts.unchanged_batches)
        yield (
            f"{unchanged_text} of {format_count(total_counts.batches, 'batch', 'batches')} "
            "unchanged"
        )
    if n_without_batches:
        yield (
            f"{format_count(n_without_batches, 'partition')} without a table of batches: codecs, "
            "leader epochs and empty batches are lost"
        )
