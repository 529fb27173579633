"""Temporary directories of killed processes are removed, those of running ones are not."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
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
        with scratch_directory("spark") as scratch:
            (scratch / "spark.log").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert [path.name[:11] for path in temporary.iterdir()] == ["kfmt-spark-"]
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    with scratch_directory("spark") as scratch:
        assert list(temporary.iterdir()) == [scratch.parent]
    assert list(temporary.iterdir()) == []


NAME = f"kfmt-archive-{32 * 'a'}"


def test_a_scratch_folder_that_may_not_be_locked_yet_is_kept(temporary: Path) -> None:
    starting = temporary / f"{NAME}.new"
    starting.mkdir(0o700)
    with scratch_directory("hex"):
        assert starting.exists()


def test_a_scratch_folder_of_a_run_killed_before_it_locked_it_is_removed(temporary: Path) -> None:
    (temporary / f"{NAME}.new").mkdir(0o700)
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    with scratch_directory("hex") as scratch:
        assert list(temporary.iterdir()) == [scratch.parent]
        assert not scratch.parent.suffix


def leftover(directory: Path, name: str = NAME, mode: int = 0o700, lock_mode: int = 0o600) -> Path:
    """A directory as a killed run has left it."""
    path = directory / name
    (path / "files").mkdir(parents=True)
    (path / "in-use").touch(lock_mode)
    (path / "files/precious").touch()
    path.chmod(mode)
    os.utime(path, (1, 1))
    return path


def in_another_place(path: Path) -> None:
    """Make a link to a directory or file elsewhere."""
    test_directory = next(parent for parent in path.parents if parent.name.startswith("test_"))
    target = path.rename(test_directory / f"the real {path.name}")
    path.symlink_to(target)


def with_lock(path: Path, create: Callable[[Path, int], None]) -> None:
    """Replace the lock by something that is no file."""
    lock = path / "in-use"
    lock.unlink()
    create(lock, 0o600)


DISGUISES: dict[str, Callable[[Path], object]] = {
    "of another user": lambda path: os.chown(path, 23456, 0),
    "a lock of another user": lambda path: os.chown(path / "in-use", 23456, 0),
    "open to others": lambda path: path.chmod(0o755),
    "a lock that is open to others": lambda path: (path / "in-use").chmod(0o644),
    "with another file": lambda path: (path / "notes").touch(),
    "without a lock": lambda path: (path / "in-use").unlink(),
    "with a FIFO as its lock": lambda path: with_lock(path, os.mkfifo),
    "with a directory as its lock": lambda path: with_lock(path, os.mkdir),
    "with a link as its lock": lambda path: in_another_place(path / "in-use"),
    "a link": in_another_place,
    "named as a user would": lambda path: path.rename(path.with_name("kfmt-notes")),
    "named as an old run": lambda path: path.rename(path.with_name("kfmt-abcd1234")),
    "named almost so": lambda path: path.rename(path.with_name(f"{NAME}.old")),
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_what_may_be_the_users_is_kept(disguise: str, temporary: Path) -> None:
    if "user" in disguise and os.geteuid() != 0 and "named" not in disguise:
        pytest.skip("only root can give files away")
    DISGUISES[disguise](leftover(temporary))
    for path in temporary.iterdir():
        os.utime(path, (1, 1), follow_symlinks=False)
    with scratch_directory("hex") as scratch:
        (kept,) = set(temporary.iterdir()) - {scratch.parent}
        assert (kept / "files/precious").exists()


@pytest.mark.parametrize("disguise", DISGUISES)
def test_what_may_be_the_users_is_kept_next_to_an_output(disguise: str, tmp_path: Path) -> None:
    if disguise.startswith("named") or ("user" in disguise and os.geteuid() != 0):
        pytest.skip("another name, or only for root")
    place = tmp_path / "place"
    place.mkdir()
    unfinished = f"kfmt-unfinished-0.{32 * 'a'}-delete"
    DISGUISES[disguise](leftover(place, unfinished))
    os.utime(place / unfinished, (1, 1), follow_symlinks=False)
    result = kfmt("salvage", ORDERS.parent, place / "dst")
    assert result.code == 0
    assert (place / unfinished / "files/precious").exists()


def test_a_leftover_is_removed_next_to_an_output(tmp_path: Path) -> None:
    unfinished = leftover(tmp_path, f"kfmt-unfinished-0.{32 * 'a'}-delete")
    assert "leftover of an interrupted run" in kfmt("salvage", ORDERS, tmp_path / "dst").err
    assert not unfinished.exists()


def test_sql_spills_into_a_directory_that_only_the_user_reads(temporary: Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    query = (
        "set memory_limit='20MB'; set threads=1; select sum(hash(x)) from (select a.value as x, "
        "random() r from generate_series(1,1000000) g, (select value from records limit 1) a "
        "order by r)"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "kfmt_cli", "sql", query, str(ORDERS.parent)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(TMPDIR=str(temporary)),
    )
    wait_for(lambda: any(path.is_file() for path in temporary.glob("kfmt-sql-*/files/*")))
    (directory,) = temporary.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    process.kill()
    process.wait()
    assert any(directory.glob("files/*"))
    time.sleep(MIN_LEFTOVER_AGE_SECONDS)
    assert kfmt("sql", "select 1", ORDERS.parent).code == 0
    assert list(temporary.iterdir()) == []


def test_sql_has_a_directory_of_its_own(temporary: Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    result = kfmt("sql", "select current_setting('temp_directory') d", ORDERS, "--format", "csv")
    assert re.fullmatch(rf'd\n"{temporary}/kfmt-sql-[0-9a-f]{{32}}/files"\n', result.out)
    assert list(temporary.iterdir()) == []


def test_hex_leaves_nothing(temporary: Path) -> None:
    assert kfmt("hex", "-", stdin=ORDERS.read_bytes()).code == 0
    assert list(temporary.iterdir()) == []
