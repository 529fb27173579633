"""Segments in tiered storage that overlap each other or the local log are read once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import count, pairwise
from pathlib import Path

import pytest

from tests.execution.test_replica_splits import (
    N_RECORDS,
    Cluster,
    Row,
    batch,
    is_comparable,
    read_rows,
    rows_of_batches,
    split_into_segments,
)
from tests.support.samples import ORDERS, TXN
from tests.support.segments import positions
from tools.kafka import ROOT

pytest.importorskip("pyarrow")

AIVEN = ROOT / "tests/kept/aiven-1.0.0"
TOPIC = frozenset(["txn"])
ORDERS_TOPIC = frozenset(["orders"])
ORDERS_ID = "dBTOQbxTTHCRU6Dj2tWbDQ"  # of the bucket
N_TIERED = 1440  # records of orders in the bucket


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


def set_epoch(data: bytes, epoch: int, from_offset: int = 0) -> bytes:
    """A log with another leader epoch from an offset on; no checksum covers it."""
    changed = bytearray(data)
    for start, _ in pairwise([*positions(data), len(data)]):
        if first_offset_at(data, start) >= from_offset:
            changed[start + 12 : start + 16] = epoch.to_bytes(4, "big")
    return bytes(changed)


def write_local_log(
    directory: Path, *base_offsets: int, epoch: int = 0, from_offset: int = 0
) -> None:
    """Write segments of orders, with the topic id of the bucket."""
    directory.mkdir(parents=True)
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {ORDERS_ID}\n")
    for base_offset in base_offsets:
        data = (ORDERS.parent / f"{base_offset:020}.log").read_bytes()
        (directory / f"{base_offset:020}.log").write_bytes(set_epoch(data, epoch, from_offset))
    lines = ["0", "1", "0 0"] if not epoch else ["0", "2", "0 0", f"{epoch} {from_offset}"]
    (directory / "leader-epoch-checkpoint").write_text("\n".join([*lines, ""]))


def rows_of(*ranges: tuple[int, int, int]) -> Counter[Row]:
    return Counter(
        (ORDERS_ID, 0, offset, epoch)
        for first, end, epoch in ranges
        for offset in range(first, end)
    )


def test_a_local_log_that_ends_before_the_tiered_one(bucket: Path, tmp_path: Path) -> None:
    """The disk of a follower that was dead for a while."""
    write_local_log(tmp_path / "disk/orders-0", 240, 480)
    paths = bucket, tmp_path / "disk"
    assert read_rows(*paths, topics=ORDERS_TOPIC) == rows_of((0, N_TIERED, 0))
    assert read_rows(*reversed(paths), topics=ORDERS_TOPIC) == rows_of((0, N_TIERED, 0))
    (tmp_path / "disk/orders-0/partition.metadata").unlink()
    assert Counter(row[2] for row in read_rows(*paths, topics=ORDERS_TOPIC).elements()) == Counter(
        range(N_TIERED)
    )


def test_a_local_log_of_a_later_leader_than_the_tiered_one(bucket: Path, tmp_path: Path) -> None:
    write_local_log(tmp_path / "disk/orders-0", 240, 480, epoch=1, from_offset=600)
    messages: list[str] = []
    rows = read_rows(bucket, tmp_path / "disk", topics=ORDERS_TOPIC, messages=messages)
    assert rows == rows_of((0, 600, 0), (600, 720, 1))
    assert any("diverges at offset 600" in message for message in messages)


def write_tiered_log(
    bucket: Path, base_offset: int, upload: str, *, epoch: int = 0, from_offset: int = 0
) -> None:
    """Write a segment of orders and its manifest, with an epoch from an offset on, else epoch 0.
    upload: one character of the segment's id."""
    data = (ORDERS.parent / f"{base_offset:020}.log").read_bytes()
    starts = {0: base_offset} if base_offset < from_offset else {}
    if from_offset < base_offset + 240:
        starts[epoch] = max(from_offset, base_offset)
    write_tiered_segment(
        bucket, base_offset, base_offset + 239, set_epoch(data, epoch, from_offset), starts, upload
    )


def write_tiered_segment(
    bucket: Path,
    base_offset: int,
    last_offset: int,
    data: bytes,
    starts: dict[int, int],
    upload: str,
) -> None:
    """Write a segment and its manifest. starts: the first offset of each leader epoch."""
    partition = {"topicId": ORDERS_ID, "topicPartition": {"topic": "orders", "partition": 0}}
    manifest = {
        "version": "1",
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": 1 << 20,
            "originalFileSize": len(data),
            "transformedChunkSize": 1 << 20,
            "finalTransformedChunkSize": len(data),
        },
        "segmentIndexes": {},
        "compression": False,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {"topicIdPartition": partition, "id": upload * 22},
            "startOffset": base_offset,
            "endOffset": last_offset,
            "segmentLeaderEpochs": {str(epoch): start for epoch, start in starts.items()},
        },
    }
    directory = bucket / f"orders-{ORDERS_ID}/0"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020}-{upload * 22}"
    path.with_suffix(".log").write_bytes(data)
    path.with_suffix(".rsm-manifest").write_text(json.dumps(manifest))


