"""Invalid records of internal topics do not end a command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.samples import ORDERS, environment, kfmt
from tools.kafka import ROOT

TOO_LARGE = 1 << 64
INVALID_VALUES = ("x", [1], {"a": 1}, TOO_LARGE, -TOO_LARGE, 1.5, None, True)
STATUS_RECORDS = [
    *((f"status-task-c-{i}", {"generation": invalid}) for i, invalid in enumerate(INVALID_VALUES)),
    *(
        ("status-topic-t:connector-c", {"topic": {"task": invalid, "discoverTimestamp": invalid}})
        for invalid in INVALID_VALUES
    ),
    ("status-connector-c", {"state": "\ud800", "worker_id": TOO_LARGE}),
]
SCHEMA_RECORDS = [
    (
        json.dumps({"keytype": "SCHEMA", "subject": "s\ud800", "version": invalid, "magic": 1}),
        {
            "subject": "s",
            "version": "x",
            "id": invalid,
            "schema": "{}",
            "references": [{"subject": 5}],
        },
    )
    for invalid in (TOO_LARGE, "", -1, None, [1])
]
CONFIG_RECORDS = [
    ("task-c-" + "1" * 5000, {"properties": {"a": "b"}}),
    ("commit-c", {"tasks": TOO_LARGE}),
    ("connector-d", {"properties": {"a": "\ud800", "b": 1}}),
]
RECORDS_BY_TOPIC: Mapping[str, Sequence[tuple[str, object]]] = {
    "connect-status": STATUS_RECORDS,
    "_schemas": SCHEMA_RECORDS,
    "connect-configs": CONFIG_RECORDS,
}
COMMANDS = [
    ["state"],
    ["state", "--json"],
    ["dump", "--records"],
    ["dump", "--records", "--json"],
    ["cat"],
]


def build_partition(directory: Path, rows: Sequence[tuple[str, object]]) -> Path:
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
    result = kfmt("build", "-", directory, stdin=lines.encode())
    assert result.code == 0, result.err
    return directory


@pytest.fixture(params=list(RECORDS_BY_TOPIC))
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return build_partition(tmp_path / f"{request.param}-0", RECORDS_BY_TOPIC[str(request.param)])


def test_no_record_ends_a_command(partition: Path) -> None:
    for command in COMMANDS:
        result = kfmt(command[0], partition, *command[1:])  # raises if there is a traceback
        assert result.code in (0, 1), (command, result.err)
    (log,) = partition.glob("*.log")
    assert kfmt("hex", log).code == 0


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    rows = [("status-task-c-0", {"state": "RUNNING", "generation": "x"})]
    build_partition(tmp_path / "connect-status-0", rows)
    (row,) = kfmt("state", tmp_path, "--json").of("task_status")
    assert (row["state"], row["generation"]) == ("RUNNING", None)


@pytest.mark.parametrize(
    "expression", ["~a{99999999999}", "~" + "(" * 5000 + "a" + ")" * 5000, "~("]
)
def test_an_invalid_expression_is_reported(expression: str) -> None:
    for command in ("find", "dump", "cat"):
        result = kfmt(command, ORDERS, "--key", expression)
        assert result.code == 2
        assert "not a regular expression" in result.err


def test_a_format_may_have_any_bytes() -> None:
    arguments = ["cat", str(ORDERS), "-f", "\udcff%o\\n", "--limit", "1"]
    assert in_process.run(arguments, b"", ROOT, environment())[:2] == (0, b"\xff0\n")
