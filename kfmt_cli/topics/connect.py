"""The three topics of Kafka Connect: configurations, states, and offsets of source connectors.

Source: `org.apache.kafka.connect.storage.KafkaConfigBackingStore`, `KafkaStatusBackingStore`,
`OffsetStorageWriter`. Keys are text, values JSON without a schema.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from kfmt_cli.topics.keyed_json import JsonDecoder, Said, json_payload
from kfmt_cli.topics.payloads import read_plain_json

# Key prefixes, in the order in which workers check them, the name of the record, and the rest of
# the key.
_CONFIGS = (
    ("target-state-", "TargetState", "connector"),
    ("connector-", "ConnectorConfig", "connector"),
    ("task-", "TaskConfig", "task"),
    ("commit-", "TasksCommit", "connector"),
    ("restart-connector-", "RestartRequest", "connector"),
    ("tasks-fencing-", "TaskCount", "connector"),
    ("logger-cluster-", "LoggerLevel", "logger"),
)
_STATUS = (
    ("status-connector-", "ConnectorStatus", "connector"),
    ("status-task-", "TaskStatus", "task"),
    ("status-topic-", "TopicStatus", "topic"),
)
_NUMBER = re.compile(r"[0-9]{1,10}")
SESSION_KEY = "session-key"
OF_TOPIC = ":connector-"  # between a topic and the connector that uses it


def _text(key: bytes) -> str | None:
    """A key as text; JSON converters put it in quotation marks."""
    try:
        text = key.decode()
        if text.startswith('"') and text.endswith('"'):
            plain = read_plain_json(key)
            return plain if isinstance(plain, str) else None
    except ValueError:
        return None
    return text


def _said(key: bytes, fronts: tuple[tuple[str, str, str], ...]) -> Said | None:
    text = _text(key)
    for front, name, part in fronts:
        if text is None or not text.startswith(front):
            continue
        rest = text.removeprefix(front)
        data: dict[str, Any] = {part: rest}
        if part == "task":
            connector, _, number = rest.rpartition("-")
            if not connector or not _NUMBER.fullmatch(number):
                return None
            data = {"connector": connector, "task": int(number)}
        elif part == "topic":
            topic, _, connector = rest.partition(OF_TOPIC)
            data = {"topic": topic, "connector": connector}
        return Said(name, data)
    return None


def _of_configs(key: bytes) -> Said | None:
    if key == SESSION_KEY.encode():
        return Said("SessionKey", {})
    return _said(key, _CONFIGS)


def _of_offsets(key: bytes) -> Said | None:
    """The content of a key: a list of a connector's name and its source partition."""
    try:
        pair = json_payload(key)
    except ValueError:
        return None
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        return None
    return Said("SourceOffset", {"connector": pair[0], "source_partition": pair[1]})


CONFIGS = JsonDecoder(_of_configs)
STATUS = JsonDecoder(partial(_said, fronts=_STATUS))
OFFSETS = JsonDecoder(_of_offsets)
