"""A real broker on files: the partition it recovers from logs, and what a consumer reads from it.

Kafka's own KRaft server and consumer run in one Java process (Broker.java), on copies in a scratch
directory; the original directories do not change. Requires what tools/kafka.py requires.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tools.kafka import TOOLS, VERSION, compiled, java

SOURCES = (TOOLS / "Broker.java", TOOLS / "OtherClock.java")
N_RANGES, PORTS = 8, 2750  # below those of outgoing connections
TIMEOUT = 300  # seconds, for one process
SEGMENT_FILE = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)")
SERVER = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # Nothing is deleted, compacted or expired.
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "log.cleaner.enable": "false",
    "producer.id.expiration.ms": str(2**31 - 1),
}
CLEAN_SHUTDOWN = '{"version":0,"brokerEpoch":-1}'
DEFAULTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Consumed:
    """A record as Kafka's consumer returns it."""

    offset: int
    timestamp: int
    timestamp_type: str
    """CreateTime, LogAppendTime or NoTimestampType."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class BrokerError(Exception):
    """The broker or its consumer failed; the message ends with what they logged."""


def recover(partition: Path, output: Path, settings: Mapping[str, str] = DEFAULTS) -> None:
    """Let a broker recover the .log files of a partition; write its partition directory to out.

    Settings are the topic's, such as index.interval.bytes.
    """
    recover_all([(partition, output, settings)])


def recover_all(jobs: Sequence[tuple[Path, Path, Mapping[str, str]]]) -> None:
    """Recover several (partition, out, settings) in one start of a broker; out is new.

    The broker finds no indexes, snapshots or checkpoints, and no marker of a clean shutdown. It
    leads each partition before a clean shutdown, so it writes partition.metadata and the last line
    of leader-epoch-checkpoint.
    """
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch)
        for index, (partition, _, _) in enumerate(jobs):
            copy(partition, data / f"{topic(index)}-0", recover=True)
        run(data, [settings for _, _, settings in jobs], None)
        for index, (_, output, _) in enumerate(jobs):
            shutil.copytree(data / f"{topic(index)}-0", output)


def consume_all(
    partitions: Sequence[Path], recover: bool, isolation: str = "read_uncommitted"
) -> list[list[Consumed]]:
    """What a consumer reads of each partition from a broker, from the earliest offset to the end.

    recover: the broker gets the .log files only; else also indexes and snapshots, which it trusts
    as after a clean shutdown.
    """
    consumed: dict[str, list[Consumed]] = {topic(index): [] for index in range(len(partitions))}
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch)
        for index, partition in enumerate(partitions):
            copy(partition, data / f"{topic(index)}-0", recover=recover)
        if not recover:
            (data / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
        for line in run(data, [DEFAULTS] * len(partitions), isolation).splitlines():
            name, offset, timestamp, timestamp_type, key, value, headers = json.loads(line)
            pairs = tuple((header, unhex(content)) for header, content in headers)
            consumed[name].append(
                Consumed(offset, timestamp, timestamp_type, unhex(key), unhex(value), pairs)
            )
    return list(consumed.values())


def topic(index: int) -> str:
    """The topic name of the partition with an index."""
    return f"given{index}"


def copy(partition: Path, destination: Path, recover: bool) -> None:
    """Create the partition directory that the broker finds."""
    destination.mkdir()
    for file in partition.iterdir():
        if SEGMENT_FILE.fullmatch(file.name) and (file.suffix == ".log" or not recover):
            shutil.copyfile(file, destination / file.name)


def run(data: Path, settings: Sequence[Mapping[str, str]], isolation: str | None) -> bytes:
    """Start a broker on a log directory and stop it; returns the records it served, one a line."""
    broker, controller = free_ports(2)
    server = {
        "log.dirs": str(data),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    plan = {
        "server": SERVER | server,
        "topics": {
            topic(index): dict(topic_settings) for index, topic_settings in enumerate(settings)
        },
        "isolation": isolation,
    }
    with tempfile.TemporaryDirectory() as natives:  # of the codecs, which would stay in /tmp
        classes = compiled(VERSION, *SOURCES)
        command = java(VERSION, f"-Djava.io.tmpdir={natives}", "Broker", classes=classes)
        try:
            result = subprocess.run(
                command,
                input=json.dumps(plan).encode(),
                check=False,
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerError(f"not done after {TIMEOUT} s\n{text(error.stderr)}") from None
    if result.returncode:
        raise BrokerError(f"exit status {result.returncode}\n{text(result.stderr)}")
    return result.stdout


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on and that the system does not use for outgoing connections."""
    ports: list[int] = []
    # Each process of a test run has its own range, because ports are bound later.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % N_RANGES
    own_range = range(10_000 + worker * PORTS, 10_000 + (worker + 1) * PORTS)
    for port in random.sample(own_range, len(own_range)):
        if len(ports) == count:
            return ports
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
    raise BrokerError(f"fewer than {count} ports are free")


def text(log: bytes | None) -> str:
    """The text of a log."""
    return (log or b"").decode("utf-8", "replace")


def unhex(content: str | None) -> bytes | None:
    """The bytes of a hexadecimal string; None for None."""
    return None if content is None else bytes.fromhex(content)
