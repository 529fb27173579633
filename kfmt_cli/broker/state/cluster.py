"""__cluster_metadata: the metadata of a KRaft cluster.

Source: `org.apache.kafka.image.MetadataDelta` and the deltas that it passes records to, and
`org.apache.kafka.metadata.PartitionRegistration`. Records between the begin and end records of a
transaction take effect together (KIP-868).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kfmt_cli.broker.state.replay import RecordFields, TopicReplay
from kfmt_cli.core.layout.field import format_symbol
from kfmt_cli.core.layout.messages import find_version_prefixed_layout, read_message
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.formats.kraft import KRAFT_LAYOUT_BY_TYPE
from kfmt_cli.formats.message_descriptions import (
    CONFIG_RESOURCE_TYPES,
    LEADER_RECOVERY_STATES,
    SECURITY_PROTOCOLS,
)
from kfmt_cli.log.record_stream import Record
from kfmt_cli.rows.types.state_rows import (
    ACL_ROW,
    BROKER_ROW,
    CONFIG_ROW,
    CONTROLLER_ROW,
    DELEGATION_TOKEN_ROW,
    FEATURE_ROW,
    PARTITION_STATE_ROW,
    PRODUCER_IDS_ROW,
    QUOTA_ROW,
    SCRAM_USER_ROW,
    TOPIC_ROW,
    StateType,
)

KRAFT_VERSION = CONTROL_TYPES.index("KRAFT_VERSION")
FENCED, ACTIVE, STOPPING = "fenced", "active", "in-controlled-shutdown"
# Records that are stored by key, with the type of their rows and their key fields.
_KEYED_RECORDS: dict[str, tuple[StateType, tuple[str, ...]]] = {
    "RegisterBrokerRecord": (BROKER_ROW, ("broker_id",)),
    "RegisterControllerRecord": (CONTROLLER_ROW, ("controller_id",)),
    "AccessControlEntryRecord": (ACL_ROW, ("id",)),
    "UserScramCredentialRecord": (SCRAM_USER_ROW, ("name", "mechanism")),
    "DelegationTokenRecord": (DELEGATION_TOKEN_ROW, ("token_id",)),
    "ProducerIdsRecord": (PRODUCER_IDS_ROW, ()),
}
# The stored record that each of these records removes.
_RECORD_REMOVED_BY = {
    "UnregisterBrokerRecord": "RegisterBrokerRecord",
    "RemoveAccessControlEntryRecord": "AccessControlEntryRecord",
    "RemoveUserScramCredentialRecord": "UserScramCredentialRecord",
    "RemoveDelegationTokenRecord": "DelegationTokenRecord",
}
# Fields that a partition change may replace; null keeps the value.
_REPLACEABLE_FIELDS = (
    *("isr", "replicas", "removing_replicas", "adding_replicas", "directories"),
    *("eligible_leader_replicas", "last_known_elr"),
)
NO_LEADER_CHANGE = -2  # the leader in a partition change that keeps the current one
_TOPIC_RESOURCE = 2
# Settings whose values Kafka treats as passwords.
_SECRET_SETTING = re.compile(
    r"(password|\.secret|secret\.key|sasl\.jaas\.config|ssl\.keystore\.(key|certificate\.chain)"
    r"|ssl\.truststore\.certificates)$"
)


class ClusterReplay(TopicReplay):
    """Brokers, topics, settings and access rights of a cluster."""

    topic = "__cluster_metadata"
    row_types = (
        BROKER_ROW,
        CONTROLLER_ROW,
        FEATURE_ROW,
        TOPIC_ROW,
        PARTITION_STATE_ROW,
        CONFIG_ROW,
        ACL_ROW,
        QUOTA_ROW,
        SCRAM_USER_ROW,
        DELEGATION_TOKEN_ROW,
        PRODUCER_IDS_ROW,
    )

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        self._rows_by_type: dict[StateType, dict[tuple[object, ...], RecordFields]]
        self._rows_by_type = {type_: {} for type_, _ in _KEYED_RECORDS.values()}
        self._topic_name_by_id: dict[str, str] = {}  # names, by id
        self._partitions: dict[str, dict[int, RecordFields]] = {}  # by topic id
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self._transaction_records: list[tuple[str, RecordFields]] | None = None

    def apply_record(self, record: Record) -> None:
        if record.control is not None:
            self._apply_control(record)
            return
        decoded = self.decoder.decode_value(record.key, record.value)
        data = self.extract_data(record, decoded)
        if data is None or decoded is None or decoded.name is None:
            return
        if decoded.name == "BeginTransactionRecord":
            self._transaction_records = []
        elif decoded.name in ("EndTransactionRecord", "AbortTransactionRecord"):
            transaction_records, self._transaction_records = self._transaction_records or [], None
            for name, row in transaction_records if decoded.name == "EndTransactionRecord" else ():
                self._apply(name, row)
        elif self._transaction_records is not None:
            self._transaction_records.append((decoded.name, data))
        else:
            self._apply(decoded.name, data)

    def _apply_control(self, record: Record) -> None:
        if record.control != KRAFT_VERSION or record.value is None:
            return
        kraft_message = KRAFT_LAYOUT_BY_TYPE[KRAFT_VERSION]
        layout = find_version_prefixed_layout(kraft_message, record.value, 0, len(record.value))
        if layout is not None:
            values = read_message(layout, record.value, 0, len(record.value)).values
            if "kraft_version" in values:
                self._set_feature(
                    RecordFields(name="kraft.version", feature_level=values.kraft_version)
                )

    def _apply(self, name: str, data: RecordFields) -> None:
        """Apply a record; records without an effect on the state are ignored."""
        effect = self._EFFECTS.get(name)
        if effect is not None:
            effect(self, data)
        elif (record_type := _RECORD_REMOVED_BY.get(name, name)) in _KEYED_RECORDS:
            type_, fields = _KEYED_RECORDS[record_type]
            key = tuple(data[field] for field in fields)
            if record_type == name:
                self._rows_by_type[type_][key] = data
            else:
                self._rows_by_type[type_].pop(key, None)

    # Brokers.

    def _set_fenced(self, data: RecordFields, fenced: bool) -> None:
        if (broker := self._rows_by_type[BROKER_ROW].get((data.id,))) is not None:
            broker.fenced = fenced

    def _change_broker(self, data: RecordFields) -> None:
        broker = self._rows_by_type[BROKER_ROW].get((data.broker_id,))
        if broker is None:
            return
        if data.get("fenced"):
            broker.fenced = data.fenced > 0
        if data.get("in_controlled_shutdown"):
            broker.in_controlled_shutdown = True
        if data.get("log_dirs"):
            broker.log_dirs = data.log_dirs

    # Topics and partitions.

    def _add_topic(self, data: RecordFields) -> None:
        self._topic_name_by_id[data.topic_id] = data.name

    def _remove_topic(self, data: RecordFields) -> None:
        """Delete a topic and its settings."""
        self._partitions.pop(data.topic_id, None)
        name = self._topic_name_by_id.pop(data.topic_id, None)
        if name is not None:
            self._configs.pop((_TOPIC_RESOURCE, name), None)

    def _add_partition(self, data: RecordFields) -> None:
        self._partitions.setdefault(data.topic_id, {})[data.partition_id] = RecordFields(data)

    def _change_partition(self, data: RecordFields) -> None:
        """Change some fields of a partition; naming a leader begins a new leader epoch."""
        partition = self._partitions.get(data.topic_id, {}).get(data.partition_id)
        if partition is None:
            return
        for name in _REPLACEABLE_FIELDS:
            if data.get(name) is not None:
                partition[name] = data[name]
        if data.get("leader", NO_LEADER_CHANGE) != NO_LEADER_CHANGE:
            partition.leader = data.leader
            partition.leader_epoch += 1
        if "leader_recovery_state" in data:
            partition.leader_recovery_state = data.leader_recovery_state
        partition.partition_epoch += 1

    def _clear_elr(self, data: RecordFields) -> None:
        """Clear the eligible leader replicas of one topic or of all."""
        topic_name = data.topic_name
        for topic_id, partitions in self._partitions.items():
            if not topic_name or self._topic_name_by_id.get(topic_id) == topic_name:
                for row in partitions.values():
                    row.eligible_leader_replicas = row.last_known_elr = []

    # Settings.

    def _set_config(self, data: RecordFields) -> None:
        """Set a setting, or remove it if the value is null."""
        settings = self._configs.setdefault((data.resource_type, data.resource_name), {})
        settings.pop(data.name, None)
        if data.value is not None:
            settings[data.name] = data.value

    def _set_feature(self, data: RecordFields) -> None:
        """Enable a feature, or disable it at level 0."""
        self._features.pop(data.name, None)
        if data.feature_level or data.name == "kraft.version":
            self._features[data.name] = data.feature_level

    def _set_quota(self, data: RecordFields) -> None:
        """Set or remove a quota."""
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in data.entity))
        quotas = self._quotas.setdefault(entity, {})
        quotas.pop(data.key, None)
        if not data.remove:
            quotas[data.key] = data.value

    _EFFECTS: ClassVar[dict[str, Callable[[ClusterReplay, RecordFields], None]]] = {
        "FenceBrokerRecord": lambda self, data: self._set_fenced(data, True),
        "UnfenceBrokerRecord": lambda self, data: self._set_fenced(data, False),
        "BrokerRegistrationChangeRecord": _change_broker,
        "TopicRecord": _add_topic,
        "RemoveTopicRecord": _remove_topic,
        "PartitionRecord": _add_partition,
        "PartitionChangeRecord": _change_partition,
        "ClearElrRecord": _clear_elr,
        "ConfigRecord": _set_config,
        "FeatureLevelRecord": _set_feature,
        "ClientQuotaRecord": _set_quota,
    }

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for broker in self._rows_by_type[BROKER_ROW].values():
            state = STOPPING if broker.get("in_controlled_shutdown") else ACTIVE
            if broker.get("fenced", True):
                state = FENCED
            yield BROKER_ROW, {**broker, "state": state, "end_points": _format_end_points(broker)}
        for controller in self._rows_by_type[CONTROLLER_ROW].values():
            yield CONTROLLER_ROW, {**controller, "end_points": _format_end_points(controller)}
        yield from self._partition_rows()
        yield from self._setting_rows()
        for name, (type_, _) in _KEYED_RECORDS.items():
            if type_ not in (BROKER_ROW, CONTROLLER_ROW):
                for row in self._rows_by_type[type_].values():
                    yield type_, _with_symbols(message_layout(name), row)

    def _partition_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Topics, then partitions."""
        for topic_id, name in self._topic_name_by_id.items():
            n_partitions = len(self._partitions.get(topic_id, {}))
            yield TOPIC_ROW, {"topic": name, "topic_id": topic_id, "partitions": n_partitions}
        for topic_id, partitions in self._partitions.items():
            for partition, value in partitions.items():
                recovery_state = value.get("leader_recovery_state", 0)
                row = {
                    **value,
                    "topic": self._topic_name_by_id.get(topic_id, topic_id),
                    "partition": partition,
                    "leader_recovery_state": format_symbol(LEADER_RECOVERY_STATES, recovery_state),
                }
                yield PARTITION_STATE_ROW, row

    def _setting_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Features, settings, quotas."""
        for name, level in self._features.items():
            yield FEATURE_ROW, {"feature": name, "level": level}
        for (type_, resource), settings in self._configs.items():
            for name, value in settings.items():
                is_hidden = _SECRET_SETTING.search(name) is not None
                setting = {
                    "resource_type": format_symbol(CONFIG_RESOURCE_TYPES, type_),
                    "resource": resource,
                    "name": name,
                    "value": None if is_hidden else value,
                    "hidden": True if is_hidden else None,
                }
                yield CONFIG_ROW, setting
        for entity, quotas in self._quotas.items():
            for name, quota in quotas.items():
                yield QUOTA_ROW, {"entity": dict(entity), "name": name, "value": quota}


def _format_end_points(record: RecordFields) -> list[dict[str, Any]]:
    """The listeners of a node, with protocol names."""
    return [
        {
            "name": point.name,
            "host": point.host,
            "port": point.port,
            "security_protocol": format_symbol(SECURITY_PROTOCOLS, point.security_protocol),
        }
        for point in record.end_points
    ]


def _with_symbols(message_type: Any, record: RecordFields) -> dict[str, Any]:
    """The data of a record, with names instead of numbers for fields that have symbols."""
    return {
        field.name: field.symbol(record[field.name]) or record[field.name]
        for field in message_type.fields
        if field.name in record
    }
