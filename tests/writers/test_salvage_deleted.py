"""`kfmt salvage --deleted`: topics and segments that a broker marked as deleted come back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, TXN, Done, kfmt
from tools.kafka import SAMPLES

CODEC = SAMPLES / "kafka-3.9.1-broker1/codec-none-0"


def log_bytes(directory: Path) -> dict[str, bytes]:
    """The contents of the logs under a directory, by relative path."""
    return {str(log.relative_to(directory)): log.read_bytes() for log in directory.rglob("*.log")}


def deleted(directory: Path, disk: Path, letter: str) -> None:
    """Copy a partition as a broker leaves it when its topic, orders, is deleted."""
    shutil.copytree(directory, disk / f"orders-0.{letter * 32}-delete")


def salvaged(disk: Path, *options: str) -> Done:
    result = kfmt("salvage", disk, disk.with_name("out"), *options)
    assert result.code == 0, result.err
    return result


def test_a_deleted_topic_comes_back_under_its_name_if_asked_for(tmp_path: Path) -> None:
    disk, out = tmp_path / "disk", tmp_path / "out"
    shutil.copytree(TXN.parent, disk / "txn-0")
    deleted(CODEC, disk, "a")
    result = salvaged(disk)
    assert "marked by a broker as deleted; use --deleted to bring it back" in result.err
    assert log_bytes(out).keys() == {f"txn-0/{log}" for log in log_bytes(TXN.parent)}
    shutil.rmtree(out)
    result = salvaged(disk, "--deleted")
    assert "not copied" not in result.err
    assert log_bytes(out / "orders-0") == log_bytes(CODEC)


@pytest.mark.parametrize("exists_again", [False, True])
def test_each_life_of_a_topic_has_a_directory(exists_again: bool, tmp_path: Path) -> None:
    disk, out = tmp_path / "disk", tmp_path / "out"
    sources = [CODEC, TXN.parent, CODEC]
    for source, letter in zip(sources, "abc", strict=True):
        deleted(source, disk, letter)
    names = ["orders-0", "deleted/orders-0", "deleted-2/orders-0", "deleted-3/orders-0"]
    if exists_again:
        shutil.copytree(ORDERS.parent, disk / "orders-0")
        sources = [ORDERS.parent, *sources]
    salvaged(disk, "--deleted")
    assert log_bytes(out) == {
        f"{name}/{log}": data
        for name, source in zip(names, sources, strict=False)
        for log, data in log_bytes(source).items()
    }


def test_deleted_segments_come_back_without_the_log_start_offset(tmp_path: Path) -> None:
    disk, out = tmp_path / "disk", tmp_path / "out"
    shutil.copytree(ORDERS.parent, disk / "orders-0")
    first, second, *_ = sorted(log.name for log in (disk / "orders-0").glob("*.log"))
    (disk / "orders-0" / first).rename(disk / "orders-0" / f"{first}.deleted")
    start_offsets = disk / "log-start-offset-checkpoint"
    start_offsets.write_text(f"0\n1\norders 0 {int(second[:20])}\n")
    result = salvaged(disk)
    assert "use --deleted to include .deleted logs" in result.out + result.err
    assert first not in log_bytes(out / "orders-0")
    assert (out / start_offsets.name).read_bytes() == start_offsets.read_bytes()
    shutil.rmtree(out)
    salvaged(disk, "--deleted")
    assert log_bytes(out / "orders-0") == log_bytes(ORDERS.parent)
    assert not (out / start_offsets.name).exists()
