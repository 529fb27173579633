"""`kfmt replicas` of a cluster that died while replicas were reassigned."""

from __future__ import annotations

import pytest

from kfmt_cli.broker.metadata.cluster_image import PartitionLeadership, PartitionRegistration
from tests.commands.test_replicas import archive
from tests.support.samples import kfmt

# The replicas that are added to each topic and removed.
REASSIGNMENTS: dict[str, tuple[list[int], list[int]]] = {
    "a": ([3], [1]),
    "b": ([], []),
    "u": ([3], []),
}


def test_a_cluster_with_reassignments_in_flight() -> None:
    """The dead cluster of `reassigned` in tests/support/dead_clusters.py: with Kafka 3.9.1, brokers
    3, 2 and 1 lead a after the three orders; broker 1 renamed its a-0 to -delete after the first,
    and to -stray after the second."""
    orders = [option for order in ("1,2,3", "2,3,1", "1,2") for option in ("--order", order)]
    result = kfmt("replicas", archive("reassigned"), *orders, "--json")
    assert result.code == 0, result.err
    rows = {row["topic"]: row for row in result.of("replicas")}
    assert {
        topic: (row["verdict"], row["evidence"], row["adding_replicas"], row["removing_replicas"])
        for topic, row in rows.items()
    } == {topic: ("identical", [], *change) for topic, change in REASSIGNMENTS.items()}
    outcomes = [row for row in result.of("start_order") if row["topic"] == "a"]
    leaders = [
        [row["leader"]] if row["certain"] else [item["leader"] for item in row["alternatives"]]
        for row in outcomes
    ]
    assert leaders == [[1, 3], [2], [1]]
    assert {row["log_end_offset"] for row in result.of("start_order")} == {60}
    assert all(row["certain"] for row in result.of("start_order") if row["topic"] != "a")
    text = kfmt("replicas", archive("reassigned"), "--all").out
    assert (
        "a-0: once broker 3 has caught up, leadership moves and broker 1's replica becomes" in text
    )
    assert "u-0: broker 3 gets a replica" in text
    assert "signs of lost data" not in text


@pytest.mark.parametrize(
    ("leader", "adding", "removing", "started", "expected"),
    [
        (1, (3,), (1,), {1, 2, 3}, 3),
        (1, (3,), (1,), {1, 2}, 1),  # 3 has not caught up
        (2, (3,), (1,), {1, 2, 3}, 2),
        (1, (), (1,), {1, 2}, 2),
        (1, (3,), (), {1, 2, 3}, 1),
        (1, (), (), {1, 2, 3}, 1),
    ],
)
def test_a_reassignment_in_flight_is_finished(
    leader: int,
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    started: set[int],
    expected: int,
) -> None:
    leadership = PartitionLeadership((3, 2, 1), (1, 2), leader=leader)
    registration = PartitionRegistration("t", 0, "", leadership, 0, 0, (), adding, removing)
    assert registration.next_leader(leader, started) == expected
