"""What is inside the JSON members of objects, and the values of members that have few.

Keyed by the member's name, which means the same in all types. In JSON Schema.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
VERSION = 1  # of the JSON: what a version promises is in the schema's description

ANYTHING: Schema = {}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
SCALAR: Schema = {"type": ["string", "integer", "number", "boolean", "null"]}


def or_null(of: Schema) -> Schema:
    """A schema that allows null, too."""
    if not of:
        return of
    if "enum" in of:
        return {**of, "enum": [*of["enum"], None]}
    types = of["type"] if isinstance(of["type"], list) else [of["type"]]
    return {**of, "type": [*dict.fromkeys((*types, "null"))]}


def list_of(of: Schema, n: int | None = None) -> Schema:
    """A list, of n items if given."""
    bounds = {} if n is None else {"minItems": n, "maxItems": n}
    return {"type": "array", "items": of, **bounds}


def by_name(of: Schema) -> Schema:
    """An object with any names."""
    return {"type": "object", "additionalProperties": of}


def with_members(**members: Schema) -> Schema:
    """An object with these members, and perhaps others in later versions."""
    return {"type": "object", "properties": members, "required": list(members)}


_RANGES = list_of(list_of(INTEGER, 2))
_BATCH = with_members(
    position=INTEGER, base_offset=INTEGER, last_offset=INTEGER, max_timestamp=or_null(INTEGER)
)
_STEP = with_members(
    low=INTEGER, high=INTEGER, middle=INTEGER, value=or_null(INTEGER), verdict=TEXT
)
_SEARCH = with_members(
    index=or_null(TEXT),
    column=TEXT,
    target=INTEGER,
    entries=INTEGER,
    steps=list_of(_STEP),
    entry=or_null(INTEGER),
    found=or_null({"type": "object"}),
)
_END_POINTS = list_of(
    with_members(name=TEXT, host=TEXT, port=INTEGER, security_protocol=or_null(SCALAR))
)
_TEXTS, _NUMBERS = list_of(TEXT), list_of(INTEGER)

_BRANCH = with_members(
    brokers=list_of(or_null(INTEGER)), latest_epoch=or_null(INTEGER), end=INTEGER
)
_PART = with_members(broker_id=or_null(INTEGER), file=or_null(TEXT), offsets=_RANGES, bytes=INTEGER)
_END = with_members(leader=or_null(INTEGER), log_end_offset=or_null(INTEGER))

OF_MEMBERS: dict[str, Schema] = {
    **dict.fromkeys(
        ("lost_offsets", "unreachable_offsets", "ranges", "remaining_offsets"), _RANGES
    ),
    **dict.fromkeys(("records_histogram", "bytes_histogram"), _RANGES),
    **dict.fromkeys(("damaged_offsets", "lost_acknowledged_at_least"), _RANGES),
    "returning_offsets": _RANGES,
    **dict.fromkeys(("roles", "evidence"), _TEXTS),
    "epochs": _RANGES,  # pairs of a leader epoch and its first offset
    "branches": list_of(_BRANCH),
    "from": list_of(_PART),
    **dict.fromkeys(("offsets", "missing"), _RANGES),
    "alternatives": list_of(_END),
    "order": {"type": ["array", "string"], "items": INTEGER},
    **dict.fromkeys(("observed_on", "deleted", "codes", "cleanup_policy", "log_dirs"), _TEXTS),
    **dict.fromkeys(("paths", "answers", "said"), _TEXTS),
    **dict.fromkeys(("directories", "renewers"), list_of(or_null(TEXT))),
    **dict.fromkeys(("replicas", "isr", "adding_replicas", "removing_replicas"), _NUMBERS),
    **dict.fromkeys(("eligible_leader_replicas", "last_known_elr"), _NUMBERS),
    **dict.fromkeys(("a_leader_epochs", "b_leader_epochs"), _NUMBERS),
    "versions": list_of(INTEGER, 2),
    **dict.fromkeys(("codecs", "magics", "not_looked_at", "left_out"), by_name(INTEGER)),
    "settings": by_name(with_members(value=SCALAR, source=TEXT)),
    **dict.fromkeys(("config", "other", "tagged_fields"), by_name(ANYTHING)),
    **dict.fromkeys(("source_partition", "source_offset"), ANYTHING),  # the connector's own
    "entity": by_name(or_null(TEXT)),
    "cut": list_of(with_members(file=TEXT, size=INTEGER)),
    "end_points": _END_POINTS,
    "features": list_of(
        with_members(name=TEXT, min_supported_version=INTEGER, max_supported_version=INTEGER)
    ),
    "assignment": list_of(with_members(topic=or_null(TEXT), partitions=_NUMBERS)),
    "segment_leader_epochs": list_of(with_members(leader_epoch=INTEGER, offset=INTEGER)),
    "current_voters": list_of(with_members(voter_id=INTEGER)),
    "references": ANYTHING,  # as the client registered them
    "partitions": list_of(with_members(topic=TEXT, partition=INTEGER)),
    "state_batches": list_of(
        with_members(
            first_offset=INTEGER,
            last_offset=INTEGER,
            delivery_state=INTEGER,
            delivery_count=INTEGER,
            delivery_state_name=TEXT,
        )
    ),
    "searches": list_of(_SEARCH),
    "scanned": list_of(_BATCH),
    "batch": _BATCH,
    "gaps": list_of(list_of(INTEGER, 3)),
    "cells": list_of(list_of(or_null(SCALAR))),
    "parts": list_of({"type": ["string", "array"], "items": TEXT}),
    "before": by_name(ANYTHING),
    "data": {"type": "object"},  # a KRaft control record
    # Of any kind: a field's own, a setting's or a record's.
    **dict.fromkeys(("value", "expected", "found", "decoded_key", "decoded_value"), ANYTHING),
}

WORDS: dict[str, tuple[str, ...]] = {
    "severity": ("error", "warning", "note"),
    "after": ("crash", "clean-shutdown"),
    "next_start": ("crash", "clean-shutdown"),
    "via": ("index", "scan"),
    "outcome": ("committed", "aborted", "open"),
}
