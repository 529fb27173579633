"""What the classes of a Kafka release say of themselves, in the forms that the project keeps.

A generated class has the fields of each version of its message (tools/Definitions.java). The
package keeps one definition for all versions (`formats/kafka_messages_VERSION.json`), the tests the
fields version by version (`tests/reference`), which are the truth that decoders are held against.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.formats.kafka_messages import PACKAGE_BY_TOPIC
from tools import kafka

Json = dict[str, Any]
SOURCE = kafka.TOOLS / "Definitions.java"
# Messages that are not records of a topic, and where they are.
CONTROL_RECORDS, SUBSCRIPTIONS = "control records", "bytes inside GroupMetadataValue members"
OTHER_MESSAGES = {
    "ConsumerProtocolAssignment": SUBSCRIPTIONS,
    "ConsumerProtocolSubscription": SUBSCRIPTIONS,
    "EndTxnMarker": CONTROL_RECORDS,
    "KRaftVersionRecord": CONTROL_RECORDS,
    "LeaderChangeMessage": CONTROL_RECORDS,
    "ProducerSnapshot": ".snapshot files",
    "QuorumStateData": "quorum-state file",
    "RequestHeaderData": "wire protocol headers",
    "ResponseHeaderData": "wire protocol headers",
    "SnapshotFooterRecord": CONTROL_RECORDS,
    "SnapshotHeaderRecord": CONTROL_RECORDS,
    "VotersRecord": CONTROL_RECORDS,
}
# kfmt has Layouts of its own for these, which files and control records share.
OWN_LAYOUTS = {"EndTxnMarker", "ProducerSnapshot"}
# A header's client id is the only field of a flexible version that is not compact.
CLASSIC_FIELDS = {("RequestHeaderData", "client_id")}


def read_definitions(version: str) -> Json:
    """What a release's classes say of themselves: messages, apis, features, settings."""
    classes = kafka.compiled(version, SOURCE)
    command = kafka.java(version, "Definitions", str(kafka.jars(version)), classes=classes)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    definitions: Json = json.loads(output)
    return definitions


def reference_messages(messages: Mapping[str, Json]) -> dict[str, Json]:
    """The messages that kfmt decodes, in each version: by place, id and name."""
    topic_by_package = {package: topic for topic, package in PACKAGE_BY_TOPIC.items()}
    kept = {
        name: {
            "where": OTHER_MESSAGES.get(name) or topic_by_package[message["package"]],
            "id": message["id"] if name not in OTHER_MESSAGES else None,
            "versions": message["versions"],
        }
        for name, message in messages.items()
        if name in OTHER_MESSAGES or message["package"] in topic_by_package
    }

    def sort_key(item: tuple[str, Json]) -> tuple[str, int, str]:
        name, message = item
        return message["where"], message["id"] or 0, name

    return dict(sorted(kept.items(), key=sort_key))


def merged_messages(messages: Mapping[str, Json], reference: Mapping[str, Json]) -> dict[str, Json]:
    """One definition for all versions of each message; see `formats/kafka_messages.py`."""
    merged = {
        name: _merged_message(name, message)
        for name, message in reference.items()
        if name not in OWN_LAYOUTS
    }
    for name, definition in merged.items():
        for field in definition["fields"]:
            if field["name"] in messages[name]["nullable_structs"]:
                first_version = field.get("since", definition["versions"][0])
                field_after = {"nullable_since": first_version, **field}
                field.clear()
                field |= {"name": field_after.pop("name"), **field_after}
    return merged


def _merged_message(name: str, message: Json) -> Json:
    fields_by_version = {int(version): fields for version, fields in message["versions"].items()}
    versions = sorted(fields_by_version)
    flexible = [v for v in versions if any("tagged" in field for field in fields_by_version[v])]
    return {
        "where": message["where"],
        "id": message["id"],
        "versions": [versions[0], versions[-1]],
        **({"flexible_since": flexible[0]} if flexible else {}),
        "fields": _merged_fields(name, fields_by_version),
    }


def _merged_fields(message_name: str, fields_by_version: Mapping[int, list[Json]]) -> list[Json]:
    """The fields of all versions, in their order; those with a tag follow the others."""
    versions = sorted(fields_by_version)
    positional: list[str] = []
    tagged: list[str] = []
    field_by_version: dict[str, dict[int, tuple[Json, int | None]]] = {}
    for version in versions:
        position = 0
        for field, tag in _fields_with_tags(fields_by_version[version]):
            name = field["name"]
            if tag is not None and name not in positional + tagged:
                tagged.append(name)
            elif tag is None and name not in positional:
                positional.insert(position, name)
            if tag is None:
                position = positional.index(name) + 1
            field_by_version.setdefault(name, {})[version] = field, tag
    tagged = sorted(
        set(tagged) - set(positional), key=lambda name: _last_tag(field_by_version[name])
    )
    names = [*positional, *tagged]
    return [_merged_field(message_name, name, field_by_version[name], versions) for name in names]


def _last_tag(field_by_version: Mapping[int, tuple[Json, int | None]]) -> int:
    return field_by_version[max(field_by_version)][1] or 0


def _fields_with_tags(fields: list[Json]) -> Iterator[tuple[Json, int | None]]:
    for field in fields:
        if "tagged" not in field:
            yield field, None
        for tag, tagged_field in field.get("tagged", {}).items():
            yield tagged_field, int(tag)


def _merged_field(
    message_name: str,
    name: str,
    field_by_version: Mapping[int, tuple[Json, int | None]],
    message_versions: list[int],
) -> Json:
    versions = sorted(field_by_version)
    newest, _ = field_by_version[versions[-1]]
    type_name = newest["type"].rpartition("_")[2]
    nullable = [v for v in versions if _is_nullable(field_by_version[v][0])]
    tags = {v: tag for v, (_, tag) in field_by_version.items() if tag is not None}
    merged: Json = {"name": name}
    if type_name != "struct":
        merged["type"] = type_name
    if "array" in newest:
        merged["list"] = True
    if versions[0] != message_versions[0]:
        merged["since"] = versions[0]
    if versions[-1] != message_versions[-1]:
        merged["until"] = versions[-1]
    if nullable:
        merged["nullable_since"] = nullable[0]
    if tags:
        merged["tag"] = tags[max(tags)]
        if min(tags) != message_versions[0]:
            merged["tagged_since"] = min(tags)
    if (message_name, name) in CLASSIC_FIELDS:
        merged["classic"] = True
    if type_name == "struct":
        merged["fields"] = _merged_fields(
            message_name, {v: field["fields"] for v, (field, _) in field_by_version.items()}
        )
    return merged


def _is_nullable(field: Json) -> bool:
    return "nullable" in field["type"] or "nullable" in field.get("array", "")


def format_by_line(entries: Mapping[str, Json]) -> str:
    """JSON with a line for each message, so that a diff shows the messages that changed."""
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def format_apis(apis: list[Json]) -> str:
    """The requests, with the header versions of each version: a line for each."""
    lines = (f"  {json.dumps(api, separators=(',', ':'))}" for api in apis)
    return "[\n" + ",\n".join(lines) + "\n]\n"