def test_a_tiered_log_of_a_later_leader_than_the_local_one(tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    for base_offset in range(0, N_TIERED, 240):
        write_tiered_log(bucket, base_offset, "A", epoch=2, from_offset=800)
    assert read_rows(bucket, topics=ORDERS_TOPIC) == rows_of((0, 800, 0), (800, N_TIERED, 2))
    write_local_log(tmp_path / "disk/orders-0", *range(240, 1441, 240))
    rows = read_rows(bucket, tmp_path / "disk", topics=ORDERS_TOPIC)
    assert rows == rows_of((0, 800, 0), (800, N_TIERED, 2))


@pytest.mark.parametrize("epochs", ["missing", None, {}])
def test_a_manifest_without_leader_epochs(epochs: object, bucket: Path, tmp_path: Path) -> None:
    for manifest in bucket.glob("orders-*/0/*.rsm-manifest"):
        document = json.loads(manifest.read_text())
        document["remoteLogSegmentMetadata"]["segmentLeaderEpochs"] = epochs
        if epochs == "missing":
            del document["remoteLogSegmentMetadata"]["segmentLeaderEpochs"]
        manifest.write_text(json.dumps(document))
    write_local_log(tmp_path / "disk/orders-0", 240, 480)
    rows = read_rows(bucket, tmp_path / "disk", topics=ORDERS_TOPIC)
    assert rows == rows_of((0, N_TIERED, 0))


def test_of_two_uploads_that_of_the_later_leader_is_read(tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    for base_offset in range(0, 720, 240):
        write_tiered_log(bucket, base_offset, "A")
        write_tiered_log(bucket, base_offset, "B", epoch=1, from_offset=600)
    rows = read_rows(bucket, topics=ORDERS_TOPIC)
    assert rows == rows_of((0, 600, 0), (600, 720, 1))


def test_a_local_log_that_is_ahead_is_not_read_to_compare(
    bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_local_log(tmp_path / "disk/orders-0", *range(480, 1441, 240))
    with monkeypatch.context() as patch:
        patch.setattr("kfmt_cli.execution.replica_splits.read_log_contents", None)
        rows = read_rows(bucket, tmp_path / "disk", topics=ORDERS_TOPIC)
    assert rows == rows_of((0, 1500, 0))


def test_all_replicas_are_the_local_and_the_tiered_one(bucket: Path, tmp_path: Path) -> None:
    write_local_log(tmp_path / "disk/orders-0", 240)
    rows = read_rows(bucket, tmp_path / "disk", topics=ORDERS_TOPIC, reads_all_replicas=True)
    assert rows == rows_of((0, N_TIERED, 0), (240, 480, 0))


def write_tiered_history(cluster: Cluster, bucket: Path) -> set[tuple[int, int]]:
    """Write a part of the leader's history as segments, some of them twice; returns its batches."""
    generator = cluster.random
    end = generator.randint(1, len(cluster.history))
    tiered = cluster.history[generator.choice((0, 0, end // 2)) : end]
    for base_offset, batches in split_into_segments(tiered, generator).items():
        starts: dict[int, int] = {}
        for first_offset, epoch in batches:
            starts.setdefault(epoch, first_offset)
        data = b"".join(batch(*one) for one in batches)
        for upload in generator.choice(("A", "A", "AB")):
            last_offset = batches[-1][0] + N_RECORDS - 1
            write_tiered_segment(bucket, base_offset, last_offset, data, starts, upload)
    return set(tiered)


@pytest.mark.parametrize("seed", range(20))
def test_replicas_of_a_random_cluster_and_a_bucket(seed: int, tmp_path: Path) -> None:
    clusters = (
        Cluster(number, tmp_path / f"disks{number}", topic_id=ORDERS_ID)
        for number in count(seed * 100)
    )
    cluster = next(filter(is_comparable, clusters))
    disks = cluster.replicas[0].directory.parent.parent
    tiered = write_tiered_history(cluster, tmp_path / "bucket")
    expected = (cluster.expected() | tiered) & set(cluster.history)
    rows = read_rows(tmp_path / "bucket", disks, topics=ORDERS_TOPIC)
    assert max(rows.values()) == 1
    assert max(Counter(row[2] for row in rows).values()) == 1, "two branches"
    assert rows_of_batches(ORDERS_ID, expected) - rows == Counter()
    damaged = {
        one for replica in cluster.replicas for one in cluster.history if one[0] in replica.damaged
    }
    assert rows - rows_of_batches(ORDERS_ID, expected | damaged) == Counter()
