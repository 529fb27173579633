"""__consumer_offsets: groups, their members and their committed offsets.

Source: `org.apache.kafka.coordinator.group.GroupMetadataManager`, `OffsetMetadataManager`,
`kafka.coordinator.group.GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import CompactedTopicReplay, RecordFields
from kfmt_cli.core.layout.messages import read_embedded_message
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.rows.types.state_rows import COMMITTED_OFFSET_ROW, GROUP_ROW, MEMBER_ROW, StateType
from kfmt_cli.topics.streams_commit import parse_stream_time

EMPTY, STABLE, ASSIGNING, RECONCILING = "Empty", "Stable", "Assigning", "Reconciling"
NOT_READY = "NotReady"
# The groups of newer protocols: the prefix of their messages' names, and their protocol.
PROTOCOL_BY_PREFIX = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
_CLASSIC_MEMBERS_FIELD = message_layout("GroupMetadataValue").field("members")
# `MemberState.STABLE` of each protocol.
_STABLE_MEMBER_STATE_BY_PREFIX = {
    "ConsumerGroup": 0,
    "StreamsGroup": 1,
}


class GroupsReplay(CompactedTopicReplay):
    """Groups of every protocol, as in a coordinator that has loaded the topic."""

    topic = "__consumer_offsets"
    row_types = (GROUP_ROW, MEMBER_ROW, COMMITTED_OFFSET_ROW)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        classic_groups: dict[str, RecordFields] = {}
        newer_groups: dict[tuple[str, str], dict[str, list[tuple[RecordFields, RecordFields]]]] = {}
        committing_groups: dict[str, None] = {}
        for key_name, key_fields, value_fields in self.iter_current_records():
            message_name = key_name.removesuffix("Key")
            if message_name in ("OffsetCommit", "LegacyOffsetCommit"):
                committing_groups[key_fields.group] = None
                stream_time = parse_stream_time(value_fields.metadata)
                yield (
                    COMMITTED_OFFSET_ROW,
                    {**key_fields, **value_fields, "stream_time": stream_time},
                )
            elif message_name == "GroupMetadata":
                classic_groups[key_fields.group] = value_fields
            else:
                for protocol_prefix in PROTOCOL_BY_PREFIX:
                    if message_name.startswith(protocol_prefix):
                        records_by_kind = newer_groups.setdefault(
                            (protocol_prefix, key_fields.group_id), {}
                        )
                        records_by_kind.setdefault(
                            message_name.removeprefix(protocol_prefix), []
                        ).append((key_fields, value_fields))
        for group, group_metadata in classic_groups.items():
            yield from self._with_load_error(_iter_classic_rows(group, group_metadata))
        for (protocol_prefix, group), records_by_kind in newer_groups.items():
            if "Metadata" in records_by_kind:
                rows = _iter_newer_rows(protocol_prefix, group, records_by_kind)
                yield from self._with_load_error(rows)
        groups_with_metadata = {
            *classic_groups,
            *(
                group
                for (_, group), records_by_type in newer_groups.items()
                if "Metadata" in records_by_type
            ),
        }
        for group in committing_groups:
            if group not in groups_with_metadata:
                # A client that only commits has a group without members.
                group_row = {"group": group, "state": EMPTY, "members": 0, "group_type": "classic"}
                yield from self._with_load_error([(GROUP_ROW, group_row)])

    def _with_load_error(
        self, rows: Iterable[tuple[StateType, Mapping[str, Any]]]
    ) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Rows of a group, with the reason why it is not served."""
        for row_type, row_values in rows:
            is_group = row_type is GROUP_ROW
            yield (
                row_type,
                {**row_values, "load_error": self.load_error} if is_group else row_values,
            )


def _iter_classic_rows(
    group: str, group_metadata: RecordFields
) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
    members = group_metadata.members
    yield (
        GROUP_ROW,
        {
            **group_metadata,
            "group": group,
            "state": STABLE if members else EMPTY,
            "members": len(members),
            "group_type": "classic",
        },
    )
    for member in members:
        yield (
            MEMBER_ROW,
            {
                **member,
                "group": group,
                "instance_id": member.get("group_instance_id"),
                "assignment": _decode_classic_assignment(group_metadata, member),
            },
        )


