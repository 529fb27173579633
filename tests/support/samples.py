"""The sample segments, and kfmt run on them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfmt_cli.rows.column import LOCATION_COLUMNS
from tests.support import in_process, warm
from tools.kafka import ROOT, SAMPLES, kept_text, sample_logs

Row = dict[str, Any]

ORDERS = SAMPLES / "kafka-3.9.1-broker1/orders-0/00000000000000000000.log"
TXN = SAMPLES / "kafka-3.9.1-broker1/txn-0/00000000000000000000.log"
UPGRADED = SAMPLES / "kafka-2.8.2/upgraded-0/00000000000000000000.log"


# Replaces the location of an object in tests that compare files.
NOWHERE = {"file": "", **dict.fromkeys(LOCATION_COLUMNS)}


@dataclass(frozen=True)
class Done:
    """A finished run of kfmt."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Row]:
        """The output as JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, kind: str) -> list[Row]:
        """The rows of one type."""
        return [row for row in self.rows if row["type"] == kind]

    @property
    def codes(self) -> list[str]:
        """The codes of all findings."""
        return [row["code"] for row in self.of("finding")]


def environment(**changes: str) -> dict[str, str]:
    """The environment of a run, without the caller's colour settings."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "TERM")}
    return {**inherited, "PYTHONPATH": str(ROOT), **changes}


def kfmt(
    *arguments: str | Path,
    stdin: bytes = b"",
    cwd: Path = ROOT,
    apart: bool = False,
    **env: str,
) -> Done:
    """Run the command line in this process, or in another one if `apart` or if the run needs it."""
    argument_texts = [str(argument) for argument in arguments]
    run_env = environment(**env)
    if apart or in_process.needs_process(argument_texts, stdin, env):
        code, out, err = warm.run(argument_texts, stdin, cwd, run_env)
    else:
        code, out, err = in_process.run(argument_texts, stdin, cwd, run_env)
    assert b"Traceback" not in err, err.decode()
    return Done(code, out.decode(), err.decode())


def every_log() -> list[Path]:
    """Every log of the samples, those of remote storage included."""
    return sorted([*SAMPLES.rglob("*.log"), *SAMPLES.rglob("*.checkpoint")])


def recorded_texts() -> Iterator[tuple[Path, str]]:
    """Each sample with kafka-dump-log's output for it."""
    for log in sample_logs():
        yield log, kept_text(log).read_bytes().decode()


def sample_name(path: Path) -> str:
    """A sample's name in test ids."""
    return str(path.relative_to(SAMPLES))


def portable_lines(text: str) -> list[str]:
    """The lines of a command's output that do not depend on the files' disk or on how commands name
    them."""
    differing = ('"disk_bytes"', '"type":"next"')
    return [line for line in text.splitlines() if not any(key in line for key in differing)]
