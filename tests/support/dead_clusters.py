"""How clusters of real brokers die, and their state after different orders of starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import BROKERS, CONTROLLER, Cluster, running, wait_until
from tools.kafka import java

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
PartitionKey = tuple[str, int]
LOG = "00000000000000000000.log"
TOPICS: dict[str, tuple[tuple[int, ...], dict[str, str]]] = {
    "a": ((1, 2, 3), {"min.insync.replicas": "1"}),
    "b": ((2, 3, 1), {"min.insync.replicas": "2"}),
    "u": (
        (3, 1, 2),
        {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
    ),
}


@dataclass(slots=True)
class Situation:
    """A way for a cluster to die. make: start, fill and kill it. change: then change its disks."""

    description: str
    make: Callable[[Cluster], None]
    change: Callable[[Cluster], None] = lambda _: None
    version: str = "3.9.1"
    n_directories: int = 1
    dynamic: bool = False
    features: tuple[str, ...] = ()
    orders: tuple[str, ...] = ("1,2,3", "2,3,1", "3,1,2", "1+2+3")

    def cluster(self, directory: Path) -> Cluster:
        """The cluster of this situation."""
        return Cluster(self.version, directory, self.n_directories, self.dynamic, self.features)


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """A partition at the end of an order of starts."""

    leader: int | None
    log_end_offset: int | None
    log_start_offset: int | None = None


def create(cluster: Cluster, topics: dict[str, tuple[tuple[int, ...], dict[str, str]]]) -> None:
    """Create topics with one partition each, on these replicas."""
    from confluent_kafka.cimpl import NewTopic

    new_topics = [
        NewTopic(name, 1, replica_assignment=[list(replicas)], config=config)
        for name, (replicas, config) in topics.items()
    ]
    admin = cluster.admin()
    for future in admin.create_topics(new_topics, request_timeout=60).values():
        future.result()

    def have_leaders() -> bool:
        states = cluster.states() or {}
        return states.keys() >= {(name, 0) for name in topics} and all(
            state.leader is not None for state in states.values()
        )

    wait_until(have_leaders, "no leaders")


def produce(
    cluster: Cluster,
    topics: Sequence[str],
    n_records: int = 30,
    acks: str = "all",
    transaction: str | None = None,
) -> None:
    """Write records to topics, ten per batch; do not retry those that are not acknowledged."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": cluster.address, "acks": acks, "linger.ms": 2000}
    settings |= {"batch.num.messages": 10, "log_level": 0, "message.timeout.ms": 8000}
    if transaction is not None:  # an open one is not aborted while brokers are observed
        settings |= {"transactional.id": transaction, "transaction.timeout.ms": 900_000}
    producer = Producer(settings)
    if transaction is not None:
        producer.init_transactions()
        producer.begin_transaction()
    value_prefix = time.monotonic_ns()
    for topic in topics:
        for i in range(n_records):
            producer.produce(topic, key=f"k{i % 7}", value=f"{value_prefix}-{i}", partition=0)
            if i % 10 == 9:
                producer.flush(10)
    producer.flush(10)
    if transaction is not None and transaction.startswith("commit"):
        producer.commit_transaction()


def wait_fenced(cluster: Cluster, *nodes: int) -> None:
    """Wait until the controller has fenced brokers."""
    wait_until(lambda: not cluster.brokers_up().intersection(nodes), f"{nodes} are still alive")


def start_with_records(cluster: Cluster) -> None:
    """Start all brokers, create the topics, and write the first 60 records of each."""
    cluster.start(CONTROLLER, *BROKERS)
    cluster.wait_up(*BROKERS)
    create(cluster, TOPICS)
    produce(cluster, tuple(TOPICS), 60)
    cluster.settle(2.0)


def power_off(cluster: Cluster) -> None:
    """All brokers are in sync and killed at the same moment."""
    start_with_records(cluster)
    produce(cluster, tuple(TOPICS), 40)
    time.sleep(1)
    cluster.kill_all()


def last_in_isr(cluster: Cluster) -> None:
    """Brokers 3, 2, 1 are killed, with records in between; the ISR is then 1 alone."""
    start_with_records(cluster)
    for node in (3, 2):
        cluster.kill(node)
        wait_fenced(cluster, node)
        cluster.settle(2.0)
        produce(cluster, tuple(TOPICS), 30, acks="1")
    cluster.kill(1)
    time.sleep(12)  # until the controller has fenced it
    cluster.kill_all()


