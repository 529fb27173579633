"""The published JSON Schema: every object of every command is valid, and what is not is refused."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kfmt_cli.commands.contract import contract
from kfmt_cli.rows.column import ColumnKind
from kfmt_cli.rows.json_shapes import OF_MEMBERS
from tests.rows.test_contract import COMMANDS
from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

SCHEMA: dict[str, Any] = json.loads((ROOT / "docs/schema/kfmt-1.json").read_text())
VALIDATORS: dict[str, list[Draft202012Validator]] = defaultdict(list)
for definition in SCHEMA["$defs"].values():
    of_one = Draft202012Validator({**definition, "$defs": SCHEMA["$defs"]})
    VALIDATORS[definition["properties"]["type"]["const"]].append(of_one)
EVERY_SAMPLE = [
    f"{command} {folder.relative_to(ROOT)}"
    for command in ("dump --records", "check", "state", "stat")
    for folder in sorted(SAMPLES.iterdir())
    if folder.is_dir()
]


def errors(row: dict[str, Any]) -> list[str]:
    """Why an object is not valid; empty if it is."""
    found = [[error.message for error in of.iter_errors(row)] for of in VALIDATORS[row["type"]]]
    return min(found, key=len, default=["no such type"])


def test_the_command_prints_the_schema() -> None:
    done = kfmt("format", "--json-schema")
    assert (done.code, json.loads(done.out)) == (0, SCHEMA)
    Draft202012Validator.check_schema(SCHEMA)
    assert len(SCHEMA["anyOf"]) == len(SCHEMA["$defs"])


@pytest.mark.parametrize("command", [*COMMANDS, *EVERY_SAMPLE])
def test_every_object_is_valid(command: str, tmp_path: Path) -> None:
    words = [text.replace("DST", str(tmp_path / "new")) for text in shlex.split(command)]
    for line in kfmt(*words, "--json").out.splitlines():
        row = json.loads(line)
        assert not errors(row), (errors(row), row)


def test_a_line_is_valid_as_a_whole() -> None:
    whole = Draft202012Validator(SCHEMA)
    row = {"type": "codec", "name": 3}
    assert not whole.is_valid(row)
    (first, *_) = kfmt("partition-of", "--group", "billing", "--json").rows
    assert whole.is_valid(first)


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


def test_every_json_member_has_a_shape() -> None:
    for part in contract():
        for type_ in part.types:
            for column in type_.columns:
                inner = column.of or (column,)
                names = [leaf.name for leaf in inner if leaf.kind is ColumnKind.JSON]
                assert not [name for name in names if name not in OF_MEMBERS], type_.name
