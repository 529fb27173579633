"""Logs under other names: looked at where no segment is next to them, else named as not checked."""

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
def two(tmp_path: Path) -> Path:
    """An undamaged partition, and next to it a directory for other files."""
    shutil.copytree(ORDERS.parent, tmp_path / "two/orders-0")
    (tmp_path / "two/damaged").mkdir()
    return tmp_path / "two"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["sample.log", "sample.log.gz", "copy of 0.log", "0.log.bak"])
def test_a_log_without_segments_next_to_it_is_checked(command: str, name: str, two: Path) -> None:
    data = FLIPPED.read_bytes()
    file = two / "damaged" / name
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    inside = two / "damaged"
    for paths in ((two,), (two, inside), (inside, two), (inside,), (two, file)):
        done = kfmt(command, *paths, "--json")
        assert (done.code, done.codes) == (1, ["crc-mismatch"]), paths
        assert done.of("finding")[0]["file"] == str(file)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["0.log.bak", "x.log.gz"])
def test_a_copy_next_to_segments_is_named_as_not_checked(
    command: str, name: str, two: Path
) -> None:
    file = two / "orders-0" / name
    data = ORDERS.read_bytes()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    done = kfmt(command, two)
    assert done.code == 0
    above, _, verdict = done.out.partition("no damage")
    assert str(file) in above
    assert verdict
    assert kfmt(command, two, "--strict").code == 1
    both = kfmt(command, two, file, "--strict", "--json")
    assert (both.code, both.codes) == (0, [])


@pytest.mark.parametrize("command", COMMANDS)
def test_what_other_programs_write_is_no_log(command: str, two: Path) -> None:
    (two / "damaged/server.log").write_text("[2026-11-20] INFO started (kafka.server)\n" * 9)
    (two / "damaged/000004.log").write_bytes(
        bytes.fromhex("8e1f0c9a1b0001") + bytes(8) + b"\1x" * 9
    )
    (two / "orders-0/server.log.1").write_text("[2026-11-20] INFO started (kafka.server)\n" * 9)
    done = kfmt(command, two, "--strict", "--json")
    assert (done.code, done.codes, done.err) == (0, [], "")


def test_no_start_is_promised_where_a_file_was_not_read(two: Path) -> None:
    log = two / "orders-0/00000000000000000240.log"
    log.write_text("version https://git-lfs.github.com/spec/v1\n")
    done = kfmt("check", two)
    assert done.code == 3
    assert "the broker would start" not in done.out
    assert "1 input not read: no broker start predicted" in done.out
    gone = kfmt("check", two / "orders-0/00000000000000000480.log", two / "gone", two / "damaged")
    assert "the broker would start" not in gone.out
