"""Directories that cannot be read are named, and the rest is done."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfmt_cli.disk.input_paths import resolve_path
from kfmt_cli.disk.kinds.logs import LOG_KINDS
from tests.support.samples import ORDERS, Done, environment, kfmt
from tools.kafka import ROOT, SAMPLES

COMMANDS = [("dump",), ("verify-crc",), ("index-check",), ("rebuild-index",), ("convert-v0-to-v2",)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Two partitions and, between them, a directory that its owner alone may read."""
    disk = tmp_path / "disk"
    for name in ("a-0", "z-0"):
        shutil.copytree(ORDERS.parent, disk / name)
    lost = disk / "lost+found"
    lost.mkdir()
    lost.chmod(0)
    yield disk
    for folder in disk.iterdir():
        folder.chmod(0o700)


# Root reads everything; without these capabilities it is as bound by permissions as anybody.
BOUND = """
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        dropped = ctypes.CDLL(None, use_errno=True).prctl(24, capability, 0, 0, 0)
        assert dropped == 0, os.strerror(ctypes.get_errno())
os.execv(sys.executable, [sys.executable, "-m", "kfmt_cli", *sys.argv[1:]])
"""


def kfmt_bound(*arguments: str | Path) -> Done:
    """Run kfmt as somebody whom permissions bind."""
    done = subprocess.run(
        [sys.executable, "-c", BOUND, *map(str, arguments)],
        capture_output=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    "command",
    [("check",), ("export", "--to", "made"), ("sql", "select count(*) from records")],
    ids=lambda item: item[0],
)
def test_an_unreadable_directory_next_to_packed_logs_is_named_once(
    command: tuple[str, ...], disk: Path
) -> None:
    log = disk / "a-0" / ORDERS.name
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    name, *options = (str(disk.parent / word) if word == "made" else word for word in command)
    words = [*options, str(disk)] if name == "sql" else [str(disk), *options]
    done = kfmt_bound(name, *words)
    assert (done.code, done.err) == (3, f"kfmt: {disk / 'lost+found'}: Permission denied\n")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda item: item[0])
def test_an_unreadable_directory_is_named_and_the_rest_is_done(
    command: tuple[str, ...], disk: Path
) -> None:
    name = command[0]
    arguments: list[str | Path] = [*command, disk]
    if name in ("rebuild-index", "convert-v0-to-v2"):
        arguments.append(disk.parent / "new")
    done = kfmt_bound(*arguments)
    assert done.code == 3, done.err
    assert f"kfmt: {disk / 'lost+found'}: Permission denied\n" in done.err
    assert "Traceback" not in done.err
    assert "no damage" not in done.out
    if name == "dump":
        for partition in ("a-0", "z-0"):
            assert f"{partition}/00000000000000001440" in done.out
    if name == "dump":
        assert "kfmt: 60 files read, 1 could not be read\n" in done.err
    else:
        assert "0 of these damaged, 1 not read" in done.out
        assert done.out.splitlines()[-1].endswith("exit code 3") or name == "convert-v0-to-v2"
    if name == "convert-v0-to-v2":
        assert (disk.parent / "new/z-0" / ORDERS.name).exists()
        assert "1 file or directory that could not be read" in done.err


def test_a_directory_that_vanishes_during_the_walk_is_named(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "a-0":
            Path(path).rename(disk.parent / "gone")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (disk / "lost+found").rmdir()
    target = resolve_path(str(disk))
    found = list(target.iter_files(LOG_KINDS))
    assert [Path(file.name).parent for file in found] == [disk / "z-0"] * 7
    assert target.listing_errors == [f"{disk / 'a-0'}: No such file or directory"]


def test_a_disk_that_fails_in_one_directory_costs_that_one(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "lost+found":
            raise OSError(5, "Input/output error", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    target = resolve_path(str(disk))
    found = list(target.iter_files(LOG_KINDS))
    assert len(found) == 14
    assert target.listing_errors == [f"{disk / 'lost+found'}: Input/output error"]


def test_a_directory_with_nothing_but_an_unreadable_one_is_not_called_empty(tmp_path: Path) -> None:
    inner = tmp_path / "top" / "a-0"
    inner.mkdir(parents=True)
    inner.chmod(0)
    done = kfmt_bound("verify-crc", tmp_path / "top")
    inner.chmod(0o700)
    assert (done.code, done.out) == (3, "")
    assert done.err == f"kfmt: {inner}: Permission denied\n"


def test_one_unreadable_file_does_not_end_the_walk(disk: Path) -> None:
    (disk / "lost+found").rmdir()
    (disk / "a-0" / ORDERS.name).chmod(0)
    for command in ("dump", "verify-crc"):
        done = kfmt_bound(command, disk)
        assert done.code == 3
        assert f"kfmt: {disk / 'a-0' / ORDERS.name}: Permission denied\n" in done.err
        listed = done.out if command == "dump" else kfmt_bound(command, disk, "--all").out
        assert "z-0/00000000000000001440.log" in listed
        assert "no damage" not in done.out


def test_files_in_a_directory_that_may_be_listed_only_are_each_named(disk: Path) -> None:
    (disk / "lost+found").rmdir()
    (disk / "a-0").chmod(0o600)
    done = kfmt_bound("verify-crc", disk, "--json")
    assert done.code == 3
    assert done.err.count("Permission denied") == 7
    assert done.of("summary")[0]["unread"] == 7
    assert done.of("summary")[0]["files"] == 7


def test_a_summary_of_what_was_all_read_says_so() -> None:
    done = kfmt("verify-crc", SAMPLES / "kafka-3.9.1-broker1/orders-0", "--json")
    assert done.of("summary")[0]["unread"] == 0
