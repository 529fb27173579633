"""The JSON Schema of everything that kfmt prints as JSON, made from the same types."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kfmt_cli.commands.contract import shapes_by_name, state_types, telling
from kfmt_cli.rows.column import PLACE, Column, ColumnKind, Placed, RowType
from kfmt_cli.rows.documents import QUERY_ROW
from kfmt_cli.rows.json_shapes import (
    ANYTHING,
    FLAG,
    INTEGER,
    NUMBER,
    OF_MEMBERS,
    TEXT,
    VERSION,
    WORDS,
    Schema,
    list_of,
    or_null,
)

ENCODINGS = ("base64", "hex")
_TYPES: dict[ColumnKind, Schema] = {
    ColumnKind.NUMBER: INTEGER,
    ColumnKind.REAL: NUMBER,
    ColumnKind.FLAG: FLAG,
    ColumnKind.CHOICE: TEXT,
    ColumnKind.TEXT: TEXT,
    ColumnKind.BYTES: TEXT,
    ColumnKind.TEXTS: list_of(TEXT),
}
_HEADER: Schema = {
    "type": "object",
    "properties": {
        "key": or_null(TEXT),
        "key_encoding": {"enum": ENCODINGS},
        "value": or_null(TEXT),
        "value_encoding": {"enum": ENCODINGS},
    },
    "required": ["key", "value"],
    "additionalProperties": False,
}
_BASE64: Schema = {"enum": ["base64"]}
# What `cat --json` prints: the objects of `kcat -J`, without a type.
_KCAT: Schema = {
    "type": "object",
    "description": "What `cat --json` prints, as `kcat -J` does: an object without `type`.",
    "properties": {
        "topic": TEXT,
        "partition": {**INTEGER, "description": "-1 if the directory is not named after one."},
        "offset": INTEGER,
        "tstype": {"enum": ["create", "logappend", "unknown"]},
        "ts": {**INTEGER, "description": "Timestamp; -1 for none."},
        "broker": {"const": -1},
        "headers": {**list_of(or_null(TEXT)), "description": "Key, value, key, value, …"},
        "headers_encoding": list_of({"enum": ["base64", None]}),
        "key": or_null(TEXT),
        "key_encoding": _BASE64,
        "payload": or_null(TEXT),
        "payload_encoding": _BASE64,
    },
    "required": ["topic", "partition", "offset", "tstype", "ts", "broker", "key", "payload"],
    "additionalProperties": False,
}
_PLACES: dict[str, Schema] = {
    "topic": or_null(TEXT),
    "partition": or_null(INTEGER),
    "log_dir": or_null(TEXT),
}
# Rows of which each has what its own kind has: a magic, a control record, a place in a file.
VARIED = {"batch", "record", "field", "found"}
# A replayed state has two more members if it was asked for with --since-offset.
_CHANGES: dict[str, Schema] = {"change": TEXT, "before": {"type": "object"}}


def json_schema() -> Schema:
    """The schema of one line: an object of any type."""
    definitions: dict[str, Schema] = {}
    by_name = shapes_by_name()
    for name, shapes in by_name.items():
        if len(shapes) == 1:
            definitions[name] = _object(shapes[0])
            continue
        named = {f"{name}_with_{telling(shape, shapes)}": shape for shape in shapes}
        definitions[name] = {"oneOf": [_reference(shape) for shape in named]}
        definitions |= {shape: _object(type_) for shape, type_ in named.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"kfmt-{VERSION}.json",
        "title": "kfmt line",
        "description": "One line of what kfmt prints with --json. Within this version, types, "
        "members and words may be added; none is removed, renamed or given another meaning.",
        "anyOf": [_reference(name) for name in by_name],
        "$defs": {**definitions, "kcat": _KCAT},
    }


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def schema_text() -> str:
    """The schema as a file."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _object(type_: RowType) -> Schema:
    """The schema of a type."""
    if type_ is QUERY_ROW:
        return {
            "type": "object",
            "description": type_.doc,
            "properties": {"type": {"const": type_.name}},
            "required": ["type"],
        }
    members, required = _members(type_.columns)
    front: dict[str, Schema] = {"type": {"const": type_.name}}
    if type_.placed is not Placed.NO_FILE:
        front["file"] = TEXT
    if type_.placed.has_place:
        front |= {name: {**_PLACES[name], "description": doc} for name, doc in PLACE.items()}
        required = [*(name for name in front if name != "type"), *required]
    more: Schema = {"additionalProperties": INTEGER} if type_.name == "summary" else _CLOSED
    return {
        "type": "object",
        "description": type_.doc,
        "properties": {**front, **members, **(_CHANGES if type_ in state_types() else {})},
        "required": ["type", *(() if type_.name in VARIED else dict.fromkeys(required))],
        **more,
    }


_CLOSED: Schema = {"unevaluatedProperties": False}


def _members(columns: Iterable[Column]) -> tuple[dict[str, Schema], list[str]]:
    """The schemas of members by name, and the names of those that are always there."""
    members: dict[str, Schema] = {}
    required: list[str] = []
    for column in columns:
        members[column.name] = _member(column)
        if column.kind is ColumnKind.BYTES:
            members[f"{column.name}_encoding"] = {"enum": list(ENCODINGS)}
        if not column.only:
            required.append(column.name)
    return members, required


def _member(column: Column) -> Schema:
    """The schema of a member."""
    if column.kind is ColumnKind.GROUP:
        members, _ = _members(column.of)
        made: Schema = {"type": "object", "properties": members}
    elif column.kind is ColumnKind.HEADERS:
        made = list_of(_HEADER)
    elif column.kind is ColumnKind.JSON:
        made = OF_MEMBERS[column.name]
    elif column.name in WORDS and column.kind is ColumnKind.TEXT:
        made = {"enum": list(WORDS[column.name])}
    else:
        made = _TYPES[column.kind]
    if column.given or column.kind is ColumnKind.BYTES or column.none is not None:
        made = or_null(made)
    told: dict[str, Any] = {"description": column.doc} if column.doc else {}
    if column.words:
        told["examples"] = [word for word in column.words if word]
    return {**made, **told} if made is not ANYTHING else told
