"""Loads partitions of internal topics with the classes that a Kafka broker loads them with.

Requires what tools/kafka.py requires.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.broker import BrokerError, text
from tools.kafka import TOOLS, VERSION, compiled, java

SOURCE = TOOLS / "Loading.java"
TIMEOUT = 900  # seconds, for all partitions


@dataclass(frozen=True)
class Loaded:
    """What became of a partition: the offset at which loading failed and the exception, if any."""

    offset: int | None = None
    error: str | None = None


def load_all(partitions: Sequence[tuple[str, Path]], version: str = VERSION) -> list[Loaded]:
    """Load partitions, each a loader of Loading.java and a directory; raises BrokerError."""
    given = [{"loader": loader, "dir": str(directory)} for loader, directory in partitions]
    result = subprocess.run(
        java(version, "Loading", classes=compiled(version, SOURCE)),
        input=json.dumps(given).encode(),
        check=False,
        capture_output=True,
        timeout=TIMEOUT,
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith(b"{")]
    if result.returncode or len(lines) != len(partitions):
        raise BrokerError(f"exit status {result.returncode}\n{text(result.stderr)}")
    return [Loaded(**json.loads(line)) for line in lines]
