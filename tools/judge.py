"""What Kafka's own UnifiedLog makes of partition directories, many in one process.

It is the part of a broker's start that is about one partition. What lies above it (the files of the
log directory, the metadata log) takes a whole broker: `tools/observe.py`. Needs what tools/kafka.py
needs.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.broker import BrokerError, text
from tools.kafka import TOOLS, VERSION, compiled, java

SOURCES = tuple(TOOLS / f"{name}.java" for name in ("Judge", "Loader", "OtherClock"))
TIMEOUT = 900  # seconds, for all cases together
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Loading:
    """A partition directory to load."""

    files: Files
    is_clean: bool
    recovery_point: int = 0
    """Of the checkpoints."""
    log_start: int = 0
    """Of the checkpoints."""
    seek_to: int = 0
    """The offset up to which every one is sought."""
    settings: Mapping[str, str] = field(default_factory=dict)
    is_closed: bool = False
    """The log is closed as a clean shutdown does."""
    is_now: bool = False
    """Producers expire a day after they wrote last."""


@dataclass(frozen=True)
class Judged:
    """What became of it."""

    starts: bool
    error: str | None = None
    """Why it was not loaded."""
    log_start: int = 0
    log_end: int = 0
    files: Mapping[str, int] = field(default_factory=dict)
    """The sizes of those that are left."""
    out_of_memory: bool = False
    """Whether the heap was too small, so that its size decides what becomes of it."""
    reached: Sequence[tuple[int, int]] = ()
    """The ranges of offsets that a consumer is given when it seeks to them."""
    contents: Files = field(default_factory=dict)
    """Of the files, where the log is closed again."""


def judge(cases: Sequence[Loading], version: str = VERSION) -> list[Judged]:
    """Load each of the directories; raises BrokerError."""
    with tempfile.TemporaryDirectory() as scratch:
        plans = []
        for i, case in enumerate(cases):
            folder = Path(scratch) / str(i) / "given-0"
            folder.mkdir(parents=True)
            for name, content in case.files.items():
                (folder / name).write_bytes(content)
            plans.append(
                {
                    "dir": str(folder),
                    "clean": case.is_clean,
                    "recovery_point": case.recovery_point,
                    "log_start": case.log_start,
                    "seek_to": case.seek_to,
                    "close": case.is_closed,
                    "now": case.is_now,
                    "settings": dict(case.settings),
                }
            )
        classes = compiled(version, *SOURCES)
        command = java(version, "-Djava.io.tmpdir=" + scratch, "Judge", classes=classes)
        done = subprocess.run(
            command,
            input=json.dumps(plans).encode(),
            check=False,
            capture_output=True,
            timeout=TIMEOUT,
        )
        lines = done.stdout.splitlines()
        if done.returncode or len(lines) != len(cases):
            raise BrokerError(f"exit status {done.returncode}\n{text(done.stderr)}")
        rows = map(json.loads, lines)
        found = []
        for i, (row, case) in enumerate(zip(rows, cases, strict=True)):
            row["reached"] = [tuple(item) for item in row.get("reached", ())]
            if case.is_closed:
                left = (Path(scratch) / str(i) / "given-0").iterdir()
                row["contents"] = {path.name: path.read_bytes() for path in left if path.is_file()}
            found.append(Judged(**row))
        return found
