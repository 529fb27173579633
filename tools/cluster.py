"""Real brokers and a controller, each a process of its own with its own disks, as one cluster.

Each node can be started and killed alone. Its directories are those of `Cluster.folder`: broker1,
broker2, … and controller100; a broker with several log directories has broker1a, broker1b. Needs
what tools/kafka.py needs, and confluent-kafka.
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
SESSION = 9.0  # seconds: broker.session.timeout.ms, Kafka's default
CALM = 5.0  # seconds without a change after which a cluster is settled
PATIENCE = 120.0  # seconds until a node is up
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
    """A partition as the brokers describe it."""

    leader: int | None
    isr: tuple[int, ...]


@dataclass(slots=True)
class Cluster:
    """A cluster of three brokers and a controller."""

    version: str
    folder: Path
    n_directories: int = 1
    """Log directories of each broker."""
    dynamic: bool = False
    """Whether the controllers are those of a dynamic quorum."""
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
            return [self.folder / f"controller{node}"]
        names = "ab"[: self.n_directories] if self.n_directories > 1 else [""]
        return [self.folder / f"broker{node}{name}" for name in names]

    def format(self) -> None:
        """Make the directories of a new cluster."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for node in BROKERS:
            for directory in self.directories(node):
                self.format_disk(node, directory)
        words = ["format", "--cluster-id", CLUSTER_ID, "--config", str(self._config(CONTROLLER))]
        words += ["--standalone"] if self.dynamic else []
        for feature in self.features:
            words += ["--feature", feature]
        done = subprocess.run(
            java(self.version, "kafka.tools.StorageTool", *words),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BrokerError(done.stdout + done.stderr)

    def format_disk(self, node: int, directory: Path) -> None:
        """Make a new, empty log directory of a node."""
        directory.mkdir(parents=True)
        lines = ("version=1", f"cluster.id={CLUSTER_ID}", f"node.id={node}")
        properties = "\n".join((*lines, f"directory.id={new_id()}", ""))
        (directory / "meta.properties").write_text(properties)

    def _config(self, node: int) -> Path:
        """The server.properties of a node."""
        port, at = self._ports[node], f"127.0.0.1:{self._ports[CONTROLLER]}"
        quorum = {"controller.quorum.voters": f"{CONTROLLER}@{at}"}
        if self.dynamic:
            quorum = {"controller.quorum.bootstrap.servers": at}
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
        file = self.folder / f"{node}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        return file

    def start(self, *nodes: int) -> None:
        """Start nodes at the same time; they may fail to come up."""
        for node in nodes:
            options = ("-XX:TieredStopAtLevel=1", "-Xmx256m", "-XX:+UseSerialGC")
            command = java(self.version, "kafka.Kafka", str(self._config(node)), options=options)
            with (self.folder / f"{node}.log").open("ab") as log:
                self._running[node] = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True
                )

    def kill(self, *nodes: int) -> None:
        """Kill nodes at the same moment, as by a power cut."""
        chosen = [self._running.pop(node) for node in nodes if node in self._running]
        for process in chosen:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in chosen:
            process.wait()

    def stop(self, node: int) -> None:
        """End a node in good order."""
        process = self._running.pop(node)
        process.terminate()
        process.wait(timeout=PATIENCE)

    def kill_all(self) -> None:
        """Kill every node at the same moment."""
        self.kill(*self._running)

    @property
    def address(self) -> str:
        """Where the brokers that were started answer."""
        up = [node for node in self._running if node != CONTROLLER]
        return ",".join(f"127.0.0.1:{self._ports[node]}" for node in up)

    def admin(self) -> Any:
        """A client of the brokers that were started."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def states(self) -> dict[tuple[str, int], State] | None:
        """Every partition of users' topics; None if no broker answers."""
        from confluent_kafka import KafkaException

        try:
            found = self.admin().list_topics(timeout=5)
        except KafkaException:
            return None
        return {
            (name, number): State(
                None if partition.leader < 0 else partition.leader, tuple(partition.isrs)
            )
            for name, topic in found.topics.items()
            if not name.startswith("__")
            for number, partition in topic.partitions.items()
        }

    def brokers_up(self) -> set[int]:
        """The brokers that the metadata calls alive, by one of them."""
        from confluent_kafka import KafkaException

        try:
            return set(self.admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def wait_up(self, *nodes: int) -> None:
        """Wait until brokers are alive in the metadata."""
        wait_until(lambda: set(nodes) <= self.brokers_up(), f"brokers {nodes} are not up")

    def settle(self, least: float = SESSION + 3.0) -> dict[tuple[str, int], State]:
        """Wait at least so many seconds, and until nothing changes; returns the last states."""
        begun = since = time.monotonic()
        last = self.states()
        while time.monotonic() < begun + PATIENCE:
            time.sleep(0.5)
            now = self.states()
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() > begun + least and time.monotonic() > since + CALM:
                break
        return last or {}

    def ends(self, place: tuple[str, int]) -> tuple[int, int] | None:
        """Log start offset and log end offset of a partition's leader; None if none answers."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        settings = {"bootstrap.servers": self.address, "group.id": "ends", "log_level": 0}
        # A read_uncommitted consumer sees the high watermark, which is the end once all follow.
        consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=10)
        except KafkaException:
            return None
        finally:
            consumer.close()
        return low, high

    def elect_uncleanly(self, places: Sequence[tuple[str, int]]) -> None:
        """Ask for an unclean election of partitions."""
        from confluent_kafka import ElectionType, KafkaException, TopicPartition

        chosen = [TopicPartition(*place) for place in places]
        admin = self.admin()
        with suppress(KafkaException):
            admin.elect_leaders(ElectionType.UNCLEAN, chosen).result(30)


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Kills what is left at the end."""
    try:
        yield cluster
    finally:
        cluster.kill_all()


def wait_until(is_so: Callable[[], object], words: str, patience: float = PATIENCE) -> None:
    """Ask until it is so; raises BrokerError."""
    end = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > end:
            raise BrokerError(words)
        time.sleep(0.3)
