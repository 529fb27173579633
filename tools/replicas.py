"""Two real brokers that meet: what becomes of two replicas of a partition that are not the same.

Needs what tools/kafka.py needs.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.broker import SERVER, TIMEOUT, BrokerError, copy, free_ports, text, topic
from tools.broker import SOURCES as BROKER
from tools.kafka import TOOLS, VERSION, compiled, java

SOURCES = (*BROKER, TOOLS / "Replicas.java")
EPOCHS = "leader-epoch-checkpoint"


@dataclass(frozen=True)
class Met:
    """The replicas after they have met."""

    cut_to: Sequence[int]
    """The offsets that the follower's log was cut to, in order."""
    logs: tuple[bytes, bytes]
    """The contents of the leader's and of the follower's logs, one after another."""


def meet(pairs: Sequence[tuple[Path, Path]], version: str = VERSION) -> list[Met]:
    """Let the replicas of several partitions meet, each a leader and a follower; raises
    BrokerError."""
    with tempfile.TemporaryDirectory() as scratch:
        nodes = [Path(scratch) / f"node-{name}" for name in (1, 2)]
        for node in nodes:
            node.mkdir()
        for i, pair in enumerate(pairs):
            for node, replica in zip(nodes, pair, strict=True):
                to = node / f"{topic(i)}-0"
                copy(replica, to, recover=False)
                epochs = replica / EPOCHS
                if epochs.exists():
                    (to / EPOCHS).write_bytes(epochs.read_bytes())
        broker, controller, other = free_ports(3)
        common = SERVER | {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "unclean.leader.election.enable": "false",
        }
        first = {
            "node.id": "1",
            "log.dirs": str(nodes[0]),
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        }
        second = {
            "node.id": "2",
            "process.roles": "broker",
            "log.dirs": str(nodes[1]),
            "listeners": f"PLAINTEXT://127.0.0.1:{other}",
        }
        plan = {
            "servers": [common | first, common | second],
            "leaders": {topic(i): 1 for i in range(len(pairs))},
        }
        classes = compiled(version, *SOURCES)
        done = subprocess.run(
            java(version, "-Djava.io.tmpdir=" + scratch, "Replicas", classes=classes),
            input=json.dumps(plan).encode(),
            check=False,
            capture_output=True,
            timeout=TIMEOUT,
        )
        if done.returncode:
            raise BrokerError(f"exit status {done.returncode}\n{text(done.stderr)}")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return [
            Met(row["cuts"].get("2", []), (_logs(nodes[0] / name), _logs(nodes[1] / name)))
            for row, name in ((item, f"{item['topic']}-0") for item in rows)
        ]


def _logs(partition: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
