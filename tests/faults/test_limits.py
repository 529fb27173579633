"""Every command works on all samples with 1 GiB of addresses and 64 descriptors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kafka import ROOT, SAMPLES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs ulimit -v")
LIMITS = f"ulimit -v {1 << 20}; ulimit -n 64"
BROKER = SAMPLES / "kafka-3.9.1-broker1"
READERS = {
    "dump": f"dump {SAMPLES} --records --json",
    "verify-crc": f"verify-crc {SAMPLES} --deep --json",
    "check": f"check {SAMPLES} --json",
    "index-check": f"index-check {SAMPLES} --json",
    "stat": f"stat {SAMPLES} --deep --json",
    "retention": f"retention {SAMPLES} --json --now 2030-01-01",
    "compaction": f"compaction {SAMPLES} --json --now 2030-01-01",
    "txn": f"txn {SAMPLES} --json",
    "find": f"find {SAMPLES} --key customer-7 --json",
    "cat": f"cat {BROKER}/orders-0",
    "state": f"state {SAMPLES} --json",
    "diff": f"diff {BROKER} {SAMPLES}/kafka-3.9.1-broker2 --json",
    "hex": f"hex {BROKER}/orders-0/00000000000000000000.log",
}
WRITERS = {
    "salvage": f"salvage {BROKER} made",
    "rebuild-index": f"rebuild-index {BROKER} made",
    "convert-v0-to-v2": f"convert-v0-to-v2 {SAMPLES}/kafka-2.8.2 made",
    "build": f"build {SAMPLES}/hand-made.jsonl made",
    "export": f"export {BROKER} --to made",
    "export-csv": f"export {BROKER} --to made --format csv --tables records,batches",
    "report": f"report {BROKER} --to made/page.html --data made/data.json --now 2030-01-01",
}
SHORT = ("verify-crc", "export")  # the others are in the long run
_TIMES = re.compile(r'"(made_at|seconds)":[0-9.e-]+')


def run(command: str, directory: Path, limit: str = ":") -> subprocess.CompletedProcess[str]:
    """Run a command in a new process, under a limit."""
    directory.mkdir()
    arguments = [sys.executable, "-m", "kfmt_cli", *command.split()]
    return subprocess.run(
        ["sh", "-c", f'{limit}; exec "$@"', "sh", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.parametrize(
    "name",
    [
        name if name in SHORT else pytest.param(name, marks=pytest.mark.fuzz)
        for name in (*READERS, *WRITERS)
    ],
)
def test_a_command_works_within_limits(name: str, tmp_path: Path) -> None:
    command = {**READERS, **WRITERS}[name]
    unlimited = run(command, tmp_path / "free")
    limited = run(command, tmp_path / "bound", LIMITS)
    extra_lines = [
        line for line in limited.stderr.splitlines() if line not in unlimited.stderr.splitlines()
    ]
    if name == "report":  # its charts take more addresses than that
        assert len(extra_lines) == 1
        assert extra_lines[0].endswith("; the page has no charts, only their data as tables")
    else:
        assert not extra_lines
    assert limited.returncode == unlimited.returncode
    if name != "report":  # a page without charts is smaller
        assert _TIMES.sub("", limited.stdout) == _TIMES.sub("", unlimited.stdout)
    assert files(tmp_path / "bound") == files(tmp_path / "free")
