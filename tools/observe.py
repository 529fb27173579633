"""Starts a real broker on damaged partitions: its result, their files, and a consumer's reads.

Many starts run in one Java process (Observer.java on Kafka's KRaft server), each on a separate log
directory in a scratch directory. Requires what tools/kafka.py requires.
"""

from __future__ import annotations

import base64
import enum
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.broker import (
    CLEAN_SHUTDOWN,
    SEGMENT_FILE,
    SERVER,
    BrokerError,
    free_ports,
    text,
)
from tools.broker import SOURCES as BROKER
from tools.kafka import TOOLS, VERSION, compiled, java

SOURCES = (*BROKER, TOOLS / "Observer.java", TOOLS / "StaticLoggerBinder.java")
TIMEOUT = 900  # seconds, for all starts
# Brokers of 4.2 that fail to start leak threads, and with them memory.
CHUNK_SIZE, HEAP_OPTION = 100, "-Xmx2g"  # starts of one process
MAX_SERVERS = 3  # servers at once
UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"
TRIES = 5  # starts of a broker that renames a directory to a stray although it knows the topic
RECOVERY_POINTS = "recovery-point-offset-checkpoint"

Files = dict[str, bytes]
"""The content of each file of a partition directory, by name."""


class Start(enum.Enum):
    """What a broker finds when it starts."""

    CRASH = "no .kafka_cleanshutdown, and no recovery points: every segment is recovered"
    CRASH_AT_END = "no .kafka_cleanshutdown, recovery points at the log ends: the last segment is"
    CLEAN = ".kafka_cleanshutdown, and recovery points at the log ends: nothing is recovered"


@dataclass(frozen=True)
class Given:
    """A partition directory for a broker, and the requests to send."""

    files: Files
    log_end: int
    """The log end offset before the damage."""
    isolations: tuple[str, ...] = (UNCOMMITTED,)
    seeks: tuple[int, ...] = ()
    """Offsets to read one record from."""
    times: tuple[int, ...] = ()
    """Timestamps to look up."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The topic's settings."""
    modified: Mapping[str, int] = field(default_factory=dict)
    """Modification times of files, in milliseconds."""
    name: str = ""
    """The caller's name for it."""
    pause: float = 0
    """The most seconds to wait before the broker is stopped; it is stopped earlier if its directory
    has not changed for a while."""


@dataclass(frozen=True)
class Plan:
    """One start of a broker on partitions by their topic's name."""

    start: Start
    partitions: Mapping[str, Given]
    beside: Files = field(default_factory=dict)
    """Additional files of the log directory; a name that ends in / is an empty directory."""
    instead: Files = field(default_factory=dict)
    """Files that replace those of the formatted log directory."""
    server: Mapping[str, str] = field(default_factory=dict)
    """Additional settings; "clock" is the start of the broker's clock, in milliseconds."""


@dataclass(frozen=True)
class Read:
    """A consumer's read: the consumed offsets, the final position, and the error there."""

    offsets: list[int]
    position: int
    error: str | None
    """"stuck" if neither records nor an error arrive for some seconds."""


@dataclass(frozen=True)
class Became:
    """A partition after the start."""

    given: Given
    log_start: int
    log_end: int
    """The log end offset for consumers."""
    reads: Mapping[str, Read]
    seeks: list[Read]
    times: list[int | str | None]
    """The offset of each look-up, None if there is none, or the error message."""
    files: Files

    @cached_property
    def logs_before(self) -> dict[str, int]:
        """The size of each log that the broker found."""
        return _sizes(self.given.files)

    @cached_property
    def logs(self) -> dict[str, int]:
        """The size of each log after the start."""
        return _sizes(self.files)

    @property
    def read(self) -> Read:
        """The read of an ordinary consumer."""
        return self.reads[UNCOMMITTED]


@dataclass(frozen=True)
class Outcome:
    """The result of a start: whether the broker came up, and the errors that it logged."""

    up: bool
    errors: list[str]
    partitions: Mapping[str, Became]
    beside: list[str]
    """The names in the log directory after the start."""


def partition_files(partition: Path) -> Files:
    """The segments and snapshots of a partition directory."""
    return {
        path.name: path.read_bytes()
        for path in sorted(partition.iterdir())
        if SEGMENT_FILE.fullmatch(path.name)
    }


def observe(plans: Sequence[Plan], version: str = VERSION) -> list[Outcome]:
    """Start a broker of a version for each plan; returns the state of its partitions.

    A broker that reads its directories before it knows their topics renames them to strays and does
    not serve them: it is started again.
    """
    if not plans:
        return []
    outcomes = _observe(plans, version)
    for _ in range(TRIES):
        stray_indexes = [
            i for i, outcome in enumerate(outcomes) if _has_new_stray(plans[i], outcome)
        ]
        if not stray_indexes:
            break
        for i, outcome in zip(
            stray_indexes, _observe([plans[i] for i in stray_indexes], version), strict=True
        ):
            outcomes[i] = outcome
    return outcomes


