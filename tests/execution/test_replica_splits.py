"""Each record is read once, whatever replicas of its partition are in the paths.

For more: `python -m tests.execution.test_replica_splits FIRST COUNT`.
"""

from __future__ import annotations

import random
import shutil
import struct
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from kfmt_cli.arrow.columns.tables import read_table_rows
from kfmt_cli.arrow.input_files import list_input_files, mount_split_files
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from tests.support.samples import ORDERS
from tests.support.segments import positions
from tools.kafka import SAMPLES

N_RECORDS = 20  # of a batch
DATA = ORDERS.read_bytes()
BATCH = DATA[: positions(DATA)[1]]
OTHER_BATCH = DATA[positions(DATA)[1] : positions(DATA)[2]]
BROKERS = (SAMPLES / "kafka-3.9.1-broker1", SAMPLES / "kafka-3.9.1-broker2")
Row = tuple[str | None, int, int, int]
"""Topic id, partition, offset and leader epoch."""


def batch(first_offset: int, epoch: int) -> bytes:
    """A batch of 20 records; its checksum covers neither its base offset nor its epoch."""
    return struct.pack(">q", first_offset) + BATCH[8:12] + struct.pack(">i", epoch) + BATCH[16:]


@dataclass
class Replica:
    """A directory: batches as offset and epoch, in segments, and what is damaged in it."""

    directory: Path
    segments: dict[int, list[tuple[int, int]]]
    damaged: set[int] = field(default_factory=set)

    def write(self, topic_id: str | None) -> None:
        self.directory.mkdir(parents=True)
        if topic_id is not None:
            text = f"version: 0\ntopic_id: {topic_id}"
            (self.directory / "partition.metadata").write_text(text)
        for base, batches in self.segments.items():
            encoded = bytearray()
            for first_offset, epoch in batches:
                encoded_batch = bytearray(batch(first_offset, epoch))
                if first_offset in self.damaged:
                    encoded_batch[40] ^= 1  # the checksum no longer matches
                encoded += encoded_batch
            (self.directory / f"{base:020}.log").write_bytes(encoded)
        starts: dict[int, int] = {}
        for first_offset, epoch in chain.from_iterable(self.segments.values()):
            starts.setdefault(epoch, first_offset)
        lines = ["0", str(len(starts)), *(f"{epoch} {start}" for epoch, start in starts.items())]
        (self.directory / "leader-epoch-checkpoint").write_text("".join(f"{x}\n" for x in lines))

    @property
    def undamaged(self) -> set[tuple[int, int]]:
        return {
            one
            for batches in self.segments.values()
            for one in batches
            if one[0] not in self.damaged
        }


def read_rows(*paths: Path, messages: list[str] | None = None, **options: object) -> Counter[Row]:
    """The rows of the data source, each with its identity."""
    columns = ("topic_id", "partition", "offset", "leader_epoch")
    request = ReadRequest(
        paths=tuple(map(str, paths)), columns=columns, reads_all_replicas=False, parallelism=1
    )
    request = replace(request, **options)  # type: ignore[arg-type]
    files = list_input_files(request, None if messages is None else messages.append)
    rows: Counter[Row] = Counter()
    with mount_split_files(request, files):
        for rows_batch in read_table_rows(request, files):
            rows.update(zip(*(rows_batch[name].to_pylist() for name in columns), strict=True))
    return rows


def rows_of_batches(topic_id: str | None, batches: set[tuple[int, int]]) -> Counter[Row]:
    return Counter(
        (topic_id, 0, first_offset + i, epoch)
        for first_offset, epoch in batches
        for i in range(N_RECORDS)
    )


def split_into_segments(
    batches: list[tuple[int, int]], generator: random.Random
) -> dict[int, list[tuple[int, int]]]:
    segments: dict[int, list[tuple[int, int]]] = {}
    for one in batches:
        if not segments or generator.random() < 0.3:
            segments[one[0]] = []
        segments[max(segments)].append(one)
    return segments