def _decode_classic_assignment(group_metadata: RecordFields, member: RecordFields) -> Any:
    """The partitions of a member of a classic consumer group, null if unknown."""
    assert hasattr(_CLASSIC_MEMBERS_FIELD.type, "element_type")
    embedded_message = next(
        field
        for field in _CLASSIC_MEMBERS_FIELD.type.element_type.fields
        if field.name == "assignment"
    ).embedded_message
    decoded_assignment = read_embedded_message(embedded_message, member.assignment, group_metadata)
    if decoded_assignment is None:
        return None
    return [
        {"topic": topic_assignment.topic, "partitions": topic_assignment.partitions}
        for topic_assignment in decoded_assignment.assigned_partitions
    ]


def _iter_newer_rows(
    protocol_prefix: str,
    group: str,
    records_by_kind: dict[str, list[tuple[RecordFields, RecordFields]]],
) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
    """A group that has separate records for its members, assignments and epochs."""
    group_epoch = records_by_kind["Metadata"][0][1].epoch
    metadata_by_member = {
        key.member_id: member_fields
        for key, member_fields in records_by_kind.get("MemberMetadata", ())
    }
    assignment_by_member = {
        key.member_id: member_fields
        for key, member_fields in records_by_kind.get("CurrentMemberAssignment", ())
    }
    target_records = records_by_kind.get("TargetAssignmentMetadata", ())
    assignment_epoch = next(
        (target_assignment.assignment_epoch for _, target_assignment in target_records), 0
    )
    yield (
        GROUP_ROW,
        {
            "group": group,
            "state": _group_state(
                protocol_prefix,
                group_epoch,
                assignment_epoch,
                records_by_kind,
                [assignment_by_member.get(member) for member in metadata_by_member],
            ),
            "protocol_type": PROTOCOL_BY_PREFIX[protocol_prefix],
            "generation": group_epoch,
            "members": len(metadata_by_member),
            "group_type": PROTOCOL_BY_PREFIX[protocol_prefix],
        },
    )
    for member_id, member_metadata in metadata_by_member.items():
        assignment = assignment_by_member.get(member_id, RecordFields())
        yield (
            MEMBER_ROW,
            {
                **member_metadata,
                "group": group,
                "member_id": member_id,
                "member_epoch": assignment.get("member_epoch"),
                "assignment": _list_assigned_partitions(assignment),
            },
        )


def _list_assigned_partitions(assignment: RecordFields) -> list[dict[str, Any]] | None:
    """The partitions of topic ids or, in streams groups, subtopologies; `topic` is null, as
    members of the other groups have its name."""
    assigned = assignment.get("assigned_partitions", assignment.get("active_tasks"))
    return None if assigned is None else [{"topic": None, **item} for item in assigned]


def _group_state(
    protocol_prefix: str,
    group_epoch: int,
    assignment_epoch: int,
    records_by_kind: Mapping[str, list[tuple[RecordFields, RecordFields]]],
    assignments: list[RecordFields | None],
) -> str:
    """The state of a group of a newer protocol."""
    if not assignments:
        return EMPTY
    if protocol_prefix == "ShareGroup":
        return STABLE
    if protocol_prefix == "StreamsGroup" and not _has_valid_topology(records_by_kind):
        return NOT_READY
    if group_epoch > assignment_epoch:
        return ASSIGNING
    is_stable = all(
        assignment is not None
        and assignment.state == _STABLE_MEMBER_STATE_BY_PREFIX[protocol_prefix]
        and assignment.member_epoch == assignment_epoch
        for assignment in assignments
    )
    return STABLE if is_stable else RECONCILING


def _has_valid_topology(
    records_by_kind: Mapping[str, list[tuple[RecordFields, RecordFields]]],
) -> bool:
    """Whether a streams group has a topology, and has not validated another one; Kafka 4.1
    does not store which one it has validated."""
    topology_epochs = [topology.epoch for _, topology in records_by_kind.get("Topology", ())]
    validated_epoch = records_by_kind["Metadata"][0][1].get("validated_topology_epoch", -1)
    return bool(topology_epochs) and validated_epoch in (-1, *topology_epochs)
