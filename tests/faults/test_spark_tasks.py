"""A task that cannot read an input: the job names it in one line and has all rows of the others;
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

from tests.support.faults import NEEDED, Bench, Ended, Fault, benched, compiled
from tools.kafka import SAMPLES

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = NEEDED
OTHERS, BROKEN = "in/orders-0", "in/codec-gzip-0"
LOG = f"{BROKEN}/00000000000000000000.log"
READS = (("open", errno.EIO), ("open", errno.EACCES), ("open", errno.EMFILE), ("read", errno.EIO))
PIECES = "--max-split-bytes 4000"
JOBS = {
    "export": "export --tables records,batches",
    "export-pieces": f"export {PIECES}",
    "export-committed": "export --isolation read_committed",
    "verify": "verify --deep",
    "verify-pieces": f"verify {PIECES}",
    "segments": "segments",
    "stats": "stats",
    "stats-pieces": f"stats {PIECES}",
}
HERE = "tests.support.tasks_here"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Bench:
    return with_both(benched(library, tmp_path))


def with_both(bench: Bench) -> Bench:
    """Add the partition whose files fail."""
    name = Path(BROKEN).name
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1" / name, bench.folder / BROKEN)
    return bench


def rows(folder: Path) -> Counter[tuple[str, str]]:
    """The rows of all tables of a job but its findings."""
    found: Counter[tuple[str, str]] = Counter()
    for file in folder.rglob("*.parquet"):
        table = file.relative_to(folder).parts[0]
        if table != "findings":
            found.update((table, repr(row)) for row in pq.ParquetFile(file).read().to_pylist())
    return found


class Tried:
    """A job with what it writes when nothing fails. module: what is run."""

    def __init__(self, bench: Bench, name: str, module: str = HERE) -> None:
        self.bench, self.name, self.module = bench, name, module
        self.whole = self._undisturbed(OTHERS, BROKEN)
        self.others = self._undisturbed(OTHERS)
        assert self.others
        assert self.whole != self.others

    def run(self, *paths: str, fault: Fault | None = None) -> Ended:
        """Run the job."""
        job, *options = JOBS[self.name].split()
        done = subprocess.run(
            [
                *(sys.executable, "-m", self.module, "pipeline", job, *paths),
                *("--to", "out", "--master", "local[1]", *options),
            ],
            env=self.bench.environment(fault),
            cwd=self.bench.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def _undisturbed(self, *paths: str) -> Counter[tuple[str, str]]:
        done = self.run(*paths)
        assert done.returncode == 0, done.stdout + done.stderr
        found = rows(self.bench.folder / "out")
        self.bench.emptied()
        return found

    def calls(self, kind: str, below: str) -> int:
        """How many calls of a kind a run makes."""
        self.run(OTHERS, BROKEN, fault=Fault(kind, 0, 0, below))
        self.bench.emptied()
        return self.bench.count.stat().st_size if self.bench.count.exists() else 0

    def survives(self, fault: Fault) -> None:
        """Run the job with a fault, and once more without it."""
        out = self.bench.folder / "out"
        try:
            done = self.run(OTHERS, BROKEN, fault=fault)
            where = f"{self.name}: {fault}: {done.returncode} {done.stdout} {done.stderr}"
            assert "Traceback" not in done.stderr, where
            if done.returncode == 3:
                said = os.strerror(fault.code)
                lines = [line for line in done.stderr.splitlines() if said in line]
                assert len(lines) == 1, where
                assert fault.below in lines[0], where
                assert self.others <= rows(out), where
            else:
                assert (done.returncode, rows(out)) == (0, self.whole), where
            again = self.run(OTHERS, BROKEN)
            assert again.returncode == 0, where + again.stdout + again.stderr
            assert rows(out) == self.whole, where
        finally:
            self.bench.emptied()


@pytest.mark.parametrize(
    "name", ["export", "verify-pieces", pytest.param("stats", marks=pytest.mark.fuzz)]
)
def test_a_task_that_cannot_read_an_input_names_it(name: str, bench: Bench) -> None:
    Tried(bench, name).survives(Fault("read", errno.EIO, 1, LOG))


@pytest.mark.spark
@pytest.mark.clusters
@pytest.mark.skipif(shutil.which("java") is None, reason="java not found")
def test_a_task_of_spark_that_cannot_read_an_input_names_it(bench: Bench) -> None:
    tried = Tried(bench, "export", "kfmt_cli")
    tried.survives(Fault("open", errno.EACCES, 1, LOG))
    tried.survives(Fault("read", errno.EIO, 1, LOG))


def try_all(name: str) -> bool:
    """Try every fault of a job; prints those that it does not survive, and the counts."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as top:
        tried = Tried(with_both(benched(compiled(Path(top)), Path(top))), name)
        for below in (LOG, f"{BROKEN}/partition.metadata"):
            for kind, code in READS:
                for number in range(1, tried.calls(kind, below) + 1):
                    counts[f"{kind} {errno.errorcode[code]} {Path(below).name}"] += 1
                    try:
                        tried.survives(Fault(kind, code, number, below))
                    except AssertionError as error:
                        wrong.append(str(error))
    told = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    sys.stdout.write("".join(f"{words}\n" for words in [*wrong, f"{name}: {told}"]))
    sys.stdout.flush()
    return not wrong


if __name__ == "__main__":
    survived = [try_all(name) for name in sys.argv[1:] or JOBS]
    sys.exit(not all(survived))
