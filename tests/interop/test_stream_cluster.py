"""A stream on a real cluster follows a real broker that writes, rolls, deletes and compacts.

The test kills the broker, executors and the driver; the table has each offset once.
"""

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
Location = tuple[str, int, int]

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


def wait_until(description: str, condition: Callable[[], Any]) -> Any:
    """Call a condition until it returns a true value; returns this value."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, description
        time.sleep(0.1)
    return value


@dataclass
class RecordWriter:
    """A thread that sends records to a broker, some with equal keys."""

    acknowledged: dict[Location, tuple[bytes, bytes]] = field(default_factory=dict)
    """Key and value by location."""
    _n: int = 0

    @contextmanager
    def writing_to(self, address: str) -> Iterator[None]:
        """Write until the block ends; ignores records that a killed broker does not acknowledge."""
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
                        producer.produce(
                            topic, value, key, partition, on_delivery=self._on_delivery
                        )
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

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is None:
            location = message.topic(), message.partition(), message.offset()
            self.acknowledged[location] = message.key(), message.value()


@dataclass
class StreamTable:
    """The rows that the stream has committed."""

    directory: Path

    def files(self) -> set[str]:
        """The files of all commits of Spark's file sink."""
        lines = (
            line
            for log in (self.directory / "table/_spark_metadata").glob("[0-9]*")
            for line in log.read_text().splitlines()
            if line.startswith("{")
        )
        return {json.loads(line)["path"].removeprefix("file://") for line in lines}

    def rows(self) -> list[tuple[Location, tuple[bytes, bytes]]]:
        """Location, key and value of each row."""
        rows = []
        for file in sorted(self.files()):
            for row in pq.ParquetFile(file).read().to_pylist():
                location = row["topic"], row["partition"], row["offset"]
                rows.append((location, (row["key"], row["value"])))
        return rows

    def ends(self) -> Counter[tuple[str, int]]:
        """One more than the last offset of each partition."""
        ends: Counter[tuple[str, int]] = Counter()
        for (topic, partition, offset), _ in self.rows():
            ends[topic, partition] = max(ends[topic, partition], offset + 1)
        return ends


def delete_records(address: str, ends: dict[tuple[str, int], int]) -> None:
    """Make the broker delete records that the table already has."""
    client = admin.AdminClient({"bootstrap.servers": address, "log_level": 0})
    partitions = [
        clients.TopicPartition(topic, partition, end // 2)
        for (topic, partition), end in ends.items()
        if topic == "orders"
    ]
    for future in client.delete_records(partitions).values():
        future.result(PATIENCE)


def create_topics(address: str) -> None:
    """Create both topics."""
    client = admin.AdminClient({"bootstrap.servers": address, "log_level": 0})
    compact = {"cleanup.policy": "compact"}
    topics = [
        admin.NewTopic("orders", PARTITIONS, 1),
        admin.NewTopic("keys", 1, 1, config=compact),
    ]
    for future in client.create_topics(topics).values():
        future.result(PATIENCE)


class Driver:
    """The stream's driver, a process of its own."""

    def __init__(self, spark_cluster: Cluster, *command: str | Path) -> None:
        self._lines: list[str] = []
        self.process = spark_cluster.run(*command)
        self._reads = threading.Thread(target=self._read)
        self._reads.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            self._lines.extend(stdout)

    def kill(self) -> str:
        """Kill it; returns its output."""
        self.process.kill()
        self.process.wait()
        self._reads.join()
        return "".join(self._lines)


def kill_executor(spark_cluster: Cluster) -> None:
    """Kill an executor with its Python, as when its machine goes down."""
    executor, children = next(iter(wait_until("no executor", spark_cluster.executors).items()))
    for process in (executor, *children):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_each_offset_is_there_once(tmp_path: Path) -> None:
    data, table, script = tmp_path / "data", StreamTable(tmp_path / "out"), tmp_path / "driver.py"
    script.write_text(DRIVER)
    (tmp_path / "spark").mkdir()
    partitions = [("orders", n) for n in range(PARTITIONS)]
    writer = RecordWriter()
    live.format_storage(kafka.VERSION, data, tmp_path)

    def wait_for_growth() -> None:
        """Wait until the table has more rows of each partition of orders."""
        ends_before = table.ends()

        def has_grown() -> bool:
            assert driver.process.poll() is None
            ends_now = table.ends()
            return all(ends_now[location] > ends_before[location] for location in partitions)

        wait_until("the table does not grow", has_grown)

    with cluster(tmp_path / "spark", workers=2) as spark_cluster:
        driver = Driver(spark_cluster, script, data, table.directory)
        try:
            for round_index in range(ROUNDS):
                with live.live(kafka.VERSION, data, tmp_path, SETTINGS) as broker:
                    if round_index == 0:
                        create_topics(broker.address)
                    with writer.writing_to(broker.address):
                        wait_for_growth()
                        kill_executor(spark_cluster)
                        wait_for_growth()
                        delete_records(broker.address, table.ends())
                        driver.kill()
                        driver = Driver(spark_cluster, script, data, table.directory)
                        wait_for_growth()
                        broker.kill()
            with live.live(kafka.VERSION, data, tmp_path, SETTINGS) as broker:
                with writer.writing_to(broker.address):
                    wait_for_growth()

                    def has_deleted() -> bool:
                        delete_records(broker.address, table.ends())
                        return all(
                            min(retained_offsets(data, *location)) > 0 for location in partitions
                        )

                    wait_until("nothing is deleted", has_deleted)
                ends = log_ends(data)
                wait_until("the table does not reach the end", lambda: table.ends() == ends)
                wait_until(
                    "nothing is cleaned",
                    lambda: len(retained_offsets(data, "keys")) < ends["keys", 0],
                )
        finally:
            sys.stdout.write(driver.kill())
    rows = table.rows()
    assert set(Counter(location for location, _ in rows).values()) == {1}
    rows_by_location = dict(rows)
    for topic, partition in partitions:
        offsets = sorted(
            offset for name, n, offset in rows_by_location if (name, n) == (topic, partition)
        )
        assert offsets == list(range(ends[topic, partition]))
    assert retained_offsets(data, "keys") <= {
        offset for name, _, offset in rows_by_location if name == "keys"
    }
    shared = rows_by_location.keys() & writer.acknowledged.keys()
    assert len(shared) > 1000  # that the broker has acknowledged
    for location in shared:
        assert rows_by_location[location] == writer.acknowledged[location]


def retained_offsets(data: Path, topic: str, partition: int = 0) -> set[int]:
    """The offsets in the broker's logs."""
    rows = kfmt_cli.read_records(data / f"{topic}-{partition}", columns=["offset"])
    return {offset for batch in rows.arrow() for offset in batch.column("offset").to_pylist()}


def log_ends(data: Path) -> dict[tuple[str, int], int]:
    """One more than the last offset of each partition."""
    partitions = [*(("orders", n) for n in range(PARTITIONS)), ("keys", 0)]
    return {location: max(retained_offsets(data, *location)) + 1 for location in partitions}
