"""The JSON Schema of everything that kfmt prints as JSON, generated from the same row types."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kfmt_cli.commands.contract import distinguishing_member, state_row_types, variants_by_type_name
from kfmt_cli.rows.column import LOCATION_COLUMNS, Column, ColumnKind, LocationSource, RowType
from kfmt_cli.rows.documents import QUERY_ROW
from kfmt_cli.rows.json_schemas import (
    ANY_SCHEMA,
    BOOLEAN_SCHEMA,
    CONTRACT_VERSION,
    ENUM_BY_MEMBER,
    INTEGER_SCHEMA,
    NUMBER_SCHEMA,
    SCHEMA_BY_MEMBER,
    STRING_SCHEMA,
    JsonSchema,
    array_schema,
    nullable_schema,
)

BYTES_ENCODINGS = ("base64", "hex")
_SCHEMA_BY_KIND: dict[ColumnKind, JsonSchema] = {
    ColumnKind.NUMBER: INTEGER_SCHEMA,
    ColumnKind.REAL: NUMBER_SCHEMA,
    ColumnKind.FLAG: BOOLEAN_SCHEMA,
    ColumnKind.CHOICE: STRING_SCHEMA,
    ColumnKind.TEXT: STRING_SCHEMA,
    ColumnKind.BYTES: STRING_SCHEMA,
    ColumnKind.TEXTS: array_schema(STRING_SCHEMA),
}
_HEADER_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "key": nullable_schema(STRING_SCHEMA),
        "key_encoding": {"enum": BYTES_ENCODINGS},
        "value": nullable_schema(STRING_SCHEMA),
        "value_encoding": {"enum": BYTES_ENCODINGS},
    },
    "required": ["key", "value"],
    "additionalProperties": False,
}
_BASE64_SCHEMA: JsonSchema = {"enum": ["base64"]}
# What `cat --json` prints: the objects of `kcat -J`, without a type.
_KCAT_SCHEMA: JsonSchema = {
    "type": "object",
    "description": "What `cat --json` prints, as `kcat -J` does: an object without `type`.",
    "properties": {
        "topic": STRING_SCHEMA,
        "partition": {
            **INTEGER_SCHEMA,
            "description": "-1 if the directory is not named after one.",
        },
        "offset": INTEGER_SCHEMA,
        "tstype": {"enum": ["create", "logappend", "unknown"]},
        "ts": {**INTEGER_SCHEMA, "description": "Timestamp; -1 for none."},
        "broker": {"const": -1},
        "headers": {
            **array_schema(nullable_schema(STRING_SCHEMA)),
            "description": "Key, value, key, value, …",
        },
        "headers_encoding": array_schema({"enum": ["base64", None]}),
        "key": nullable_schema(STRING_SCHEMA),
        "key_encoding": _BASE64_SCHEMA,
        "payload": nullable_schema(STRING_SCHEMA),
        "payload_encoding": _BASE64_SCHEMA,
    },
    "required": ["topic", "partition", "offset", "tstype", "ts", "broker", "key", "payload"],
    "additionalProperties": False,
}
_LOCATION_SCHEMAS: dict[str, JsonSchema] = {
    "topic": nullable_schema(STRING_SCHEMA),
    "partition": nullable_schema(INTEGER_SCHEMA),
    "log_dir": nullable_schema(STRING_SCHEMA),
}
# Types whose members depend on the row: on its magic, its control type or its location.
VARYING_TYPES = {"batch", "record", "field", "found"}
# With --since-offset, the rows of a replayed state have two more members.
_CHANGE_SCHEMAS: dict[str, JsonSchema] = {"change": STRING_SCHEMA, "before": {"type": "object"}}


def json_schema() -> JsonSchema:
    """The schema of one line: an object of any type."""
    definitions: dict[str, JsonSchema] = {}
    variants_by_name = variants_by_type_name()
    for name, variants in variants_by_name.items():
        if len(variants) == 1:
            definitions[name] = _object_schema(variants[0])
            continue
        variant_by_name = {
            f"{name}_with_{distinguishing_member(variant, variants)}": variant
            for variant in variants
        }
        definitions[name] = {
            "oneOf": [_reference_schema(type_name) for type_name in variant_by_name]
        }
        definitions |= {
            type_name: _object_schema(row_type) for type_name, row_type in variant_by_name.items()
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"kfmt-{CONTRACT_VERSION}.json",
        "title": "kfmt line",
        "description": "One line of what kfmt prints with --json. Within this version, types, "
        "members and values may be added; none is removed, renamed or given another meaning.",
        "anyOf": [_reference_schema(name) for name in variants_by_name],
        "$defs": {**definitions, "kcat": _KCAT_SCHEMA},
    }


def _reference_schema(type_name: str) -> JsonSchema:
    return {"$ref": f"#/$defs/{type_name}"}


def format_json_schema() -> str:
    """The schema as the text of a file."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _object_schema(row_type: RowType) -> JsonSchema:
    """The schema of the objects of a row type."""
    if row_type is QUERY_ROW:
        return {
            "type": "object",
            "description": row_type.doc,
            "properties": {"type": {"const": row_type.name}},
            "required": ["type"],
        }
    schema_by_member, required_names = _member_schemas(row_type.columns)
    leading_schema_by_member: dict[str, JsonSchema] = {"type": {"const": row_type.name}}
    if row_type.location_source is not LocationSource.NO_FILE:
        leading_schema_by_member["file"] = STRING_SCHEMA
    if row_type.location_source.has_location:
        leading_schema_by_member |= {
            name: {**_LOCATION_SCHEMAS[name], "description": doc}
            for name, doc in LOCATION_COLUMNS.items()
        }
        required_names = [
            *(name for name in leading_schema_by_member if name != "type"),
            *required_names,
        ]
    other_members: JsonSchema = (
        {"additionalProperties": INTEGER_SCHEMA}
        if row_type.name == "summary"
        else _NO_OTHER_MEMBERS
    )
    return {
        "type": "object",
        "description": row_type.doc,
        "properties": {
            **leading_schema_by_member,
            **schema_by_member,
            **(_CHANGE_SCHEMAS if row_type in state_row_types() else {}),
        },
        "required": [
            "type",
            *(() if row_type.name in VARYING_TYPES else dict.fromkeys(required_names)),
        ],
        **other_members,
    }


