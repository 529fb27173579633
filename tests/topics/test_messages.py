"""The messages of internal topics and of KRaft: compared with Kafka's, written, read, damaged."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import message_to_json, read_message
from kfmt_cli.core.layout.protocol_types import (
    Bool,
    Float64,
    ListWireType,
    StructWireType,
    TextWireType,
    UuidWireType,
)
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.core.layout.wire_types import IntegerWireType, WireType
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.formats import message_descriptions
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.topics import DECODED_TOPICS, find_decoder, topic_message_types
from tests.topics.test_message_versions import REFERENCE, layout_rows, reference_layout
from tools.kafka import NEWEST, ROOT, java, missing

# The topics whose messages Kafka generates from tables.
KAFKA_TOPICS = [topic for topic in DECODED_TOPICS if topic.startswith("__")]


def known_messages() -> dict[str, Layout]:
    """The messages that kfmt knows, by name."""
    layouts = [message_layout(name) for name in message_descriptions.MESSAGE_DESCRIPTIONS]
    for topic in DECODED_TOPICS:
        for message in topic_message_types(topic):
            layouts += (
                [message.value_layout]
                if message.key_layout is None
                else [message.key_layout, message.value_layout]
            )
    return {layout.name: layout for layout in layouts if layout.versions is not None}


MESSAGES = known_messages()


def message_versions(name: str) -> range:
    first_version, last_version = MESSAGES[name].versions or (0, 0)
    return range(first_version, last_version + 1)


MESSAGE_VERSIONS = [
    (name, version) for name in MESSAGES if name in REFERENCE for version in message_versions(name)
]


def type_structure(wire_type: Layout | WireType) -> Any:
    """A Layout, or one of its types, as lists: names and types, tagged fields by tag.

    Kafka's tables do not say which structures are nullable.
    """
    if isinstance(wire_type, StructWireType):
        return type_structure(wire_type.layout)
    if isinstance(wire_type, ListWireType):
        return [
            "list",
            wire_type.count_type,
            wire_type.nullable,
            type_structure(wire_type.element_type),
        ]
    if not isinstance(wire_type, Layout):
        return wire_type
    tagged = None
    if wire_type.tagged_fields is not None:
        tagged = {
            tag: (value.name, type_structure(value.type))
            for tag, value in wire_type.tagged_fields.field_by_tag.items()
        }
    return [*((field.name, type_structure(field.type)) for field in wire_type.fields), tagged]


def test_every_message_of_the_reference_is_known() -> None:
    # The Layouts of the producer snapshot and the marker are those of the kernel.
    assert set(REFERENCE) - set(MESSAGES) == {"ProducerSnapshot", "EndTxnMarker"}
    topic_and_id = {
        layout.name: (topic, message.type_id)
        for topic in KAFKA_TOPICS
        for message in topic_message_types(topic)
        for layout in (message.key_layout, message.value_layout)
        if layout is not None
    }
    topic_entries = {
        name: value for name, value in REFERENCE.items() if value["where"] in KAFKA_TOPICS
    }
    assert topic_and_id == {
        name: (topic["where"], topic["id"]) for name, topic in topic_entries.items()
    }
    for name, message in REFERENCE.items():
        if name in MESSAGES:
            assert list(map(str, message_versions(name))) == list(message["versions"])


def test_every_field_has_a_description_and_none_is_unused() -> None:
    used_keys: set[str] = set()

    def visit(layout: Layout, path: tuple[str, ...]) -> None:
        assert layout.doc, path
        for field in layout.fields:
            field_path = (*path, field.name)
            assert field.doc, field_path
            suffixes = (".".join(field_path[start:]) for start in range(len(field_path)))
            used_keys.add(
                next(
                    suffix
                    for suffix in suffixes
                    if suffix in message_descriptions.FIELD_DESCRIPTIONS
                )
            )
            element = next(
                (
                    getattr(field.type, name)
                    for name in ("element_type", "layout", "row_layout")
                    if hasattr(field.type, name)
                ),
                None,
            )
            if isinstance(element, Layout):
                visit(element, field_path)

    for name in message_descriptions.MESSAGE_DESCRIPTIONS:
        visit(message_layout(name), (name,))
    assert used_keys == set(message_descriptions.FIELD_DESCRIPTIONS)


@pytest.mark.parametrize(("name", "version"), MESSAGE_VERSIONS)
def test_a_table_is_that_of_the_reference(name: str, version: int) -> None:
    expected = reference_layout(name, REFERENCE[name]["versions"][str(version)])
    assert type_structure(layout_at_version(MESSAGES[name], version)) == type_structure(expected)


@pytest.mark.parametrize(("name", "version"), MESSAGE_VERSIONS)
def test_a_message_is_written_and_read_back_and_damage_is_said(name: str, version: int) -> None:
    layout = layout_at_version(MESSAGES[name], version)

    @settings(max_examples=8, deadline=None)
    @given(layout_rows(layout), st.data())
    def check(values: dict[str, Any], data: st.DataObject) -> None:
        encoded = layout.encode_row(values)
        message = read_message(layout, encoded, 0, len(encoded))
        assert (message.values, message.end_position, message.error) == (values, len(encoded), None)
        json.dumps(message_to_json(layout, values), allow_nan=False)
        if not encoded:
            return
        position = data.draw(st.integers(0, len(encoded) - 1))
        truncated_message = read_message(layout, encoded, 0, position)
        assert truncated_message.error is not None
        assert truncated_message.error.startswith("byte ")
        json.dumps(message_to_json(layout, truncated_message.values), allow_nan=False)
        corrupt = bytearray(encoded)
        corrupt[position] ^= data.draw(st.integers(1, 255))
        corrupt_message = read_message(layout, bytes(corrupt), 0, len(corrupt))
        json.dumps(message_to_json(layout, corrupt_message.values), allow_nan=False)

    check()


def test_fields_before_an_error_are_kept() -> None:
    layout = layout_at_version(MESSAGES["OffsetCommitValue"], 3)
    values: dict[str, Any] = {
        "offset": 7,
        "leader_epoch": 2,
        "metadata": "note",
        "commit_timestamp": 1,
    }
    truncated = layout.encode_row(values)[:-1]
    message = read_message(layout, truncated, 0, len(truncated))
    assert message.values == {"offset": 7, "leader_epoch": 2, "metadata": "note"}
    assert message.error == "byte 18, commit_timestamp › 8 bytes needed, 7 left"


@given(
    st.sampled_from(list(DECODED_TOPICS)),
    st.none() | st.binary(max_size=60),
    st.none() | st.binary(),
)
def test_any_bytes_are_answered(topic: str, key: bytes | None, value: bytes | None) -> None:
    decoder = find_decoder(topic)
    assert decoder is not None
    for message in (
        None if key is None else decoder.decode_key(key),
        decoder.decode_value(key, value),
    ):
        if message is not None:
            json.dumps(message.json_values, allow_nan=False)


# Kafka's own classes.

PACKAGES = {
    "group": "org.apache.kafka.coordinator.group.generated",
    "transaction": "org.apache.kafka.coordinator.transaction.generated",
    "share": "org.apache.kafka.coordinator.share.generated",
    "remote": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "metadata": "org.apache.kafka.common.metadata",
    "message": "org.apache.kafka.common.message",
    "raft": "org.apache.kafka.raft.generated",
}


def java_class(name: str) -> str:
    source = "raft" if name == "QuorumStateData" else MESSAGES[name].source.rsplit(".", 1)[-1]
    package = PACKAGES["raft"] if source == "raft" else MESSAGES[name].source
    return f"{package}.{name}"


def random_value(wire_type: Layout | WireType, rng: random.Random, full: bool, tagged: bool) -> Any:
    """A value that is not the default.

    Args:
        wire_type: The layout or type of the value.
        rng: The source of randomness.
        full: Nothing is null.
        tagged: Each tagged field is present.
    """
    if isinstance(wire_type, StructWireType):
        return (
            random_value(wire_type.layout, rng, full, tagged)
            if full or not wire_type.nullable
            else None
        )
    if isinstance(wire_type, Layout):
        values = {
            field.name: random_value(field.type, rng, full, tagged) for field in wire_type.fields
        }
        if wire_type.tagged_fields is not None and tagged:
            values |= {
                tagged_field.name: random_value(tagged_field.type, rng, full, tagged)
                for tagged_field in wire_type.tagged_fields.field_by_tag.values()
            }
        return values
    if wire_type is Bool:
        return True
    if wire_type is Float64:
        return rng.random()
    if isinstance(wire_type, IntegerWireType):
        return rng.randrange(100, 1 << 8 * wire_type.size - 1)
    if isinstance(wire_type, UuidWireType):
        return format_uuid(rng.randbytes(16))
    if not full and getattr(wire_type, "nullable", False):
        return None
    if isinstance(wire_type, ListWireType):
        return [
            random_value(wire_type.element_type, rng, full, tagged)
            for _ in range(rng.randrange(1, 4))
        ]
    return f"tëxt {rng.random()}" if isinstance(wire_type, TextWireType) else rng.randbytes(9)


def without_underscores(value: Any) -> Any:
    """Names in the form that Kafka's JSON and kfmt's have in common."""
    if isinstance(value, list):
        return [without_underscores(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name.replace("_", "").lower(): without_underscores(item)
        for name, item in value.items()
        if not (name.endswith("_name") and name.removesuffix("_name") in value)
    }


@pytest.mark.interop
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_kafkas_own_classes_read_what_is_written() -> None:
    rng = random.Random(4)
    requests: list[tuple[str, dict[str, Any], bytes, Layout]] = []
    for name, version in MESSAGE_VERSIONS:
        layout = layout_at_version(MESSAGES[name], version)
        for full, tagged in ((True, True), (False, False), (False, True)):
            if not full and tagged and layout.name != "ConsumerGroupMemberMetadataValue":
                continue  # elsewhere null is the default, which Kafka does not write
            values = random_value(layout, rng, full, tagged)
            line = f"{java_class(name)} {version} "
            requests.append((line, values, layout.encode_row(values), layout))
    lines = "".join(f"{line}{data.hex()}\n" for line, _, data, _ in requests)
    command = java(NEWEST, str(ROOT / "tests/support/Messages.java"))
    result = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    answers = result.stdout.splitlines()
    assert len(answers) == len(requests), (requests[len(answers)][0], result.stderr[-2000:])
    for (line, values, data, layout), answer in zip(requests, answers, strict=True):
        encoded, _, text = answer.partition(" ")
        assert bytes.fromhex(encoded) == data, line
        kfmt_values = without_underscores(message_to_json(layout, values))
        kafka_values = without_underscores(json.loads(text))
        assert {name: kafka_values.get(name) for name in kfmt_values} == kfmt_values, line