def _has_new_stray(plan: Plan, outcome: Outcome) -> bool:
    existing = {name.partition("/")[0] for name in plan.beside}
    return any(name.endswith("-stray") and name not in existing for name in outcome.beside)


def _observe(plans: Sequence[Plan], version: str) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as scratch:
        directories = [Path(scratch) / f"data{i}" for i in range(len(plans))]
        ports = free_ports(2 * len(plans))
        starts = [
            _prepare(plan, directory, ports[2 * i : 2 * i + 2])
            for i, (plan, directory) in enumerate(zip(plans, directories, strict=True))
        ]
        lines = run_starts(starts, version)
        return [
            _outcome(plan, directory, line)
            for plan, directory, line in zip(plans, directories, lines, strict=True)
        ]


def run_starts(starts: Sequence[Mapping[str, Any]], version: str = VERSION) -> list[dict[str, Any]]:
    """The output of Observer.java for each start; raises BrokerError."""
    chunks = (starts[first : first + CHUNK_SIZE] for first in range(0, len(starts), CHUNK_SIZE))
    return [row for chunk in chunks for row in _run_chunk(chunk, version)]


def _run_chunk(starts: Sequence[Mapping[str, Any]], version: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as natives:  # of the codecs
        classes = compiled(version, *SOURCES)
        command = java(
            version, HEAP_OPTION, "-Djava.io.tmpdir=" + natives, "Observer", classes=classes
        )
        content = json.dumps({"parallel": MAX_SERVERS, "starts": starts}).encode()
        try:
            result = subprocess.run(
                command, input=content, check=False, capture_output=True, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerError(f"not done after {TIMEOUT} s\n{text(error.stderr)}") from None
    lines = result.stdout.splitlines()
    if result.returncode or len(lines) != len(starts):
        raise BrokerError(f"exit status {result.returncode}\n{text(result.stderr)}")
    return list(map(json.loads, lines))


def _prepare(plan: Plan, directory: Path, ports: Sequence[int]) -> dict[str, Any]:
    """Create the log directory of a plan; returns the input for Observer.java."""
    directory.mkdir()
    points = [f"0\n{len(plan.partitions)}"]
    for topic, partition in plan.partitions.items():
        (directory / f"{topic}-0").mkdir()
        for name, content in partition.files.items():
            (directory / f"{topic}-0" / name).write_bytes(content)
        for name, time_ms in partition.modified.items():
            os.utime(directory / f"{topic}-0" / name, (time_ms / 1000, time_ms / 1000))
        points.append(f"{topic} 0 {partition.log_end}")
    if plan.start is not Start.CRASH:
        (directory / RECOVERY_POINTS).write_text("\n".join(points) + "\n")
    if plan.start is Start.CLEAN:
        (directory / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    for name, content in plan.beside.items():
        path = directory / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    broker, controller = ports
    listeners = f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}"
    server = {
        "log.dirs": str(directory),
        "listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    return {
        "server": {**SERVER, **server, **plan.server},
        "pause": int(
            max((partition.pause for partition in plan.partitions.values()), default=0) * 1000
        ),
        "topics": {topic: dict(partition.settings) for topic, partition in plan.partitions.items()},
        "probes": {
            topic: {
                "isolations": partition.isolations,
                "seeks": partition.seeks,
                "times": partition.times,
            }
            for topic, partition in plan.partitions.items()
        },
        "instead": {k: base64.b64encode(v).decode() for k, v in plan.instead.items()},
    }


def _outcome(plan: Plan, directory: Path, row: dict[str, Any]) -> Outcome:
    partitions = {}
    for topic, observed in row["topics"].items():
        if "failed" in observed:
            raise BrokerError(f"{topic}: {observed['failed']}\n" + "\n".join(row["errors"]))
        partition_directory = directory / f"{topic}-0"
        partitions[topic] = Became(
            plan.partitions[topic],
            observed["log_start"],
            observed["log_end"],
            {isolation: Read(**read) for isolation, read in observed["reads"].items()},
            [Read(**read) for read in observed["seeks"]],
            observed["times"],
            {
                path.name: path.read_bytes()
                for path in partition_directory.iterdir()
                if path.is_file()
            },
        )
    names = sorted(path.name for path in directory.iterdir())
    return Outcome(row["up"], row["errors"], partitions, names)


def _sizes(files: Files) -> dict[str, int]:
    return {name: len(content) for name, content in files.items() if name.endswith(".log")}
