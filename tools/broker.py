"""A real broker on given files: what it makes of bare logs, and what a consumer reads from it.

Kafka's own KRaft server and consumer run in one Java process (Broker.java), on copies in a scratch
directory; the given directories stay as they are. Needs what tools/kafka.py needs.
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
TIMEOUT = 300  # seconds, for all that one process does
SEGMENT_FILE = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)")
SERVER = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # Nothing is deleted, rewritten or forgotten.
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


def recover(partition: Path, out: Path, settings: Mapping[str, str] = DEFAULTS) -> None:
    """Write the partition directory that a broker makes of the .log files of another to out.

    Settings are the topic's, such as index.interval.bytes.
    """
    recover_all([(partition, out, settings)])


def recover_all(jobs: Sequence[tuple[Path, Path, Mapping[str, str]]]) -> None:
    """Do recover for several (partition, out, settings) in one start of a broker; out is new.

    The broker finds no indexes, snapshots or checkpoints and no sign of a clean shutdown. It leads
    each partition before it is stopped cleanly: partition.metadata and the last line of
    leader-epoch-checkpoint are its own.
    """
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch)
        for index, (partition, _, _) in enumerate(jobs):
            copy(partition, data / f"{topic(index)}-0", recover=True)
        run(data, [settings for _, _, settings in jobs], None)
        for index, (_, out, _) in enumerate(jobs):
            shutil.copytree(data / f"{topic(index)}-0", out)


def consume_all(
    partitions: Sequence[Path], recover: bool, isolation: str = "read_uncommitted"
) -> list[list[Consumed]]:
    """What a consumer reads of each partition from a broker, from the earliest offset to the end.

    With recover the broker gets the .log files only; without it also indexes and snapshots, and
    trusts all of them as after a clean shutdown.
    """
    read: dict[str, list[Consumed]] = {topic(index): [] for index in range(len(partitions))}
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch)
        for index, partition in enumerate(partitions):
            copy(partition, data / f"{topic(index)}-0", recover=recover)
        if not recover:
            (data / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
        for line in run(data, [DEFAULTS] * len(partitions), isolation).splitlines():
            name, offset, timestamp, timestamp_type, key, value, headers = json.loads(line)
            pairs = tuple((header, unhex(content)) for header, content in headers)
            read[name].append(
                Consumed(offset, timestamp, timestamp_type, unhex(key), unhex(value), pairs)
            )
    return list(read.values())


def topic(index: int) -> str:
    """The name of the topic of the partition at a place."""
    return f"given{index}"


def copy(partition: Path, to: Path, recover: bool) -> None:
    """Make the partition directory that the broker finds."""
    to.mkdir()
    for file in partition.iterdir():
        if SEGMENT_FILE.fullmatch(file.name) and (file.suffix == ".log" or not recover):
            shutil.copyfile(file, to / file.name)


def run(data: Path, settings: Sequence[Mapping[str, str]], isolation: str | None) -> bytes:
    """Start a broker on a log directory and stop it; the records it served, a line each."""
    broker, controller = free_ports(2)
    server = {
        "log.dirs": str(data),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    plan = {
        "server": SERVER | server,
        "topics": {topic(index): dict(its) for index, its in enumerate(settings)},
        "isolation": isolation,
    }
    with tempfile.TemporaryDirectory() as natives:  # of the codecs, which would stay in /tmp
        classes = compiled(VERSION, *SOURCES)
        command = java(VERSION, f"-Djava.io.tmpdir={natives}", "Broker", classes=classes)
        try:
            done = subprocess.run(
                command,
                input=json.dumps(plan).encode(),
                check=False,
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired as late:
            raise BrokerError(f"not done after {TIMEOUT} s\n{text(late.stderr)}") from None
    if done.returncode:
        raise BrokerError(f"exit status {done.returncode}\n{text(done.stderr)}")
    return done.stdout


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, and that no outgoing connection is given until they are."""
    found: list[int] = []
    # Each of several processes of a test run has its own, as ports are bound later.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % N_RANGES
    mine = range(10_000 + worker * PORTS, 10_000 + (worker + 1) * PORTS)
    for port in random.sample(mine, len(mine)):
        if len(found) == count:
            return found
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            found.append(port)
    raise BrokerError(f"fewer than {count} ports are free")


def text(log: bytes | None) -> str:
    """A log's words."""
    return (log or b"").decode("utf-8", "replace")


def unhex(content: str | None) -> bytes | None:
    """The bytes that hexadecimal digits stand for; null stays null."""
    return None if content is None else bytes.fromhex(content)
