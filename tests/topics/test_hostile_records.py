"""Records of internal topics that no broker or worker wrote: none ends a command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.samples import ORDERS, environment, kfmt
from tools.kafka import ROOT

HUGE = 1 << 64
ODD = ("x", [1], {"a": 1}, HUGE, -HUGE, 1.5, None, True)
STATUS = [
    *((f"status-task-c-{i}", {"generation": odd}) for i, odd in enumerate(ODD)),
    *(
        ("status-topic-t:connector-c", {"topic": {"task": odd, "discoverTimestamp": odd}})
        for odd in ODD
    ),
    ("status-connector-c", {"state": "\ud800", "worker_id": HUGE}),
]
SCHEMAS = [
    (
        json.dumps({"keytype": "SCHEMA", "subject": "s\ud800", "version": odd, "magic": 1}),
        {"subject": "s", "version": "x", "id": odd, "schema": "{}", "references": [{"subject": 5}]},
    )
    for odd in (HUGE, "", -1, None, [1])
]
CONFIGS = [
    ("task-c-" + "1" * 5000, {"properties": {"a": "b"}}),
    ("commit-c", {"tasks": HUGE}),
    ("connector-d", {"properties": {"a": "\ud800", "b": 1}}),
]
TOPICS: Mapping[str, Sequence[tuple[str, object]]] = {
    "connect-status": STATUS,
    "_schemas": SCHEMAS,
    "connect-configs": CONFIGS,
}
COMMANDS = [
    ["state"],
    ["state", "--json"],
    ["dump", "--records"],
    ["dump", "--records", "--json"],
    ["cat"],
]


def made(folder: Path, rows: Sequence[tuple[str, object]]) -> Path:
    """A partition with these keys and values."""
    lines = ""
    for i, (key, value) in enumerate(rows):
        row = {
            "type": "record",
            "offset": i,
            "timestamp": i,
            "key": key,
            "value": json.dumps(value),
        }
        lines += json.dumps(row) + "\n"
    done = kfmt("build", "-", folder, stdin=lines.encode())
    assert done.code == 0, done.err
    return folder


@pytest.fixture(params=list(TOPICS))
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return made(tmp_path / f"{request.param}-0", TOPICS[str(request.param)])


def test_no_record_ends_a_command(partition: Path) -> None:
    for command in COMMANDS:
        done = kfmt(command[0], partition, *command[1:])  # raises for a traceback
        assert done.code in (0, 1), (command, done.err)
    (log,) = partition.glob("*.log")
    assert kfmt("hex", log).code == 0


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    rows = [("status-task-c-0", {"state": "RUNNING", "generation": "x"})]
    made(tmp_path / "connect-status-0", rows)
    (row,) = kfmt("state", tmp_path, "--json").of("task_status")
    assert (row["state"], row["generation"]) == ("RUNNING", None)


@pytest.mark.parametrize("odd", ["~a{99999999999}", "~" + "(" * 5000 + "a" + ")" * 5000, "~("])
def test_an_expression_that_cannot_be_compiled_is_said(odd: str) -> None:
    for command in ("find", "dump", "cat"):
        done = kfmt(command, ORDERS, "--key", odd)
        assert done.code == 2
        assert "not a regular expression" in done.err


def test_a_format_may_have_any_bytes() -> None:
    words = ["cat", str(ORDERS), "-f", "\udcff%o\\n", "--limit", "1"]
    assert in_process.run(words, b"", ROOT, environment())[:2] == (0, b"\xff0\n")
