"""Records of versions and types that came after kfmt: read as far as possible, and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.formats.kafka_messages import load_message_definitions, message_layout
from kfmt_cli.topics import find_decoder
from tests.support.samples import kfmt

METADATA = find_decoder("__cluster_metadata")
DEFINITIONS = load_message_definitions()
UNREGISTER, NO_OP, TOPIC = 1, 20, 2
NO_TAGS, ONE_TAG = b"\0", b"\1\x63\2ab"  # tag 99


def record(type_id: int, version: int, body: bytes) -> bytes:
    """A record of the metadata log; both numbers are below 128."""
    return bytes([1, type_id, version]) + body


def decoded(value: bytes) -> dict[str, Any]:
    assert METADATA is not None
    payload = METADATA.decode_value(None, value)
    assert payload is not None
    assert payload.error is None
    return payload.json_values


def test_a_later_version_with_more_tags_is_read_as_the_newest() -> None:
    body = (7).to_bytes(4, "big") + (8).to_bytes(8, "big")
    assert decoded(record(UNREGISTER, 0, body + NO_TAGS)) == {
        "name": "UnregisterBrokerRecord",
        "type": UNREGISTER,
        "version": 0,
        "data": {"broker_id": 7, "broker_epoch": 8},
    }
    later = decoded(record(UNREGISTER, 3, body + ONE_TAG))
    assert later["data"] == {
        "broker_id": 7,
        "broker_epoch": 8,
        "unknown_tagged_fields": {"99": "YWI="},
    }
    assert (later["version"], later["note"]) == (
        3,
        "version 3 is unknown; read as the newest known",
    )


def test_a_later_version_of_another_form_is_unknown() -> None:
    for body in (NO_TAGS + b"more", b"", b"\xff" * 10):
        values = decoded(record(NO_OP, 1, body))
        assert values["data"] is None
        assert values["note"] == "version 1 is unknown"
    assert decoded(record(99, 0, NO_TAGS))["note"] == "records of type 99 are unknown"


def test_each_flexible_message_has_a_later_version() -> None:
    for name, definition in DEFINITIONS.items():
        if definition["where"] == "__cluster_metadata":
            layout = message_layout(name)
            assert layout.versions is not None
            newest = layout_at_version(layout, layout.versions[1])
            assert newest.tagged_fields is not None, name


@pytest.mark.parametrize(
    ("type_id", "version", "body", "message"),
    [
        (
            UNREGISTER,
            3,
            bytes(12) + ONE_TAG,
            "read as the newest known version: UnregisterBrokerRecord version 3",
        ),
        (99, 0, NO_TAGS, "skipped: type 99"),
        (NO_OP, 1, b"", "skipped: NoOpRecord version 1"),
    ],
)
def test_state_says_what_it_does_not_know(
    tmp_path: Path, type_id: int, version: int, body: bytes, message: str
) -> None:
    topic = record(TOPIC, 0, b"\2t" + bytes(15) + b"\1" + NO_TAGS)
    lines = [
        {"type": "record", "offset": offset, "timestamp": 1, "key": None, "value": value.hex()}
        for offset, value in enumerate([topic, record(type_id, version, body)])
    ]
    for line in lines:
        line |= {"value_encoding": "hex"}
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    directory = tmp_path / "__cluster_metadata-0"
    assert kfmt("build", file, directory).code == 0
    result = kfmt("state", directory, "--json")
    assert [row["topic"] for row in result.of("topic")] == ["t"]
    assert f"1 record of an unknown type or version was {message}\n" in result.err
