"""Groups of the newer protocols, whose members and assignments have records of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.broker.test_state import built, message, of, record, state

TOPIC = "__consumer_offsets"
# The numbers of a protocol's messages: its epoch, a member, its assignment, the target's epoch.
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


def assignment(protocol: str, epoch: int, settled: int) -> dict[str, Any]:
    """What a member has. settled: 0 if it has all of it."""
    has = {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": settled}
    if protocol == "streams":
        has["state"] += 1  # its states begin at 1
        tasks = (*TASKS, *(f"{name}_pending_revocation" for name in TASKS))
        return has | {name: [] for name in tasks}
    more: dict[str, Any] = {}
    if protocol == "consumer":
        more = {"partitions_pending_revocation": []}
    return has | {"assigned_partitions": []} | more


def group(
    folder: Path,
    protocol: str,
    epoch: int,
    target: int | None,
    members: list[tuple[int, int] | None],
    topology: bool = True,
    **metadata: int,
) -> list[dict[str, Any]]:
    """The rows of a group. members: the epoch and state of each, None without an assignment."""
    number, member, current, targets = IDS[protocol]
    has_hash = {} if protocol == "consumer" else {"metadata_hash": 0}
    said: list[tuple[int, dict[str, Any], dict[str, Any]]] = [
        (number, {}, {"epoch": epoch, **has_hash, **metadata})
    ]
    for i, has in enumerate(members):
        of_member = {"member_id": f"m{i}"}
        said.append((member, of_member, MEMBER[protocol]))
        if has is not None:
            said.append((current, of_member, assignment(protocol, *has)))
    if target is not None:
        said.append((targets, {}, {"assignment_epoch": target}))
    if topology and protocol == "streams":
        said.append((TOPOLOGY, {}, {"epoch": 1, "subtopologies": []}))
    records = [
        record(
            offset,
            message(TOPIC, id_, "key", 0, {"group_id": "g", **key}),
            message(TOPIC, id_, "value", 0, value),
        )
        for offset, (id_, key, value) in enumerate(said)
    ]
    return state(built(folder / f"{TOPIC}-0", records))


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
    (found,) = of(rows, "group")
    if protocol == "share" and members:
        expected = "Stable"  # it has no members that wait for others
    assert (found["group"], found["state"]) == ("g", expected)
    assert (found["generation"], found["members"]) == (epoch, len(members))
    assert found["protocol_type"] == found["group_type"] == protocol
    told = of(rows, "member")
    assert [row["member_id"] for row in told] == [f"m{i}" for i in range(len(members))]
    assert [row["member_epoch"] for row in told] == [has and has[0] for has in members]
    for row, has in zip(told, members, strict=True):
        assert (row["client_id"], row["host"]) == ("c", "/h")
        assert row["instance_id"] == (None if protocol == "share" else "i-1")
        assert row["assignment"] == (None if has is None else [])


def test_a_streams_group_without_its_topology_is_not_ready(tmp_path: Path) -> None:
    for members, expected in (([(5, 0)], "NotReady"), ([], "Empty")):
        folder = tmp_path / expected
        folder.mkdir()
        rows = group(folder, "streams", 5, 5, [*members], topology=False)
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
