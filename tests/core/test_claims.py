"""Temporary directories of killed processes are removed, those of running ones are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from kfmt_cli.core.temporary_locks import MIN_LEFTOVER_AGE_SECONDS, scratch_directory
from tests.support.samples import ORDERS, environment, kfmt
from tests.support.waiting import wait_for
from tools.kafka import ROOT

UNPACKS = """
import sys, time
from kfmt_cli.disk.file_access import find_disk_path
from kfmt_cli.disk.path_resolution import mount_and_resolve_path
print(find_disk_path(mount_and_resolve_path(sys.argv[1])), flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr("tempfile.tempdir", None)
    return directory


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of a partition."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(ORDERS.parent, "orders-0")
    return path


def unpacking(archive: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has unpacked an archive, and the directory."""
    command = [sys.executable, "-c", UNPACKS, str(archive)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
    )
    assert process.stdout is not None
    with process.stdout as out:
        return process, Path(out.readline().strip())


def test_the_next_run_removes_directories_of_a_killed_run(temporary: Path, archive: Path) -> None:
    killed_process, leftover = unpacking(archive)
    living_process, in_use = unpacking(archive)
    killed_process.send_signal(signal.SIGKILL)
    killed_process.wait()
    assert (leftover / "orders-0" / ORDERS.name).exists()
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    unrelated = temporary / "kfmt-notes"
    unrelated.mkdir()
    assert kfmt("verify-crc", archive).code == 0
    assert not leftover.parent.exists()
    assert (in_use / "orders-0" / ORDERS.name).exists()
    assert unrelated.exists()
    living_process.terminate()
    living_process.wait()


def test_a_scratch_folder_of_a_session_is_removed_too(temporary: Path) -> None:
    child = os.fork()
    if child == 0:
        with scratch_directory("spark-") as scratch:
            (scratch / "spark.log").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert [path.name[:11] for path in temporary.iterdir()] == ["kfmt-spark-"]
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    with scratch_directory("spark-") as scratch:
        wait_for(lambda: list(temporary.iterdir()) == [scratch.parent])
    assert list(temporary.iterdir()) == []


def test_a_scratch_folder_that_may_not_be_locked_yet_is_kept(temporary: Path) -> None:
    starting = temporary / "kfmt-abcd1234.new"
    starting.mkdir()
    with scratch_directory(""):
        assert starting.exists()


def test_a_scratch_folder_of_a_run_killed_before_it_locked_it_is_removed(temporary: Path) -> None:
    (temporary / "kfmt-abcd1234.new").mkdir()
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    with scratch_directory("") as scratch:
        assert list(temporary.iterdir()) == [scratch.parent]
        assert not scratch.parent.suffix
