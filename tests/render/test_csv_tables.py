"""CSV by every command that writes it: booleans as in JSON, and findings as a table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tests.support.segments import NAME, with_bytes, write
from tools.kafka import SAMPLES

BROKERS = [SAMPLES / "kafka-3.9.1-broker1", SAMPLES / "kafka-3.9.1-broker2"]


@pytest.mark.parametrize(
    ("arguments", "column"),
    [
        (("retention", BROKERS[0] / "orders-0"), "active"),
        (("replicas", *BROKERS), "clean_shutdown"),
        (("dump", BROKERS[0] / "orders-0"), "attributes.transactional"),
    ],
    ids=["retention", "replicas", "dump"],
)
def test_booleans_are_those_of_json(arguments: tuple[str, ...], column: str) -> None:
    rows = list(csv.DictReader(io.StringIO(kfmt(*arguments, "--format", "csv").out)))
    name = next(key for key in rows[0] if key.split(".")[-1] == column.rsplit(".", maxsplit=1)[-1])
    assert {row[name] for row in rows} <= {"true", "false", ""}
    assert {row[name] for row in rows} & {"true", "false"}


@pytest.mark.parametrize("command", ["verify-crc", "dump"])
def test_findings_are_a_table_if_asked_for(command: str, tmp_path: Path) -> None:
    data = (BROKERS[0] / "orders-0" / NAME).read_bytes()
    log = write(tmp_path / "orders-0", with_bytes(data, 200, bytes([data[200] ^ 1])))
    arguments = (command, log)
    rows = [json.loads(line) for line in kfmt(*arguments, "--json").out.splitlines()]
    result = kfmt(*arguments, "--format", "csv", "--table", "finding")
    (row,) = csv.DictReader(io.StringIO(result.out))
    (finding,) = (item for item in rows if item["type"] == "finding")
    assert list(row) == [name for name in finding if name != "type"]
    assert (row["code"], row["position"]) == ("crc-mismatch", str(finding["position"]))
    assert result.code == 1
    assert "crc-mismatch" not in result.err
