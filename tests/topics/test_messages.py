"""The messages of internal topics and of KRaft: as Kafka has them, written, read, damaged."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import read_message, to_json_values
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
from kfmt_cli.formats.kafka_messages import message_layout as defined
from kfmt_cli.topics import DECODED_TOPICS, find_decoder, topic_messages
from tests.topics.test_message_versions import REFERENCE, of_reference, rows_of
from tools.kafka import ROOT, java, missing

LATEST = "4.2.0"
# The topics whose messages Kafka generates from tables.
OF_KAFKA = [topic for topic in DECODED_TOPICS if topic.startswith("__")]


def every_message() -> dict[str, Layout]:
    """The messages that kfmt knows, by name."""
    found = [defined(name) for name in message_descriptions.MESSAGE_DESCRIPTIONS]
    for topic in DECODED_TOPICS:
        for message in topic_messages(topic):
            found += (
                [message.value_layout]
                if message.key_layout is None
                else [message.key_layout, message.value_layout]
            )
    return {item.name: item for item in found if item.versions is not None}


MESSAGES = every_message()


def versions_of(name: str) -> range:
    first, last = MESSAGES[name].versions or (0, 0)
    return range(first, last + 1)


EACH = [(name, version) for name in MESSAGES if name in REFERENCE for version in versions_of(name)]


def shape(wire: Layout | WireType) -> Any:
    """A Layout, or a type of one, as plain values: names and types, tagged fields by tag.

    Kafka's tables do not tell where a structure may be null.
    """
    if isinstance(wire, StructWireType):
        return shape(wire.layout)
    if isinstance(wire, ListWireType):
        return ["list", wire.count_type, wire.nullable, shape(wire.element_type)]
    if not isinstance(wire, Layout):
        return wire
    tagged = None
    if wire.tagged is not None:
        tagged = {
            tag: (value.name, shape(value.type)) for tag, value in wire.tagged.field_by_tag.items()
        }
    return [*((field.name, shape(field.type)) for field in wire.fields), tagged]


def test_every_message_of_the_reference_is_known() -> None:
    # The producer snapshot and the marker have Layouts that the kernel runs.
    assert set(REFERENCE) - set(MESSAGES) == {"ProducerSnapshot", "EndTxnMarker"}
    numbers = {
        layout.name: (topic, message.type_id)
        for topic in OF_KAFKA
        for message in topic_messages(topic)
        for layout in (message.key_layout, message.value_layout)
        if layout is not None
    }
    of_topics = {name: value for name, value in REFERENCE.items() if value["where"] in OF_KAFKA}
    assert numbers == {name: (topic["where"], topic["id"]) for name, topic in of_topics.items()}
    for name, message in REFERENCE.items():
        if name in MESSAGES:
            assert list(map(str, versions_of(name))) == list(message["versions"])


def test_every_field_has_our_words_and_no_meaning_is_left_over() -> None:
    used: set[str] = set()

    def walk(layout: Layout, path: tuple[str, ...]) -> None:
        assert layout.doc, path
        for field in layout.fields:
            inner = (*path, field.name)
            assert field.doc, inner
            ends = (".".join(inner[at:]) for at in range(len(inner)))
            used.add(next(end for end in ends if end in message_descriptions.FIELD_DESCRIPTIONS))
            part = next(
                (
                    getattr(field.type, name)
                    for name in ("element_type", "layout", "row_layout")
                    if hasattr(field.type, name)
                ),
                None,
            )
            if isinstance(part, Layout):
                walk(part, inner)

    for name in message_descriptions.MESSAGE_DESCRIPTIONS:
        walk(defined(name), (name,))
    assert used == set(message_descriptions.FIELD_DESCRIPTIONS)


@pytest.mark.parametrize(("name", "version"), EACH)
def test_a_table_is_that_of_the_reference(name: str, version: int) -> None:
    theirs = of_reference(name, REFERENCE[name]["versions"][str(version)])
    assert shape(layout_at_version(MESSAGES[name], version)) == shape(theirs)


@pytest.mark.parametrize(("name", "version"), EACH)
def test_a_message_is_written_and_read_back_and_damage_is_said(name: str, version: int) -> None:
    layout = layout_at_version(MESSAGES[name], version)

    @settings(max_examples=8, deadline=None)
    @given(rows_of(layout), st.data())
    def check(values: dict[str, Any], data: st.DataObject) -> None:
        written = layout.write(values)
        reading = read_message(layout, written, 0, len(written))
        assert (reading.values, reading.end, reading.error) == (values, len(written), None)
        json.dumps(to_json_values(layout, values), allow_nan=False)
        if not written:
            return
        at = data.draw(st.integers(0, len(written) - 1))
        cut = read_message(layout, written, 0, at)
        assert cut.error is not None
        assert cut.error.startswith("byte ")
        json.dumps(to_json_values(layout, cut.values), allow_nan=False)
        mutant = bytearray(written)
        mutant[at] ^= data.draw(st.integers(1, 255))
        odd = read_message(layout, bytes(mutant), 0, len(mutant))
        json.dumps(to_json_values(layout, odd.values), allow_nan=False)

    check()


def test_what_is_read_before_a_fault_is_kept() -> None:
    layout = layout_at_version(MESSAGES["OffsetCommitValue"], 3)
    values: dict[str, Any] = {
        "offset": 7,
        "leader_epoch": 2,
        "metadata": "note",
        "commit_timestamp": 1,
    }
    cut = layout.write(values)[:-1]
    reading = read_message(layout, cut, 0, len(cut))
    assert reading.values == {"offset": 7, "leader_epoch": 2, "metadata": "note"}
    assert reading.error == "byte 18, commit_timestamp › 8 bytes needed, 7 left"


@given(
    st.sampled_from(list(DECODED_TOPICS)),
    st.none() | st.binary(max_size=60),
    st.none() | st.binary(),
)
def test_any_bytes_are_answered(topic: str, key: bytes | None, value: bytes | None) -> None:
    decoder = find_decoder(topic)
    assert decoder is not None
    for said in (
        None if key is None else decoder.decode_key(key),
        decoder.decode_value(key, value),
    ):
        if said is not None:
            json.dumps(said.values, allow_nan=False)


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


def class_of(name: str) -> str:
    source = "raft" if name == "QuorumStateData" else MESSAGES[name].source.rsplit(".", 1)[-1]
    package = PACKAGES["raft"] if source == "raft" else MESSAGES[name].source
    return f"{package}.{name}"


def made_up(wire: Layout | WireType, some: random.Random, full: bool, tagged: bool) -> Any:
    """A value that is no default. full: nothing is null. tagged: each tagged field is there."""
    if isinstance(wire, StructWireType):
        return made_up(wire.layout, some, full, tagged) if full or not wire.nullable else None
    if isinstance(wire, Layout):
        values = {field.name: made_up(field.type, some, full, tagged) for field in wire.fields}
        if wire.tagged is not None and tagged:
            values |= {
                each_tagged.name: made_up(each_tagged.type, some, full, tagged)
                for each_tagged in wire.tagged.field_by_tag.values()
            }
        return values
    if wire is Bool:
        return True
    if wire is Float64:
        return some.random()
    if isinstance(wire, IntegerWireType):
        return some.randrange(100, 1 << 8 * wire.size - 1)
    if isinstance(wire, UuidWireType):
        return format_uuid(some.randbytes(16))
    if not full and getattr(wire, "nullable", False):
        return None
    if isinstance(wire, ListWireType):
        return [made_up(wire.element_type, some, full, tagged) for _ in range(some.randrange(1, 4))]
    return f"tëxt {some.random()}" if isinstance(wire, TextWireType) else some.randbytes(9)


def without_underscores(value: Any) -> Any:
    """Names as Kafka's JSON and ours have in common."""
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
    some = random.Random(4)
    sent: list[tuple[str, dict[str, Any], bytes, Layout]] = []
    for name, version in EACH:
        layout = layout_at_version(MESSAGES[name], version)
        for full, tagged in ((True, True), (False, False), (False, True)):
            if not full and tagged and layout.name != "ConsumerGroupMemberMetadataValue":
                continue  # for others null is the default, which Kafka does not write
            values = made_up(layout, some, full, tagged)
            line = f"{class_of(name)} {version} "
            sent.append((line, values, layout.write(values), layout))
    lines = "".join(f"{line}{data.hex()}\n" for line, _, data, _ in sent)
    command = java(LATEST, str(ROOT / "tests/support/Messages.java"))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    answers = done.stdout.splitlines()
    assert len(answers) == len(sent), (sent[len(answers)][0], done.stderr[-2000:])
    for (line, values, data, layout), answer in zip(sent, answers, strict=True):
        written, _, text = answer.partition(" ")
        assert bytes.fromhex(written) == data, line
        ours = without_underscores(to_json_values(layout, values))
        theirs = without_underscores(json.loads(text))
        assert {name: theirs.get(name) for name in ours} == ours, line
