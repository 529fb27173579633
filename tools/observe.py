"""What a real broker makes of damaged partitions: its start, their files, and a consumer's reads.

Many starts run in one Java process (Observer.java on Kafka's KRaft server), each on a log directory
of its own below a scratch directory. Needs what tools/kafka.py needs.
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
TIMEOUT = 900  # seconds, for all starts together
# Brokers of 4.2 that fail to start keep some of their threads, and with them memory.
AT_ONCE, HEAP = 100, "-Xmx2g"  # starts of one process
PARALLEL = 3  # servers at once
UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"
TRIES = 5  # starts of a broker that has set a directory aside although it knows the topic
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
    """A partition directory to start a broker on, and what to ask of it."""

    files: Files
    log_end: int
    """Of the partition before it was damaged."""
    isolations: tuple[str, ...] = (UNCOMMITTED,)
    seeks: tuple[int, ...] = ()
    """Offsets to read one record from."""
    times: tuple[int, ...] = ()
    """Timestamps to look up."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The topic's."""
    modified: Mapping[str, int] = field(default_factory=dict)
    """When files were changed last, in milliseconds."""
    name: str = ""
    """What the caller knows it by."""
    pause: float = 0
    """Seconds that the broker is left alone before it is stopped, at most; it is stopped earlier
    when nothing has changed in its directory for a while."""


@dataclass(frozen=True)
class Plan:
    """One start of a broker on partitions by their topic's name."""

    start: Start
    partitions: Mapping[str, Given]
    beside: Files = field(default_factory=dict)
    """More files of the log directory; a name that ends in / is an empty directory."""
    instead: Files = field(default_factory=dict)
    """Files of the log directory that replace those which formatting it has written."""
    server: Mapping[str, str] = field(default_factory=dict)
    """More settings; "clock" is the time in milliseconds at which its clock begins."""


@dataclass(frozen=True)
class Read:
    """A consumer's read: the offsets that it was given, where it ended, and the error there."""

    offsets: list[int]
    position: int
    error: str | None
    """"stuck" where neither records nor an error came for some seconds."""


@dataclass(frozen=True)
class Became:
    """What became of a partition."""

    given: Given
    log_start: int
    log_end: int
    """The log end offset that consumers are told."""
    reads: Mapping[str, Read]
    seeks: list[Read]
    times: list[int | str | None]
    """The offset that each look-up found, None where it found none, or its error's words."""
    files: Files

    @cached_property
    def logs_before(self) -> dict[str, int]:
        """The size of each log that the broker found."""
        return _sizes(self.given.files)

    @cached_property
    def logs(self) -> dict[str, int]:
        """The size of each log that the broker left."""
        return _sizes(self.files)

    @property
    def read(self) -> Read:
        """The read of an ordinary consumer."""
        return self.reads[UNCOMMITTED]


@dataclass(frozen=True)
class Outcome:
    """How one start ended: whether the broker came up, the errors that it logged or died of."""

    up: bool
    errors: list[str]
    partitions: Mapping[str, Became]
    beside: list[str]
    """What is in the log directory afterwards."""


def partition_files(partition: Path) -> Files:
    """The segments and snapshots of a partition directory."""
    return {
        path.name: path.read_bytes()
        for path in sorted(partition.iterdir())
        if SEGMENT_FILE.fullmatch(path.name)
    }


def observe(plans: Sequence[Plan], version: str = VERSION) -> list[Outcome]:
    """Start a broker of a version for each plan and say what became of its partitions.

    A broker that did not yet know its topics when it looked at their directories has set those
    aside as strays, and shows nothing of them: it is started again.
    """
    if not plans:
        return []
    outcomes = _observe(plans, version)
    for _ in range(TRIES):
        again = [i for i, outcome in enumerate(outcomes) if _has_new_stray(plans[i], outcome)]
        if not again:
            break
        for i, outcome in zip(again, _observe([plans[i] for i in again], version), strict=True):
            outcomes[i] = outcome
    return outcomes


