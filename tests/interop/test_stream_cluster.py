"""A stream on a real cluster follows a real broker that writes, rolls, deletes and compacts, while
broker, executors and driver are killed: its table has each offset once."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import kfmt_cli
from tests.support.spark_cluster import PROCESSES, Cluster, cluster
from tools import kafka, live

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
clients = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.interop,
    pytest.mark.clusters,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
    pytest.mark.skipif(not PROCESSES.exists(), reason="there is no /proc"),
]
PARTITIONS, KEYS, ROUNDS = 3, 50, 2
PATIENCE = 300  # seconds
PAUSE = 0.01  # between records
SETTINGS = {
    "log.segment.bytes": "60000",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
}
Place = tuple[str, int, int]

DRIVER = """
import sys
from pyspark.sql import SparkSession
from kfmt_cli.spark import register

data, to, master, java = sys.argv[1], sys.argv[2], sys.argv[4], sys.argv[6]
name, _, value = java.partition("=")
spark = SparkSession.builder.master(master).config(name, value).getOrCreate()
register(spark)
rows = (
    spark.readStream.format("kfmt")
    .option("columns", "topic,partition,offset,key,value")
    .option("topics", "orders,keys")
    .option("maxBytesPerTrigger", "1000000")
    .load(data)
)
query = (
    rows.writeStream.format("parquet")
    .option("path", f"{to}/table")
    .option("checkpointLocation", f"{to}/checkpoint")
    .trigger(processingTime="1 second")
    .start()
)
query.awaitTermination()
"""


def until(what: str, question: Callable[[], Any]) -> Any:
    """What a question gives once it gives something."""
    end = time.monotonic() + PATIENCE
    while not (found := question()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found


@dataclass
class Written:
    """Records that a thread sends to a broker, as long as it runs; some with equal keys."""

    acknowledged: dict[Place, tuple[bytes, bytes]] = field(default_factory=dict)
    """Key and value by place."""
    _n: int = 0

    @contextmanager
    def to(self, address: str) -> Iterator[None]:
        """Write until the block ends; what a killed broker does not answer is forgotten."""
        producer = clients.Producer(
            {"bootstrap.servers": address, "log_level": 0, "message.timeout.ms": 10_000}
        )
        is_over = threading.Event()

        def write() -> None:
            while not is_over.wait(PAUSE):
                self._n += 1
                key, value = b"%d" % (self._n % KEYS), b"%d" % self._n + bytes(100)
                for topic, partition in (("orders", self._n % PARTITIONS), ("keys", 0)):
                    with suppress(BufferError):
                        producer.produce(topic, value, key, partition, on_delivery=self._take)
                producer.poll(0)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            producer.flush(10)
            producer.purge()

    def _take(self, error: object, sent: Any) -> None:
        if error is None:
            place = sent.topic(), sent.partition(), sent.offset()
            self.acknowledged[place] = sent.key(), sent.value()


@dataclass
class Table:
    """What the stream has committed."""

    to: Path

    def files(self) -> set[str]:
        """The files of all commits of Spark's sink."""
        lines = (
            line
            for log in (self.to / "table/_spark_metadata").glob("[0-9]*")
            for line in log.read_text().splitlines()
            if line.startswith("{")
        )
        return {json.loads(line)["path"].removeprefix("file://") for line in lines}

    def rows(self) -> list[tuple[Place, tuple[bytes, bytes]]]:
        """Place, key and value of each row."""
        found = []
        for file in sorted(self.files()):
            for row in pq.ParquetFile(file).read().to_pylist():
                place = row["topic"], row["partition"], row["offset"]
                found.append((place, (row["key"], row["value"])))
        return found

    def ends(self) -> Counter[tuple[str, int]]:
        """One more than the last offset of each partition."""
        ends: Counter[tuple[str, int]] = Counter()
        for (topic, partition, offset), _ in self.rows():
            ends[topic, partition] = max(ends[topic, partition], offset + 1)
        return ends