_NO_OTHER_MEMBERS: JsonSchema = {"unevaluatedProperties": False}


def _member_schemas(columns: Iterable[Column]) -> tuple[dict[str, JsonSchema], list[str]]:
    """The schemas of members by name, and the names of the required ones."""
    schema_by_member: dict[str, JsonSchema] = {}
    required_names: list[str] = []
    for column in columns:
        schema_by_member[column.name] = _member_schema(column)
        if column.kind is ColumnKind.BYTES:
            schema_by_member[f"{column.name}_encoding"] = {"enum": list(BYTES_ENCODINGS)}
        if not column.present_if:
            required_names.append(column.name)
    return schema_by_member, required_names


def _member_schema(column: Column) -> JsonSchema:
    """The schema of a member."""
    if column.kind is ColumnKind.GROUP:
        schema_by_member, _ = _member_schemas(column.members)
        schema: JsonSchema = {"type": "object", "properties": schema_by_member}
    elif column.kind is ColumnKind.HEADERS:
        schema = array_schema(_HEADER_SCHEMA)
    elif column.kind is ColumnKind.JSON:
        schema = SCHEMA_BY_MEMBER[column.name]
    elif column.name in ENUM_BY_MEMBER and column.kind is ColumnKind.TEXT:
        schema = {"enum": list(ENUM_BY_MEMBER[column.name])}
    else:
        schema = _SCHEMA_BY_KIND[column.kind]
    if column.presence_column or column.kind is ColumnKind.BYTES or column.null_value is not None:
        schema = nullable_schema(schema)
    schema_annotations: dict[str, Any] = {"description": column.doc} if column.doc else {}
    if column.choices:
        schema_annotations["examples"] = [choice for choice in column.choices if choice]
    return {**schema, **schema_annotations} if schema is not ANY_SCHEMA else schema_annotations
