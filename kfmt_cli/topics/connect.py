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
_CONFIG_KEYS = (
    ("target-state-", "TargetState", "connector"),
    ("connector-", "ConnectorConfig", "connector"),
    ("task-", "TaskConfig", "task"),
    ("commit-", "TasksCommit", "connector"),
    ("restart-connector-", "RestartRequest", "connector"),
    ("tasks-fencing-", "TaskCount", "connector"),
    ("logger-cluster-", "LoggerLevel", "logger"),
)
_STATUS_KEYS = (
    ("status-connector-", "ConnectorStatus", "connector"),
    ("status-task-", "TaskStatus", "task"),
    ("status-topic-", "TopicStatus", "topic"),
)
_NUMBER = re.compile(r"[0-9]{1,10}")
SESSION_KEY = "session-key"
TOPIC_STATUS_SEPARATOR = ":connector-"  # between a topic and the connector that uses it


def _key_text(key: bytes) -> str | None:
    """A key as text, without the quotation marks of JSON converters; None if it is not text."""
    try:
        text = key.decode()
        if text.startswith('"') and text.endswith('"'):
            unquoted = read_encodable_json(key)
            return unquoted if isinstance(unquoted, str) else None
    except ValueError:
        return None
    return text


def _parse_key(key: bytes, key_kinds: tuple[tuple[str, str, str], ...]) -> KeyContent | None:
    text = _key_text(key)
    for prefix, record_type, subject_kind in key_kinds:
        if text is None or not text.startswith(prefix):
            continue
        subject_name = text.removeprefix(prefix)
        data: dict[str, Any] = {subject_kind: subject_name}
        if subject_kind == "task":
            connector, _, task_number = subject_name.rpartition("-")
            if not connector or not _NUMBER.fullmatch(task_number):
                return None
            data = {"connector": connector, "task": int(task_number)}
        elif subject_kind == "topic":
            topic, _, connector = subject_name.partition(TOPIC_STATUS_SEPARATOR)
            data = {"topic": topic, "connector": connector}
        return KeyContent(record_type, data)
    return None


def _parse_config_key(key: bytes) -> KeyContent | None:
    if key == SESSION_KEY.encode():
        return KeyContent("SessionKey", {})
    return _parse_key(key, _CONFIG_KEYS)


def _parse_offset_key(key: bytes) -> KeyContent | None:
    """The content of a key: a JSON list of the connector's name and the source partition."""
    try:
        pair = parse_json_payload(key)
    except ValueError:
        return None
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        return None
    return KeyContent("SourceOffset", {"connector": pair[0], "source_partition": pair[1]})


CONFIGS_DECODER = JsonDecoder(_parse_config_key)
STATUS_DECODER = JsonDecoder(partial(_parse_key, key_kinds=_STATUS_KEYS))
OFFSETS_DECODER = JsonDecoder(_parse_offset_key)