def delete_below(address: str, ends: dict[tuple[str, int], int]) -> None:
    """Have the broker delete what the table already has."""
    client = admin.AdminClient({"bootstrap.servers": address, "log_level": 0})
    places = [
        clients.TopicPartition(topic, partition, end // 2)
        for (topic, partition), end in ends.items()
        if topic == "orders"
    ]
    for done in client.delete_records(places).values():
        done.result(PATIENCE)


def created(address: str) -> None:
    """Make both topics."""
    client = admin.AdminClient({"bootstrap.servers": address, "log_level": 0})
    compact = {"cleanup.policy": "compact"}
    topics = [
        admin.NewTopic("orders", PARTITIONS, 1),
        admin.NewTopic("keys", 1, 1, config=compact),
    ]
    for done in client.create_topics(topics).values():
        done.result(PATIENCE)


class Driver:
    """The stream's driver, a process of its own."""

    def __init__(self, spark_cluster: Cluster, *command: str | Path) -> None:
        self._lines: list[str] = []
        self.process = spark_cluster.run(*command)
        self._reads = threading.Thread(target=self._read)
        self._reads.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            self._lines.extend(said)

    def kill(self) -> str:
        """Kill it; what it said."""
        self.process.kill()
        self.process.wait()
        self._reads.join()
        return "".join(self._lines)


def kill_executor(spark_cluster: Cluster) -> None:
    """Kill an executor with its Python, as when its machine goes down."""
    executor, below = next(iter(until("no executor", spark_cluster.executors).items()))
    for process in (executor, *below):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_each_offset_is_there_once(tmp_path: Path) -> None:
    data, table, script = tmp_path / "data", Table(tmp_path / "out"), tmp_path / "driver.py"
    script.write_text(DRIVER)
    (tmp_path / "spark").mkdir()
    places = [("orders", n) for n in range(PARTITIONS)]
    written = Written()
    live.format_storage(kafka.VERSION, data, tmp_path)

    def grows() -> None:
        """Wait until the table has more rows of each partition of orders."""
        before = table.ends()

        def has_grown() -> bool:
            assert driver.process.poll() is None
            now = table.ends()
            return all(now[place] > before[place] for place in places)

        until("the table does not grow", has_grown)

    with cluster(tmp_path / "spark", workers=2) as spark_cluster:
        driver = Driver(spark_cluster, script, data, table.to)
        try:
            for number in range(ROUNDS):
                with live.live(kafka.VERSION, data, tmp_path, SETTINGS) as broker:
                    if number == 0:
                        created(broker.address)
                    with written.to(broker.address):
                        grows()
                        kill_executor(spark_cluster)
                        grows()
                        delete_below(broker.address, table.ends())
                        driver.kill()
                        driver = Driver(spark_cluster, script, data, table.to)
                        grows()
                        broker.kill()
            with live.live(kafka.VERSION, data, tmp_path, SETTINGS) as broker:
                with written.to(broker.address):
                    grows()

                    def has_deleted() -> bool:
                        delete_below(broker.address, table.ends())
                        return all(min(left(data, *place)) > 0 for place in places)

                    until("nothing is deleted", has_deleted)
                ends = log_ends(data)
                until("the table does not reach the end", lambda: table.ends() == ends)
                until("nothing is cleaned", lambda: len(left(data, "keys")) < ends["keys", 0])
        finally:
            sys.stdout.write(driver.kill())
    rows = table.rows()
    assert set(Counter(place for place, _ in rows).values()) == {1}
    held = dict(rows)
    for topic, partition in places:
        found = sorted(at for name, n, at in held if (name, n) == (topic, partition))
        assert found == list(range(ends[topic, partition]))
    assert left(data, "keys") <= {at for name, _, at in held if name == "keys"}
    shared = held.keys() & written.acknowledged.keys()
    assert len(shared) > 1000  # that the broker has acknowledged
    for place in shared:
        assert held[place] == written.acknowledged[place]


def left(data: Path, topic: str, partition: int = 0) -> set[int]:
    """The offsets in the broker's logs."""
    rows = kfmt_cli.read_records(data / f"{topic}-{partition}", columns=["offset"])
    return {offset for batch in rows.arrow() for offset in batch.column("offset").to_pylist()}


def log_ends(data: Path) -> dict[tuple[str, int], int]:
    """One more than the last offset of each partition."""
    places = [*(("orders", n) for n in range(PARTITIONS)), ("keys", 0)]
    return {place: max(left(data, *place)) + 1 for place in places}
