"""Transcripts of commands on real files; `pytest --update-golden` rewrites them, a person reads
the diff.

`COLUMNS=80 kfmt …` runs on a terminal of so many columns, without colour. DST is a new directory,
which the commands of one transcript share.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tests.support.terminal import run_with_separate_stderr
from tools.kafka import ROOT

GOLDEN_DIRECTORY = ROOT / "tests" / "golden"


def transcript(commands: list[str], destination: str) -> str:
    """Each command with its output, its standard error and its exit code, without disk usage and
    times that depend on this machine."""
    sections = []
    for command in commands:
        arguments = [argument.replace("DST", destination) for argument in shlex.split(command)]
        if arguments[0].startswith("COLUMNS="):
            columns = int(arguments.pop(0).partition("=")[2])
            stdout, stderr, code = run_with_separate_stderr(
                *arguments[1:], columns=columns, NO_COLOR="1"
            )
        else:
            result = kfmt(*arguments[1:])
            stdout, stderr, code = result.out, result.err, result.code
        stderr = "".join(f"! {line}\n" for line in stderr.splitlines())
        sections.append(
            f"$ {command}\n{(stdout + stderr).replace(destination, 'DST')}exit {code}\n"
        )
    names = "disk_bytes|freed_now|freed_later|freed_odd"
    text = re.sub(rf'("(?:{names})":)\d+', r"\1N", "\n".join(sections))
    text = re.sub(r'("freed_later":N,"freed_by":)(?:\d+|null)', r"\1N", text)  # null: all is now
    text = re.sub(r"(?m)^(logs, under .* settings:).*(?:\n  \S.*)*", r"\1 N", text)
    text = re.sub(r"(?m)^(! wrote .*, )[\d.]+ [kM]?B\b", r"\1N", text)  # has the inputs' paths
    text = re.sub(r"\bat [\d.]+ MB/s", "at N MB/s", text)
    text = re.sub(r"\d+ of +(\d+ pages) +\d+%", r"N of \1 N%", text)  # of the page cache
    return re.sub(r"(\d [kMG]?B) +[\d.]+ [kMG]?B\b", r"\1 N", text)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN_DIRECTORY.glob("*.txt")))
def test_the_transcript_is_what_kfmt_says(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file = GOLDEN_DIRECTORY / name
    commands = [
        line[2:]
        for line in file.read_text().splitlines()
        if line.startswith(("$ kfmt ", "$ COLUMNS="))
    ]
    assert commands
    actual = transcript(commands, str(tmp_path / "made"))
    if request.config.getoption("--update-golden"):
        file.write_text(actual)
    assert actual == file.read_text()
