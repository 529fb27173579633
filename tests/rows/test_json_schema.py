"""The published JSON Schema: every object of every command is valid, others are refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kfmt_cli.commands.contract import iter_contract_sections
from kfmt_cli.rows.column import ColumnKind
from kfmt_cli.rows.json_schemas import CONTRACT_VERSION, SCHEMA_BY_MEMBER
from tests.rows.test_contract import COMMANDS
from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

SCHEMA: dict[str, Any] = json.loads((ROOT / "docs/schema/kfmt-1.json").read_text())
VALIDATORS: dict[str, Draft202012Validator] = {}
for name, definition in SCHEMA["$defs"].items():
    VALIDATORS[name] = Draft202012Validator({**definition, "$defs": SCHEMA["$defs"]})
SAMPLE_COMMANDS = [
    f"{command} {directory.relative_to(ROOT)}"
    for command in ("dump --records", "check", "state", "stat")
    for directory in sorted(SAMPLES.iterdir())
    if directory.is_dir()
]


def errors(row: dict[str, Any]) -> list[str]:
    """The reasons why an object is not valid; empty if it is."""
    return [error.message for error in VALIDATORS[row["type"]].iter_errors(row)]


def test_the_command_prints_the_schema() -> None:
    result = kfmt("format", "--json-schema")
    assert (result.code, json.loads(result.out)) == (0, SCHEMA)
    Draft202012Validator.check_schema(SCHEMA)


def test_each_type_is_defined_once() -> None:
    names = [line["$ref"].removeprefix("#/$defs/") for line in SCHEMA["anyOf"]]
    assert names == [
        *dict.fromkeys(
            type_.name for section in iter_contract_sections() for type_ in section.row_types
        )
    ]
    several = {name for name in names if "oneOf" in SCHEMA["$defs"][name]}
    assert several == {"partition", "topic", "checkpoint_entry"}
    for name in several:
        shapes = [line["$ref"].removeprefix("#/$defs/") for line in SCHEMA["$defs"][name]["oneOf"]]
        for shape in shapes:
            member = shape.removeprefix(f"{name}_with_")
            assert member in SCHEMA["$defs"][shape]["required"]
            other_shapes = [SCHEMA["$defs"][other] for other in shapes if other != shape]
            assert not [other for other in other_shapes if member in other["properties"]]
    unused = SCHEMA["$defs"].keys() - {*names, "kcat"}
    assert all("_with_" in name for name in unused)


def test_the_version_is_printed() -> None:
    assert SCHEMA["$id"] == f"kfmt-{CONTRACT_VERSION}.json"
    assert f", JSON {CONTRACT_VERSION}, " in kfmt("--version").out


@pytest.mark.parametrize("directory", ["kafka-3.9.1-broker1", "kafka-2.8.2", "kafka-0.8.2.2"])
def test_objects_of_kcat_are_valid_and_no_others(directory: str) -> None:
    rows = kfmt("cat", SAMPLES / directory, "--json").rows
    assert rows
    validator = Draft202012Validator(SCHEMA)
    for row in rows:
        assert [error.message for error in VALIDATORS["kcat"].iter_errors(row)] == [], row
    assert not validator.is_valid(rows[0])
    assert not VALIDATORS["kcat"].is_valid({**rows[0], "type": "record"})


@pytest.mark.parametrize("command", [*COMMANDS, *SAMPLE_COMMANDS])
def test_every_object_is_valid(command: str, tmp_path: Path) -> None:
    arguments = [text.replace("DST", str(tmp_path / "new")) for text in shlex.split(command)]
    for line in kfmt(*arguments, "--json").out.splitlines():
        row = json.loads(line)
        assert not errors(row), (errors(row), row)


def test_a_line_is_valid_as_a_whole() -> None:
    validator = Draft202012Validator(SCHEMA)
    row = {"type": "codec", "name": 3}
    assert not validator.is_valid(row)
    (first, *_) = kfmt("partition-of", "--group", "billing", "--json").rows
    assert validator.is_valid(first)


def test_other_objects_are_not_valid() -> None:
    rows = kfmt("check", "damaged_segments", "--json").rows
    finding = next(row for row in rows if row["type"] == "finding")
    assert not errors(finding)
    for changed in (
        {"severity": "bad"},
        {"position": "5"},
        {"colour": 1},
        {"file": None},
    ):
        assert errors({**finding, **changed}), changed
    del finding["code"]
    assert errors(finding)


def test_only_what_a_state_says_has_changes() -> None:
    metadata_log = f"{SAMPLES}/kafka-3.9.1-broker1/__cluster_metadata-0"
    rows = kfmt("state", metadata_log, "--since-offset", "500", "--json").rows
    changed = next(row for row in rows if "change" in row)
    assert not errors(changed)
    (finding, *_) = kfmt("check", "damaged_segments", "--json").of("finding")
    assert errors({**finding, "change": "new"})


def test_every_json_member_has_a_shape() -> None:
    for section in iter_contract_sections():
        for type_ in section.row_types:
            for column in type_.columns:
                inner = column.members or (column,)
                names = [leaf.name for leaf in inner if leaf.kind is ColumnKind.JSON]
                assert not [name for name in names if name not in SCHEMA_BY_MEMBER], type_.name
