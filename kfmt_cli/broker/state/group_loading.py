"""Groups while a group coordinator loads them: which records it refuses, by version.

Source: `replay` of `org.apache.kafka.coordinator.group.GroupMetadataManager`, and
`ConsumerGroup.addPartitionEpochs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.core.layout.field_dict import FieldDict

CLASSIC = "classic"
_LEFT_EPOCH = -1
# The protocol of the records of each prefix, and what Kafka calls its groups.
_PROTOCOL_BY_PREFIX = {
    "ConsumerGroup": "consumer",
    "ShareGroup": "share",
    "StreamsGroup": "streams",
}


@dataclass(frozen=True, slots=True)
class GroupRules:
    """How a version's group coordinator loads groups."""

    known_types: frozenset[int]
    """The types of records that it does not ignore."""
    refused_types: frozenset[int] = frozenset()
    """The types of records that it can read, but not load."""
    checks_value_version: bool = True
    legacy_value_version: int = 4
    """The last version of the value of an offset commit of type 0."""
    strict_protocols: frozenset[str] = frozenset()
    """The protocols for which it rejects tombstones without a group or a member, and records before
    the one that creates them."""
    protocols_after_offsets: frozenset[str] = frozenset({"consumer"})
    """The protocols that a group can have if only its offsets were loaded before."""
    allows_later_owner: bool = False
    """Whether a partition can pass to a member with a later epoch, without the release of the
    first."""


_TYPES_39 = frozenset(range(9))
_TYPES_40 = frozenset(range(17))
_TYPES_41 = frozenset({*range(9), *range(10, 18), *range(19, 24)})
RULES_BY_RELEASE = {
    (3, 9): GroupRules(
        _TYPES_39,
        checks_value_version=False,
        strict_protocols=frozenset({"consumer"}),
        protocols_after_offsets=frozenset(),
    ),
    (4, 0): GroupRules(
        _TYPES_40, refused_types=frozenset({15}), strict_protocols=frozenset({"share"})
    ),
    (4, 1): GroupRules(_TYPES_41, legacy_value_version=0),
    (4, 2): GroupRules(_TYPES_41, legacy_value_version=0, allows_later_owner=True),
    (4, 3): GroupRules(
        _TYPES_41,
        legacy_value_version=0,
        protocols_after_offsets=frozenset({"consumer", "streams"}),
        allows_later_owner=True,
    ),
}
"""The rules from each release on."""


def find_group_rules(release: tuple[int, int]) -> GroupRules:
    """The rules of a release."""
    return RULES_BY_RELEASE[max(known for known in RULES_BY_RELEASE if known <= release)]


@dataclass(slots=True)
class _Group:
    protocol: str
    is_simple: bool = False
    """Whether only its offsets are known."""
    assignment_epoch: int = 0
    epoch_by_member: dict[str, int] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    """The members with a target assignment."""
    partitions_by_member: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    epoch_by_partition: dict[tuple[str, int], int] = field(default_factory=dict)


class _RefusedError(Exception):
    """The coordinator cannot load a record."""


class _IgnoredError(Exception):
    """The coordinator ignores a tombstone."""


