"""The messages of internal topics, control records, and headers, as Kafka 4.2 defines them.

`kafka_messages_4.2.json` lists the fields of each message in each version, with their wire types.
`meanings.py` adds what the definitions do not state. Here the versions become one Layout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    **{type_.name: type_ for type_ in (Int8, Int16, Int32, Int64, UInt16, UInt32)},
    "boolean": Bool,
    "float64": Float64,
    "uuid": UuidType,
    "string": String,
    "bytes": Blob,
}
_Meaning = TypeVar("_Meaning")
_Fields = Sequence[Mapping[str, Any]]
"""The fields of a structure in a version. One with `tagged` maps tags to further fields."""


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """Kafka's definitions by message name: `where` it is found, its `id` there, and `versions`."""
    data = get_data("kfmt_cli.formats", "kafka_messages_4.2.json")
    found: dict[str, dict[str, Any]] = json.loads(data or b"")
    return found


@cache
def message(name: str) -> Layout:
    """The Layout of a message over all of its versions; raises KeyError for an unknown name."""
    definition = definitions()[name]
    versions = {int(number): fields for number, fields in definition["versions"].items()}
    flexible = [number for number, fields in versions.items() if _is_flexible(fields)]
    return Layout(
        name,
        meanings.MESSAGES[name],
        SOURCES.get(definition["where"], _COMMON),
        tuple(_merged(versions, (name,), set(flexible))),
        versions=(min(versions), max(versions)),
        flexible_since=min(flexible, default=None),
    )


def _is_flexible(fields: _Fields) -> bool:
    return any("tagged" in field for field in fields)


def _merged(
    versions: Mapping[int, _Fields], path: tuple[str, ...], flexible: set[int]
) -> Iterator[Field]:
    """The fields of all versions of a structure, each new one after its predecessor.

    flexible: the versions with compact lengths.
    """
    order: list[str] = []
    seen: dict[str, dict[int, tuple[int | None, Mapping[str, Any]]]] = {}
    for version, fields in versions.items():
        at = 0
        for tag, field in _numbered(fields):
            name = field["name"]
            if name not in seen:
                order.insert(at, name)
            at = order.index(name) + 1
            seen.setdefault(name, {})[version] = tag, field
    for name in sorted(order, key=lambda name: _is_tagged(seen[name])):
        yield _field(seen[name], list(versions), (*path, name), flexible)


def _is_tagged(seen: Mapping[int, tuple[int | None, Mapping[str, Any]]]) -> bool:
    return all(tag is not None for tag, _ in seen.values())


def _numbered(fields: _Fields) -> Iterator[tuple[int | None, Mapping[str, Any]]]:
    """The fields of a version, each with its tag or None."""
    for field in fields:
        if "tagged" not in field:
            yield None, field
        else:
            for tag, tagged in field["tagged"].items():
                yield int(tag), tagged


def _field(
    seen: Mapping[int, tuple[int | None, Mapping[str, Any]]],
    versions: list[int],
    path: tuple[str, ...],
    flexible: set[int],
) -> Field:
    """A field over the versions that have it. versions: all versions of the structure."""
    name, doc = path[-1], _meaning(meanings.FIELDS, path)
    each = {version: field for version, (_, field) in seen.items()}
    last = each[max(each)]
    words = last["type"].split("_")
    type_: WireType
    if words[-1] == "struct":
        inside = {version: field["fields"] for version, field in each.items()}
        title = "".join(word.capitalize() for word in name.split("_"))
        parts = tuple(_merged(inside, path, flexible))
        inner = Layout(title, doc or "", "", parts)
        type_ = ListOf(inner) if "array" in last else Struct(inner)
    else:
        leaf = _TYPES[words[-1]]
        type_ = ListOf(leaf) if "array" in last else leaf
    tags = {version: tag for version, (tag, _) in seen.items() if tag is not None}
    nullable = [version for version, field in each.items() if _may_be_null(field, path)]
    held = _meaning(meanings.HELD, path)
    return Field(
        name,
        type_,
        doc or "",
        unit=MILLISECONDS if "timestamp" in name or "timeout" in name else None,
        symbols=_meaning(meanings.SYMBOLS, path),
        since=0 if min(each) == versions[0] else min(each),
        until=None if max(each) == versions[-1] else max(each),
        nullable_since=min(nullable, default=None),
        tag=tags[max(tags)] if tags else None,
        tagged_since=min(tags, default=0),
        holds=None if held is None else HeldMessage(message(held[0]), *held[1:]),
        classic=words == ["nullable", "string"] and max(each) in flexible,
    )


def _may_be_null(field: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    stated = "nullable" in field.get("array", field["type"])
    return stated or _meaning(meanings.NULLABLE, path) is not None


def _meaning(of: Mapping[str, _Meaning], path: tuple[str, ...]) -> _Meaning | None:
    """The meaning for the longest end of a path that has one, or None."""
    ends = (".".join(path[first:]) for first in range(len(path)))
    return next((of[end] for end in ends if end in of), None)
