"""Time and memory of a job's driver and of a worker, by number of segments.

python -m bench.scale             a million segments; --write updates docs/benchmarks.md
python -m bench.scale --large     ten million, too
python -m bench.scale --smoke     2,000, to see that it runs

The listing is simulated: segments of 1 MiB, a hundred in each partition. So are the results, of a
job without findings. The driver and each worker are new processes that start with kfmt loaded; no
segment is read, and there is no Spark.
"""

from __future__ import annotations

import argparse
import pickle
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.make_files import MIB
from bench.process import machine, write_table
from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.export.atomic_files import write_json_file
from kfmt_cli.arrow.export.table_file import open_table_file
from kfmt_cli.arrow.input_files import list_input_files, mount_split_files
from kfmt_cli.arrow.split_checks import encode_findings, segment_row
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.execution.file_split import format_split_name
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.rows.table_types import SEGMENTS_TABLE
from kfmt_cli.rows.types.segment_row import EMPTY_SUMMARY
from kfmt_cli.spark.job import JobDefinition, SplitResult
from kfmt_cli.spark.job_directory import JobDirectory, result_file_name
from kfmt_cli.spark.jobs.context import JobSummary
from kfmt_cli.spark.jobs.verify import check_splits_for_job, merge_file_summaries
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.split_processing import (
    TaskInputs,
    find_misaligned_files,
    group_splits_by_task,
    merge_file_findings,
)

CORES = 1000  # of the cluster
SEGMENTS_PER_PARTITION = 100
MODIFIED = 1_700_000_000_000_000_000
HEADING = (
    "| segments | listed | planned | shares made | results taken | table written "
    "| tasks | all shares | largest | a worker with it |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class DriverCosts:
    """What the driver needed."""

    steps: list[str]
    """After each step: CPU seconds since the start, and the peak of memory."""
    n_tasks: int
    n_bytes: int
    """Bytes of all task inputs."""
    largest: bytes


def segments(n: int) -> Iterator[StoredFile]:
    """A simulated listing."""
    for i in range(n):
        partition, index = divmod(i, SEGMENTS_PER_PARTITION)
        directory = f"/var/lib/kafka/data/some-topic-{partition // 10}-{partition % 10}"
        yield StoredFile(f"{directory}/{index * 1000:020}.log", MIB, MODIFIED + i)


def drive(n: int) -> DriverCosts:
    """Do the driver's work in `pipeline verify` before and after its tasks. The output of the tasks
    is written in between, without being counted."""
    request = replace(parse_request({}), paths=("/var/lib/kafka/data",), parallelism=CORES)
    steps, began = [], time.process_time()

    def record_step() -> None:
        steps.append(f"{time.process_time() - began:.1f} s, {peak():.0f} MB")

    files = list_input_files(request, list_files=lambda _: segments(n))
    record_step()
    with tempfile.TemporaryDirectory() as scratch:
        job_directory = JobDirectory(scratch, JobDefinition("verify", check_splits_for_job, {}))
        job_directory.check_stored_job()
        job_directory.plan_splits(request, files)
        indexes = job_directory.find_unprocessed_splits()
        task_splits = group_splits_by_task(
            job_directory.job, request, job_directory.splits.select_at(indexes)
        )
        record_step()
        n_bytes, largest = 0, b""
        for task_input in TaskInputs(request, task_splits):
            n_bytes, largest = n_bytes + len(task_input), max(largest, task_input, key=len)
        record_step()
        tasks_began = time.process_time()
        for splits in task_splits:
            name = result_file_name(splits, job_directory.run_number)
            write_json_file(f"{job_directory.results_directory}/{name}", dict(results(splits)))
        began += time.process_time() - tasks_began
        job_directory.record_results(indexes, task_splits)
        record_step()
        write_tables(job_directory, scratch)
        record_step()
    return DriverCosts(steps, len(task_splits), n_bytes, largest)


def results(splits: FileSplits) -> Iterator[tuple[str, SplitResult]]:
    """What a task writes about its splits: no findings."""
    counts = {"batches": 70, "records": 1050, "first_offset": 0, "last_offset": 1049}
    times = {"min_timestamp": MODIFIED // 10**6, "max_timestamp": MODIFIED // 10**6 + 1000}
    clean = {"summary": {**EMPTY_SUMMARY, **counts, **times}, **encode_findings([], None)}
    for split in splits:
        split_columns = [split.file_size, split.modified_ns, split.start, split.end]
        yield format_split_name(split.path, split.start), {**clean, "about": split_columns}


def write_tables(job_directory: JobDirectory, output: str) -> None:
    """Read all results as a job does: to find misaligned files, and to write the segments table."""
    assert not find_misaligned_files(
        job_directory.iter_results(lambda split: not split.is_entire_file)
    )
    with open_table_file(
        f"{output}/segments/part-0", arrow_schema(SEGMENTS_TABLE.leaves), "parquet"
    ) as table_file:
        file_findings, summary = merge_file_findings(job_directory.iter_results()), JobSummary()
        for split, totals in merge_file_summaries(
            (split, summary.add_result(result)) for split, result in file_findings
        ):
            table_file.add_rows([segment_row(split, totals)])


def worker_memory(task_input: bytes) -> float:
    """Memory of a worker with a task input, in MB."""
    splits, _ = pickle.loads(task_input)  # noqa: S301 (the driver's own)
    with mount_split_files(parse_request({}), splits):
        return peak()


def peak() -> float:
    """The peak memory of this process in MB. `getrusage` would report at least the memory of the
    parent process."""
    match = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def run_in_new_process(function: Callable[[Any], Any], argument: object) -> Any:
    """The result of a function in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, (argument,))


def rows(counts: list[int]) -> Iterator[str]:
    """The lines of the table."""
    base_memory = run_in_new_process(worker_memory, run_in_new_process(drive, 1).largest)
    for n in counts:
        driver: DriverCosts = run_in_new_process(drive, n)
        memory = run_in_new_process(worker_memory, driver.largest)
        worker = f"{memory:.1f} MB (with one segment: {base_memory:.1f} MB)"
        sizes = f"{driver.n_bytes / MIB:.1f} MB", f"{len(driver.largest) / 1024:.1f} KB"
        yield f"| {' | '.join([f'{n:,}', *driver.steps, f'{driver.n_tasks:,}', *sizes, worker])} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="2,000 segments")
    parser.add_argument("--large", action="store_true", help="ten million, too")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    counts = [2000] if arguments.smoke else [10**6, 10**7] if arguments.large else [10**6]
    lines = [f"{machine()}.", "", HEADING]
    print("\n".join(lines))
    for line in rows(counts):
        lines.append(line)
        print(line, flush=True)
    if arguments.write:
        write_table("scale", lines)


if __name__ == "__main__":
    main()
