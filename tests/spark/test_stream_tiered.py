"""Streams over partitions of which local disks and tiered storage have segments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_stream import LOGS, METADATA, offsets
from tests.spark.test_stream_loss import follower
from tools.kafka import ROOT

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

AIVEN = ROOT / "tests/kept/aiven-1.0.0"
AIVEN_ID = "dBTOQbxTTHCRU6Dj2tWbDQ"  # of orders


def read_to_the_end(*paths: Path) -> tuple[list[int], dict[str, Any]]:
    """The offsets of all triggers in order, and the last positions."""
    source = follower(list(paths), topics="orders")
    actual: list[int] = []
    start: dict[str, Any] = {}
    while (end := source.latest_positions(start)) != start:
        actual += offsets(source, start, end)
        start = end
    return actual, start


def test_a_local_log_that_ends_before_the_tiered_one(tmp_path: Path) -> None:
    """The disk of a follower that was dead for a while."""
    bucket = Path(shutil.copytree(AIVEN / "zstd/tiered", tmp_path / "bucket"))
    local = tmp_path / "disk/orders-0"
    local.mkdir(parents=True)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {AIVEN_ID}\n")
    for log in LOGS[1:3]:
        shutil.copy(log, local)
    actual, positions = read_to_the_end(tmp_path / "disk", bucket)
    assert actual == list(range(1440))
    assert list(positions) == [f"orders-0@{AIVEN_ID}"]


def test_local_tiered_storage_and_the_local_log_are_one(tmp_path: Path) -> None:
    """Kafka's LocalTieredStorage has the topic id in the name of a directory. The broker has not
    yet deleted what it has copied there."""
    topic_id = METADATA.read_text().split()[-1]
    tiered, local = tmp_path / f"remote/orders-0-{topic_id}", tmp_path / "disk/orders-0"
    for directory in (tiered, local):
        directory.mkdir(parents=True)
    for number, log in enumerate(LOGS[:4]):
        shutil.copy(log, tiered / f"{log.stem}-{'A' * 21}{number}.log")
    shutil.copy(METADATA, local)
    for log in LOGS[2:6]:
        shutil.copy(log, local)
    actual, positions = read_to_the_end(tmp_path)
    assert actual == list(range(1440))
    assert list(positions) == [f"orders-0@{topic_id}"]
    source = follower([tmp_path], topics="orders")
    assert offsets(source, {}, source.latest_positions({})) == list(range(1440))  # in one trigger