class LoadedGroups:
    """The groups that a coordinator has loaded."""

    def __init__(self, rules: GroupRules) -> None:
        self._rules = rules
        self._group_by_id: dict[str, _Group] = {}

    def load_commit(self, group_id: str) -> None:
        """Load an offset commit, which creates a group if there is none."""
        if group_id not in self._group_by_id:
            self._group_by_id[group_id] = _Group(CLASSIC, is_simple=True)

    def load_record(self, name: str, key: FieldDict, value: FieldDict | None) -> str | None:
        """Load a record of a group; returns the exception in Kafka's words, None if it is loaded.
        name: the name of its message, without Key or Value."""
        if name == "GroupMetadata":
            return self._load_classic(key.group, value)
        prefix = next(prefix for prefix in _PROTOCOL_BY_PREFIX if name.startswith(prefix))
        try:
            load = getattr(self, f"_load_{_RECORD_KINDS.get(name.removeprefix(prefix), 'other')}")
            load(_PROTOCOL_BY_PREFIX[prefix], key, value)
        except _RefusedError as error:
            return str(error)
        except _IgnoredError:
            pass
        return None

    def _load_classic(self, group_id: str, value: FieldDict | None) -> str | None:
        if value is None:
            self._group_by_id.pop(group_id, None)
            return None
        instance_ids = [
            member.get("group_instance_id")
            for member in value.members
            if member.get("group_instance_id") is not None
        ]
        repeated = next((i for i in instance_ids if instance_ids.count(i) > 1), None)
        if repeated is not None:
            return (
                f"Static member with groupInstanceId={repeated} cannot be added to group "
                f"{group_id} since it is already a member."
            )
        is_simple = not value.protocol_type and not value.members
        self._group_by_id[group_id] = _Group(CLASSIC, is_simple)
        return None

    def _find_group(self, protocol: str, group_id: str, can_create: bool) -> _Group:
        group, rules = self._group_by_id.get(group_id), self._rules
        if group is None and not can_create:
            if protocol in rules.strict_protocols:
                raise _RefusedError(f"{protocol.capitalize()} group {group_id} not found.")
            raise _IgnoredError
        if group is not None and group.protocol == protocol:
            return group
        if group is not None and not (
            group.is_simple and protocol in rules.protocols_after_offsets
        ):
            raise _RefusedError(f"Group {group_id} is not a {protocol} group")
        self._group_by_id[group_id] = _Group(protocol)
        return self._group_by_id[group_id]

    def _find_member(self, protocol: str, group: _Group, key: FieldDict, can_create: bool) -> int:
        """The epoch of a member."""
        if key.member_id in group.epoch_by_member:
            return group.epoch_by_member[key.member_id]
        if can_create:
            return 0
        if protocol in self._rules.strict_protocols:
            raise _RefusedError(f"Member {key.member_id} is not a member of group {key.group_id}.")
        raise _IgnoredError

    def _load_metadata(self, protocol: str, key: FieldDict, value: FieldDict | None) -> None:
        group = self._find_group(protocol, key.group_id, value is not None)
        if value is not None:
            return
        deletes = f"Received a tombstone record to delete group {key.group_id}"
        if group.epoch_by_member:
            n_members = len(group.epoch_by_member)
            raise _RefusedError(f"{deletes} but the group still has {n_members} members.")
        if group.targets and protocol != "streams":
            raise _RefusedError(
                f"{deletes} but the target assignment still has {len(group.targets)} members."
            )
        if group.assignment_epoch != _LEFT_EPOCH:
            raise _RefusedError(
                f"{deletes} but target assignment epoch in invalid."
                if protocol == "share"
                else f"{deletes} but did not receive {protocol.capitalize()}Group"
                "TargetAssignmentMetadataValue tombstone."
            )
        del self._group_by_id[key.group_id]

    def _load_member(self, protocol: str, key: FieldDict, value: FieldDict | None) -> None:
        group = self._find_group(protocol, key.group_id, value is not None)
        epoch = self._find_member(protocol, group, key, value is not None)
        if value is not None:
            group.epoch_by_member[key.member_id] = epoch
            self._own(group, key.member_id, group.partitions_by_member.get(key.member_id, []))
            return
        deletes = f"Received a tombstone record to delete member {key.member_id}"
        is_share = protocol == "share"
        message = f"{protocol.capitalize()}GroupCurrentMemberAssignmentValue"
        if epoch != _LEFT_EPOCH:
            raise _RefusedError(
                f"{deletes} with invalid leave group epoch."
                if is_share
                else f"{deletes} but did not receive {message} tombstone."
            )
        message = f"{protocol.capitalize()}GroupTargetAssignmentMetadataValue"
        if key.member_id in group.targets:
            raise _RefusedError(
                f"{deletes} but member exists in target assignment."
                if is_share
                else f"{deletes} but did not receive {message} tombstone."
            )
        self._release(group, key.member_id)
        del group.epoch_by_member[key.member_id]

    def _load_target(self, protocol: str, key: FieldDict, value: FieldDict | None) -> None:
        group = self._find_group(protocol, key.group_id, self._creates(protocol, value))
        (group.targets.discard if value is None else group.targets.add)(key.member_id)

    def _load_targets(self, protocol: str, key: FieldDict, value: FieldDict | None) -> None:
        group = self._find_group(protocol, key.group_id, self._creates(protocol, value))
        if value is None and group.targets:
            raise _RefusedError(
                f"Received a tombstone record to delete target assignment of {key.group_id} but "
                f"the assignment still has {len(group.targets)} members."
            )
        group.assignment_epoch = _LEFT_EPOCH if value is None else value.assignment_epoch

    def _load_assignment(self, protocol: str, key: FieldDict, value: FieldDict | None) -> None:
        can_create = self._creates(protocol, value)
        group = self._find_group(protocol, key.group_id, can_create)
        self._find_member(protocol, group, key, can_create)
        self._release(group, key.member_id)
        if value is None:
            group.epoch_by_member[key.member_id] = _LEFT_EPOCH
            return
        group.epoch_by_member[key.member_id] = value.member_epoch
        if protocol == "consumer":
            partitions = [
                (topic.topic_id, partition)
                for topics in (value.assigned_partitions, value.partitions_pending_revocation)
                for topic in topics
                for partition in topic.partitions
            ]
            self._own(group, key.member_id, partitions)

    def _load_other(self, protocol: str, key: FieldDict, value: FieldDict | None) -> None:
        self._find_group(protocol, key.group_id, self._creates(protocol, value))

    def _creates(self, protocol: str, value: FieldDict | None) -> bool:
        """Whether a record that is not about a group or a member itself can create it."""
        return value is not None and protocol not in self._rules.strict_protocols

    @staticmethod
    def _release(group: _Group, member_id: str) -> None:
        epoch = group.epoch_by_member.get(member_id)
        for partition in group.partitions_by_member.pop(member_id, ()):
            if group.epoch_by_partition.get(partition) == epoch:
                del group.epoch_by_partition[partition]

    def _own(self, group: _Group, member_id: str, partitions: list[tuple[str, int]]) -> None:
        """Note that a member owns partitions at its epoch."""
        self._release(group, member_id)
        epoch = group.epoch_by_member[member_id]
        for topic_id, partition in partitions:
            owner_epoch = group.epoch_by_partition.get((topic_id, partition))
            is_owned = owner_epoch is not None
            if self._rules.allows_later_owner:
                is_owned = owner_epoch is not None and owner_epoch >= epoch
            if is_owned:
                raise _RefusedError(
                    f"Cannot set the epoch of {topic_id}-{partition} to {epoch} because the "
                    f"partition is still owned at epoch {owner_epoch}"
                )
            group.epoch_by_partition[topic_id, partition] = epoch
        group.partitions_by_member[member_id] = partitions


_RECORD_KINDS = {
    "Metadata": "metadata",
    "MemberMetadata": "member",
    "TargetAssignmentMember": "target",
    "TargetAssignmentMetadata": "targets",
    "CurrentMemberAssignment": "assignment",
}
