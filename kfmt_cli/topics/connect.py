"""The three topics of Kafka Connect: configurations, states, and offsets of source connectors.

Source: `org.apache.kafka.connect.storage.KafkaConfigBackingStore`, `KafkaStatusBackingStore`,
`OffsetStorageWriter`. Keys are text, values JSON without a schema.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from kfmt_cli.topics.keyed_json import JsonDecoder, KeyContent, parse_json_payload
from kfmt_cli.topics.payloads import read_encodable_json

# Key prefix, record type, and the name of the rest of the key; in the order in which workers check
# the prefixes.
_CONFIG_KEY_TYPES = (
    ("target-state-", "TargetState", "connector"),
    ("connector-", "ConnectorConfig", "connector"),
    ("task-", "TaskConfig", "task"),
    ("commit-", "TasksCommit", "connector"),
    ("restart-connector-", "RestartRequest", "connector"),
    ("tasks-fencing-", "TaskCount", "connector"),
    ("logger-cluster-", "LoggerLevel", "logger"),
)
_STATUS_KEY_TYPES = (
    ("status-connector-", "ConnectorStatus", "connector"),
    ("status-task-", "TaskStatus", "task"),
    ("status-topic-", "TopicStatus", "topic"),
)
_TASK_NUMBER_REGEX = re.compile(r"[0-9]{1,10}")
SESSION_KEY = "session-key"
TOPIC_STATUS_SEPARATOR = ":connector-"  # between a topic and the connector that uses it


def _parse_key_text(key: bytes) -> str | None:
    """A key as text, without the quotation marks of JSON converters; None if it is not text."""
    try:
        text = key.decode()
        if text.startswith('"') and text.endswith('"'):
            unquoted_key = read_encodable_json(key)
            return unquoted_key if isinstance(unquoted_key, str) else None
    except ValueError:
        return None
    return text


def _parse_typed_key(key: bytes, key_types: tuple[tuple[str, str, str], ...]) -> KeyContent | None:
    key_text = _parse_key_text(key)
    for prefix, record_type, subject_type in key_types:
        if key_text is None or not key_text.startswith(prefix):
            continue
        subject_name = key_text.removeprefix(prefix)
        subject_members: dict[str, Any] = {subject_type: subject_name}
        if subject_type == "task":
            connector, _, task_number = subject_name.rpartition("-")
            if not connector or not _TASK_NUMBER_REGEX.fullmatch(task_number):
                return None
            subject_members = {"connector": connector, "task": int(task_number)}
        elif subject_type == "topic":
            topic, _, connector = subject_name.partition(TOPIC_STATUS_SEPARATOR)
            subject_members = {"topic": topic, "connector": connector}
        return KeyContent(record_type, subject_members)
    return None


def _parse_config_key(key: bytes) -> KeyContent | None:
    if key == SESSION_KEY.encode():
        return KeyContent("SessionKey", {})
    return _parse_typed_key(key, _CONFIG_KEY_TYPES)


def _parse_offset_key(key: bytes) -> KeyContent | None:
    """The content of a key: a JSON list of the connector's name and the source partition."""
    try:
        connector_and_partition = parse_json_payload(key)
    except ValueError:
        return None
    if (
        not isinstance(connector_and_partition, list)
        or len(connector_and_partition) != 2
        or not isinstance(connector_and_partition[0], str)
    ):
        return None
    return KeyContent(
        "SourceOffset",
        {"connector": connector_and_partition[0], "source_partition": connector_and_partition[1]},
    )


CONFIGS_DECODER = JsonDecoder(_parse_config_key)
STATUS_DECODER = JsonDecoder(partial(_parse_typed_key, key_types=_STATUS_KEY_TYPES))
OFFSETS_DECODER = JsonDecoder(_parse_offset_key)
