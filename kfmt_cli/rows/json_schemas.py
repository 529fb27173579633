"""JSON Schemas for the contents of JSON members, and the values of members that have few.

Keyed by member name; a name means the same in all types.
"""

from __future__ import annotations

from typing import Any

JsonSchema = dict[str, Any]
CONTRACT_VERSION = 1  # of the JSON: what a version promises is in the schema's description

ANY_SCHEMA: JsonSchema = {}
INTEGER_SCHEMA: JsonSchema = {"type": "integer"}
NUMBER_SCHEMA: JsonSchema = {"type": "number"}
BOOLEAN_SCHEMA: JsonSchema = {"type": "boolean"}
STRING_SCHEMA: JsonSchema = {"type": "string"}
SCALAR_SCHEMA: JsonSchema = {"type": ["string", "integer", "number", "boolean", "null"]}


def nullable_schema(schema: JsonSchema) -> JsonSchema:
    """The schema, but null is also allowed."""
    if not schema:
        return schema
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    json_types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*dict.fromkeys((*json_types, "null"))]}


def array_schema(item_schema: JsonSchema, n_items: int | None = None) -> JsonSchema:
    """The schema of a list, of exactly `n_items` items if given."""
    length_limits = {} if n_items is None else {"minItems": n_items, "maxItems": n_items}
    return {"type": "array", "items": item_schema, **length_limits}


def map_schema(value_schema: JsonSchema) -> JsonSchema:
    """The schema of an object with any names."""
    return {"type": "object", "additionalProperties": value_schema}


def object_schema(**members: JsonSchema) -> JsonSchema:
    """The schema of an object with these members; later versions may have others."""
    return {"type": "object", "properties": members, "required": list(members)}


_RANGES_SCHEMA = array_schema(array_schema(INTEGER_SCHEMA, 2))
_BATCH_SCHEMA = object_schema(
    position=INTEGER_SCHEMA,
    base_offset=INTEGER_SCHEMA,
    last_offset=INTEGER_SCHEMA,
    max_timestamp=nullable_schema(INTEGER_SCHEMA),
)
_SEARCH_STEP_SCHEMA = object_schema(
    low=INTEGER_SCHEMA,
    high=INTEGER_SCHEMA,
    middle=INTEGER_SCHEMA,
    value=nullable_schema(INTEGER_SCHEMA),
    verdict=STRING_SCHEMA,
)
_SEARCH_SCHEMA = object_schema(
    index=nullable_schema(STRING_SCHEMA),
    column=STRING_SCHEMA,
    target=INTEGER_SCHEMA,
    entries=INTEGER_SCHEMA,
    steps=array_schema(_SEARCH_STEP_SCHEMA),
    entry=nullable_schema(INTEGER_SCHEMA),
    found=nullable_schema({"type": "object"}),
)
_END_POINTS_SCHEMA = array_schema(
    object_schema(
        name=STRING_SCHEMA,
        host=STRING_SCHEMA,
        port=INTEGER_SCHEMA,
        security_protocol=nullable_schema(SCALAR_SCHEMA),
    )
)
_STRINGS_SCHEMA, _INTEGERS_SCHEMA = array_schema(STRING_SCHEMA), array_schema(INTEGER_SCHEMA)

_BRANCH_SCHEMA = object_schema(
    brokers=array_schema(nullable_schema(INTEGER_SCHEMA)),
    latest_epoch=nullable_schema(INTEGER_SCHEMA),
    end=INTEGER_SCHEMA,
)
_REPLICA_PART_SCHEMA = object_schema(
    broker_id=nullable_schema(INTEGER_SCHEMA),
    file=nullable_schema(STRING_SCHEMA),
    offsets=_RANGES_SCHEMA,
    bytes=INTEGER_SCHEMA,
)
_OUTCOME_SCHEMA = object_schema(
    leader=nullable_schema(INTEGER_SCHEMA), log_end_offset=nullable_schema(INTEGER_SCHEMA)
)

