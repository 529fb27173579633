"""Each call to the system fails once, for every command: one line that names the file, and nothing
half written. `tests/support/faults.c` makes it fail.

For every call, not only the first ones: `python -m tests.faults.test_faults [COMMAND…]`.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.samples import ORDERS
from tools.kafka import ROOT, SAMPLES

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
READS = (("open", errno.EIO), ("open", errno.EMFILE), ("read", errno.EIO), ("list", errno.EACCES))
WRITES = (
    *(("open", errno.EACCES), ("write", errno.ENOSPC), ("sync", errno.EIO)),
    *(("rename", errno.EIO), ("mkdir", errno.ENOSPC)),
)
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
    "cat": "cat in",
    "state": "state state --json",
    "diff": "diff in/orders-0 in/orders-0 --json",
}
WRITERS = {
    "salvage": "salvage in/orders-0 out/made",
    "rebuild-index": "rebuild-index in/orders-0 out/made",
    "convert-v0-to-v2": "convert-v0-to-v2 old out/made",
    "build": "build records.jsonl out/made",
    "export": "export in --to out/made",
}
LEFT_OVER = "kfmt-unfinished-"
FIRST = 2  # calls that the default run lets fail


@dataclass
class Bench:
    """A directory with inputs, and the library that makes calls fail."""

    folder: Path
    library: Path

    def run(
        self, command: str, kind: str = "", number: int = 0, code: int = 0, below: str = ""
    ) -> tuple[subprocess.CompletedProcess[str], int]:
        """A command in which the n-th call of a kind fails; and how many there were."""
        count = self.folder / "count"
        count.unlink(missing_ok=True)
        fault = {
            "LD_PRELOAD": str(self.library),
            "FAULT_KIND": kind,
            "FAULT_NUMBER": str(number),
            "FAULT_ERRNO": str(code),
            "FAULT_BELOW": str(self.folder / below),
            "FAULT_COUNT": str(count),
        }
        done = subprocess.run(
            [sys.executable, "-m", "kfmt_cli", *command.split()],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "COLUMNS": "200",
                **(fault if kind else {}),
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done, count.stat().st_size if count.exists() else 0

    def made(self) -> dict[str, bytes]:
        """What is in the output directory, without leftovers, which the next run removes."""
        files = (file for file in sorted((self.folder / "out").rglob("*")) if file.is_file())
        return {str(file): file.read_bytes() for file in files if LEFT_OVER not in str(file)}

    def emptied(self) -> None:
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").mkdir()


def compiled(folder: Path) -> Path:
    """The library."""
    made = folder / "faults.so"
    source = ROOT / "tests/support/faults.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Bench:
    return benched(library, tmp_path)


def benched(library: Path, tmp_path: Path) -> Bench:
    """Inputs of all commands."""
    shutil.copytree(ORDERS.parent, tmp_path / "in/orders-0")
    shutil.copytree(
        SAMPLES / "kafka-3.9.1-broker1/__consumer_offsets-1",
        tmp_path / "state/__consumer_offsets-1",
    )
    shutil.copytree(SAMPLES / "kafka-2.8.2/v0-gzip-0", tmp_path / "old")
    (tmp_path / "records.jsonl").write_bytes((SAMPLES / "hand-made.jsonl").read_bytes())
    (tmp_path / "out").mkdir()
    return Bench(tmp_path, library)


def numbers(bench: Bench, command: str, kind: str, below: str, every: bool) -> range:
    """The calls to let fail: every one, or the first few and a later one."""
    _, total = bench.run(command, kind, 0, 0, below)
    bench.emptied()
    return range(1, total + 1) if every else range(1, min(total, FIRST) + 1)


def read_with_faults(bench: Bench, name: str, every: bool) -> int:
    command = READERS[name]
    below = "state" if name == "state" else "in"
    healthy, _ = bench.run(command)
    tried = 0
    for kind, code in READS if every else READS[:1]:
        for number in numbers(bench, command, kind, below, every):
            done, _ = bench.run(command, kind, number, code, below)
            where = f"{name}: {kind} {number}: {done.returncode} {done.stderr}"
            tried += 1
            assert "Traceback" not in done.stderr, where
            assert done.returncode in (0, 1, 3), where
            said = os.strerror(code)
            if done.returncode == 3:
                assert said in done.stderr or said in done.stdout, where
                assert f"{below}" in done.stderr, where
            elif done.stdout != healthy.stdout:  # a broker would fail, too: a finding says so
                assert (name, said in done.stdout) == ("check", True), where
    return tried


def write_with_faults(bench: Bench, name: str, every: bool) -> int:
    command = WRITERS[name]
    healthy, _ = bench.run(command)
    whole = bench.made()
    assert whole, healthy.stderr
    bench.emptied()
    tried = 0
    for kind, code in WRITES if every else WRITES[1:2]:
        for number in numbers(bench, command, kind, "out", every):
            done, _ = bench.run(command, kind, number, code, "out")
            where = f"{name}: {kind} {number}: {done.returncode} {done.stderr}"
            tried += 1
            assert "Traceback" not in done.stderr, where
            if done.returncode == 3:
                assert os.strerror(code) in done.stderr, where
                assert "out" in done.stderr, where
                if name != "export":  # which keeps the files that are complete
                    assert not (bench.folder / "out/made").exists(), where
            else:
                assert done.returncode == healthy.returncode, where
                assert bench.made().keys() == whole.keys(), where
            again, _ = bench.run(f"{command} --force" if name == "export" else command)
            if not (bench.folder / "out/made").exists() or done.returncode == 3:
                assert again.returncode == healthy.returncode, again.stderr
            assert bench.made().keys() == whole.keys(), where
            bench.emptied()
    return tried


@pytest.mark.parametrize("name", READERS)
def test_a_read_that_fails_is_one_line(name: str, bench: Bench) -> None:
    assert read_with_faults(bench, name, every=False)


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_fails_leaves_nothing_half(name: str, bench: Bench) -> None:
    assert write_with_faults(bench, name, every=False)


if __name__ == "__main__":
    for named in sys.argv[1:] or [*READERS, *WRITERS]:
        with tempfile.TemporaryDirectory() as top:
            prepared = benched(compiled(Path(top)), Path(top))
            try_all = read_with_faults if named in READERS else write_with_faults
            sys.stdout.write(f"{named}: {try_all(prepared, named, every=True)} faults\n")
