"""Kafka Connect: connectors and their tasks, from its three topics.

Source: `org.apache.kafka.connect.storage.KafkaConfigBackingStore`, `KafkaStatusBackingStore`,
`KafkaOffsetBackingStore`. Workers read all three as read_committed consumers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kfmt_cli.broker.state.replay import CommittedReplay, CompactedTopicReplay, RecordFields
from kfmt_cli.log.record_stream import Record
from kfmt_cli.rows.types.state_rows import (
    CONNECTOR_ROW,
    CONNECTOR_STATUS_ROW,
    CONNECTOR_TASK_ROW,
    CONNECTOR_TOPIC_ROW,
    SOURCE_OFFSET_ROW,
    TASK_STATUS_ROW,
    StateType,
)

STARTED = "STARTED"
HIDDEN = "hidden"
"""Shown instead of the value of a connector setting that may be a secret."""
# Settings that Kafka Connect and MirrorMaker define, none of which is a secret. Settings of other
# plugins may contain anything: URLs with passwords, keys as JSON, headers.
_NON_SECRET_SETTINGS = re.compile(
    r"name|connector\.class|task\.class|tasks\.max(\.enforce)?|topics(\.regex)?"
    r"|config\.action\.reload|(key|value|header)\.converter(\.schemas\.enable)?"
    r"|transforms(\.[^.]+\.type)?|predicates(\.[^.]+\.type)?"
    r"|errors\.(tolerance|retry\.(timeout|delay\.max\.ms)|log\.(enable|include\.messages))"
    r"|errors\.deadletterqueue\.(topic\.(name|replication\.factor)|context\.headers\.enable)"
    r"|exactly\.once\.support|transaction\.boundary(\.interval\.ms)?|offsets\.storage\.topic"
    r"|(source|target)\.cluster\.(alias|bootstrap\.servers)|([a-z.-]+\.)?replication\.factor"
    r"|(sync|emit|refresh)\.[a-z.]+"
)
ConnectorConfig = dict[str, Any]


class ConnectConfigsReplay(CommittedReplay):
    """Connectors and tasks; the task configurations count once all of them are committed."""

    topic = "connect-configs"
    row_types = (CONNECTOR_ROW, CONNECTOR_TASK_ROW)

    def __init__(self) -> None:
        super().__init__()
        self._connectors: dict[str, ConnectorConfig] = {}
        self._target_states: dict[str, str] = {}
        self._task_counts: dict[str, int] = {}
        self._task_configs: dict[str, dict[int, ConnectorConfig]] = {}
        self._uncommitted_task_configs: dict[str, dict[int, ConnectorConfig]] = {}

    def apply_committed(self, record: Record) -> None:
        if record.key is None:
            self.report_malformed(record, "record without a key")
            return
        decoded_key = self.decoder.decode_key(record.key)
        key = self.extract_data(record, decoded_key)
        effect = None if decoded_key is None else self._EFFECTS.get(decoded_key.name or "")
        if key is None or effect is None:
            return
        data: RecordFields | None = None
        if record.value is not None:
            data = self.extract_data(record, self.decoder.decode_value(record.key, record.value))
            if data is None:
                return
        problem = effect(self, key, data or None)
        if problem is not None:
            self.report_malformed(record, problem)

    # The effects of records; each returns the message for a malformed record, or None.

    def _apply_connector(self, key: RecordFields, data: RecordFields | None) -> str | None:
        name = key.connector
        if data is None:
            self._remove_connector(name)
            return None
        config = data.get("properties")
        if not isinstance(config, dict):
            return "connector config without properties"
        self._connectors[name] = config
        self._target_states.setdefault(name, STARTED)
        return None

    def _remove_connector(self, name: str) -> None:
        self._connectors.pop(name, None)
        self._task_counts.pop(name, None)
        self._task_configs.pop(name, None)
        self._uncommitted_task_configs.pop(name, None)

    def _apply_target_state(self, key: RecordFields, data: RecordFields | None) -> str | None:
        name = key.connector
        if data is None:
            self._target_states.pop(name, None)
            if name in self._connectors:
                self._target_states[name] = STARTED
            return None
        state = data.get("state.v2") or data.get("state")
        if not isinstance(state, str):
            return "target state without a state"
        self._target_states[name] = state
        return None

    def _apply_task_config(self, key: RecordFields, data: RecordFields | None) -> str | None:
        config = None if data is None else data.get("properties")
        if not isinstance(config, dict):
            return "task config without properties"
        self._uncommitted_task_configs.setdefault(key.connector, {})[key.task] = config
        return None

    def _apply_tasks_commit(self, key: RecordFields, data: RecordFields | None) -> str | None:
        name = key.connector
        if name not in self._connectors:
            self._remove_connector(name)
            return None
        n_tasks = None if data is None else data.get("tasks")
        if not isinstance(n_tasks, int):
            return "commit record without a task count"
        task_configs = self._uncommitted_task_configs.pop(name, {})
        if len(task_configs) == n_tasks and all(0 <= task < n_tasks for task in task_configs):
            self._task_configs.setdefault(name, {}).update(task_configs)
        self._task_counts[name] = n_tasks
        return None

    _EFFECTS: ClassVar[
        dict[str, Callable[[ConnectConfigsReplay, RecordFields, RecordFields | None], str | None]]
    ] = {
        "ConnectorConfig": _apply_connector,
        "TargetState": _apply_target_state,
        "TaskConfig": _apply_task_config,
        "TasksCommit": _apply_tasks_commit,
    }

    def _displayed_config(self, config: ConnectorConfig) -> ConnectorConfig:
        return config if self.shows_values else _hide_values(config)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for name, config in self._connectors.items():
            n_tasks = self._task_counts.get(name)
            yield (
                CONNECTOR_ROW,
                {
                    "connector": name,
                    "target_state": self._target_states.get(name),
                    "tasks": n_tasks,
                    "config": self._displayed_config(config),
                },
            )
            for task, task_config in sorted(self._task_configs.get(name, {}).items()):
                if task < (n_tasks or 0):
                    row = {
                        "connector": name,
                        "task": task,
                        "config": self._displayed_config(task_config),
                    }
                    yield CONNECTOR_TASK_ROW, row


class ConnectStatusReplay(CompactedTopicReplay):
    """The states of connectors and tasks, and the topics that they use."""

    topic = "connect-status"
    row_types = (CONNECTOR_STATUS_ROW, TASK_STATUS_ROW, CONNECTOR_TOPIC_ROW)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        row_type_by_message = {
            "ConnectorStatus": CONNECTOR_STATUS_ROW,
            "TaskStatus": TASK_STATUS_ROW,
        }
        for name, key, value in self.iter_current():
            if name in row_type_by_message:
                yield row_type_by_message[name], {**value, **key}
            elif name == "TopicStatus":
                topic_status = value.get("topic")
                yield (
                    CONNECTOR_TOPIC_ROW,
                    {**(topic_status if isinstance(topic_status, dict) else {}), **key},
                )


class ConnectOffsetsReplay(CompactedTopicReplay):
    """The positions up to which source connectors have read."""

    topic = "connect-offsets"
    row_types = (SOURCE_OFFSET_ROW,)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, value in self.iter_current():
            source_partition = key.source_partition
            if isinstance(source_partition, dict):
                # Workers write the fields in any order.
                source_partition = dict(sorted(source_partition.items()))
            row = {
                "connector": key.connector,
                "source_partition": source_partition,
                "source_offset": value,
            }
            yield SOURCE_OFFSET_ROW, row


def _hide_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's configuration, with the values of all settings hidden that are not known to be
    harmless."""
    return {
        name: setting
        if _NON_SECRET_SETTINGS.fullmatch(name) and isinstance(setting, str)
        else HIDDEN
        for name, setting in config.items()
    }