class Cluster:
    """Replicas of a partition that lag, have deleted old segments, or are damaged or diverged."""

    def __init__(self, seed: int, root: Path, topic_id: str | None = None) -> None:
        self.random = generator = random.Random(seed)
        random_id = format_uuid(seed.to_bytes(16, "big")) if generator.random() < 0.8 else None
        self.topic_id = topic_id or random_id
        epoch, history = 0, list[tuple[int, int]]()
        for number in range(generator.randint(3, 14)):
            epoch += generator.random() < 0.3
            history.append((number * N_RECORDS, epoch))
        self.history, self.replicas = history, list[Replica]()
        for number in range(generator.randint(2, 3)):
            first = generator.randint(0, len(history) - 1) if generator.random() < 0.3 else 0
            end = generator.randint(first + 1, len(history)) if generator.random() < 0.4 else None
            batches = history[first:end]
            if number == 0:  # the leader of the latest epoch
                batches = history[first:]
            elif generator.random() < 0.3:
                batches = self.diverge(batches)
            replica = Replica(
                root / f"broker{number}/orders-0", split_into_segments(batches, generator)
            )
            if generator.random() < 0.5:
                replica.damaged = {one[0] for one in batches if generator.random() < 0.25}
            self.replicas.append(replica)
            replica.write(self.topic_id)

    def diverge(self, batches: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Batches that an earlier leader appended, which no leader of a later epoch has."""
        epochs = sorted({epoch for _, epoch in self.history})
        if len(epochs) < 2:
            return batches
        epoch = self.random.choice(epochs[:-1])
        end = max(first for first, other_epoch in self.history if other_epoch == epoch)
        shared = [one for one in batches if one[0] <= end]
        first_offset = end + N_RECORDS
        extra = [(first_offset + i * N_RECORDS, epoch) for i in range(self.random.randint(1, 3))]
        return [*shared, *extra] if shared else batches

    def expected(self) -> set[tuple[int, int]]:
        """The undamaged batches of the leader's history that any replica has."""
        undamaged = set().union(*(replica.undamaged for replica in self.replicas))
        return undamaged & set(self.history)

    def check(self, root: Path) -> None:
        rows = read_rows(root)
        assert not rows or max(rows.values()) == 1
        offsets = Counter(row[2] for row in rows)
        assert max(offsets.values()) == 1, "two branches"
        # Damaged batches may be readable in part where no replica has them undamaged.
        assert rows_of_batches(self.topic_id, self.expected()) - rows == Counter()
        damaged = {
            one for replica in self.replicas for one in self.history if one[0] in replica.damaged
        }
        assert rows - rows_of_batches(self.topic_id, self.expected() | damaged) == Counter()


def is_comparable(cluster: Cluster) -> bool:
    """Whether the leader has the beginning of its history, which shows where others diverge, and a
    batch in common with each, if there is no topic id."""
    leader = cluster.replicas[0]
    return min(leader.segments) == 0 and (
        cluster.topic_id is not None
        or all(leader.undamaged & replica.undamaged for replica in cluster.replicas)
    )


@pytest.mark.parametrize("seed", range(24))
def test_replicas_of_a_random_cluster(seed: int, tmp_path: Path) -> None:
    run_seed(seed, tmp_path)


def run_seed(seed: int, root: Path) -> None:
    cluster = Cluster(seed, root)
    if is_comparable(cluster):
        cluster.check(root)


def test_two_brokers_of_a_cluster() -> None:
    messages: list[str] = []
    rows = read_rows(*BROKERS, messages=messages, topics=frozenset(["replicated"]))
    assert len(rows) == rows.total() == 4000
    (message,) = messages
    assert message.startswith("1 partition with several replicas: each record is read once")
    every = read_rows(*BROKERS, topics=frozenset(["replicated"]), reads_all_replicas=True)
    assert every.total() == 8000
    metadata = read_rows(*BROKERS, topics=frozenset(["__cluster_metadata"]))
    assert metadata.total() == len(metadata) == 598


@pytest.mark.parametrize("table", ["snapshot_records", "segments"])
def test_snapshots_of_two_controllers_are_read_once(table: str, tmp_path: Path) -> None:
    """As an export, which also lists logs, or the data source, which lists only snapshots."""
    copy = tmp_path / "controller/__cluster_metadata-0"
    shutil.copytree(BROKERS[0] / "__cluster_metadata-0", copy)

    def list_snapshots(*paths: Path) -> list[FileSplit]:
        texts = tuple(map(str, paths))
        request = ReadRequest(table, texts, reads_all_replicas=False, parallelism=1)
        return [file for file in list_input_files(request) if file.kind is KRAFT_SNAPSHOT_KIND]

    assert len(list_snapshots(BROKERS[0])) == len(list_snapshots(BROKERS[0], tmp_path)) == 3
    (copy / "00000000000000000282-0000000001.checkpoint").write_bytes(b"")
    assert len(list_snapshots(BROKERS[0], tmp_path)) == (4 if table == "snapshot_records" else 3)


def test_divergence_is_named(tmp_path: Path) -> None:
    topic_id = format_uuid(bytes(16)[:-1] + b"\7")
    leader = Replica(tmp_path / "a/orders-0", {0: [(0, 0), (20, 0), (40, 2)]})
    follower = Replica(tmp_path / "b/orders-0", {0: [(0, 0), (20, 0), (40, 1), (60, 1)]})
    leader.write(topic_id)
    follower.write(topic_id)
    messages: list[str] = []
    rows = read_rows(tmp_path, messages=messages)
    assert rows == rows_of_batches(topic_id, {(0, 0), (20, 0), (40, 2)})
    assert "diverges at offset 40 from the one in" in messages[1]
    assert "(epoch 1, log end offset 80)" in messages[1]
    every = read_rows(tmp_path, reads_all_replicas=True)
    assert every.total() == 7 * N_RECORDS


def test_other_topics_with_the_same_name_are_read(tmp_path: Path) -> None:
    """Topic ids tell them apart; without ids, directories that share no batch."""
    Replica(tmp_path / "a/orders-0", {0: [(0, 0)]}).write(format_uuid(bytes(15) + b"\1"))
    Replica(tmp_path / "b/orders-0", {0: [(0, 0)]}).write(format_uuid(bytes(15) + b"\2"))
    assert read_rows(tmp_path).total() == 2 * N_RECORDS
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "a/orders-0/partition.metadata").unlink()
    (tmp_path / "c/orders-0").mkdir(parents=True)
    (tmp_path / f"c/orders-0/{0:020}.log").write_bytes(bytes(8) + OTHER_BATCH[8:])
    assert read_rows(tmp_path).total() == 2 * N_RECORDS
    shutil.copytree(tmp_path / "a/orders-0", tmp_path / "d/orders-0")
    assert read_rows(tmp_path).total() == 2 * N_RECORDS


def test_what_the_log_cleaner_removed_is_not_read_from_another_replica(tmp_path: Path) -> None:
    topic_id = format_uuid(bytes(15) + b"\3")
    cleaned = Replica(tmp_path / "a/orders-0", {0: [(0, 0), (40, 0)], 80: [(80, 0), (100, 0)]})
    lagging = Replica(tmp_path / "b/orders-0", {0: [(0, 0), (20, 0), (40, 0)]})
    cleaned.write(topic_id)
    lagging.write(topic_id)
    assert read_rows(tmp_path).total() == 4 * N_RECORDS


if __name__ == "__main__":
    first_seed, n_seeds = map(int, sys.argv[1:])
    for seed in range(first_seed, first_seed + n_seeds):
        with tempfile.TemporaryDirectory() as directory:
            try:
                run_seed(seed, Path(directory))
            except AssertionError as error:
                sys.stdout.write(f"{seed}: {str(error)[:300]}\n")
