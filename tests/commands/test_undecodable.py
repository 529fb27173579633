"""Batches that cannot be decompressed: every command reports them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tests.support.segments import undecodable
from tools.kafka import SAMPLES

SAMPLE = SAMPLES / "kafka-3.9.1-broker1/codec-zstd-0"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A partition whose batch of offsets 500–599 has a valid checksum and is not zstd."""
    shutil.copytree(SAMPLE, tmp_path / "codec-zstd-0")
    log = next(iter((tmp_path / "codec-zstd-0").glob("*.log")))
    log.write_bytes(undecodable(log.read_bytes(), 5))
    return tmp_path / "codec-zstd-0"


@pytest.mark.parametrize(
    "arguments",
    [
        ("find", "--timestamp", "1700000055000"),
        ("find", "--offset", "555"),
        ("find", "--key", "k5"),
        ("find", "--key", "k5", "--from-offset", "500", "--to-offset", "599"),
        ("cat", "--key", "k5"),
        ("dump", "--records"),
        ("verify-crc", "--deep"),
    ],
    ids=" ".join,
)
def test_a_batch_that_cannot_be_decompressed_is_reported(
    arguments: tuple[str, ...], damaged: Path
) -> None:
    name, *options = arguments
    result = kfmt(name, damaged, *options)
    assert result.code == 1
    assert "decompression-failed" in result.out + result.err
    assert kfmt(name, SAMPLE, *options).code == 0


@pytest.mark.parametrize("options", [("--deep",), ("--key", "k5")])
def test_statistics_say_how_many_batches_they_lack(options: tuple[str, ...], damaged: Path) -> None:
    assert "1 batch was not decoded: damaged, or cannot be" in kfmt("stat", damaged, *options).err
    assert kfmt("stat", SAMPLE, *options).err == ""


@pytest.mark.parametrize("name", ["orders-0", "appendtime-0", "codec-zstd-0", "txn-0"])
def test_the_smallest_timestamp_is_that_of_a_record(name: str) -> None:
    partition = SAMPLE.with_name(name)
    (row,) = kfmt("stat", partition, "--deep", "--json").of("stat")
    records = kfmt("dump", partition, "--records", "--json").of("record")
    times = [record["timestamp"] for record in records]
    assert (row["min_timestamp"], row["max_timestamp"]) == (min(times), max(times))
