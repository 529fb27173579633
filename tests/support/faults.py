"""Runs of commands in processes in which system calls fail: `faults.c`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.samples import ORDERS
from tools.kafka import ROOT, SAMPLES

REQUIREMENTS = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
N_FIRST_CALLS = 2  # calls of a kind that fail in the suite
# Two partitions, the metadata log, and the files of a log directory.
PARTITIONS = ("orders-0", "__consumer_offsets-1", "__cluster_metadata-0")
READERS = {
    "dump": "dump in --records --json",
    "verify-crc": "verify-crc in --deep --json",
    "check": "check in --json",
    "index-check": "index-check in --json",
    "stat": "stat in --json",
    "retention": "retention in --json --now 2030-01-01",
    "compaction": "compaction in --json --now 2030-01-01",
    "txn": "txn in --json",
    "find": "find in --key customer-7 --json",
    "cat": "cat in/orders-0",
    "state": "state in --json",
    "diff": "diff in/orders-0 in/orders-0 --json",
}


@dataclass(frozen=True)
class Fault:
    """The failure of one call; `number` 0 only counts calls."""

    kind: str
    code: int
    number: int = 0
    directory: str = "in"
    """Only calls on files in this directory count."""


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Bench:
    """A directory with the inputs of all commands, and the library that makes calls fail."""

    directory: Path
    library: Path

    def environment(self, fault: Fault | None = None) -> dict[str, str]:
        """The environment of a run."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        env |= {"TMPDIR": str(self.directory / "tmp"), "LD_PRELOAD": str(self.library)}
        if fault is None:
            return env
        self.count.unlink(missing_ok=True)
        return env | {
            "FAULT_KIND": fault.kind,
            "FAULT_NUMBER": str(fault.number),
            "FAULT_ERRNO": str(fault.code),
            "FAULT_BELOW": str(self.directory / fault.directory),
            "FAULT_COUNT": str(self.count),
        }

    @property
    def count(self) -> Path:
        """The file that grows by a byte with each counted call."""
        return self.directory / "count"

    def run(self, command: str, fault: Fault | None = None) -> RunResult:
        """Run a command."""
        env = self.environment(fault)
        code, out, err = warm.run(command.split(), b"", self.directory, env)
        return RunResult(code, out.decode(), err.decode())

    def calls(self, command: str, kind: str, directory: str = "in") -> int:
        """The number of calls of a kind that a command makes."""
        self.run(command, Fault(kind, 0, 0, directory))
        return self.count.stat().st_size if self.count.exists() else 0

    def outputs(self) -> dict[str, bytes]:
        """The files in the output directory, by name."""
        return file_contents(self.directory / "out")

    def clear_output(self) -> None:
        """Remove the output."""
        shutil.rmtree(self.directory / "out", ignore_errors=True)
        (self.directory / "out").mkdir()


def file_contents(directory: Path) -> dict[str, bytes]:
    """The files in a directory, by name."""
    files = (file for file in sorted(directory.rglob("*")) if file.is_file())
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def build_library(directory: Path) -> Path:
    """Build the library in a directory."""
    library = directory / "faults.so"
    source = ROOT / "tests/support/faults.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def create_bench(library: Path, directory: Path) -> Bench:
    """Prepare the inputs of all commands."""
    broker = ORDERS.parent.parent
    for name in PARTITIONS:
        shutil.copytree(broker / name, directory / "in" / name)
    for file in filter(Path.is_file, broker.iterdir()):
        shutil.copy2(file, directory / "in")
    shutil.copytree(SAMPLES / "kafka-2.8.2/v0-gzip-0", directory / "old")
    shutil.copy2(SAMPLES / "hand-made.jsonl", directory / "records.jsonl")
    for name in ("out", "tmp"):
        (directory / name).mkdir()
    return Bench(directory, library)


def failing_calls(n_calls: int, *, every: bool) -> range:
    """The numbers of the calls that fail in turn: every one, or the first few."""
    return range(1, (n_calls if every else min(n_calls, N_FIRST_CALLS)) + 1)
