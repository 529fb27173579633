"""Loads partition directories with Kafka's own UnifiedLog, many in one process.

This is the step of a broker's start that concerns a single partition. The files of the log
directory and the metadata log need an entire broker: `tools/observe.py`. Requires what
tools/kafka.py requires.
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
from tools.not_files import NotAFile, place

SOURCES = tuple(TOOLS / f"{name}.java" for name in ("Judge", "Loader", "OtherClock"))
TIMEOUT = 900  # seconds, for all cases
SECONDS_PER_LOAD = 60
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Loading:
    """A partition directory to load."""

    files: Mapping[str, bytes | NotAFile]
    is_clean: bool
    recovery_point: int = 0
    """From the checkpoint."""
    log_start: int = 0
    """From the checkpoint."""
    seek_to: int = 0
    """The end of the offsets to seek to, exclusive."""
    settings: Mapping[str, str] = field(default_factory=dict)
    is_closed: bool = False
    """Whether to close the log as a clean shutdown does."""
    is_now: bool = False
    """Whether producers expire, a day after their last write."""
    seconds: int = SECONDS_PER_LOAD
    """The most for a load: the opening of a named pipe waits for a writer."""


@dataclass(frozen=True)
class Judged:
    """The result of loading a partition directory."""

    starts: bool
    error: str | None = None
    """Why it did not load."""
    log_start: int = 0
    log_end: int = 0
    last_stable: int = 0
    """The last stable offset once all of the log is replicated."""
    files: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the remaining files."""
    out_of_memory: bool = False
    """Whether the heap was too small, so that the result depends on its size."""
    reached: Sequence[tuple[int, int]] = ()
    """The ranges of offsets that a consumer gets when it seeks to them."""
    contents: Files = field(default_factory=dict)
    """The contents of the files, if the log was closed."""


def judge(cases: Sequence[Loading], version: str = VERSION) -> list[Judged]:
    """Load each of the directories; raises BrokerError."""
    with tempfile.TemporaryDirectory() as scratch:
        plans = []
        for i, case in enumerate(cases):
            directory = Path(scratch) / str(i) / "given-0"
            directory.mkdir(parents=True)
            for name, content in case.files.items():
                place(directory / name, content)
            plans.append(
                {
                    "dir": str(directory),
                    "clean": case.is_clean,
                    "recovery_point": case.recovery_point,
                    "log_start": case.log_start,
                    "seek_to": case.seek_to,
                    "close": case.is_closed,
                    "now": case.is_now,
                    "seconds": case.seconds,
                    "settings": dict(case.settings),
                }
            )
        classes = compiled(version, *SOURCES)
        command = java(version, "-Djava.io.tmpdir=" + scratch, "Judge", classes=classes)
        result = subprocess.run(
            command,
            input=json.dumps(plans).encode(),
            check=False,
            capture_output=True,
            timeout=TIMEOUT,
        )
        lines = result.stdout.splitlines()
        if result.returncode or len(lines) != len(cases):
            raise BrokerError(f"exit status {result.returncode}\n{text(result.stderr)}")
        rows = map(json.loads, lines)
        judgements = []
        for i, (row, case) in enumerate(zip(rows, cases, strict=True)):
            row["reached"] = [tuple(item) for item in row.get("reached", ())]
            if case.is_closed:
                paths = (Path(scratch) / str(i) / "given-0").iterdir()
                row["contents"] = {path.name: path.read_bytes() for path in paths if path.is_file()}
            judgements.append(Judged(**row))
        return judgements
