"""__consumer_offsets: groups, their members and their committed offsets.

Source: `org.apache.kafka.coordinator.group.GroupMetadataManager`, `OffsetMetadataManager`,
`kafka.coordinator.group.GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import Data, LatestOfKeys
from kfmt_cli.core.layout.messages import open_held
from kfmt_cli.formats.kafka_messages import message
from kfmt_cli.rows.types.state_types import COMMITTED_OFFSET, GROUP, MEMBER, StateType
from kfmt_cli.topics.streams_commit import stream_time

EMPTY, STABLE, ASSIGNING, RECONCILING = "Empty", "Stable", "Assigning", "Reconciling"
NOT_READY = "NotReady"
# The groups of newer protocols: the prefix of their messages' names, and their protocol.
NEWER = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
_ASSIGNMENT = message("GroupMetadataValue").field("members")
_SETTLED = {"ConsumerGroup": 0, "StreamsGroup": 1}  # `MemberState.STABLE` of each protocol


class Groups(LatestOfKeys):
    """Groups of every protocol, as in a coordinator that has loaded the topic."""

    topic = "__consumer_offsets"
    types = (GROUP, MEMBER, COMMITTED_OFFSET)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        classic: dict[str, Data] = {}
        newer: dict[tuple[str, str], dict[str, list[tuple[Data, Data]]]] = {}
        committing: dict[str, None] = {}
        for name, key, value in self.said():
            message = name.removesuffix("Key")
            if message in ("OffsetCommit", "LegacyOffsetCommit"):
                committing[key.group] = None
                time = stream_time(value.metadata)
                yield COMMITTED_OFFSET, {**key, **value, "stream_time": time}
            elif message == "GroupMetadata":
                classic[key.group] = value
            else:
                for prefix in NEWER:
                    if message.startswith(prefix):
                        parts = newer.setdefault((prefix, key.group_id), {})
                        parts.setdefault(message.removeprefix(prefix), []).append((key, value))
        for group, members in classic.items():
            yield from _classic(group, members)
        for (prefix, group), parts in newer.items():
            if "Metadata" in parts:
                yield from _newer(prefix, group, parts)
        known = {*classic, *(group for (_, group), parts in newer.items() if "Metadata" in parts)}
        for group in committing:
            if group not in known:
                # A client that only commits has a group without members.
                yield GROUP, {"group": group, "state": EMPTY, "members": 0, "group_type": "classic"}


def _classic(group: str, metadata: Data) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
    members = metadata.members
    yield (
        GROUP,
        {
            **metadata,
            "group": group,
            "state": STABLE if members else EMPTY,
            "members": len(members),
            "group_type": "classic",
        },
    )
    for member in members:
        yield (
            MEMBER,
            {
                **member,
                "group": group,
                "instance_id": member.get("group_instance_id"),
                "assignment": _assigned(metadata, member),
            },
        )


def _assigned(group: Data, member: Data) -> Any:
    """The partitions of a member of a classic consumer group, null if unknown."""
    assert hasattr(_ASSIGNMENT.type, "of")
    held = next(field for field in _ASSIGNMENT.type.of.fields if field.name == "assignment").holds
    opened = open_held(held, member.assignment, group)
    if opened is None:
        return None
    return [
        {"topic": assigned.topic, "partitions": assigned.partitions}
        for assigned in opened.assigned_partitions
    ]


def _newer(
    prefix: str, group: str, parts: dict[str, list[tuple[Data, Data]]]
) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
    """A group that has separate records for its members, assignments and epochs."""
    epoch = parts["Metadata"][0][1].epoch
    members = {key.member_id: value for key, value in parts.get("MemberMetadata", ())}
    current = {key.member_id: value for key, value in parts.get("CurrentMemberAssignment", ())}
    targets = parts.get("TargetAssignmentMetadata", ())
    target = next((target.assignment_epoch for _, target in targets), 0)
    yield (
        GROUP,
        {
            "group": group,
            "state": _state(
                prefix, epoch, target, parts, [current.get(member) for member in members]
            ),
            "protocol_type": NEWER[prefix],
            "generation": epoch,
            "members": len(members),
            "group_type": NEWER[prefix],
        },
    )
    for member, described in members.items():
        has = current.get(member, Data())
        yield (
            MEMBER,
            {
                **described,
                "group": group,
                "member_id": member,
                "member_epoch": has.get("member_epoch"),
                "assignment": has.get("assigned_partitions", has.get("active_tasks")),
            },
        )


def _state(
    prefix: str,
    epoch: int,
    target: int,
    parts: Mapping[str, list[tuple[Data, Data]]],
    current: list[Data | None],
) -> str:
    """The state of a group of a newer protocol."""
    if not current:
        return EMPTY
    if prefix == "ShareGroup":
        return STABLE
    if prefix == "StreamsGroup" and not _has_topology(parts):
        return NOT_READY
    if epoch > target:
        return ASSIGNING
    settled = all(
        assignment is not None
        and assignment.state == _SETTLED[prefix]
        and assignment.member_epoch == target
        for assignment in current
    )
    return STABLE if settled else RECONCILING


def _has_topology(parts: Mapping[str, list[tuple[Data, Data]]]) -> bool:
    """Whether a streams group has a topology, and has not validated another one; Kafka 4.1
    does not say which."""
    epochs = [topology.epoch for _, topology in parts.get("Topology", ())]
    validated = parts["Metadata"][0][1].get("validated_topology_epoch", -1)
    return bool(epochs) and validated in (-1, *epochs)
