"""JSON that is nested deeper than a parser goes is an input that cannot be read, wherever it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

DEEP = "[" * 200_000 + "]" * 200_000
BROKER = SAMPLES / "kafka-3.9.1-broker1"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A partition with a record whose value is deep JSON."""
    row = {"type": "record", "offset": 0, "timestamp": 1, "key": None, "value": DEEP, "headers": []}
    lines = tmp_path / "value.jsonl"
    lines.write_text(json.dumps(row))
    assert kfmt("build", lines, tmp_path / "deep-0").code == 0
    return tmp_path / "deep-0"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("build", "FILE", "OUT"), 2),
        (("dump", "LOG", "--records", "--value-format", "confluent", "--schemas", "FILE"), 3),
        (("dump", "LOG", "--records", "--value-format", "avro", "--value-schema", "FILE"), 2),
        (("dump", "LOG", "--records", "--value-format", "json"), 0),
        (("cat", "LOG", "--value-format", "json"), 0),
        (("find", "LOG", "--value", "json:$.a=1"), 1),
        (("explain", "offset", "0", "LOG"), 2),
        (("dump", "FILE"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_deep_json_ends_in_a_message(
    arguments: tuple[str, ...], code: int, logs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "deep.json"
    file.write_text(f'{{"offset":0,"other":{DEEP}}}')
    paths = {"FILE": file, "LOG": logs, "OUT": tmp_path / "out"}
    result = kfmt(*(paths.get(argument, argument) for argument in arguments))
    assert result.code == code, result
    assert result.out or result.err


@pytest.mark.parametrize("name", [".kafka_cleanshutdown", "__cluster_metadata-0/quorum-state"])
@pytest.mark.parametrize("command", ["check", "dump", "hex", "replicas", "state", "stat"])
def test_a_brokers_own_file_of_deep_json(name: str, command: str, tmp_path: Path) -> None:
    shutil.copytree(BROKER, tmp_path / "data")
    (tmp_path / "data" / name).write_text(DEEP)
    target = tmp_path / "data" / (name if command in ("dump", "hex") else "")
    assert kfmt(command, target).code in (0, 1, 3)