def diverged(cluster: Cluster) -> None:
    """1 writes alone and dies; 2 is elected uncleanly and writes other records; 3 copies them."""
    start_with_records(cluster)
    cluster.kill(2, 3)
    wait_fenced(cluster, 2, 3)
    produce(cluster, ("a", "u"), 30, acks="1")
    cluster.kill(1)
    time.sleep(12)
    cluster.start(2)
    cluster.wait_up(2)
    cluster.elect_uncleanly([(topic, 0) for topic in TOPICS])
    cluster.settle(4.0)
    produce(cluster, ("a", "u"), 20, acks="1")
    cluster.start(3)
    cluster.wait_up(3)
    cluster.settle(4.0)
    cluster.kill_all()


def transactions(cluster: Cluster) -> None:
    """Committed and open transactions; 3 dies first, then all."""
    start_with_records(cluster)
    produce(cluster, ("a", "b"), 20, transaction="commit-1")
    cluster.kill(3)
    wait_fenced(cluster, 3)
    cluster.settle(2.0)
    produce(cluster, ("a", "b"), 20, transaction="commit-2")
    produce(cluster, ("a", "u"), 10, transaction="open")
    cluster.kill_all()


def compaction(cluster: Cluster) -> None:
    """A compacted topic, cleaned on 1 and 2 while 3 is dead."""
    cluster.start(CONTROLLER, *BROKERS)
    cluster.wait_up(*BROKERS)
    settings = {"cleanup.policy": "compact", "segment.bytes": "1000", "segment.ms": "100"}
    settings |= {"min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0"}
    create(cluster, {**TOPICS, "c": ((1, 2, 3), settings)})
    names = (*TOPICS, "c")
    produce(cluster, names, 60)
    cluster.kill(3)
    wait_fenced(cluster, 3)
    produce(cluster, names, 40)
    time.sleep(8)
    produce(cluster, ("c",), 10)
    time.sleep(8)
    cluster.kill_all()


def deleted_records(cluster: Cluster) -> None:
    """DeleteRecords up to 40; killed after the checkpoint of log start offsets was written."""
    from confluent_kafka import TopicPartition

    start_with_records(cluster)
    offsets = [TopicPartition(topic, 0, 40) for topic in TOPICS]
    admin = cluster.admin()
    for future in admin.delete_records(offsets).values():
        future.result()
    time.sleep(65)
    cluster.kill_all()


def lagging(cluster: Cluster) -> None:
    """1 dies and leaves the ISR; 2 and 3 continue; then all die."""
    start_with_records(cluster)
    cluster.kill(1)
    wait_fenced(cluster, 1)
    cluster.settle(2.0)
    produce(cluster, tuple(TOPICS), 30)
    cluster.kill_all()


def reassigned(cluster: Cluster) -> None:
    """Topic a moves from broker 1 to broker 3, and u also gets a replica there, while 3 is dead."""
    cluster.start(CONTROLLER, *BROKERS)
    cluster.wait_up(*BROKERS)
    create(cluster, {name: ((1, 2), settings) for name, (_, settings) in TOPICS.items()})
    produce(cluster, tuple(TOPICS), 60)
    targets = {"a": [3, 2], "u": [1, 2, 3]}
    partitions = [
        {"topic": topic, "partition": 0, "replicas": replicas}
        for topic, replicas in targets.items()
    ]
    plan = cluster.directory / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    command = ("--bootstrap-server", cluster.address, "--reassignment-json-file", str(plan))
    cluster.kill(3)  # the tool takes it for alive as long as its session lasts
    subprocess.run(java(cluster.version, REASSIGN, *command, "--execute"), check=True, timeout=120)
    wait_fenced(cluster, 3)
    cluster.settle(2.0)
    cluster.kill_all()


def flip(file: Path, fraction: float) -> None:
    """Flip a bit of a file, at a fraction of its size."""
    data = bytearray(file.read_bytes())
    data[int(len(data) * fraction)] ^= 1
    file.write_bytes(data)


def flip_in_1(cluster: Cluster) -> None:
    """A bit of each of broker 1's logs is flipped, at 60 % of its bytes."""
    for topic in TOPICS:
        flip(cluster.directories(1)[0] / f"{topic}-0" / LOG, 0.6)


