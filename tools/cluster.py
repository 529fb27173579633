"""A cluster of real brokers and a controller, each a separate process with separate disks.

Each node can be started and killed separately. The log directories are in `Cluster.directory`:
broker1, broker2, … and controller100; a broker with several has broker1a, broker1b. Requires what
tools/kafka.py requires, and confluent-kafka.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.broker import BrokerError, free_ports
from tools.kafka import java

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROLLER = 100
BROKERS = (1, 2, 3)
SESSION_SECONDS = 9.0  # broker.session.timeout.ms, Kafka's default
SETTLED_SECONDS = 5.0  # without a change, after which a cluster is settled
TIMEOUT = 120.0  # seconds until a node is up
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "5000",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.backoff.ms": "500",
    "controlled.shutdown.enable": "true",
}
_LISTENERS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"


def new_id() -> str:
    """A random id as Kafka writes it."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class State:
    """A partition in the metadata of the brokers."""

    leader: int | None
    isr: tuple[int, ...]


@dataclass(slots=True)
class Cluster:
    """A cluster of three brokers and a controller."""

    version: str
    directory: Path
    n_directories: int = 1
    """Log directories of each broker."""
    dynamic: bool = False
    """Whether the controllers form a dynamic quorum."""
    features: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    _ports: dict[int, int] = field(default_factory=dict)
    _running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = (*BROKERS, CONTROLLER)
        self._ports = dict(zip(nodes, free_ports(len(nodes)), strict=True))

    def directories(self, node: int) -> list[Path]:
        """The log directories of a node."""
        if node == CONTROLLER:
            return [self.directory / f"controller{node}"]
        names = "ab"[: self.n_directories] if self.n_directories > 1 else [""]
        return [self.directory / f"broker{node}{name}" for name in names]

    def format(self) -> None:
        """Create the directories of a new cluster."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for node in BROKERS:
            for directory in self.directories(node):
                self.format_disk(node, directory)
        arguments = [
            "format",
            "--cluster-id",
            CLUSTER_ID,
            "--config",
            str(self._config(CONTROLLER)),
        ]
        arguments += ["--standalone"] if self.dynamic else []
        for feature in self.features:
            arguments += ["--feature", feature]
        result = subprocess.run(
            java(self.version, "kafka.tools.StorageTool", *arguments),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise BrokerError(result.stdout + result.stderr)

    def format_disk(self, node: int, directory: Path) -> None:
        """Create a new, empty log directory of a node."""
        directory.mkdir(parents=True)
        lines = ("version=1", f"cluster.id={CLUSTER_ID}", f"node.id={node}")
        properties = "\n".join((*lines, f"directory.id={new_id()}", ""))
        (directory / "meta.properties").write_text(properties)

    def _config(self, node: int) -> Path:
        """The server.properties of a node."""
        port, controller_address = self._ports[node], f"127.0.0.1:{self._ports[CONTROLLER]}"
        quorum = {"controller.quorum.voters": f"{CONTROLLER}@{controller_address}"}
        if self.dynamic:
            quorum = {"controller.quorum.bootstrap.servers": controller_address}
        is_controller = node == CONTROLLER
        listener = "CONTROLLER" if is_controller else "PLAINTEXT"
        config = {
            **SETTINGS,
            **quorum,
            "process.roles": "controller" if is_controller else "broker",
            "node.id": str(node),
            "listeners": f"{listener}://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": _LISTENERS,
            "log.dirs": ",".join(map(str, self.directories(node))),
            **self.settings,
        }
        file = self.directory / f"{node}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        return file

    def start(self, *nodes: int) -> None:
        """Start nodes at the same time; they may fail to come up."""
        for node in nodes:
            options = ("-XX:TieredStopAtLevel=1", "-Xmx256m", "-XX:+UseSerialGC")
            command = java(self.version, "kafka.Kafka", str(self._config(node)), options=options)
            with (self.directory / f"{node}.log").open("ab") as log:
                self._running[node] = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True
                )

    def kill(self, *nodes: int) -> None:
        """Kill nodes at the same moment, as by a power cut."""
        processes = [self._running.pop(node) for node in nodes if node in self._running]
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in processes:
            process.wait()

    def stop(self, node: int) -> None:
        """Shut a node down cleanly."""
        process = self._running.pop(node)
        process.terminate()
        process.wait(timeout=TIMEOUT)

    def kill_all(self) -> None:
        """Kill every node at the same moment."""
        self.kill(*self._running)

    @property
    def address(self) -> str:
        """The addresses of the running brokers."""
        up = [node for node in self._running if node != CONTROLLER]
        return ",".join(f"127.0.0.1:{self._ports[node]}" for node in up)

    def admin(self) -> Any:
        """An admin client of the running brokers."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def states(self) -> dict[tuple[str, int], State] | None:
        """Every partition of topics that are not internal; None if no broker answers."""
        from confluent_kafka import KafkaException

        try:
            metadata = self.admin().list_topics(timeout=5)
        except KafkaException:
            return None
        return {
            (name, index): State(
                None if partition.leader < 0 else partition.leader, tuple(partition.isrs)
            )
            for name, topic in metadata.topics.items()
            if not name.startswith("__")
            for index, partition in topic.partitions.items()
        }

    def brokers_up(self) -> set[int]:
        """The brokers that are alive according to one broker's metadata."""
        from confluent_kafka import KafkaException

        try:
            return set(self.admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def wait_up(self, *nodes: int) -> None:
        """Wait until brokers are alive in the metadata."""
        wait_until(lambda: set(nodes) <= self.brokers_up(), f"brokers {nodes} are not up")

    def settle(self, min_seconds: float = SESSION_SECONDS + 3.0) -> dict[tuple[str, int], State]:
        """Wait at least min_seconds, and until nothing changes; returns the last states."""
        start = changed_at = time.monotonic()
        previous = self.states()
        while time.monotonic() < start + TIMEOUT:
            time.sleep(0.5)
            current = self.states()
            if current != previous:
                previous, changed_at = current, time.monotonic()
            if (
                time.monotonic() > start + min_seconds
                and time.monotonic() > changed_at + SETTLED_SECONDS
            ):
                break
        return previous or {}

    def ends(self, topic_partition: tuple[str, int]) -> tuple[int, int] | None:
        """Log start offset and log end offset of a partition's leader; None if none answers."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        settings = {"bootstrap.servers": self.address, "group.id": "ends", "log_level": 0}
        # read_uncommitted: the high watermark, which is the log end once all replicas are in sync.
        consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(*topic_partition), timeout=10)
        except KafkaException:
            return None
        finally:
            consumer.close()
        return low, high

    def elect_uncleanly(self, topic_partitions: Sequence[tuple[str, int]]) -> None:
        """Request an unclean election for partitions."""
        from confluent_kafka import ElectionType, KafkaException, TopicPartition

        partitions = [TopicPartition(*topic_partition) for topic_partition in topic_partitions]
        admin = self.admin()
        with suppress(KafkaException):
            admin.elect_leaders(ElectionType.UNCLEAN, partitions).result(30)


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Kills the running nodes at the end."""
    try:
        yield cluster
    finally:
        cluster.kill_all()


def wait_until(condition: Callable[[], object], message: str, timeout: float = TIMEOUT) -> None:
    """Wait until a condition holds; raises BrokerError with the message."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise BrokerError(message)
        time.sleep(0.3)
