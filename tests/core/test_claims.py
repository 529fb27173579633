"""Temporary directories: those of killed runs are removed, those of living ones are not."""

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
from kfmt_cli.disk.file_access import find_real_path
from kfmt_cli.disk.path_resolution import resolve_display_path
print(find_real_path(resolve_display_path(sys.argv[1])), flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of a partition."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(ORDERS.parent, "orders-0")
    return path


def unpacking(archive: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has unpacked an archive, and where."""
    words = [sys.executable, "-c", UNPACKS, str(archive)]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment())
    assert run.stdout is not None
    with run.stdout as out:
        return run, Path(out.readline().strip())


def test_the_next_run_removes_what_a_killed_one_left(temporary: Path, archive: Path) -> None:
    killed, left = unpacking(archive)
    living, kept = unpacking(archive)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert (left / "orders-0" / ORDERS.name).exists()
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    ours = temporary / "kfmt-notes"
    ours.mkdir()
    assert kfmt("verify-crc", archive).code == 0
    assert not left.parent.exists()
    assert (kept / "orders-0" / ORDERS.name).exists()
    assert ours.exists()
    living.terminate()
    living.wait()


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


def test_a_scratch_folder_of_a_run_killed_before_it_locked_it_is_removed(temporary: Path) -> None:
    (temporary / "kfmt-abcd1234.new").mkdir()
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    with scratch_directory("") as scratch:
        assert list(temporary.iterdir()) == [scratch.parent]
        assert not scratch.parent.suffix
