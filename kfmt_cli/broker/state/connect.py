"""Kafka Connect: connectors and their tasks, from its three topics.

Source: `org.apache.kafka.connect.storage.KafkaConfigBackingStore`, `KafkaStatusBackingStore`,
`KafkaOffsetBackingStore`. Workers read all three as read_committed consumers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kfmt_cli.broker.state.replay import CommittedReplay, CompactedTopicReplay, RecordFields
from kfmt_cli.core.credentials import redact_credentials
from kfmt_cli.log.record_stream import StreamedRecord
from kfmt_cli.rows.types.state_rows import (
    CONNECTOR_ROW,
    CONNECTOR_STATUS_ROW,
    CONNECTOR_TASK_ROW,
    CONNECTOR_TOPIC_ROW,
    SOURCE_OFFSET_ROW,
    TASK_STATUS_ROW,
    StateType,
)

STARTED_STATE = "STARTED"
HIDDEN_VALUE = "hidden"
"""Shown instead of the value of a connector setting that may be a secret."""
# Settings that Kafka Connect and MirrorMaker define, none of which is a secret. Settings of other
# plugins may contain anything: URLs with passwords, keys as JSON, headers.
_NON_SECRET_PATTERN = re.compile(
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
        self._config_by_connector: dict[str, ConnectorConfig] = {}
        self._target_state_by_connector: dict[str, str] = {}
        self._n_tasks_by_connector: dict[str, int] = {}
        self._task_configs_by_connector: dict[str, dict[int, ConnectorConfig]] = {}
        self._uncommitted_configs_by_connector: dict[str, dict[int, ConnectorConfig]] = {}

    def apply_committed_record(self, record: StreamedRecord) -> None:
        if record.key is None:
            self.report_malformed_record(record, "record without a key")
            return
        decoded_key = self.decoder.decode_key(record.key)
        key_fields = self.extract_fields(record, decoded_key)
        apply_effect = (
            None
            if decoded_key is None
            else self._EFFECT_BY_MESSAGE.get(decoded_key.message_name or "")
        )
        if key_fields is None or apply_effect is None:
            return
        value_fields: RecordFields | None = None
        if record.value is not None:
            value_fields = self.extract_fields(
                record, self.decoder.decode_value(record.key, record.value)
            )
            if value_fields is None:
                return
        problem = apply_effect(self, key_fields, value_fields or None)
        if problem is not None:
            self.report_malformed_record(record, problem)

    # The effects of records; each returns the message for a malformed record, or None.

    def _apply_connector(
        self, key_fields: RecordFields, value_fields: RecordFields | None
    ) -> str | None:
        connector_name = key_fields.connector
        if value_fields is None:
            self._remove_connector(connector_name)
            return None
        config = value_fields.get("properties")
        if not isinstance(config, dict):
            return "connector config without properties"
        self._config_by_connector[connector_name] = config
        self._target_state_by_connector.setdefault(connector_name, STARTED_STATE)
        return None

    def _remove_connector(self, connector_name: str) -> None:
        self._config_by_connector.pop(connector_name, None)
        self._n_tasks_by_connector.pop(connector_name, None)
        self._task_configs_by_connector.pop(connector_name, None)
        self._uncommitted_configs_by_connector.pop(connector_name, None)

    def _apply_target_state(
        self, key_fields: RecordFields, value_fields: RecordFields | None
    ) -> str | None:
        connector_name = key_fields.connector
        if value_fields is None:
            self._target_state_by_connector.pop(connector_name, None)
            if connector_name in self._config_by_connector:
                self._target_state_by_connector[connector_name] = STARTED_STATE
            return None
        target_state = value_fields.get("state.v2") or value_fields.get("state")
        if not isinstance(target_state, str):
            return "target state without a state"
        self._target_state_by_connector[connector_name] = target_state
        return None

    def _apply_task_config(
        self, key_fields: RecordFields, value_fields: RecordFields | None
    ) -> str | None:
        task_config = None if value_fields is None else value_fields.get("properties")
        if not isinstance(task_config, dict):
            return "task config without properties"
        self._uncommitted_configs_by_connector.setdefault(key_fields.connector, {})[
            key_fields.task
        ] = task_config
        return None

    def _apply_tasks_commit(
        self, key_fields: RecordFields, value_fields: RecordFields | None
    ) -> str | None:
        connector_name = key_fields.connector
        if connector_name not in self._config_by_connector:
            self._remove_connector(connector_name)
            return None
        n_tasks = None if value_fields is None else value_fields.get("tasks")
        if not isinstance(n_tasks, int):
            return "commit record without a task count"
        task_configs = self._uncommitted_configs_by_connector.pop(connector_name, {})
        if len(task_configs) == n_tasks and all(
            0 <= task_number < n_tasks for task_number in task_configs
        ):
            self._task_configs_by_connector.setdefault(connector_name, {}).update(task_configs)
        self._n_tasks_by_connector[connector_name] = n_tasks
        return None

    _EFFECT_BY_MESSAGE: ClassVar[
        dict[str, Callable[[ConnectConfigsReplay, RecordFields, RecordFields | None], str | None]]
    ] = {
        "ConnectorConfig": _apply_connector,
        "TargetState": _apply_target_state,
        "TaskConfig": _apply_task_config,
        "TasksCommit": _apply_tasks_commit,
    }

    def _displayed_config(self, config: ConnectorConfig) -> ConnectorConfig:
        return config if self.shows_secret_values else _hide_secret_values(config)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for connector_name, config in self._config_by_connector.items():
            n_tasks = self._n_tasks_by_connector.get(connector_name)
            yield (
                CONNECTOR_ROW,
                {
                    "connector": connector_name,
                    "target_state": self._target_state_by_connector.get(connector_name),
                    "tasks": n_tasks,
                    "config": self._displayed_config(config),
                },
            )
            for task_number, task_config in sorted(
                self._task_configs_by_connector.get(connector_name, {}).items()
            ):
                if task_number < (n_tasks or 0):
                    task_row = {
                        "connector": connector_name,
                        "task": task_number,
                        "config": self._displayed_config(task_config),
                    }
                    yield CONNECTOR_TASK_ROW, task_row


class ConnectStatusReplay(CompactedTopicReplay):
    """The states of connectors and tasks, and the topics that they use."""

    topic = "connect-status"
    row_types = (CONNECTOR_STATUS_ROW, TASK_STATUS_ROW, CONNECTOR_TOPIC_ROW)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        row_type_by_message = {
            "ConnectorStatus": CONNECTOR_STATUS_ROW,
            "TaskStatus": TASK_STATUS_ROW,
        }
        for message_name, key_fields, status_fields in self.iter_current_records():
            if message_name in row_type_by_message:
                yield row_type_by_message[message_name], {**status_fields, **key_fields}
            elif message_name == "TopicStatus":
                topic_status = status_fields.get("topic")
                yield (
                    CONNECTOR_TOPIC_ROW,
                    {**(topic_status if isinstance(topic_status, dict) else {}), **key_fields},
                )


class ConnectOffsetsReplay(CompactedTopicReplay):
    """The positions up to which source connectors have read."""

    topic = "connect-offsets"
    row_types = (SOURCE_OFFSET_ROW,)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key_fields, source_offset in self.iter_current_records():
            source_partition = key_fields.source_partition
            if isinstance(source_partition, dict):
                # Workers write the fields in any order.
                source_partition = dict(sorted(source_partition.items()))
            offset_row = {
                "connector": key_fields.connector,
                "source_partition": source_partition,
                "source_offset": source_offset,
                "partition": self.partition,
                "key": key_fields.key_bytes.decode(),
            }
            yield SOURCE_OFFSET_ROW, offset_row


def _hide_secret_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's configuration, with the values of all settings hidden that are not known to be
    harmless."""
    return {
        setting_name: redact_credentials(setting_value)
        if _NON_SECRET_PATTERN.fullmatch(setting_name) and isinstance(setting_value, str)
        else HIDDEN_VALUE
        for setting_name, setting_value in config.items()
    }
