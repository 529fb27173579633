"""Kafka Connect: connectors and their tasks, from its three topics.

Source: `org.apache.kafka.connect.storage.KafkaConfigBackingStore`, `KafkaStatusBackingStore`,
`KafkaOffsetBackingStore`. Workers read all three as read_committed consumers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kfmt_cli.broker.state.replay import Data, LatestOfKeys, ReadCommitted
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.types.state_types import (
    CONNECTOR,
    CONNECTOR_STATUS,
    CONNECTOR_TASK,
    CONNECTOR_TOPIC,
    SOURCE_OFFSET,
    TASK_STATUS,
    StateType,
)

STARTED = "STARTED"
HIDDEN = "hidden"
"""In place of the value of a connector's setting."""
# Settings that Kafka Connect and MirrorMaker define, none of which is a secret. What the settings
# of others hold is known to those alone: URLs with passwords, keys as JSON, headers.
_HARMLESS = re.compile(
    r"name|connector\.class|task\.class|tasks\.max(\.enforce)?|topics(\.regex)?"
    r"|config\.action\.reload|(key|value|header)\.converter(\.schemas\.enable)?"
    r"|transforms(\.[^.]+\.type)?|predicates(\.[^.]+\.type)?"
    r"|errors\.(tolerance|retry\.(timeout|delay\.max\.ms)|log\.(enable|include\.messages))"
    r"|errors\.deadletterqueue\.(topic\.(name|replication\.factor)|context\.headers\.enable)"
    r"|exactly\.once\.support|transaction\.boundary(\.interval\.ms)?|offsets\.storage\.topic"
    r"|(source|target)\.cluster\.(alias|bootstrap\.servers)|([a-z.-]+\.)?replication\.factor"
    r"|(sync|emit|refresh)\.[a-z.]+"
)
Config = dict[str, Any]


class Configs(ReadCommitted):
    """Connectors and tasks; the task configurations count once all of them are committed."""

    topic = "connect-configs"
    types = (CONNECTOR, CONNECTOR_TASK)

    def __init__(self) -> None:
        super().__init__()
        self._connectors: dict[str, Config] = {}
        self._targets: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._tasks: dict[str, dict[int, Config]] = {}
        self._written: dict[str, dict[int, Config]] = {}  # not yet committed

    def apply(self, record: Record) -> None:
        if record.key is None:
            self.not_understood(record, "record without a key")
            return
        of_key = self.decoder.key(record.key)
        key = self.understood(record, of_key)
        effect = None if of_key is None else self._EFFECTS.get(of_key.name or "")
        if key is None or effect is None:
            return
        data: Data | None = None
        if record.value is not None:
            data = self.understood(record, self.decoder.value(record.key, record.value))
            if data is None:
                return
        words = effect(self, key, data or None)
        if words is not None:
            self.not_understood(record, words)

    # The effects of records; each returns the message for a malformed record, or None.

    def _connector(self, key: Data, data: Data | None) -> str | None:
        name = key.connector
        if data is None:
            self._forget(name)
            return None
        config = data.get("properties")
        if not isinstance(config, dict):
            return "connector config without properties"
        self._connectors[name] = config
        self._targets.setdefault(name, STARTED)
        return None

    def _forget(self, name: str) -> None:
        self._connectors.pop(name, None)
        self._counts.pop(name, None)
        self._tasks.pop(name, None)
        self._written.pop(name, None)

    def _target(self, key: Data, data: Data | None) -> str | None:
        name = key.connector
        if data is None:
            self._targets.pop(name, None)
            if name in self._connectors:
                self._targets[name] = STARTED
            return None
        state = data.get("state.v2") or data.get("state")
        if not isinstance(state, str):
            return "target state without a state"
        self._targets[name] = state
        return None

    def _task(self, key: Data, data: Data | None) -> str | None:
        config = None if data is None else data.get("properties")
        if not isinstance(config, dict):
            return "task config without properties"
        self._written.setdefault(key.connector, {})[key.task] = config
        return None

    def _commit(self, key: Data, data: Data | None) -> str | None:
        name = key.connector
        if name not in self._connectors:
            self._forget(name)
            return None
        count = None if data is None else data.get("tasks")
        if not isinstance(count, int):
            return "commit record without a task count"
        written = self._written.pop(name, {})
        if len(written) == count and all(0 <= task < count for task in written):
            self._tasks.setdefault(name, {}).update(written)
        self._counts[name] = count
        return None

    _EFFECTS: ClassVar[dict[str, Callable[[Configs, Data, Data | None], str | None]]] = {
        "ConnectorConfig": _connector,
        "TargetState": _target,
        "TaskConfig": _task,
        "TasksCommit": _commit,
    }

    def _shown(self, config: Config) -> Config:
        return config if self.shows_values else _shown_config(config)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for name, config in self._connectors.items():
            count = self._counts.get(name)
            yield (
                CONNECTOR,
                {
                    "connector": name,
                    "target_state": self._targets.get(name),
                    "tasks": count,
                    "config": self._shown(config),
                },
            )
            for task, of_task in sorted(self._tasks.get(name, {}).items()):
                if task < (count or 0):
                    row = {"connector": name, "task": task, "config": self._shown(of_task)}
                    yield CONNECTOR_TASK, row


class Status(LatestOfKeys):
    """The states of connectors and tasks, and the topics that they use."""

    topic = "connect-status"
    types = (CONNECTOR_STATUS, TASK_STATUS, CONNECTOR_TOPIC)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        types = {"ConnectorStatus": CONNECTOR_STATUS, "TaskStatus": TASK_STATUS}
        for name, key, value in self.said():
            if name in types:
                yield types[name], {**value, **key}
            elif name == "TopicStatus":
                said = value.get("topic")
                yield CONNECTOR_TOPIC, {**(said if isinstance(said, dict) else {}), **key}


class SourceOffsets(LatestOfKeys):
    """The positions up to which source connectors have read."""

    topic = "connect-offsets"
    types = (SOURCE_OFFSET,)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, value in self.said():
            place = key.source_partition
            if isinstance(place, dict):
                place = dict(sorted(place.items()))  # workers write them in any order
            row = {"connector": key.connector, "source_partition": place, "source_offset": value}
            yield SOURCE_OFFSET, row


def _shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's configuration, with the values of all settings hidden that are not known to be
    harmless."""
    return {
        name: setting if _HARMLESS.fullmatch(name) and isinstance(setting, str) else HIDDEN
        for name, setting in config.items()
    }
