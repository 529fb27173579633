"""A task that cannot read an input: the job names it in one line and writes the rows of the others;
the next run reads it. The tasks are called in the process of the job, and once by Spark.

For every call, not only the first one: `python -m tests.faults.test_spark_tasks [JOB…]`.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.support.faults import REQUIREMENTS, Bench, Fault, RunResult, build_library, create_bench
from tools.kafka import SAMPLES

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = REQUIREMENTS
HEALTHY, BROKEN = "in/orders-0", "in/codec-gzip-0"
LOG = f"{BROKEN}/00000000000000000000.log"
READS = (("open", errno.EIO), ("open", errno.EACCES), ("open", errno.EMFILE), ("read", errno.EIO))
SPLIT_OPTIONS = "--max-split-bytes 4000"
JOBS = {
    "export": "export --tables records,batches",
    "export-pieces": f"export {SPLIT_OPTIONS}",
    "export-committed": "export --isolation read_committed",
    "verify": "verify --deep",
    "verify-pieces": f"verify {SPLIT_OPTIONS}",
    "segments": "segments",
    "stats": "stats",
    "stats-pieces": f"stats {SPLIT_OPTIONS}",
}
LOCAL_TASKS_MODULE = "tests.support.tasks_here"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Bench:
    return add_broken_partition(create_bench(library, tmp_path))


def add_broken_partition(bench: Bench) -> Bench:
    """Add the partition whose files fail."""
    name = Path(BROKEN).name
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1" / name, bench.directory / BROKEN)
    return bench


def rows(directory: Path) -> Counter[tuple[str, str]]:
    """The rows of all tables of a job except its findings."""
    counted_rows: Counter[tuple[str, str]] = Counter()
    for file in directory.rglob("*.parquet"):
        table = file.relative_to(directory).parts[0]
        if table != "findings":
            counted_rows.update(
                (table, repr(row)) for row in pq.ParquetFile(file).read().to_pylist()
            )
    return counted_rows


class JobTrial:
    """A job, with its rows when nothing fails. module: the Python module to run."""

    def __init__(self, bench: Bench, name: str, module: str = LOCAL_TASKS_MODULE) -> None:
        self.bench, self.name, self.module = bench, name, module
        self.all_rows = self._rows_without_fault(HEALTHY, BROKEN)
        self.healthy_rows = self._rows_without_fault(HEALTHY)
        assert self.healthy_rows
        assert self.all_rows != self.healthy_rows

    def run(self, *paths: str, fault: Fault | None = None) -> RunResult:
        """Run the job."""
        job, *options = JOBS[self.name].split()
        result = subprocess.run(
            [
                *(sys.executable, "-m", self.module, "pipeline", job, *paths),
                *("--to", "out", "--master", "local[1]", *options),
            ],
            env=self.bench.environment(fault),
            cwd=self.bench.directory,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return RunResult(result.returncode, result.stdout, result.stderr)

    def _rows_without_fault(self, *paths: str) -> Counter[tuple[str, str]]:
        result = self.run(*paths)
        assert result.returncode == 0, result.stdout + result.stderr
        counted_rows = rows(self.bench.directory / "out")
        self.bench.clear_output()
        return counted_rows

    def calls(self, kind: str, path: str) -> int:
        """How many calls of a kind a run makes."""
        self.run(HEALTHY, BROKEN, fault=Fault(kind, 0, 0, path))
        self.bench.clear_output()
        return self.bench.count.stat().st_size if self.bench.count.exists() else 0

    def check(self, fault: Fault) -> None:
        """Run the job with a fault, and once more without it."""
        output = self.bench.directory / "out"
        try:
            result = self.run(HEALTHY, BROKEN, fault=fault)
            context = f"{self.name}: {fault}: {result.returncode} {result.stdout} {result.stderr}"
            assert "Traceback" not in result.stderr, context
            if result.returncode == 3:
                reason = os.strerror(fault.code)
                lines = [line for line in result.stderr.splitlines() if reason in line]
                assert len(lines) == 1, context
                assert fault.directory in lines[0], context
                assert self.healthy_rows <= rows(output), context
            else:
                assert (result.returncode, rows(output)) == (0, self.all_rows), context
            rerun = self.run(HEALTHY, BROKEN)
            assert rerun.returncode == 0, context + rerun.stdout + rerun.stderr
            assert rows(output) == self.all_rows, context
        finally:
            self.bench.clear_output()


@pytest.mark.parametrize(
    "name", ["export", "verify-pieces", pytest.param("stats", marks=pytest.mark.fuzz)]
)
def test_a_task_that_cannot_read_an_input_names_it(name: str, bench: Bench) -> None:
    JobTrial(bench, name).check(Fault("read", errno.EIO, 1, LOG))


@pytest.mark.spark
@pytest.mark.clusters
@pytest.mark.skipif(shutil.which("java") is None, reason="java not found")
def test_a_task_of_spark_that_cannot_read_an_input_names_it(bench: Bench) -> None:
    trial = JobTrial(bench, "export", "kfmt_cli")
    trial.check(Fault("open", errno.EACCES, 1, LOG))
    trial.check(Fault("read", errno.EIO, 1, LOG))


def try_all(name: str) -> bool:
    """Try every fault of a job; prints failures and counts."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        trial = JobTrial(
            add_broken_partition(create_bench(build_library(Path(directory)), Path(directory))),
            name,
        )
        for path in (LOG, f"{BROKEN}/partition.metadata"):
            for kind, code in READS:
                for call in range(1, trial.calls(kind, path) + 1):
                    counts[f"{kind} {errno.errorcode[code]} {Path(path).name}"] += 1
                    try:
                        trial.check(Fault(kind, code, call, path))
                    except AssertionError as error:
                        failures.append(str(error))
    summary = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    sys.stdout.write("".join(f"{line}\n" for line in [*failures, f"{name}: {summary}"]))
    sys.stdout.flush()
    return not failures


if __name__ == "__main__":
    survived = [try_all(name) for name in sys.argv[1:] or JOBS]
    sys.exit(not all(survived))
