"""Transcripts of commands on real files; `pytest --update-golden` rewrites them, a person reads
the diff."""

from __future__ import annotations

import shlex

import pytest

from tests.samples import kfmt
from tools.kafka import ROOT

FOLDER = ROOT / "tests" / "golden"


def transcript(commands: list[str]) -> str:
    """Each command with its output, what it says on standard error, and its exit code."""
    parts = []
    for command in commands:
        done = kfmt(*shlex.split(command)[1:])
        err = "".join(f"! {line}\n" for line in done.err.splitlines())
        parts.append(f"$ {command}\n{done.out}{err}exit {done.code}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.txt")))
def test_the_transcript_is_what_kfmt_says(name: str, request: pytest.FixtureRequest) -> None:
    file = FOLDER / name
    commands = [it[2:] for it in file.read_text().splitlines() if it.startswith("$ ")]
    assert commands
    said = transcript(commands)
    if request.config.getoption("--update-golden"):
        file.write_text(said)
    assert said == file.read_text()
