"""Groups of the newer protocols, whose members and assignments have records of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.broker.test_state import built, message, of, record, state

TOPIC = "__consumer_offsets"
# The type ids of a protocol's messages: group epoch, member, assignment, target epoch.
IDS = {"consumer": (3, 5, 8, 6), "share": (11, 10, 14, 12), "streams": (17, 19, 22, 20)}
TOPOLOGY = 23
_CLIENT = {"rack_id": None, "client_id": "c", "client_host": "/h"}
_KNOWN = {**_CLIENT, "instance_id": "i-1", "rebalance_timeout_ms": 5}
_TOPICS = {"subscribed_topic_names": ["t"]}
_PROCESS: dict[str, Any] = {
    "process_id": "p",
    "user_endpoint": None,
    "client_tags": [],
    "topology_epoch": 1,
}
MEMBER: dict[str, dict[str, Any]] = {
    "consumer": {
        **_KNOWN,
        **_TOPICS,
        "subscribed_topic_regex": None,
        "server_assignor": None,
    },
    "share": {**_CLIENT, **_TOPICS},
    "streams": {**_KNOWN, **_PROCESS},
}
TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")


def assignment(protocol: str, epoch: int, member_state: int) -> dict[str, Any]:
    """The assignment of a member. member_state: 0 if it is complete."""
    fields = {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": member_state}
    if protocol == "streams":
        fields["state"] += 1  # its states begin at 1
        tasks = (*TASKS, *(f"{name}_pending_revocation" for name in TASKS))
        return fields | {name: [] for name in tasks}
    extra: dict[str, Any] = {}
    if protocol == "consumer":
        extra = {"partitions_pending_revocation": []}
    return fields | {"assigned_partitions": []} | extra


def group(
    directory: Path,
    protocol: str,
    epoch: int,
    target: int | None,
    members: list[tuple[int, int] | None],
    topology: bool = True,
    **metadata: int,
) -> list[dict[str, Any]]:
    """The rows of a group. members: the epoch and state of each, None without an assignment."""
    group_type_id, member_type_id, assignment_type_id, target_type_id = IDS[protocol]
    has_hash = {} if protocol == "consumer" else {"metadata_hash": 0}
    messages: list[tuple[int, dict[str, Any], dict[str, Any]]] = [
        (group_type_id, {}, {"epoch": epoch, **has_hash, **metadata})
    ]
    for i, epoch_and_state in enumerate(members):
        member_key = {"member_id": f"m{i}"}
        messages.append((member_type_id, member_key, MEMBER[protocol]))
        if epoch_and_state is not None:
            messages.append(
                (assignment_type_id, member_key, assignment(protocol, *epoch_and_state))
            )
    if target is not None:
        messages.append((target_type_id, {}, {"assignment_epoch": target}))
    if topology and protocol == "streams":
        messages.append((TOPOLOGY, {}, {"epoch": 1, "subtopologies": []}))
    records = [
        record(
            offset,
            message(TOPIC, type_id, "key", 0, {"group_id": "g", **key}),
            message(TOPIC, type_id, "value", 0, value),
        )
        for offset, (type_id, key, value) in enumerate(messages)
    ]
    return state(built(directory / f"{TOPIC}-0", records))


@pytest.mark.parametrize("protocol", IDS)
@pytest.mark.parametrize(
    ("epoch", "target", "members", "expected"),
    [
        (5, 5, [], "Empty"),
        (5, 5, [(5, 0)], "Stable"),
        (5, 5, [(5, 0), (5, 0)], "Stable"),
        (5, 5, [(5, 0), (5, 1)], "Reconciling"),
        (5, 5, [(5, 0), (4, 0)], "Reconciling"),
        (5, 5, [(5, 0), None], "Reconciling"),
        (5, 4, [(4, 0)], "Assigning"),
        (5, None, [(5, 0)], "Assigning"),
        (0, None, [(0, 0)], "Stable"),
    ],
)
def test_the_state_of_a_group(
    protocol: str,
    epoch: int,
    target: int | None,
    members: list[tuple[int, int] | None],
    expected: str,
    tmp_path: Path,
) -> None:
    rows = group(tmp_path, protocol, epoch, target, members)
    (group_row,) = of(rows, "group")
    if protocol == "share" and members:
        expected = "Stable"  # its members do not wait for each other
    assert (group_row["group"], group_row["state"]) == ("g", expected)
    assert (group_row["generation"], group_row["members"]) == (epoch, len(members))
    assert group_row["protocol_type"] == group_row["group_type"] == protocol
    member_rows = of(rows, "member")
    assert [row["member_id"] for row in member_rows] == [f"m{i}" for i in range(len(members))]
    assert [row["member_epoch"] for row in member_rows] == [
        epoch_and_state and epoch_and_state[0] for epoch_and_state in members
    ]
    for row, epoch_and_state in zip(member_rows, members, strict=True):
        assert (row["client_id"], row["host"]) == ("c", "/h")
        assert row["instance_id"] == (None if protocol == "share" else "i-1")
        assert row["assignment"] == (None if epoch_and_state is None else [])


def test_a_streams_group_without_its_topology_is_not_ready(tmp_path: Path) -> None:
    for members, expected in (([(5, 0)], "NotReady"), ([], "Empty")):
        directory = tmp_path / expected
        directory.mkdir()
        rows = group(directory, "streams", 5, 5, [*members], topology=False)
        assert of(rows, "group")[0]["state"] == expected


def test_members_without_the_groups_own_record_are_no_group(tmp_path: Path) -> None:
    key = message(TOPIC, 5, "key", 0, {"group_id": "g", "member_id": "m"})
    value = message(TOPIC, 5, "value", 0, MEMBER["consumer"])
    assert state(built(tmp_path / f"{TOPIC}-0", [record(0, key, value)])) == []


@pytest.mark.parametrize(("validated", "expected"), [(1, "Stable"), (0, "NotReady")])
def test_a_streams_group_whose_topology_is_not_validated_is_not_ready(
    validated: int, expected: str, tmp_path: Path
) -> None:
    rows = group(tmp_path, "streams", 5, 5, [(5, 0)], validated_topology_epoch=validated)
    assert [row["state"] for row in of(rows, "group")] == [expected]
