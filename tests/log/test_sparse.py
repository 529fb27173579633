"""Logs with holes: they read as zeros, cost nothing, and are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kfmt_cli.core.throttle import READ_THROTTLE
from tests.support.samples import ORDERS, kfmt

GIB = 1 << 30
BLOCK = 4096
COMMANDS = (
    ("verify-crc",),
    ("check",),
    ("dump",),
    ("stat",),
    ("index-check",),
    ("find", "--key", "nobody"),
    ("txn",),
    ("export",),
    ("salvage",),
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a hole of almost 4 GiB in its middle, and one at its end; its batches are those of
    a sample. Skips where the file system stores zeros."""
    path = tmp_path / f"data/orders-0/{0:020}.log"
    path.parent.mkdir(parents=True)
    data = ORDERS.read_bytes()
    with path.open("wb") as file:
        file.write(data)
        file.seek(4 * GIB)
        file.write((ORDERS.parent / f"{240:020}.log").read_bytes())
        file.truncate(file.tell() + GIB)
    if path.stat().st_blocks * 512 > GIB:
        pytest.skip("the file system has no sparse files")
    return path


def holes(path: Path) -> list[int]:
    """The bytes in each hole, by the file system's own answer."""
    sizes = []
    with path.open("rb") as file:
        end = path.stat().st_size
        position = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        while position < end:
            try:
                data_start = os.lseek(file.fileno(), position, os.SEEK_DATA)
            except OSError:
                data_start = end
            sizes.append(data_start - position)
            position = (
                os.lseek(file.fileno(), data_start, os.SEEK_HOLE) if data_start < end else end
            )
    return sizes


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_holes_are_not_read(
    log: Path, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_bytes = 0

    def count(n: int) -> None:
        nonlocal n_bytes
        n_bytes += n

    monkeypatch.setattr(READ_THROTTLE, "report_read", count)
    name, *options = command
    target = {"salvage": (tmp_path / "out",), "export": ("--to", tmp_path / "out")}.get(name, ())
    jobs = ["--jobs", "1"] if name not in ("txn", "dump") else []
    kfmt(name, log.parent, *target, *options, *jobs)
    assert n_bytes < GIB // 8


def test_holes_are_named(log: Path) -> None:
    messages = [row["message"] for row in kfmt("verify-crc", log, "--json").of("finding")]
    assert [text.partition(" of them")[0].rpartition(" ")[2] for text in messages] == [
        str(size) for size in holes(log)
    ]
    assert all("in holes of the sparse file" in text for text in messages)


def test_stat_says_what_is_in_no_batch(log: Path) -> None:
    result = kfmt("stat", log.parent, "--json")
    [row] = result.of("stat")
    n_batch_bytes = ORDERS.stat().st_size + (ORDERS.parent / f"{240:020}.log").stat().st_size
    assert row["bytes"] == log.stat().st_size
    assert f"{log.stat().st_size - n_batch_bytes:,}".replace(",", " ") in result.err
