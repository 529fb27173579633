"""kfmt names directories that it cannot read, and processes the others."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfmt_cli.disk import file_listing
from kfmt_cli.disk.input_paths import resolve_path
from kfmt_cli.disk.kinds.logs import LOG_KINDS
from kfmt_cli.errors import InputError
from tests.support.samples import ORDERS, Done, environment, kfmt
from tools.kafka import ROOT, SAMPLES

COMMANDS = [("dump",), ("verify-crc",), ("index-check",), ("rebuild-index",), ("convert-v0-to-v2",)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Two partitions and, between them, a directory without permissions."""
    disk = tmp_path / "disk"
    for name in ("a-0", "z-0"):
        shutil.copytree(ORDERS.parent, disk / name)
    unreadable = disk / "lost+found"
    unreadable.mkdir()
    unreadable.chmod(0)
    yield disk
    for directory in disk.iterdir():
        directory.chmod(0o700)


# Root reads everything; without these capabilities, permissions apply to it as to other users.
DROP_CAPABILITIES_SCRIPT = """
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        dropped = ctypes.CDLL(None, use_errno=True).prctl(24, capability, 0, 0, 0)
        assert dropped == 0, os.strerror(ctypes.get_errno())
os.execv(sys.executable, [sys.executable, "-m", "kfmt_cli", *sys.argv[1:]])
"""


def kfmt_without_capabilities(*arguments: str | Path) -> Done:
    """Run kfmt as a user to whom permissions apply."""
    result = subprocess.run(
        [sys.executable, "-c", DROP_CAPABILITIES_SCRIPT, *map(str, arguments)],
        capture_output=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    return Done(result.returncode, result.stdout.decode(), result.stderr.decode())


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
    name, *options = (
        str(disk.parent / argument) if argument == "made" else argument for argument in command
    )
    arguments = [*options, str(disk)] if name == "sql" else [str(disk), *options]
    result = kfmt_without_capabilities(name, *arguments)
    assert result.code == 3
    errors = [line for line in result.err.splitlines() if line.startswith("kfmt: ")]
    assert errors == [f"kfmt: {disk / 'lost+found'}: Permission denied"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda item: item[0])
def test_an_unreadable_directory_is_named_and_the_rest_is_done(
    command: tuple[str, ...], disk: Path
) -> None:
    name = command[0]
    arguments: list[str | Path] = [*command, disk]
    if name in ("rebuild-index", "convert-v0-to-v2"):
        arguments.append(disk.parent / "new")
    result = kfmt_without_capabilities(*arguments)
    assert result.code == 3, result.err
    assert f"kfmt: {disk / 'lost+found'}: Permission denied\n" in result.err
    assert "Traceback" not in result.err
    assert "no damage" not in result.out
    if name == "dump":
        for partition in ("a-0", "z-0"):
            assert f"{partition}/00000000000000001440" in result.out
    if name == "dump":
        assert "kfmt: 60 files read, 1 could not be read\n" in result.err
    else:
        assert "0 of these damaged, 1 not read" in result.out
        assert result.out.splitlines()[-1].endswith("exit code 3") or name == "convert-v0-to-v2"
    if name == "convert-v0-to-v2":
        assert (disk.parent / "new/z-0" / ORDERS.name).exists()
        assert "1 file or directory that could not be read" in result.err


def test_a_directory_that_vanishes_during_the_walk_is_named(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original_scandir = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "a-0":
            Path(path).rename(disk.parent / "gone")
        return original_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (disk / "lost+found").rmdir()
    target = resolve_path(str(disk))
    files = list(target.iter_files(LOG_KINDS))
    assert [Path(file.name).parent for file in files] == [disk / "z-0"] * 7
    assert target.listing_errors == [f"{disk / 'a-0'}: No such file or directory"]


def test_a_missing_path_is_named_as_text(tmp_path: Path) -> None:
    """Also one that is not valid UTF-8."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a-\xff")
    with pytest.raises(InputError) as raised:
        list(file_listing.iter_files(path))
    assert str(raised.value) == f"{tmp_path}/a-\\xff: No such file or directory"


def test_a_disk_that_fails_in_one_directory_costs_that_one(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original_scandir = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "lost+found":
            raise OSError(5, "Input/output error", path)
        return original_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    target = resolve_path(str(disk))
    files = list(target.iter_files(LOG_KINDS))
    assert len(files) == 14
    assert target.listing_errors == [f"{disk / 'lost+found'}: Input/output error"]


def test_a_directory_with_nothing_but_an_unreadable_one_is_not_called_empty(tmp_path: Path) -> None:
    inner = tmp_path / "top" / "a-0"
    inner.mkdir(parents=True)
    inner.chmod(0)
    result = kfmt_without_capabilities("verify-crc", tmp_path / "top")
    inner.chmod(0o700)
    assert (result.code, result.out) == (3, "")
    assert result.err == f"kfmt: {inner}: Permission denied\n"


def test_one_unreadable_file_does_not_end_the_walk(disk: Path) -> None:
    (disk / "lost+found").rmdir()
    (disk / "a-0" / ORDERS.name).chmod(0)
    for command in ("dump", "verify-crc"):
        result = kfmt_without_capabilities(command, disk)
        assert result.code == 3
        assert f"kfmt: {disk / 'a-0' / ORDERS.name}: Permission denied\n" in result.err
        output = (
            result.out
            if command == "dump"
            else kfmt_without_capabilities(command, disk, "--all").out
        )
        assert "z-0/00000000000000001440.log" in output
        assert "no damage" not in result.out


def test_files_in_a_directory_that_may_be_listed_only_are_each_named(disk: Path) -> None:
    (disk / "lost+found").rmdir()
    (disk / "a-0").chmod(0o600)
    result = kfmt_without_capabilities("verify-crc", disk, "--json")
    assert result.code == 3
    assert result.err.count("Permission denied") == 7
    assert result.of("summary")[0]["unread"] == 7
    assert result.of("summary")[0]["files"] == 7


def test_a_summary_without_unreadable_files_counts_none() -> None:
    result = kfmt("verify-crc", SAMPLES / "kafka-3.9.1-broker1/orders-0", "--json")
    assert result.of("summary")[0]["unread"] == 0
