"""Runs of commands, whole processes, in which calls to the system fail: `faults.c`."""

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

NEEDED = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
FIRST = 2  # calls of a kind that fail in the suite
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
    """What becomes of one call; `number` 0 only counts them."""

    kind: str
    code: int
    number: int = 0
    below: str = "in"
    """Only calls on files below this directory count."""


@dataclass(frozen=True)
class Ended:
    """A finished run."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Bench:
    """A directory with the inputs of all commands, and the library that makes calls fail."""

    folder: Path
    library: Path

    def environment(self, fault: Fault | None = None) -> dict[str, str]:
        """The environment of a run."""
        known = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        known |= {"TMPDIR": str(self.folder / "tmp"), "LD_PRELOAD": str(self.library)}
        if fault is None:
            return known
        self.count.unlink(missing_ok=True)
        return known | {
            "FAULT_KIND": fault.kind,
            "FAULT_NUMBER": str(fault.number),
            "FAULT_ERRNO": str(fault.code),
            "FAULT_BELOW": str(self.folder / fault.below),
            "FAULT_COUNT": str(self.count),
        }

    @property
    def count(self) -> Path:
        """The file that grows with each call that counts."""
        return self.folder / "count"

    def run(self, command: str, fault: Fault | None = None) -> Ended:
        """Run a command."""
        env = self.environment(fault)
        code, out, err = warm.run(command.split(), b"", self.folder, env)
        return Ended(code, out.decode(), err.decode())

    def calls(self, command: str, kind: str, below: str = "in") -> int:
        """How many calls of a kind a command makes."""
        self.run(command, Fault(kind, 0, 0, below))
        return self.count.stat().st_size if self.count.exists() else 0

    def made(self) -> dict[str, bytes]:
        """What is in the output directory, by name."""
        return contents(self.folder / "out")

    def emptied(self) -> None:
        """Remove the output."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").mkdir()


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a directory, by name."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def compiled(folder: Path) -> Path:
    """Build the library in a directory."""
    made = folder / "faults.so"
    source = ROOT / "tests/support/faults.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return made


def benched(library: Path, folder: Path) -> Bench:
    """Prepare the inputs of all commands."""
    broker = ORDERS.parent.parent
    for name in PARTITIONS:
        shutil.copytree(broker / name, folder / "in" / name)
    for file in filter(Path.is_file, broker.iterdir()):
        shutil.copy2(file, folder / "in")
    shutil.copytree(SAMPLES / "kafka-2.8.2/v0-gzip-0", folder / "old")
    shutil.copy2(SAMPLES / "hand-made.jsonl", folder / "records.jsonl")
    for name in ("out", "tmp"):
        (folder / name).mkdir()
    return Bench(folder, library)


def chosen(n_calls: int, *, every: bool) -> range:
    """The calls that fail in turn: every one, or the first few."""
    return range(1, (n_calls if every else min(n_calls, FIRST)) + 1)
