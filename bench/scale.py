"""What a job takes of its driver and of a worker, by the number of segments.

python -m bench.scale             a million segments; --write puts the table in docs/benchmarks.md
python -m bench.scale --large     ten million, too
python -m bench.scale --smoke     2,000, to see that it runs

The listing is simulated: segments of 1 MiB, a hundred in each partition; so are the results, of a
job without findings. The driver and the workers are processes of their own, which begin with kfmt
loaded; no segment is read, and there is no Spark.
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
from bench.process import machine, put
from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.export.atomic_files import write_json_file
from kfmt_cli.arrow.export.table_file import open_table_file
from kfmt_cli.arrow.input_files import list_input_files, mount_split_files
from kfmt_cli.arrow.split_checks import encode_findings, segment_row
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.execution.file_split import format_split_name
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.rows.table_types import SEGMENTS_TABLE
from kfmt_cli.rows.types.segment_row import EMPTY_NUMBERS
from kfmt_cli.spark.job import JobDefinition, SplitResult
from kfmt_cli.spark.job_directory import JobDirectory, result_file_name
from kfmt_cli.spark.jobs.context import JobSummary
from kfmt_cli.spark.jobs.verify import check_for_job, sum_by_file
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.split_processing import (
    TaskInputs,
    find_misaligned_files,
    group_by_task,
    merge_file_findings,
)

CORES = 1000  # of the cluster
IN_PARTITION = 100
MODIFIED = 1_700_000_000_000_000_000
HEAD = (
    "| segments | listed | planned | shares made | results taken | table written "
    "| tasks | all shares | largest | a worker with it |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Driven:
    """What the driver took."""

    steps: list[str]
    """CPU seconds from the start, and the peak of memory until then."""
    n_tasks: int
    n_bytes: int
    """Bytes of all shares."""
    largest: bytes


def segments(n: int) -> Iterator[StoredFile]:
    """A listing."""
    for i in range(n):
        partition, number = divmod(i, IN_PARTITION)
        folder = f"/var/lib/kafka/data/some-topic-{partition // 10}-{partition % 10}"
        yield StoredFile(f"{folder}/{number * 1000:020}.log", MIB, MODIFIED + i)


def drive(n: int) -> Driven:
    """Do what the driver of `pipeline verify` does before its tasks and after them. What a task
    writes is written in between, and not counted."""
    request = replace(parse_request({}), paths=("/var/lib/kafka/data",), parallelism=CORES)
    steps, began = [], time.process_time()

    def reached() -> None:
        steps.append(f"{time.process_time() - began:.1f} s, {peak():.0f} MB")

    files = list_input_files(request, files_below=lambda _: segments(n))
    reached()
    with tempfile.TemporaryDirectory() as scratch:
        ledger = JobDirectory(scratch, JobDefinition("verify", check_for_job, {}))
        ledger.open()
        ledger.plan(request, files)
        numbers = ledger.unprocessed_indexes()
        shares = group_by_task(ledger.job, request, ledger.splits.select_at(numbers))
        reached()
        n_bytes, largest = 0, b""
        for share in TaskInputs(request, shares):
            n_bytes, largest = n_bytes + len(share), max(largest, share, key=len)
        reached()
        tasks_began = time.process_time()
        for pieces in shares:
            write_json_file(
                f"{ledger.results_directory}/{result_file_name(pieces, ledger.run_number)}",
                dict(results(pieces)),
            )
        began += time.process_time() - tasks_began
        ledger.add_results(numbers, shares)
        reached()
        write_tables(ledger, scratch)
        reached()
    return Driven(steps, len(shares), n_bytes, largest)


def results(pieces: FileSplits) -> Iterator[tuple[str, SplitResult]]:
    """What a task writes of its pieces: no findings."""
    numbers = {"batches": 70, "records": 1050, "first_offset": 0, "last_offset": 1049}
    times = {"min_timestamp": MODIFIED // 10**6, "max_timestamp": MODIFIED // 10**6 + 1000}
    clean = {"summary": {**EMPTY_NUMBERS, **numbers, **times}, **encode_findings([], None)}
    for piece in pieces:
        about = [piece.size, piece.modified, piece.start, piece.end]
        yield format_split_name(piece.path, piece.start), {**clean, "about": about}


def write_tables(ledger: JobDirectory, to: str) -> None:
    """Go over all results as a job does: for torn files, and to write the table of segments."""
    assert not find_misaligned_files(ledger.iter_results(lambda piece: not piece.is_whole))
    with open_table_file(
        f"{to}/segments/part-0", arrow_schema(SEGMENTS_TABLE.leaves), "parquet"
    ) as made:
        found, summary = merge_file_findings(ledger.iter_results()), JobSummary()
        for piece, numbers in sum_by_file((piece, summary.add_result(its)) for piece, its in found):
            made.add([segment_row(piece, numbers)])


def work(share: bytes) -> float:
    """What a worker takes that has a share."""
    pieces, _ = pickle.loads(share)  # noqa: S301 (the driver's own)
    with mount_split_files(parse_request({}), pieces):
        return peak()


def peak() -> float:
    """The peak of this process's memory in MB. `getrusage` would say at least what the process that
    began it had."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def apart(function: Callable[[Any], Any], argument: object) -> Any:
    """The answer of a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, (argument,))


def rows(numbers: list[int]) -> Iterator[str]:
    """The lines of the table."""
    alone = apart(work, apart(drive, 1).largest)
    for n in numbers:
        driven: Driven = apart(drive, n)
        worker = f"{apart(work, driven.largest):.1f} MB (with one segment: {alone:.1f} MB)"
        sizes = f"{driven.n_bytes / MIB:.1f} MB", f"{len(driven.largest) / 1024:.1f} KB"
        yield f"| {' | '.join([f'{n:,}', *driven.steps, f'{driven.n_tasks:,}', *sizes, worker])} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="2,000 segments")
    parser.add_argument("--large", action="store_true", help="ten million, too")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    given = parser.parse_args()
    numbers = [2000] if given.smoke else [10**6, 10**7] if given.large else [10**6]
    lines = [f"{machine()}.", "", HEAD]
    print("\n".join(lines))
    for line in rows(numbers):
        lines.append(line)
        print(line, flush=True)
    if given.write:
        put("scale", lines)


if __name__ == "__main__":
    main()
