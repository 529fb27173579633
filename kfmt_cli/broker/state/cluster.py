"""__cluster_metadata: the metadata of a KRaft cluster.

Source: `org.apache.kafka.image.MetadataDelta` and the deltas that it passes records to, and
`org.apache.kafka.metadata.PartitionRegistration`. Records between the marks of a transaction take
effect together (KIP-868).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kfmt_cli.broker.state.replay import Data, Replay
from kfmt_cli.core.layout.field import symbol_of
from kfmt_cli.core.layout.messages import read_message, self_versioned
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.formats.kafka_messages import message
from kfmt_cli.formats.kraft import KRAFT_MESSAGES
from kfmt_cli.formats.meanings import CONFIG_RESOURCES, RECOVERY_STATES, SECURITY_PROTOCOLS
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.types.state_types import (
    ACL,
    BROKER,
    CONFIG,
    CONTROLLER,
    DELEGATION_TOKEN,
    FEATURE,
    PARTITION,
    PRODUCER_IDS,
    QUOTA,
    SCRAM_USER,
    TOPIC,
    StateType,
)

KRAFT_VERSION = CONTROL_TYPES.index("KRAFT_VERSION")
FENCED, ACTIVE, STOPPING = "fenced", "active", "in-controlled-shutdown"
# Records whose data are kept by their values of some fields, and the records that remove them.
_KEPT: dict[str, tuple[StateType, tuple[str, ...]]] = {
    "RegisterBrokerRecord": (BROKER, ("broker_id",)),
    "RegisterControllerRecord": (CONTROLLER, ("controller_id",)),
    "AccessControlEntryRecord": (ACL, ("id",)),
    "UserScramCredentialRecord": (SCRAM_USER, ("name", "mechanism")),
    "DelegationTokenRecord": (DELEGATION_TOKEN, ("token_id",)),
    "ProducerIdsRecord": (PRODUCER_IDS, ()),
}
_REMOVING = {
    "UnregisterBrokerRecord": "RegisterBrokerRecord",
    "RemoveAccessControlEntryRecord": "AccessControlEntryRecord",
    "RemoveUserScramCredentialRecord": "UserScramCredentialRecord",
    "RemoveDelegationTokenRecord": "DelegationTokenRecord",
}
# Fields that a partition change may replace; null keeps the value.
_REPLACED = (
    *("isr", "replicas", "removing_replicas", "adding_replicas", "directories"),
    *("eligible_leader_replicas", "last_known_elr"),
)
NO_CHANGE = -2  # as leader
_OF_TOPIC = 2
# Settings whose values Kafka treats as passwords.
_SECRET = re.compile(
    r"(password|\.secret|secret\.key|sasl\.jaas\.config|ssl\.keystore\.(key|certificate\.chain)"
    r"|ssl\.truststore\.certificates)$"
)


class Cluster(Replay):
    """Brokers, topics, settings and access rights of a cluster."""

    topic = "__cluster_metadata"
    types = (
        BROKER,
        CONTROLLER,
        FEATURE,
        TOPIC,
        PARTITION,
        CONFIG,
        ACL,
        QUOTA,
        SCRAM_USER,
        DELEGATION_TOKEN,
        PRODUCER_IDS,
    )

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        self._kept: dict[StateType, dict[tuple[object, ...], Data]]
        self._kept = {type_: {} for type_, _ in _KEPT.values()}
        self._topics: dict[str, str] = {}  # names, by id
        self._partitions: dict[str, dict[int, Data]] = {}  # by topic id
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self._held: list[tuple[str, Data]] | None = None

    def take(self, record: Record) -> None:
        if record.control is not None:
            self._control(record)
            return
        said = self.decoder.value(record.key, record.value)
        data = self.understood(record, said)
        if data is None or said is None or said.name is None:
            return
        if said.name == "BeginTransactionRecord":
            self._held = []
        elif said.name in ("EndTransactionRecord", "AbortTransactionRecord"):
            held, self._held = self._held or [], None
            for name, row in held if said.name == "EndTransactionRecord" else ():
                self._apply(name, row)
        elif self._held is not None:
            self._held.append((said.name, data))
        else:
            self._apply(said.name, data)

    def _control(self, record: Record) -> None:
        if record.control != KRAFT_VERSION or record.value is None:
            return
        message = KRAFT_MESSAGES[KRAFT_VERSION]
        layout = self_versioned(message, record.value, 0, len(record.value))
        if layout is not None:
            said = read_message(layout, record.value, 0, len(record.value)).values
            if "kraft_version" in said:
                self._feature(Data(name="kraft.version", feature_level=said.kraft_version))

    def _apply(self, name: str, data: Data) -> None:
        """Apply a record; records without an effect on the state are ignored."""
        effect = self._EFFECTS.get(name)
        if effect is not None:
            effect(self, data)
        elif (of := _REMOVING.get(name, name)) in _KEPT:
            type_, fields = _KEPT[of]
            key = tuple(data[field] for field in fields)
            if of == name:
                self._kept[type_][key] = data
            else:
                self._kept[type_].pop(key, None)

    # Brokers.

    def _fence(self, data: Data, fenced: bool) -> None:
        if (broker := self._kept[BROKER].get((data.id,))) is not None:
            broker.fenced = fenced

    def _change_broker(self, data: Data) -> None:
        broker = self._kept[BROKER].get((data.broker_id,))
        if broker is None:
            return
        if data.get("fenced"):
            broker.fenced = data.fenced > 0
        if data.get("in_controlled_shutdown"):
            broker.in_controlled_shutdown = True
        if data.get("log_dirs"):
            broker.log_dirs = data.log_dirs

    # Topics and partitions.

    def _topic(self, data: Data) -> None:
        self._topics[data.topic_id] = data.name

    def _remove_topic(self, data: Data) -> None:
        """Delete a topic and its settings."""
        self._partitions.pop(data.topic_id, None)
        name = self._topics.pop(data.topic_id, None)
        if name is not None:
            self._configs.pop((_OF_TOPIC, name), None)

    def _partition(self, data: Data) -> None:
        self._partitions.setdefault(data.topic_id, {})[data.partition_id] = Data(data)

    def _change_partition(self, data: Data) -> None:
        """Change some facts of a partition; naming a leader begins a new epoch."""
        known = self._partitions.get(data.topic_id, {}).get(data.partition_id)
        if known is None:
            return
        for name in _REPLACED:
            if data.get(name) is not None:
                known[name] = data[name]
        if data.get("leader", NO_CHANGE) != NO_CHANGE:
            known.leader = data.leader
            known.leader_epoch += 1
        if "leader_recovery_state" in data:
            known.leader_recovery_state = data.leader_recovery_state
        known.partition_epoch += 1

    def _clear_elr(self, data: Data) -> None:
        """Clear the eligible leader replicas of one topic or of all."""
        name = data.topic_name
        for topic_id, partitions in self._partitions.items():
            if not name or self._topics.get(topic_id) == name:
                for row in partitions.values():
                    row.eligible_leader_replicas = row.last_known_elr = []

    # Settings.

    def _config(self, data: Data) -> None:
        """Set a setting, or remove it if the value is null."""
        of = self._configs.setdefault((data.resource_type, data.resource_name), {})
        of.pop(data.name, None)
        if data.value is not None:
            of[data.name] = data.value

    def _feature(self, data: Data) -> None:
        """Enable a feature, or disable it at level 0."""
        self._features.pop(data.name, None)
        if data.feature_level or data.name == "kraft.version":
            self._features[data.name] = data.feature_level

    def _quota(self, data: Data) -> None:
        """Set or remove a quota."""
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in data.entity))
        of = self._quotas.setdefault(entity, {})
        of.pop(data.key, None)
        if not data.remove:
            of[data.key] = data.value

    _EFFECTS: ClassVar[dict[str, Callable[[Cluster, Data], None]]] = {
        "FenceBrokerRecord": lambda self, data: self._fence(data, True),
        "UnfenceBrokerRecord": lambda self, data: self._fence(data, False),
        "BrokerRegistrationChangeRecord": _change_broker,
        "TopicRecord": _topic,
        "RemoveTopicRecord": _remove_topic,
        "PartitionRecord": _partition,
        "PartitionChangeRecord": _change_partition,
        "ClearElrRecord": _clear_elr,
        "ConfigRecord": _config,
        "FeatureLevelRecord": _feature,
        "ClientQuotaRecord": _quota,
    }

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for broker in self._kept[BROKER].values():
            state = STOPPING if broker.get("in_controlled_shutdown") else ACTIVE
            if broker.get("fenced", True):
                state = FENCED
            yield BROKER, {**broker, "state": state, "end_points": _end_points(broker)}
        for controller in self._kept[CONTROLLER].values():
            yield CONTROLLER, {**controller, "end_points": _end_points(controller)}
        yield from self._partition_rows()
        yield from self._setting_rows()
        for name, (type_, _) in _KEPT.items():
            if type_ not in (BROKER, CONTROLLER):
                for row in self._kept[type_].values():
                    yield type_, _named(message(name), row)

    def _partition_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Topics, then partitions."""
        for topic_id, name in self._topics.items():
            n_partitions = len(self._partitions.get(topic_id, {}))
            yield TOPIC, {"topic": name, "topic_id": topic_id, "partitions": n_partitions}
        for topic_id, partitions in self._partitions.items():
            for number, value in partitions.items():
                recovery = value.get("leader_recovery_state", 0)
                row = {
                    **value,
                    "topic": self._topics.get(topic_id, topic_id),
                    "partition": number,
                    "leader_recovery_state": symbol_of(RECOVERY_STATES, recovery),
                }
                yield PARTITION, row

    def _setting_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Features, settings, quotas."""
        for name, level in self._features.items():
            yield FEATURE, {"feature": name, "level": level}
        for (type_, resource), settings in self._configs.items():
            for name, value in settings.items():
                hidden = _SECRET.search(name) is not None
                setting = {
                    "resource_type": symbol_of(CONFIG_RESOURCES, type_),
                    "resource": resource,
                    "name": name,
                    "value": None if hidden else value,
                    "hidden": True if hidden else None,
                }
                yield CONFIG, setting
        for entity, quotas in self._quotas.items():
            for name, number in quotas.items():
                yield QUOTA, {"entity": dict(entity), "name": name, "value": number}


def _end_points(record: Data) -> list[dict[str, Any]]:
    """The listeners of a node, with protocol names."""
    return [
        {
            "name": point.name,
            "host": point.host,
            "port": point.port,
            "security_protocol": symbol_of(SECURITY_PROTOCOLS, point.security_protocol),
        }
        for point in record.end_points
    ]


def _named(message: Any, record: Data) -> dict[str, Any]:
    """A message's data with names for its numbers."""
    return {
        field.name: field.symbol(record[field.name]) or record[field.name]
        for field in message.fields
        if field.name in record
    }