def _has_new_stray(plan: Plan, outcome: Outcome) -> bool:
    given = {name.partition("/")[0] for name in plan.beside}
    return any(name.endswith("-stray") and name not in given for name in outcome.beside)


def _observe(plans: Sequence[Plan], version: str) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / f"data{i}" for i in range(len(plans))]
        ports = free_ports(2 * len(plans))
        starts = [
            _prepare(plan, folder, ports[2 * i : 2 * i + 2])
            for i, (plan, folder) in enumerate(zip(plans, folders, strict=True))
        ]
        lines = run_starts(starts, version)
        return [
            _outcome(plan, folder, line)
            for plan, folder, line in zip(plans, folders, lines, strict=True)
        ]


def run_starts(starts: Sequence[Mapping[str, Any]], version: str = VERSION) -> list[dict[str, Any]]:
    """What Observer.java says of each start; raises BrokerError."""
    parts = (starts[at : at + AT_ONCE] for at in range(0, len(starts), AT_ONCE))
    return [row for part in parts for row in _run_some(part, version)]


def _run_some(starts: Sequence[Mapping[str, Any]], version: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as natives:  # of the codecs
        classes = compiled(version, *SOURCES)
        command = java(version, HEAP, "-Djava.io.tmpdir=" + natives, "Observer", classes=classes)
        content = json.dumps({"parallel": PARALLEL, "starts": starts}).encode()
        try:
            done = subprocess.run(
                command, input=content, check=False, capture_output=True, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired as late:
            raise BrokerError(f"not done after {TIMEOUT} s\n{text(late.stderr)}") from None
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(starts):
        raise BrokerError(f"exit status {done.returncode}\n{text(done.stderr)}")
    return list(map(json.loads, lines))


def _prepare(plan: Plan, folder: Path, ports: Sequence[int]) -> dict[str, Any]:
    """Make the log directory of a plan; what Observer.java is told of it."""
    folder.mkdir()
    points = [f"0\n{len(plan.partitions)}"]
    for topic, given in plan.partitions.items():
        (folder / f"{topic}-0").mkdir()
        for name, content in given.files.items():
            (folder / f"{topic}-0" / name).write_bytes(content)
        for name, when in given.modified.items():
            os.utime(folder / f"{topic}-0" / name, (when / 1000, when / 1000))
        points.append(f"{topic} 0 {given.log_end}")
    if plan.start is not Start.CRASH:
        (folder / RECOVERY_POINTS).write_text("\n".join(points) + "\n")
    if plan.start is Start.CLEAN:
        (folder / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    for name, content in plan.beside.items():
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    broker, controller = ports
    listeners = f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}"
    server = {
        "log.dirs": str(folder),
        "listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    return {
        "server": {**SERVER, **server, **plan.server},
        "pause": int(
            max((partition.pause for partition in plan.partitions.values()), default=0) * 1000
        ),
        "topics": {topic: dict(given.settings) for topic, given in plan.partitions.items()},
        "probes": {
            topic: {"isolations": given.isolations, "seeks": given.seeks, "times": given.times}
            for topic, given in plan.partitions.items()
        },
        "instead": {k: base64.b64encode(v).decode() for k, v in plan.instead.items()},
    }


def _outcome(plan: Plan, folder: Path, row: dict[str, Any]) -> Outcome:
    partitions = {}
    for topic, found in row["topics"].items():
        if "failed" in found:
            raise BrokerError(f"{topic}: {found['failed']}\n" + "\n".join(row["errors"]))
        left = folder / f"{topic}-0"
        partitions[topic] = Became(
            plan.partitions[topic],
            found["log_start"],
            found["log_end"],
            {isolation: Read(**read) for isolation, read in found["reads"].items()},
            [Read(**read) for read in found["seeks"]],
            found["times"],
            {path.name: path.read_bytes() for path in left.iterdir() if path.is_file()},
        )
    beside = sorted(path.name for path in folder.iterdir())
    return Outcome(row["up"], row["errors"], partitions, beside)


def _sizes(files: Files) -> dict[str, int]:
    return {name: len(content) for name, content in files.items() if name.endswith(".log")}
