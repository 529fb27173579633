"""Transcripts of commands on real files; `pytest --update-golden` rewrites them, a person reads
the diff.

`COLUMNS=80 kfmt …` runs on a terminal of so many columns, without colour. DST is a new place, which
the commands of one transcript share.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tests.support.terminal import run_with_separate_stderr
from tools.kafka import ROOT

FOLDER = ROOT / "tests" / "golden"


def transcript(commands: list[str], dst: str) -> str:
    """Each command with its output, what it says on standard error, and its exit code; without what
    files take on this disk, and when they go."""
    parts = []
    for command in commands:
        words = [text.replace("DST", dst) for text in shlex.split(command)]
        if words[0].startswith("COLUMNS="):
            columns = int(words.pop(0).partition("=")[2])
            out, err, code = run_with_separate_stderr(*words[1:], columns=columns, NO_COLOR="1")
        else:
            done = kfmt(*words[1:])
            out, err, code = done.out, done.err, done.code
        err = "".join(f"! {line}\n" for line in err.splitlines())
        parts.append(f"$ {command}\n{(out + err).replace(dst, 'DST')}exit {code}\n")
    names = "disk_bytes|freed_now|freed_later|freed_odd"
    said = re.sub(rf'("(?:{names})":)\d+', r"\1N", "\n".join(parts))
    said = re.sub(r'("freed_later":N,"freed_by":)(?:\d+|null)', r"\1N", said)  # null: all is now
    said = re.sub(r"(?m)^(logs, under .* settings:).*(?:\n  \S.*)*", r"\1 N", said)
    said = re.sub(r"\bat [\d.]+ MB/s", "at N MB/s", said)
    said = re.sub(r"\d+ of +(\d+ pages) +\d+%", r"N of \1 N%", said)  # of the page cache
    return re.sub(r"(\d [kMG]?B) +[\d.]+ [kMG]?B\b", r"\1 N", said)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.txt")))
def test_the_transcript_is_what_kfmt_says(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file = FOLDER / name
    commands = [
        line[2:]
        for line in file.read_text().splitlines()
        if line.startswith(("$ kfmt ", "$ COLUMNS="))
    ]
    assert commands
    said = transcript(commands, str(tmp_path / "made"))
    if request.config.getoption("--update-golden"):
        file.write_text(said)
    assert said == file.read_text()
