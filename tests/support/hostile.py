"""Commands on inputs that are made to break a reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.samples import Done, environment
from tools.kafka import ROOT

NAME = f"{0:020}.log"
UNSAFE = ("\x1b", "\u202e")
COMMANDS = (
    *("dump", "dump --json", "dump --records", "dump --bits", "cat", "stat", "find --offset 5"),
    *("find --key k", "txn", "state", "check", "check --json", "check --format github"),
    *("check --format sarif", "check --format junit", "verify-crc --deep", "index-check"),
    *("retention", "compaction"),
)
WRITING = ("salvage", "salvage --records", "rebuild-index", "convert-v0-to-v2")


def partition(folder: Path, data: bytes, name: str = NAME) -> Path:
    """A partition with one log."""
    to = folder / "t-0"
    to.mkdir(parents=True)
    (to / name).write_bytes(data)
    return to


def ran(*arguments: str | Path) -> Done:
    """A run that ends as documented, and prints what a terminal can show."""
    code, out, err = warm.run(arguments, b"", ROOT, environment())
    assert b"Traceback" not in err, err.decode()
    done = Done(code, out.decode("utf-8", "replace"), err.decode())
    assert done.code in (0, 1, 2, 3), done
    outputs = (done.err,) if arguments[0] == "cat" else (done.out, done.err)
    assert not any(text in words for text in UNSAFE for words in outputs), arguments
    if "--json" in arguments:
        for line in done.out.splitlines():
            json.loads(line, parse_constant=pytest.fail)
    return done


def every(path: Path, out: Path) -> None:
    """Every command on a path; none is wrong usage."""
    for command in COMMANDS:
        name, *options = command.split()
        assert ran(name, path, *options).code != 2, command
    for i, command in enumerate(WRITING):
        name, *options = command.split()
        ran(name, path, out / str(i), *options)
    ran("export", path, "--to", out / "export")
    ran("diff", path, path)
