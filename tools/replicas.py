"""Two real brokers with different replicas of a partition: how the follower truncates and fetches.

Requires what tools/kafka.py requires.
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

SOURCES = (*BROKER, TOOLS / "Replicas.java", TOOLS / "StaticLoggerBinder.java")
EPOCHS = "leader-epoch-checkpoint"


@dataclass(frozen=True)
class Met:
    """The replicas after the follower has caught up."""

    cut_to: Sequence[int]
    """The offsets to which the follower's log was truncated, in order."""
    logs: tuple[bytes, bytes]
    """The concatenated logs of the leader, and of the follower."""


def meet(pairs: Sequence[tuple[Path, Path]], version: str = VERSION) -> list[Met]:
    """Start the brokers with a leader and a follower of each partition; raises BrokerError."""
    with tempfile.TemporaryDirectory() as scratch:
        nodes = [Path(scratch) / f"node-{name}" for name in (1, 2)]
        for node in nodes:
            node.mkdir()
        for i, pair in enumerate(pairs):
            for node, replica in zip(nodes, pair, strict=True):
                destination = node / f"{topic(i)}-0"
                copy(replica, destination, recover=False)
                epochs = replica / EPOCHS
                if epochs.exists():
                    (destination / EPOCHS).write_bytes(epochs.read_bytes())
        broker, controller, second_broker = free_ports(3)
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
            "listeners": f"PLAINTEXT://127.0.0.1:{second_broker}",
        }
        plan = {
            "servers": [common | first, common | second],
            "leaders": {topic(i): 1 for i in range(len(pairs))},
        }
        classes = compiled(version, *SOURCES)
        result = subprocess.run(
            java(version, "-Djava.io.tmpdir=" + scratch, "Replicas", classes=classes),
            input=json.dumps(plan).encode(),
            check=False,
            capture_output=True,
            timeout=TIMEOUT,
        )
        if result.returncode:
            raise BrokerError(f"exit status {result.returncode}\n{text(result.stderr)}")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        return [
            Met(row["cuts"].get("2", []), (_logs(nodes[0] / name), _logs(nodes[1] / name)))
            for row, name in ((item, f"{item['topic']}-0") for item in rows)
        ]


def _logs(partition: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
