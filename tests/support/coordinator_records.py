"""Generated records of the coordinators' topics, in orders that a coordinator may not load."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.broker.test_newer_groups import MEMBER, TASKS
from tests.broker.test_state import built, message, record

GROUPS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
Fields = dict[str, Any]
Line = dict[str, Any]
# The type ids of a protocol's records.
IDS = {
    "consumer": {"metadata": 3, "member": 5, "targets": 6, "target": 7, "assignment": 8},
    "share": {"metadata": 11, "member": 10, "targets": 12, "target": 13, "assignment": 14},
    "streams": {"metadata": 17, "member": 19, "targets": 20, "target": 21, "assignment": 22},
}


def _values(protocol: str, kind: str, epoch: int, partitions: Sequence[int]) -> Fields:
    if kind == "metadata":
        return {"epoch": epoch} | ({} if protocol == "consumer" else {"metadata_hash": 0})
    if kind == "member":
        return MEMBER[protocol]
    if kind == "targets":
        return {"assignment_epoch": epoch}
    topics = [{"topic_id": TOPIC_ID, "partitions": list(partitions)}] if partitions else []
    if protocol == "streams":
        names = (
            TASKS
            if kind == "target"
            else (*TASKS, *(f"{name}_pending_revocation" for name in TASKS))
        )
        fields: Fields = {name: [] for name in names}
    elif kind == "target":
        return {"topic_partitions": topics}
    else:
        fields = {"assigned_partitions": topics}
        if protocol == "consumer":
            fields["partitions_pending_revocation"] = []
    if kind == "assignment":
        state = 1 if protocol == "streams" else 0
        fields |= {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": state}
    return fields


def group_record(
    offset: int,
    protocol: str,
    kind: str,
    *,
    group: str = "g",
    member: str = "m",
    epoch: int | None = 1,
    partitions: Sequence[int] = (),
) -> Line:
    """A record of a group; a tombstone if the epoch is None."""
    type_id = IDS[protocol][kind]
    key: Fields = {"group_id": group}
    if kind in {"member", "target", "assignment"}:
        key["member_id"] = member
    value = None
    if epoch is not None:
        value = message(GROUPS, type_id, "value", 0, _values(protocol, kind, epoch, partitions))
    return record(offset, message(GROUPS, type_id, "key", 0, key), value)


def classic(offset: int, group: str = "g", protocol_type: str | None = "consumer") -> Line:
    """A classic group without members; a tombstone if the type is None."""
    value = None
    if protocol_type is not None:
        fields = {"protocol_type": protocol_type, "generation": 1, "protocol": None, "leader": None}
        fields |= {"current_state_timestamp": 1, "members": []}
        value = message(GROUPS, 2, "value", 3, fields)
    return record(offset, message(GROUPS, 2, "key", 0, {"group": group}), value)


def commit(offset: int, group: str = "g", version: int | None = 3, type_id: int = 1) -> Line:
    """An offset commit; a tombstone if the version is None. Unknown versions have bytes of 3."""
    key = message(GROUPS, 1, "key", 0, {"group": group, "topic": "t", "partition": 0})
    value = None
    if version is not None:
        fields = {"offset": 1, "leader_epoch": 0, "metadata": "", "commit_timestamp": 5}
        value = f"{version & 0xFFFF:04x}" + message(GROUPS, 1, "value", 3, fields)[4:]
    return record(offset, f"{type_id:04x}{key[4:]}", value)


def random_groups(seed: int) -> list[Line]:
    """Records of two groups with two members, in any order."""
    chance = random.Random(seed)
    protocols = chance.sample(sorted(IDS), chance.choice((1, 1, 2)))
    lines: list[Line] = []
    for offset in range(chance.randrange(2, 9)):
        group = chance.choice("gh")
        pick = chance.random()
        if pick < 0.1:
            lines.append(classic(offset, group, chance.choice(("consumer", "", None))))
        elif pick < 0.2:
            lines.append(commit(offset, group, chance.choice((3, 3, 3, None))))
        else:
            protocol = chance.choice(protocols)
            lines.append(
                group_record(
                    *(offset, protocol, chance.choice(sorted(IDS[protocol]))),
                    group=group,
                    member=chance.choice("mn"),
                    epoch=chance.choice((None, 1, 2, 3)),
                    partitions=chance.choice(((), (0,), (0, 1))),
                )
            )
    return lines


def transaction(offset: int, version: int = 0, status: int = 1, **fields: Any) -> Line:
    """A record of __transaction_state."""
    values: Fields = {"producer_id": 1, "producer_epoch": 0, "transaction_timeout_ms": 9}
    values |= {"transaction_status": status, "transaction_partitions": []}
    values |= {"transaction_last_update_timestamp_ms": 1, "transaction_start_timestamp_ms": 1}
    value = message(TRANSACTIONS, 0, "value", 0, values | fields)
    key = message(TRANSACTIONS, 0, "key", 0, {"transactional_id": "id"})
    return record(offset, key, f"{version:04x}{value[4:]}")


def share_update(offset: int, version: int | None = 0) -> Line:
    """An update of a share partition; a tombstone if the version is None."""
    key = message(SHARES, 1, "key", 0, {"group_id": "g", "topic_id": TOPIC_ID, "partition": 0})
    values: Fields = {
        "snapshot_epoch": 1,
        "leader_epoch": 1,
        "start_offset": 1,
        "state_batches": [],
    }
    value = None
    if version is not None:
        value = f"{version:04x}" + message(SHARES, 1, "value", 0, values)[4:]
    return record(offset, key, value)


def without_key(line: Line) -> Line:
    """The same record with the key null."""
    return {name: value for name, value in line.items() if name != "key_encoding"} | {"key": None}


def write_partition(directory: Path, lines: Sequence[Line]) -> Path:
    """Build a partition, creating its log directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    return built(directory, list(lines))
