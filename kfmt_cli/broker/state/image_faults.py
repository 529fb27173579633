"""Records of the metadata log that a broker cannot apply to its image of the cluster: it halts.

Source: `replay` of `org.apache.kafka.image.ClusterDelta`, `TopicsDelta`, `TopicDelta`, `AclsDelta`,
of `org.apache.kafka.image.loader.MetadataBatchLoader`, and the constructors of
`org.apache.kafka.metadata.BrokerRegistration`, `ControllerRegistration`, `PartitionRegistration`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.formats.message_descriptions import LEADER_RECOVERY_STATES, SECURITY_PROTOCOLS

_NO_LEADER_RECOVERY_CHANGE = -1
_ACTION_BY_BROKER_CHANGE = {
    "FenceBrokerRecord": ("fence", "id", "epoch"),
    "UnfenceBrokerRecord": ("unfence", "id", "epoch"),
    "BrokerRegistrationChangeRecord": ("change", "broker_id", "broker_epoch"),
}
_VALUES_BY_BROKER_FIELD = {"fenced": (-1, 0, 1), "in_controlled_shutdown": (0, 1)}
_JAVA_NAME_BY_FIELD = {"in_controlled_shutdown": "inControlledShutdown"}
# A directory id that a partition has while its replicas are not yet assigned to directories.
_MIGRATING_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class ImageContents:
    """What an image contains, by the keys of its records."""

    brokers: Mapping[tuple[object, ...], FieldDict]
    partitions_by_topic_id: Mapping[str, Mapping[int, FieldDict]]
    name_by_topic_id: Mapping[str, str]
    acls: Container[tuple[object, ...]]
    snapshot_topic_ids: Container[str]
    """The ids of the topics in the snapshot. A broker may still find one that was deleted since."""
    snapshot_acls: Container[tuple[object, ...]]


def find_image_fault(image: ImageContents, record_name: str, record: FieldDict) -> str | None:
    """The exception with which a broker fails to apply a record to an image, in Kafka's words; None
    if it applies it."""
    if record_name in _ACTION_BY_BROKER_CHANGE:
        return _find_broker_change_fault(image, record_name, record)
    find_fault = _FAULT_BY_RECORD.get(record_name)
    return None if find_fault is None else find_fault(image, record)


def _find_broker_change_fault(
    image: ImageContents, record_name: str, record: FieldDict
) -> str | None:
    action, id_field, epoch_field = _ACTION_BY_BROKER_CHANGE[record_name]
    broker_id, epoch = record[id_field], record[epoch_field]
    broker = image.brokers.get((broker_id,))
    if broker is None:
        return f"Tried to {action} broker {broker_id}, but that broker was not registered."
    if broker.broker_epoch != epoch:
        return (
            f"Tried to {action} broker {broker_id}, but the given epoch, {epoch}, did not match "
            f"the current broker epoch, {broker.broker_epoch}"
        )
    if record_name == "BrokerRegistrationChangeRecord":
        for field_name, known_values in _VALUES_BY_BROKER_FIELD.items():
            field_value = record.get(field_name, 0)
            if field_value not in known_values:
                java_name = _JAVA_NAME_BY_FIELD.get(field_name, field_name)
                return f"unknown value for {java_name} field: {field_value}"
    return None


def _find_broker_fault(image: ImageContents, record: FieldDict) -> str | None:
    del image
    if any(not end_point.name for end_point in record.end_points):
        return "Broker listeners must be named."
    return None


def _find_controller_fault(image: ImageContents, record: FieldDict) -> str | None:
    del image
    for end_point in record.end_points:
        if not 0 <= end_point.security_protocol < len(SECURITY_PROTOCOLS):
            return f"Unknown security protocol {end_point.security_protocol}"
    return None


def _find_topic_fault(image: ImageContents, topic_id: str) -> str | None:
    if topic_id in image.name_by_topic_id or topic_id in image.snapshot_topic_ids:
        return None
    return f"no topic has id {topic_id} (NullPointerException)"


def _find_partition_fault(image: ImageContents, record: FieldDict) -> str | None:
    return (
        _find_topic_fault(image, record.topic_id)
        or _find_directories_fault(record.replicas, record.get("directories") or ())
        or _find_recovery_fault(record.get("leader_recovery_state", 0))
    )


def _find_partition_change_fault(image: ImageContents, record: FieldDict) -> str | None:
    topic_fault = _find_topic_fault(image, record.topic_id)
    if topic_fault is not None or record.topic_id not in image.name_by_topic_id:
        return topic_fault
    partitions = image.partitions_by_topic_id.get(record.topic_id, {})
    partition = partitions.get(record.partition_id)
    if partition is None:
        return f"Unable to find partition {record.topic_id}:{record.partition_id}"
    replicas, directories = record.get("replicas"), record.get("directories")
    directories_fault = None
    if replicas is not None and directories is not None:
        directories_fault = _find_directories_fault(replicas, directories)
    new_replicas = partition.replicas if replicas is None else replicas
    new_directories = (partition.get("directories") if directories is None else directories) or ()
    if set(new_directories) != {_MIGRATING_DIRECTORY}:
        directories_fault = directories_fault or _find_directories_fault(
            new_replicas, new_directories
        )
    recovery_state = record.get("leader_recovery_state", _NO_LEADER_RECOVERY_CHANGE)
    return directories_fault or (
        None
        if recovery_state == _NO_LEADER_RECOVERY_CHANGE
        else _find_recovery_fault(recovery_state)
    )


def _find_directories_fault(replicas: Sequence[int], directories: Sequence[str]) -> str | None:
    if len(directories) in (0, len(replicas)):
        return None
    return (
        "The lengths for replicas and directories do not match: "
        f"{len(replicas)} and {len(directories)}"
    )


def _find_recovery_fault(recovery_state: int) -> str | None:
    if 0 <= recovery_state < len(LEADER_RECOVERY_STATES):
        return None
    return f"Value {recovery_state} is not a valid leader recovery state"


def _find_topic_removal_fault(image: ImageContents, record: FieldDict) -> str | None:
    if _find_topic_fault(image, record.topic_id) is None:
        return None
    return f"Unable to delete topic with id {record.topic_id}: no such topic found."


def _find_elr_fault(image: ImageContents, record: FieldDict) -> str | None:
    topic_name = record.topic_name
    if not topic_name or topic_name in image.name_by_topic_id.values():
        return None
    return f"Unable to clear elr for topic with name {topic_name}: no such topic found."


def _find_acl_removal_fault(image: ImageContents, record: FieldDict) -> str | None:
    if (record.id,) in image.acls or (record.id,) in image.snapshot_acls:
        return None
    return f"Failed to find existing ACL with ID {record.id} in either image or changes"


_FAULT_BY_RECORD: dict[str, Callable[[ImageContents, Any], str | None]] = {
    "RegisterBrokerRecord": _find_broker_fault,
    "RegisterControllerRecord": _find_controller_fault,
    "PartitionRecord": _find_partition_fault,
    "PartitionChangeRecord": _find_partition_change_fault,
    "RemoveTopicRecord": _find_topic_removal_fault,
    "ClearElrRecord": _find_elr_fault,
    "RemoveAccessControlEntryRecord": _find_acl_removal_fault,
}
