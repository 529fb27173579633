"""Logs under other names: checked if no segment is next to them, else reported as not checked."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt
from tools.kafka import ROOT

FLIPPED = ROOT / "damaged_segments/flipped-bit-0/00000000000000000000.log"
COMMANDS = ("check", "verify-crc")


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """An undamaged partition, and next to it a directory for other files."""
    shutil.copytree(ORDERS.parent, tmp_path / "two/orders-0")
    (tmp_path / "two/damaged").mkdir()
    return tmp_path / "two"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["sample.log", "sample.log.gz", "copy of 0.log", "0.log.bak"])
def test_a_log_without_segments_next_to_it_is_checked(
    command: str, name: str, log_directory: Path
) -> None:
    data = FLIPPED.read_bytes()
    file = log_directory / "damaged" / name
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    directory = log_directory / "damaged"
    for paths in (
        (log_directory,),
        (log_directory, directory),
        (directory, log_directory),
        (directory,),
        (log_directory, file),
    ):
        result = kfmt(command, *paths, "--json")
        assert (result.code, result.codes) == (1, ["crc-mismatch"]), paths
        assert result.of("finding")[0]["file"] == str(file)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["0.log.bak", "x.log.gz"])
def test_a_copy_next_to_segments_is_named_as_not_checked(
    command: str, name: str, log_directory: Path
) -> None:
    file = log_directory / "orders-0" / name
    data = ORDERS.read_bytes()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    result = kfmt(command, log_directory)
    assert result.code == 0
    text_before, _, verdict = result.out.partition("no damage")
    assert str(file) in text_before
    assert verdict
    assert kfmt(command, log_directory, "--strict").code == 1
    explicit = kfmt(command, log_directory, file, "--strict", "--json")
    assert (explicit.code, explicit.codes) == (0, [])


@pytest.mark.parametrize("command", COMMANDS)
def test_what_other_programs_write_is_no_log(command: str, log_directory: Path) -> None:
    (log_directory / "damaged/server.log").write_text(
        "[2026-11-20] INFO started (kafka.server)\n" * 9
    )
    (log_directory / "damaged/000004.log").write_bytes(
        bytes.fromhex("8e1f0c9a1b0001") + bytes(8) + b"\1x" * 9
    )
    (log_directory / "orders-0/server.log.1").write_text(
        "[2026-11-20] INFO started (kafka.server)\n" * 9
    )
    result = kfmt(command, log_directory, "--strict", "--json")
    assert (result.code, result.codes, result.err) == (0, [], "")


def test_no_start_is_promised_where_a_file_was_not_read(log_directory: Path) -> None:
    log = log_directory / "orders-0/00000000000000000240.log"
    log.write_text("version https://git-lfs.github.com/spec/v1\n")
    result = kfmt("check", log_directory)
    assert result.code == 3
    assert "the broker would start" not in result.out
    assert "1 input not read: no broker start predicted" in result.out
    missing = kfmt(
        "check",
        log_directory / "orders-0/00000000000000000480.log",
        log_directory / "gone",
        log_directory / "damaged",
    )
    assert "the broker would start" not in missing.out
