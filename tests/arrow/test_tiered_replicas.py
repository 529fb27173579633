"""Segments in tiered storage that overlap each other or the local log are read once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.execution.test_replica_splits import read_rows
from tests.support.samples import TXN
from tests.support.segments import positions
from tools.kafka import ROOT

pytest.importorskip("pyarrow")

AIVEN = ROOT / "tests/kept/aiven-1.0.0"
TOPIC = frozenset(["txn"])


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return Path(shutil.copytree(AIVEN / "zstd/tiered", tmp_path / "bucket"))


def first_offset_at(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "big")


def test_a_local_log_that_begins_within_a_tiered_segment(bucket: Path, tmp_path: Path) -> None:
    tiered_rows = read_rows(bucket, topics=TOPIC)
    (topic_id,) = {row[0] for row in tiered_rows}
    local, data = tmp_path / "disk/txn-0", (TXN.parent / f"{0:020}.log").read_bytes()
    local.mkdir(parents=True)
    position = positions(data)[3]
    base_offset = first_offset_at(data, position)
    (local / f"{base_offset:020}.log").write_bytes(data[position:])
    for log in sorted(TXN.parent.glob("*.log"))[1:]:
        shutil.copy(log, local)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    rows = read_rows(bucket, tmp_path / "disk", topics=TOPIC)
    assert max(rows.values()) == 1
    assert tiered_rows.keys() <= rows.keys()
    assert sorted(offset for _, _, offset, _ in rows) == sorted(
        offset for _, _, offset, _ in read_rows(TXN.parent)
    )
    # A topic that was made again has nothing of the tiered one.
    (local / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    rows = read_rows(bucket, tmp_path / "disk", topics=TOPIC)
    assert tiered_rows.keys() <= rows.keys()
    assert len({row[0] for row in rows}) == 2


def test_a_segment_that_was_uploaded_twice(bucket: Path) -> None:
    rows = read_rows(bucket, topics=TOPIC)
    assert rows
    for file in sorted(bucket.rglob("*txn*/0/*")):
        base, _, suffix = file.name.partition("-")
        shutil.copy(file, file.with_name(f"{base}-{'A' * 22}{suffix[22:]}"))
    assert read_rows(bucket, topics=TOPIC) == rows


def test_the_topic_id_of_local_tiered_storage_is_in_its_name(tmp_path: Path) -> None:
    directory = tmp_path / "txn-0-AAAAAAAAAAAAAAAAAAAAAQ"
    directory.mkdir()
    shutil.copy(TXN, directory / f"{0:020}.log")
    assert {row[0] for row in read_rows(tmp_path)} == {"AAAAAAAAAAAAAAAAAAAAAQ"}
