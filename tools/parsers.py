"""What Kafka's and Java's own parsers make of texts, many in one process: Parsers.java."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from tools.broker import BrokerError, text
from tools.kafka import TOOLS, VERSION, compiled, java

TIMEOUT = 300  # seconds, for all texts


def parse_all(inputs: Sequence[tuple[str, bytes]], version: str = VERSION) -> list[dict[str, Any]]:
    """For each parser and text either `value`, or `error` and `message`; raises BrokerError."""
    content = [{"kind": kind, "data": base64.b64encode(data).decode()} for kind, data in inputs]
    with tempfile.TemporaryDirectory() as scratch:
        result = subprocess.run(
            java(
                version,
                f"-Djava.io.tmpdir={scratch}",
                "Parsers",
                classes=compiled(version, TOOLS / "Parsers.java"),
            ),
            input=json.dumps(content).encode(),
            check=False,
            capture_output=True,
            timeout=TIMEOUT,
        )
    lines = result.stdout.splitlines()
    if result.returncode or len(lines) != len(inputs):
        raise BrokerError(f"exit status {result.returncode}\n{text(result.stderr)}")
    return [json.loads(line) for line in lines]
