"""`kfmt state` of a metadata log: settings, quotas, features and replicas that records change or
remove."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.topics import topic_message_types
from tests.support.samples import Row, kfmt

TYPES_BY_NAME = {
    message.value_layout.name: message for message in topic_message_types("__cluster_metadata")
}
Record = tuple[str, int, dict[str, Any]]  # name, version, fields
ID_A, ID_B = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
TOPIC_A: Record = ("TopicRecord", 0, {"name": "a", "topic_id": ID_A})
TOPIC_B: Record = ("TopicRecord", 0, {"name": "b", "topic_id": ID_B})


def encoded(name: str, version: int, fields: dict[str, Any]) -> str:
    """A record's value, in hex."""
    message_type = TYPES_BY_NAME[name]
    body = layout_at_version(message_type.value_layout, version).encode_row(fields)
    return (bytes([1, message_type.type_id, version]) + body).hex()


def state(tmp_path: Path, *records: Record) -> list[Row]:
    """The state after these records."""
    lines = tmp_path / "records.jsonl"
    lines.write_text(
        "".join(
            json.dumps(
                {
                    "type": "record",
                    "offset": offset,
                    "timestamp": 1,
                    "value": encoded(*metadata_record),
                    "value_encoding": "hex",
                }
            )
            + "\n"
            for offset, metadata_record in enumerate(records)
        )
    )
    directory = tmp_path / "__cluster_metadata-0"
    assert kfmt("build", lines, directory, "--force").code == 0
    result = kfmt("state", directory, "--json")
    assert result.code == 0, result.err
    return result.rows


def of(rows: list[Row], kind: str, *names: str) -> list[list[Any]]:
    """These values of the rows of one type."""
    return [[row[name] for name in names] for row in rows if row["type"] == kind]


def quota(entity: Mapping[str, str | None], value: float | None, name: str = "producer") -> Record:
    """A quota; None removes it."""
    parts = [{"entity_type": kind, "entity_name": entity[kind]} for kind in entity]
    fields = {"entity": parts, "key": name, "value": value or 0.0, "remove": value is None}
    return "ClientQuotaRecord", 0, fields


def test_a_quota_is_of_an_entity_in_any_order(tmp_path: Path) -> None:
    both, reversed_both = {"user": "u", "client-id": "c"}, {"client-id": "c", "user": "u"}
    rows = state(
        tmp_path,
        quota(both, 1.0),
        quota(both, 5.0, "consumer"),
        quota({"user": "u"}, 2.0),
        quota({"user": None}, 3.0),
        quota(reversed_both, 4.0),
    )
    assert of(rows, "quota", "entity", "name", "value") == [
        [both, "consumer", 5.0],
        [both, "producer", 4.0],
        [{"user": "u"}, "producer", 2.0],
        [{"user": None}, "producer", 3.0],
    ]


def test_a_removed_quota_is_gone_and_its_neighbours_stay(tmp_path: Path) -> None:
    user = {"user": "u"}
    rows = state(
        tmp_path,
        quota(user, 1.0),
        quota(user, 2.0, "consumer"),
        quota({"user": "other"}, 3.0),
        quota(user, None),
        quota({"user": "unknown"}, None),
    )
    assert of(rows, "quota", "entity", "name") == [
        [{"user": "other"}, "producer"],
        [user, "consumer"],
    ]


def test_a_setting_of_null_and_a_feature_of_level_0_are_removed(tmp_path: Path) -> None:
    def setting(name: str, value: str | None, resource: str = "a") -> Record:
        resource_fields = {"resource_type": 2, "resource_name": resource}
        return "ConfigRecord", 0, {**resource_fields, "name": name, "value": value}

    def feature(name: str, level: int) -> Record:
        return "FeatureLevelRecord", 0, {"name": name, "feature_level": level}

    rows = state(
        tmp_path,
        setting("retention.ms", "1"),
        setting("segment.ms", "2"),
        setting("retention.ms", "", "b"),
        setting("retention.ms", None),
        feature("group.version", 1),
        feature("metadata.version", 21),
        feature("metadata.version", 25),
        feature("group.version", 0),
    )
    assert of(rows, "config", "resource", "name", "value") == [
        ["a", "segment.ms", "2"],
        ["b", "retention.ms", ""],
    ]
    assert of(rows, "feature", "feature", "level") == [["metadata.version", 25]]


def partition(topic_id: str) -> Record:
    """A partition of which replica 1 is eligible as leader and 2 was the last known leader."""
    fields: dict[str, Any] = {
        "partition_id": 0,
        "topic_id": topic_id,
        "replicas": [1, 2],
        "isr": [],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": -1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [ID_A, ID_B],
        "eligible_leader_replicas": [1],
        "last_known_elr": [2],
    }
    return "PartitionRecord", 2, fields


def test_eligible_leaders_are_cleared_for_one_topic_or_all(tmp_path: Path) -> None:
    records = [TOPIC_A, TOPIC_B, partition(ID_A), partition(ID_B)]
    columns = ("topic", "eligible_leader_replicas", "last_known_elr")
    cleared_a = state(tmp_path, *records, ("ClearElrRecord", 0, {"topic_name": "a"}))
    assert of(cleared_a, "partition", *columns) == [["a", [], []], ["b", [1], [2]]]
    cleared_all = state(tmp_path, *records, ("ClearElrRecord", 0, {"topic_name": ""}))
    assert of(cleared_all, "partition", *columns) == [["a", [], []], ["b", [], []]]


def test_a_removed_topic_takes_its_partitions_and_settings_with_it(tmp_path: Path) -> None:
    settings: list[Record] = [
        (
            "ConfigRecord",
            0,
            {"resource_type": kind, "resource_name": name, "name": "x", "value": ""},
        )
        for kind, name in ((2, "a"), (2, "b"), (4, "a"))
    ]
    records = [TOPIC_A, TOPIC_B, partition(ID_A), partition(ID_B), *settings]
    rows = state(tmp_path, *records, ("RemoveTopicRecord", 0, {"topic_id": ID_A}))
    assert of(rows, "topic", "topic", "partitions") == [["b", 1]]
    assert of(rows, "partition", "topic") == [["b"]]
    assert of(rows, "config", "resource_type", "resource") == [["BROKER", "a"], ["TOPIC", "b"]]