def empty_disk_of_1(cluster: Cluster) -> None:
    """Broker 1 has a new, empty disk."""
    for directory in cluster.directories(1):
        shutil.rmtree(directory)
        cluster.format_disk(1, directory)


def one_disk_of_1(cluster: Cluster) -> None:
    """One of broker 1's two disks is new and empty."""
    directory = next(disk for disk in cluster.directories(1) if (disk / "a-0").exists())
    shutil.rmtree(directory)
    cluster.format_disk(1, directory)


def truncate_logs_of_1(cluster: Cluster) -> None:
    """The last third of each of broker 1's logs is missing."""
    for topic in TOPICS:
        log = cluster.directories(1)[0] / f"{topic}-0" / LOG
        log.write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3])


ELR = ("eligible.leader.replicas.version=1",)
UNCLEAN = ("1,2,3", "2!,3,1", "3!,1,2", "1+2+3")
SITUATIONS = {
    "power-off": Situation("all in sync, killed at once", power_off),
    "last-empty": Situation("last in the ISR, its disk new and empty", last_in_isr, empty_disk_of_1,
                            orders=(*UNCLEAN, "2,3,1")),
    "last-shorter": Situation("last in the ISR, its logs cut", last_in_isr, truncate_logs_of_1),
    "last-damaged": Situation("last in the ISR, a bit flipped", last_in_isr, flip_in_1,
                              orders=UNCLEAN),
    "diverged": Situation("two branches after an unclean election", diverged),
    "transactions": Situation("committed and open transactions", transactions),
    "compaction": Situation("a compacted topic, cleaned while 3 was dead", compaction),
    "deleted-records": Situation("DeleteRecords up to 40", deleted_records),
    "reassigned": Situation("a reassignment in flight", reassigned,
                            orders=("1,2,3", "2,3,1", "1,2", "1+2+3")),
    "two-disks": Situation("two disks each, one of broker 1's new", power_off, one_disk_of_1,
                           n_directories=2),
    "lagging-4.1": Situation("broker 1 out of the ISR", lagging, version="4.1.1"),
    "last-4.1-dynamic": Situation("last in the ISR, dynamic quorum", last_in_isr,
                                  version="4.1.1", dynamic=True, orders=UNCLEAN),
    "power-off-elr": Situation("ELR, all in sync, killed at once", power_off, version="4.1.1",
                               features=ELR),
    "last-elr": Situation("ELR, killed 3, 2, 1", last_in_isr, version="4.1.1", features=ELR),
    "last-elr-damaged": Situation("ELR, last known leader damaged", last_in_isr, flip_in_1,
                                  version="4.1.1", features=ELR, orders=UNCLEAN),
}  # fmt: skip


def build_dead_cluster(situation: Situation, directory: Path) -> None:
    """Write the disks of a dead cluster to a directory."""
    with running(situation.cluster(directory)) as cluster:
        cluster.format()
        situation.make(cluster)
        cluster.kill_all()
        situation.change(cluster)
    for file in directory.iterdir():
        if file.is_file():
            file.unlink()


def start_in(
    situation: Situation, dead: Path, order: str, directory: Path
) -> dict[PartitionKey, PartitionOutcome]:
    """Start a copy of a dead cluster in an order, each stage settled; return its final state."""
    with started_in(situation, dead, order, directory) as (_, outcomes):
        return outcomes


@contextmanager
def started_in(
    situation: Situation, dead: Path, order: str, directory: Path
) -> Iterator[tuple[Cluster, dict[PartitionKey, PartitionOutcome]]]:
    """A running copy of a dead cluster after an order of starts, and its state."""
    shutil.copytree(dead, directory)
    with running(situation.cluster(directory)) as cluster:
        cluster.start(CONTROLLER)
        time.sleep(3)
        partitions: list[PartitionKey] = []
        for stage in order.split(","):
            nodes = [int(node) for node in stage.rstrip("!").split("+")]
            cluster.start(*nodes)
            wait_until(cluster.states, f"no broker answers after {stage}")
            states = cluster.settle()
            partitions = sorted(states)
            if stage.endswith("!"):
                cluster.elect_uncleanly(partitions)
                cluster.settle(3.0)
        states = cluster.settle(10.0)
        outcomes = {}
        for partition, state in states.items():
            offsets = None if state.leader is None else cluster.ends(partition)
            log_start, log_end = offsets or (None, None)
            outcomes[partition] = PartitionOutcome(state.leader, log_end, log_start)
        yield cluster, outcomes
