"""__cluster_metadata: the metadata of a KRaft cluster.

Source: `org.apache.kafka.image.MetadataDelta` and the deltas that it passes records to, and
`org.apache.kafka.metadata.PartitionRegistration`. Records between the begin and end records of a
transaction take effect together (KIP-868).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kfmt_cli.broker.state.image_faults import ImageContents, find_image_fault
from kfmt_cli.broker.state.replay import LoadFailure, RecordFields, TopicReplay
from kfmt_cli.core.credentials import redact_credentials
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
from kfmt_cli.formats.settings import is_known_harmless, is_password
from kfmt_cli.log.record_stream import StreamedRecord
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

KRAFT_VERSION_CONTROL_TYPE = CONTROL_TYPES.index("KRAFT_VERSION")
_SNAPSHOT_HEADER_CONTROL_TYPE = CONTROL_TYPES.index("SNAPSHOT_HEADER")
_SNAPSHOT_FOOTER_CONTROL_TYPE = CONTROL_TYPES.index("SNAPSHOT_FOOTER")
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
_REMOVED_TYPE_BY_REMOVAL = {
    "UnregisterBrokerRecord": "RegisterBrokerRecord",
    "UnregisterControllerRecord": "RegisterControllerRecord",
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
_TOPIC_RESOURCE_TYPE = 2


class ClusterReplay(TopicReplay):
    """Brokers, topics, settings and access rights of a cluster.

    At its load_failure, a broker halts.
    """

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
        self._rows_by_type = {row_type: {} for row_type, _ in _KEYED_RECORDS.values()}
        self._topic_name_by_id: dict[str, str] = {}  # names, by id
        self._partitions_by_topic_id: dict[str, dict[int, RecordFields]] = {}  # by topic id
        self._settings_by_resource: dict[tuple[int, str], dict[str, str]] = {}
        self._level_by_feature: dict[str, int] = {}
        self._quotas_by_entity: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self._pending_records: list[tuple[int, str, RecordFields]] | None = None
        self.load_failure = None
        self._n_snapshot_records: int | None = None  # None outside a snapshot
        self._snapshot_topic_ids: frozenset[str] = frozenset()
        self._snapshot_acls: frozenset[tuple[object, ...]] = frozenset()

    def apply_record(self, record: StreamedRecord) -> None:
        if record.control_type is not None:
            self._apply_control(record)
            return
        offset = record.offset
        if self._n_snapshot_records is not None:
            offset = self._n_snapshot_records
            self._n_snapshot_records += 1
        decoded_value = self.decoder.decode_value(record.key, record.value)
        record_fields = self.extract_fields(record, decoded_value)
        if record_fields is None or decoded_value is None or decoded_value.message_name is None:
            return
        record_name = decoded_value.message_name
        is_transaction_open = self._pending_records is not None
        if record_name == "BeginTransactionRecord":
            if is_transaction_open:
                self._note_fault(
                    offset, record_name, f"Encountered {record_name} while already in a transaction"
                )
            self._pending_records = []
        elif record_name in ("EndTransactionRecord", "AbortTransactionRecord"):
            if not is_transaction_open:
                reason = f"Encountered {record_name} without having seen a BeginTransactionRecord"
                self._note_fault(offset, record_name, reason)
            transaction_records, self._pending_records = self._pending_records or [], None
            for pending_record in (
                transaction_records if record_name == "EndTransactionRecord" else ()
            ):
                self._apply_data_record(*pending_record)
        elif self._pending_records is not None:
            self._pending_records.append((offset, record_name, record_fields))
        else:
            self._apply_data_record(offset, record_name, record_fields)

    def _note_fault(self, offset: int, record_name: str, reason: str) -> None:
        """Note that a broker cannot apply a record, if it applied all before."""
        if self.load_failure is None:
            is_in_snapshot = self._n_snapshot_records is not None
            self.load_failure = LoadFailure(offset, record_name, reason, is_in_snapshot)

    def _apply_control(self, record: StreamedRecord) -> None:
        if record.control_type == _SNAPSHOT_HEADER_CONTROL_TYPE:
            self._n_snapshot_records = 0
        elif record.control_type == _SNAPSHOT_FOOTER_CONTROL_TYPE:
            self._n_snapshot_records = None
            self._snapshot_topic_ids = frozenset(self._topic_name_by_id)
            self._snapshot_acls = frozenset(self._rows_by_type[ACL_ROW])
        if record.control_type != KRAFT_VERSION_CONTROL_TYPE or record.value is None:
            return
        kraft_message = KRAFT_LAYOUT_BY_TYPE[KRAFT_VERSION_CONTROL_TYPE]
        control_layout = find_version_prefixed_layout(
            kraft_message, record.value, 0, len(record.value)
        )
        if control_layout is not None:
            control_values = read_message(control_layout, record.value, 0, len(record.value)).values
            if "kraft_version" in control_values:
                self._set_feature_level(
                    RecordFields(name="kraft.version", feature_level=control_values.kraft_version)
                )

    def _apply_data_record(
        self, offset: int, record_name: str, record_fields: RecordFields
    ) -> None:
        """Apply a record; records without an effect on the state are ignored."""
        fault = find_image_fault(self._image_contents, record_name, record_fields)
        if fault is not None:
            self._note_fault(offset, record_name, fault)
        apply_effect = self._EFFECT_BY_RECORD.get(record_name)
        if apply_effect is not None:
            apply_effect(self, record_fields)
        elif (
            record_type := _REMOVED_TYPE_BY_REMOVAL.get(record_name, record_name)
        ) in _KEYED_RECORDS:
            row_type, key_fields = _KEYED_RECORDS[record_type]
            row_key = tuple(record_fields[key_field] for key_field in key_fields)
            if record_type == record_name:
                self._rows_by_type[row_type][row_key] = record_fields
            else:
                self._rows_by_type[row_type].pop(row_key, None)

    @property
    def _image_contents(self) -> ImageContents:
        return ImageContents(
            self._rows_by_type[BROKER_ROW],
            self._partitions_by_topic_id,
            self._topic_name_by_id,
            self._rows_by_type[ACL_ROW],
            self._snapshot_topic_ids,
            self._snapshot_acls,
        )

    # Brokers.

    def _set_fenced(self, record_fields: RecordFields, is_fenced: bool) -> None:
        if (broker := self._rows_by_type[BROKER_ROW].get((record_fields.id,))) is not None:
            broker.fenced = is_fenced

    def _change_broker(self, record_fields: RecordFields) -> None:
        broker = self._rows_by_type[BROKER_ROW].get((record_fields.broker_id,))
        if broker is None:
            return
        if record_fields.get("fenced"):
            broker.fenced = record_fields.fenced > 0
        if record_fields.get("in_controlled_shutdown"):
            broker.in_controlled_shutdown = True
        if record_fields.get("log_dirs"):
            broker.log_dirs = record_fields.log_dirs
        if record_fields.get("cordoned_log_dirs") is not None:
            broker.cordoned_log_dirs = record_fields.cordoned_log_dirs

    # Topics and partitions.

    def _add_topic(self, record_fields: RecordFields) -> None:
        self._topic_name_by_id[record_fields.topic_id] = record_fields.name

    def _remove_topic(self, record_fields: RecordFields) -> None:
        """Delete a topic and its settings."""
        self._partitions_by_topic_id.pop(record_fields.topic_id, None)
        topic_name = self._topic_name_by_id.pop(record_fields.topic_id, None)
        if topic_name is not None:
            self._settings_by_resource.pop((_TOPIC_RESOURCE_TYPE, topic_name), None)

    def _add_partition(self, record_fields: RecordFields) -> None:
        self._partitions_by_topic_id.setdefault(record_fields.topic_id, {})[
            record_fields.partition_id
        ] = RecordFields(record_fields)

    def _change_partition(self, record_fields: RecordFields) -> None:
        """Change some fields of a partition; naming a leader begins a new leader epoch."""
        partition = self._partitions_by_topic_id.get(record_fields.topic_id, {}).get(
            record_fields.partition_id
        )
        if partition is None:
            return
        for field_name in _REPLACEABLE_FIELDS:
            if record_fields.get(field_name) is not None:
                partition[field_name] = record_fields[field_name]
        if record_fields.get("leader", NO_LEADER_CHANGE) != NO_LEADER_CHANGE:
            partition.leader = record_fields.leader
            partition.leader_epoch += 1
        if "leader_recovery_state" in record_fields:
            partition.leader_recovery_state = record_fields.leader_recovery_state
        partition.partition_epoch += 1

    def _clear_elr(self, record_fields: RecordFields) -> None:
        """Clear the eligible leader replicas of one topic or of all."""
        topic_name = record_fields.topic_name
        for topic_id, partitions in self._partitions_by_topic_id.items():
            if not topic_name or self._topic_name_by_id.get(topic_id) == topic_name:
                for partition_fields in partitions.values():
                    partition_fields.eligible_leader_replicas = partition_fields.last_known_elr = []

    # Settings.

    def _set_config(self, record_fields: RecordFields) -> None:
        """Set a setting, or remove it if the value is null."""
        resource_settings = self._settings_by_resource.setdefault(
            (record_fields.resource_type, record_fields.resource_name), {}
        )
        resource_settings.pop(record_fields.name, None)
        if record_fields.value is not None:
            resource_settings[record_fields.name] = record_fields.value

    def _set_feature_level(self, record_fields: RecordFields) -> None:
        """Enable a feature, or disable it at level 0."""
        self._level_by_feature.pop(record_fields.name, None)
        if record_fields.feature_level or record_fields.name == "kraft.version":
            self._level_by_feature[record_fields.name] = record_fields.feature_level

    def _set_quota(self, record_fields: RecordFields) -> None:
        """Set or remove a quota."""
        entity = tuple(
            sorted(
                (entity_part.entity_type, entity_part.entity_name)
                for entity_part in record_fields.entity
            )
        )
        entity_quotas = self._quotas_by_entity.setdefault(entity, {})
        entity_quotas.pop(record_fields.key, None)
        if not record_fields.remove:
            entity_quotas[record_fields.key] = record_fields.value

    _EFFECT_BY_RECORD: ClassVar[dict[str, Callable[[ClusterReplay, RecordFields], None]]] = {
        "FenceBrokerRecord": lambda self, data: self._set_fenced(data, True),
        "UnfenceBrokerRecord": lambda self, data: self._set_fenced(data, False),
        "BrokerRegistrationChangeRecord": _change_broker,
        "TopicRecord": _add_topic,
        "RemoveTopicRecord": _remove_topic,
        "PartitionRecord": _add_partition,
        "PartitionChangeRecord": _change_partition,
        "ClearElrRecord": _clear_elr,
        "ConfigRecord": _set_config,
        "FeatureLevelRecord": _set_feature_level,
        "ClientQuotaRecord": _set_quota,
    }

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for broker in self._rows_by_type[BROKER_ROW].values():
            broker_state = STOPPING if broker.get("in_controlled_shutdown") else ACTIVE
            if broker.get("fenced", True):
                broker_state = FENCED
            yield (
                BROKER_ROW,
                {**broker, "state": broker_state, "end_points": _end_point_members(broker)},
            )
        for controller in self._rows_by_type[CONTROLLER_ROW].values():
            yield CONTROLLER_ROW, {**controller, "end_points": _end_point_members(controller)}
        yield from self._iter_topic_and_partition_rows()
        yield from self._iter_setting_rows()
        for record_name, (row_type, _) in _KEYED_RECORDS.items():
            if row_type not in (BROKER_ROW, CONTROLLER_ROW):
                for row in self._rows_by_type[row_type].values():
                    yield row_type, _fields_with_symbols(message_layout(record_name), row)

    def _iter_topic_and_partition_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Topics, then partitions."""
        for topic_id, topic_name in self._topic_name_by_id.items():
            n_partitions = len(self._partitions_by_topic_id.get(topic_id, {}))
            yield TOPIC_ROW, {"topic": topic_name, "topic_id": topic_id, "partitions": n_partitions}
        for topic_id, partitions in self._partitions_by_topic_id.items():
            for partition, partition_fields in partitions.items():
                recovery_state = partition_fields.get("leader_recovery_state", 0)
                partition_row = {
                    **partition_fields,
                    "topic": self._topic_name_by_id.get(topic_id, topic_id),
                    "partition": partition,
                    "leader_recovery_state": format_symbol(LEADER_RECOVERY_STATES, recovery_state),
                }
                yield PARTITION_STATE_ROW, partition_row

    def _iter_setting_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Features, settings, quotas."""
        for name, feature_level in self._level_by_feature.items():
            yield FEATURE_ROW, {"feature": name, "level": feature_level}
        for (resource_type, resource), resource_settings in self._settings_by_resource.items():
            type_name = str(format_symbol(CONFIG_RESOURCE_TYPES, resource_type))
            for name, setting_value in resource_settings.items():
                is_hidden = is_password(name) or not (
                    self.shows_secret_values or is_known_harmless(type_name, name)
                )
                setting_row = {
                    "resource_type": type_name,
                    "resource": resource,
                    "name": name,
                    "value": None if is_hidden else redact_credentials(setting_value),
                    "hidden": True if is_hidden else None,
                }
                yield CONFIG_ROW, setting_row
        for entity, quotas in self._quotas_by_entity.items():
            for name, quota in quotas.items():
                yield QUOTA_ROW, {"entity": dict(entity), "name": name, "value": quota}


def _end_point_members(registration: RecordFields) -> list[dict[str, Any]]:
    """The listeners of a node, with protocol names."""
    return [
        {
            "name": end_point.name,
            "host": end_point.host,
            "port": end_point.port,
            "security_protocol": format_symbol(SECURITY_PROTOCOLS, end_point.security_protocol),
        }
        for end_point in registration.end_points
    ]


def _fields_with_symbols(record_layout: Any, record_fields: RecordFields) -> dict[str, Any]:
    """The data of a record, with names instead of numbers for fields that have symbols."""
    return {
        field.name: field.find_symbol(record_fields[field.name]) or record_fields[field.name]
        for field in record_layout.fields
        if field.name in record_fields
    }
