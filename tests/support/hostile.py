"""Commands on inputs that are designed to break a reader."""

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


def partition(directory: Path, data: bytes, name: str = NAME) -> Path:
    """A partition with one log."""
    partition_directory = directory / "t-0"
    partition_directory.mkdir(parents=True)
    (partition_directory / name).write_bytes(data)
    return partition_directory


def run_kfmt(*arguments: str | Path) -> Done:
    """Run kfmt; check that it ends as documented, and prints only what a terminal can show."""
    code, out, err = warm.run(arguments, b"", ROOT, environment())
    assert b"Traceback" not in err, err.decode()
    result = Done(code, out.decode("utf-8", "replace"), err.decode())
    assert result.code in (0, 1, 2, 3), result
    outputs = (result.err,) if arguments[0] == "cat" else (result.out, result.err)
    assert not any(sequence in output for sequence in UNSAFE for output in outputs), arguments
    if "--json" in arguments:
        for line in result.out.splitlines():
            json.loads(line, parse_constant=pytest.fail)
    return result


def run_every_command(path: Path, output: Path) -> None:
    """Run every command on a path; none is a usage error."""
    for command in COMMANDS:
        name, *options = command.split()
        assert run_kfmt(name, path, *options).code != 2, command
    for i, command in enumerate(WRITING):
        name, *options = command.split()
        run_kfmt(name, path, output / str(i), *options)
    run_kfmt("export", path, "--to", output / "export")
    run_kfmt("diff", path, path)
