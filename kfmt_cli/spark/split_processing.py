"""Distribute a job's splits to tasks, and combine their results."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, overload

from kfmt_cli.arrow.export.atomic_files import write_json_file
from kfmt_cli.arrow.input_files import mount_split_files
from kfmt_cli.arrow.split_checks import decode_boundary, decode_finding, finding_row
from kfmt_cli.core.native.build_state import interpreted_modules
from kfmt_cli.execution.file_split import (
    FileSplit,
    format_split_name,
    group_splits,
    name_file_in_errors,
)
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest, bytes_per_task
from kfmt_cli.execution.split_merger import SplitMerger, needs_whole_read
from kfmt_cli.findings.codes import UNREADABLE_FILE_CODES
from kfmt_cli.findings.finding import sort_findings
from kfmt_cli.render.style import format_thousands
from kfmt_cli.spark.job import JobDefinition, StoredResult, split_identity
from kfmt_cli.spark.job_directory import JobDirectory, result_file_name
from kfmt_cli.spark.selections import selections_for_splits
from kfmt_cli.spark.tasks import run_in_tasks
from kfmt_cli.spark.worker import WORKER_LOGGER, prepare_driver_environment, wrap_with_driver_kfmt

if TYPE_CHECKING:
    from kfmt_cli.spark.worker import Spark

INTERPRETED_MARKER = b"slow"


def process_job_splits(
    spark: Spark,
    request: ReadRequest,
    job_directory: JobDirectory,
    on_progress: Callable[[int], None],
) -> Iterator[tuple[FileSplit, StoredResult]]:
    """Process the splits without a result; returns the results of all splits, in order, with the
    findings at the boundaries between them.

    on_progress: called with the number of further input bytes processed.
    """
    _process_remaining_splits(spark, request, job_directory, on_progress)
    misaligned_files = find_misaligned_files(
        job_directory.iter_results(lambda split: not split.is_entire_file)
    )
    if misaligned_files:
        job_directory.undo_splits(misaligned_files)
        _process_remaining_splits(spark, request, job_directory, on_progress)
    return merge_file_findings(job_directory.iter_results())


def find_misaligned_files(results: Iterable[tuple[FileSplit, StoredResult]]) -> set[str]:
    """The files in which a split does not end where the next one begins."""
    return {
        path
        for path, file_results in groupby(results, lambda pair: pair[0].path)
        if needs_whole_read(decode_boundary(result) for _, result in file_results)
    }


def merge_file_findings(
    results: Iterable[tuple[FileSplit, StoredResult]],
) -> Iterator[tuple[FileSplit, StoredResult]]:
    """The results with the findings at the boundaries between splits of a file.

    Their `findings` are rows of that table, with batches numbered from the start of the file.
    """
    for path, file_results in groupby(results, lambda pair: pair[0].path):
        merger = SplitMerger(path)
        for split, result in file_results:
            findings = [
                merger.with_file_batch_index(decode_finding(row)) for row in result.findings
            ]
            count_by_code: Counter[str] = Counter(result.codes)
            if boundary := decode_boundary(result):
                boundary_findings = list(merger.merge_boundary(boundary))
                findings = sort_findings([*boundary_findings, *findings])
                count_by_code.update(finding.code.name for finding in boundary_findings)
            finding_rows = [finding_row(split, finding) for finding in findings]
            yield split, StoredResult(result, findings=finding_rows, codes=count_by_code)


def _process_remaining_splits(
    spark: Spark,
    request: ReadRequest,
    job_directory: JobDirectory,
    on_progress: Callable[[int], None],
) -> None:
    """Process the splits without a result."""
    split_indexes = job_directory.find_unprocessed_splits()
    if split_indexes:
        splits_by_task = group_splits_by_task(
            job_directory.job, request, job_directory.splits.select_at(split_indexes)
        )
        _run_tasks(spark, request, job_directory, splits_by_task, on_progress)
        job_directory.record_results(split_indexes, splits_by_task)


def group_splits_by_task(
    job: JobDefinition, request: ReadRequest, splits: FileSplits
) -> list[FileSplits]:
    """The splits grouped by task."""
    task_bytes = bytes_per_task(request, splits)
    split_groups = (
        group_splits(splits, task_bytes)
        if job.grouping is None
        else job.grouping.iter_file_groups(splits, task_bytes)
    )
    return list(splits.iter_groups(split_groups))


def _run_tasks(
    spark: Spark,
    request: ReadRequest,
    job_directory: JobDirectory,
    splits_by_task: list[FileSplits],
    on_progress: Callable[[int], None],
) -> None:
    """Run a task for each group of splits."""
    results_directory = job_directory.results_directory
    output_directory = job_directory.job.staging_directory(job_directory.path)
    task_request = replace(request, selection_by_directory={})
    process_task_input = wrap_with_driver_kfmt(
        prepare_driver_environment(spark),
        partial(
            _process_task,
            job_directory.job,
            task_request,
            output_directory,
            results_directory,
            job_directory.run_number,
        ),
    )
    total_bytes, n_tasks = sum(splits.n_bytes for splits in splits_by_task), len(splits_by_task)
    reported_bytes = 0

    def on_finished(n_finished: int) -> None:
        nonlocal reported_bytes
        processed_bytes = total_bytes * n_finished // n_tasks
        on_progress(processed_bytes - reported_bytes)
        reported_bytes = processed_bytes

    description = (
        f"kfmt {job_directory.job.name}: {format_thousands(total_bytes)} bytes into "
        f"{job_directory.path}"
    )
    n_interpreted = sum(
        task_output == INTERPRETED_MARKER
        for task_output in run_in_tasks(
            spark, process_task_input, TaskInputs(request, splits_by_task), description, on_finished
        )
    )
    if n_interpreted:
        WORKER_LOGGER.warning(
            "kfmt: %d of %d tasks ran without kfmt's compiled modules, which takes up to 80 times "
            "as long: ship an environment with an installed kfmt-cli (docs/spark.md, A cluster)",
            *(n_interpreted, n_tasks),
        )


@dataclass(frozen=True, slots=True)
class TaskInputs(Sequence[bytes]):
    """The input of each task, pickled only when it is sent: all inputs for a million segments take
    100 MB."""

    request: ReadRequest
    splits_by_task: Sequence[FileSplits]

    def __len__(self) -> int:
        return len(self.splits_by_task)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return TaskInputs(self.request, self.splits_by_task[index])
        return pickle_task_input(self.request, self.splits_by_task[index])


def pickle_task_input(request: ReadRequest, splits: FileSplits) -> bytes:
    """The input of a task: its splits, and the selections for their directories. It is pickled here
    because a worker must import kfmt before it unpickles them."""
    return pickle.dumps((splits, selections_for_splits(splits, request.selection_by_directory)))


def _process_task(
    job: JobDefinition,
    request: ReadRequest,
    output_directory: str,
    results_directory: str,
    run_number: int,
    task_input: bytes,
) -> bytes:
    """Process the splits of a task and store their results; returns INTERPRETED if it ran
    interpreted modules. task_input: see `pickle_task_input`."""
    splits, selection_by_directory = pickle.loads(task_input)  # noqa: S301 (the driver's own)
    request = replace(request, selection_by_directory=selection_by_directory)
    with name_file_in_errors(splits[0]), mount_split_files(request, splits):
        results = job.process_splits(request, splits, output_directory)
    stored_results = {}
    for split, result in zip(splits, results, strict=True):
        # An input that could not be read is read again by the next run.
        stored_identity = None if is_input_unreadable(result) else split_identity(split, request)
        stored_results[format_split_name(split.path, split.start)] = {
            **result,
            "about": stored_identity,
        }
    write_json_file(f"{results_directory}/{result_file_name(splits, run_number)}", stored_results)
    return INTERPRETED_MARKER if interpreted_modules() else b""


def is_input_unreadable(result: Mapping[str, Any]) -> bool:
    """Whether an input could not be read, or not to its end."""
    return any(code.name in result["codes"] for code in UNREADABLE_FILE_CODES)