SCHEMA_BY_MEMBER: dict[str, JsonSchema] = {
    **dict.fromkeys(
        ("lost_offsets", "unreachable_offsets", "ranges", "remaining_offsets"), _RANGES_SCHEMA
    ),
    **dict.fromkeys(("records_histogram", "bytes_histogram"), _RANGES_SCHEMA),
    **dict.fromkeys(("damaged_offsets", "lost_acknowledged_at_least"), _RANGES_SCHEMA),
    "returning_offsets": _RANGES_SCHEMA,
    **dict.fromkeys(("roles", "evidence"), _STRINGS_SCHEMA),
    "epochs": _RANGES_SCHEMA,  # pairs of a leader epoch and its first offset
    "branches": array_schema(_BRANCH_SCHEMA),
    "from": array_schema(_REPLICA_PART_SCHEMA),
    **dict.fromkeys(("offsets", "missing"), _RANGES_SCHEMA),
    "alternatives": array_schema(_OUTCOME_SCHEMA),
    "order": {"type": ["array", "string"], "items": INTEGER_SCHEMA},
    **dict.fromkeys(
        ("observed_on", "deleted", "codes", "cleanup_policy", "paths", "answers", "said"),
        _STRINGS_SCHEMA,
    ),
    **dict.fromkeys(("log_dirs", "cordoned_log_dirs"), _STRINGS_SCHEMA),
    **dict.fromkeys(("directories", "renewers"), array_schema(nullable_schema(STRING_SCHEMA))),
    **dict.fromkeys(("replicas", "isr", "adding_replicas", "removing_replicas"), _INTEGERS_SCHEMA),
    **dict.fromkeys(("eligible_leader_replicas", "last_known_elr"), _INTEGERS_SCHEMA),
    **dict.fromkeys(("a_leader_epochs", "b_leader_epochs"), _INTEGERS_SCHEMA),
    "versions": array_schema(INTEGER_SCHEMA, 2),
    **dict.fromkeys(("codecs", "magics", "not_looked_at", "left_out"), map_schema(INTEGER_SCHEMA)),
    "settings": map_schema(object_schema(value=SCALAR_SCHEMA, source=STRING_SCHEMA)),
    **dict.fromkeys(("config", "other", "tagged_fields"), map_schema(ANY_SCHEMA)),
    **dict.fromkeys(("source_partition", "source_offset"), ANY_SCHEMA),  # the connector's own
    "entity": map_schema(nullable_schema(STRING_SCHEMA)),
    "cut": array_schema(object_schema(file=STRING_SCHEMA, size=INTEGER_SCHEMA)),
    "end_points": _END_POINTS_SCHEMA,
    "features": array_schema(
        object_schema(
            name=STRING_SCHEMA,
            min_supported_version=INTEGER_SCHEMA,
            max_supported_version=INTEGER_SCHEMA,
        )
    ),
    "assignment": array_schema(
        object_schema(topic=nullable_schema(STRING_SCHEMA), partitions=_INTEGERS_SCHEMA)
    ),
    "segment_leader_epochs": array_schema(
        object_schema(leader_epoch=INTEGER_SCHEMA, offset=INTEGER_SCHEMA)
    ),
    "current_voters": array_schema(object_schema(voter_id=INTEGER_SCHEMA)),
    "references": ANY_SCHEMA,  # as the client registered them
    "partitions": array_schema(object_schema(topic=STRING_SCHEMA, partition=INTEGER_SCHEMA)),
    "state_batches": array_schema(
        object_schema(
            first_offset=INTEGER_SCHEMA,
            last_offset=INTEGER_SCHEMA,
            delivery_state=INTEGER_SCHEMA,
            delivery_count=INTEGER_SCHEMA,
            delivery_state_name=STRING_SCHEMA,
        )
    ),
    "searches": array_schema(_SEARCH_SCHEMA),
    "scanned": array_schema(_BATCH_SCHEMA),
    "batch": _BATCH_SCHEMA,
    "gaps": array_schema(array_schema(INTEGER_SCHEMA, 3)),
    "cells": array_schema(array_schema(nullable_schema(SCALAR_SCHEMA))),
    "parts": array_schema({"type": ["string", "array"], "items": STRING_SCHEMA}),
    "before": map_schema(ANY_SCHEMA),
    "data": {"type": "object"},  # a KRaft control record
    # Of any type, depending on the field, setting or record.
    **dict.fromkeys(("value", "expected", "found", "decoded_key", "decoded_value"), ANY_SCHEMA),
}

ENUM_BY_MEMBER: dict[str, tuple[str, ...]] = {
    "severity": ("error", "warning", "note"),
    "after": ("crash", "clean-shutdown"),
    "next_start": ("crash", "clean-shutdown"),
    "via": ("index", "scan"),
    "outcome": ("committed", "aborted", "open"),
}
