"""The messages of internal topics, control records and request headers, as Kafka 4.4 defines them.

`kafka_messages_4.4.json` lists the fields of each message with their wire types and the attributes
of `Field` that depend on the version, such as `since` and `tag`. `message_descriptions.py` adds
what the definitions do not contain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pkgutil import get_data  # half the import time of importlib.resources
from typing import Any, TypeVar

from kfmt_cli.core.layout.field import MS_UNIT, EmbeddedMessage, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import (
    Bool,
    DeclaredBytes,
    DeclaredListType,
    Float64,
    String,
    StructWireType,
    UInt16,
    UuidType,
)
from kfmt_cli.core.layout.wire_types import Int8, Int16, Int32, Int64, UInt32, WireType
from kfmt_cli.formats import message_descriptions

_COMMON_PACKAGE = "org.apache.kafka.common.message"
_COORDINATOR_PACKAGE = "org.apache.kafka.coordinator"
PACKAGE_BY_TOPIC = {
    "__cluster_metadata": "org.apache.kafka.common.metadata",
    "__consumer_offsets": f"{_COORDINATOR_PACKAGE}.group.generated",
    "__remote_log_metadata": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "__share_group_state": f"{_COORDINATOR_PACKAGE}.share.generated",
    "__transaction_state": f"{_COORDINATOR_PACKAGE}.transaction.generated",
}
_WIRE_TYPE_BY_NAME: dict[str, WireType] = {
    type_.name: type_
    for type_ in (
        *(Int8, Int16, Int32, Int64, UInt16, UInt32),
        *(Bool, Float64, UuidType, String, DeclaredBytes),
    )
}
_VERSION_KEYS = ("since", "until", "nullable_since", "tag", "tagged_since", "classic")
_Meaning = TypeVar("_Meaning")


@cache
def load_message_definitions() -> dict[str, dict[str, Any]]:
    """Kafka's definitions by message name: the topic (`where`), the `id` in it, and the fields."""
    definitions_json = get_data("kfmt_cli.formats", "kafka_messages_4.4.json")
    definition_by_name: dict[str, dict[str, Any]] = json.loads(definitions_json or b"")
    return definition_by_name


@cache
def message_layout(message_name: str) -> Layout:
    """The Layout of a message for all of its versions; raises KeyError for an unknown name."""
    definition = load_message_definitions()[message_name]
    first_version, last_version = definition["versions"]
    return Layout(
        message_name,
        message_descriptions.MESSAGE_DESCRIPTIONS[message_name],
        PACKAGE_BY_TOPIC.get(definition["where"], _COMMON_PACKAGE),
        _build_fields(definition["fields"], (message_name,)),
        versions=(first_version, last_version),
        flexible_since=definition.get("flexible_since"),
    )


def _build_fields(
    definitions: Sequence[Mapping[str, Any]], path: tuple[str, ...]
) -> tuple[Field, ...]:
    return tuple(
        _build_field(definition, (*path, definition["name"])) for definition in definitions
    )


def _build_field(definition: Mapping[str, Any], path: tuple[str, ...]) -> Field:
    field_name, doc = (
        path[-1],
        _find_by_path_suffix(message_descriptions.FIELD_DESCRIPTIONS, path) or "",
    )
    type_: WireType
    if "fields" in definition:
        struct_name = "".join(word.capitalize() for word in field_name.split("_"))
        struct_layout = Layout(struct_name, doc, "", _build_fields(definition["fields"], path))
        type_ = (
            DeclaredListType(struct_layout)
            if "list" in definition
            else StructWireType(struct_layout)
        )
    else:
        element_type = _WIRE_TYPE_BY_NAME[definition["type"]]
        type_ = DeclaredListType(element_type) if "list" in definition else element_type
    embedded_definition = _find_by_path_suffix(message_descriptions.EMBEDDED_MESSAGES, path)
    return Field(
        field_name,
        type_,
        doc,
        unit=MS_UNIT if "timestamp" in field_name or "timeout" in field_name else None,
        symbols=_find_by_path_suffix(message_descriptions.SYMBOLS_BY_FIELD, path),
        embedded_message=None
        if embedded_definition is None
        else EmbeddedMessage(message_layout(embedded_definition[0]), *embedded_definition[1:]),
        **{
            version_key: definition[version_key]
            for version_key in _VERSION_KEYS
            if version_key in definition
        },
    )


def _find_by_path_suffix(
    value_by_path: Mapping[str, _Meaning], path: tuple[str, ...]
) -> _Meaning | None:
    """The value for the longest end of a path that is a key; None if no end is."""
    suffixes = (".".join(path[suffix_start:]) for suffix_start in range(len(path)))
    return next((value_by_path[suffix] for suffix in suffixes if suffix in value_by_path), None)
