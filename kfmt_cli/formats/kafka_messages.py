"""The messages of internal topics, control records, and headers, as Kafka 4.2 defines them.

`kafka_messages_4.2.json` lists the fields of each message with their wire types, the versions that
have them, and the words of `Field` for what differs between these. `meanings.py` adds what the
definitions do not state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pkgutil import get_data  # half the import time of importlib.resources
from typing import Any, TypeVar

from kfmt_cli.core.layout.field import MILLISECONDS, Field, HeldMessage
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import (
    Blob,
    Bool,
    Float64,
    ListOf,
    String,
    Struct,
    UInt16,
    UuidType,
)
from kfmt_cli.core.layout.wire import Int8, Int16, Int32, Int64, UInt32, WireType
from kfmt_cli.formats import meanings

_COMMON = "org.apache.kafka.common.message"
_COORDINATOR = "org.apache.kafka.coordinator"
SOURCES = {
    "__cluster_metadata": "org.apache.kafka.common.metadata",
    "__consumer_offsets": f"{_COORDINATOR}.group.generated",
    "__remote_log_metadata": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "__share_group_state": f"{_COORDINATOR}.share.generated",
    "__transaction_state": f"{_COORDINATOR}.transaction.generated",
}
_TYPES: dict[str, WireType] = {
    type_.name: type_
    for type_ in (
        *(Int8, Int16, Int32, Int64, UInt16, UInt32),
        *(Bool, Float64, UuidType, String, Blob),
    )
}
_OF_VERSIONS = ("since", "until", "nullable_since", "tag", "tagged_since", "classic")
_Meaning = TypeVar("_Meaning")


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """Kafka's definitions by message name: `where` it is found, its `id` there, and its fields."""
    data = get_data("kfmt_cli.formats", "kafka_messages_4.2.json")
    found: dict[str, dict[str, Any]] = json.loads(data or b"")
    return found


@cache
def message(name: str) -> Layout:
    """The Layout of a message over all of its versions; raises KeyError for an unknown name."""
    definition = definitions()[name]
    first, last = definition["versions"]
    return Layout(
        name,
        meanings.MESSAGES[name],
        SOURCES.get(definition["where"], _COMMON),
        _fields(definition["fields"], (name,)),
        versions=(first, last),
        flexible_since=definition.get("flexible_since"),
    )


def _fields(defined: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> tuple[Field, ...]:
    return tuple(_field(each, (*path, each["name"])) for each in defined)


def _field(defined: Mapping[str, Any], path: tuple[str, ...]) -> Field:
    name, doc = path[-1], _meaning(meanings.FIELDS, path) or ""
    type_: WireType
    if "fields" in defined:
        title = "".join(word.capitalize() for word in name.split("_"))
        inner = Layout(title, doc, "", _fields(defined["fields"], path))
        type_ = ListOf(inner) if "list" in defined else Struct(inner)
    else:
        leaf = _TYPES[defined["type"]]
        type_ = ListOf(leaf) if "list" in defined else leaf
    held = _meaning(meanings.HELD, path)
    return Field(
        name,
        type_,
        doc,
        unit=MILLISECONDS if "timestamp" in name or "timeout" in name else None,
        symbols=_meaning(meanings.SYMBOLS, path),
        holds=None if held is None else HeldMessage(message(held[0]), *held[1:]),
        **{key: defined[key] for key in _OF_VERSIONS if key in defined},
    )


def _meaning(of: Mapping[str, _Meaning], path: tuple[str, ...]) -> _Meaning | None:
    """The meaning for the longest end of a path that has one, or None."""
    ends = (".".join(path[first:]) for first in range(len(path)))
    return next((of[end] for end in ends if end in of), None)
