"""Which broker leads a partition after an order of starts, by Kafka's rules."""

from __future__ import annotations

import pytest

from kfmt_cli.broker.cluster.election import (
    ClusterBrokers,
    ElectionRules,
    StartStage,
    predict_fencing_order,
    predict_possible_leaders,
)
from kfmt_cli.broker.metadata.cluster_image import NO_LEADER, PartitionLeadership

NOBODY: frozenset[int] = frozenset()


def brokers(*unfenced: int, elr: bool = False, clean: tuple[int, ...] = ()) -> ClusterBrokers:
    return ClusterBrokers(frozenset(clean), unfenced, ElectionRules(is_elr_enabled=elr))


def leaders(
    cluster_brokers: ClusterBrokers,
    state: PartitionLeadership,
    order: str,
    new_disks: frozenset[int] = NOBODY,
) -> set[int]:
    stages = [
        StartStage(tuple(map(int, stage.rstrip("!").split("+"))), stage.endswith("!"))
        for stage in order.split(",")
    ]
    return {
        result.leader
        for result in predict_possible_leaders(cluster_brokers, state, new_disks, stages)
    }


@pytest.mark.parametrize(
    ("order", "expected"), [("1,2,3", {1}), ("2,3,1", {2}), ("3,1,2", {3}), ("1+2+3", {1, 2, 3})]
)
def test_the_first_of_the_isr_leads_whatever_its_log_has(order: str, expected: set[int]) -> None:
    state = PartitionLeadership((1, 2, 3), (1, 2, 3), leader=1)
    assert leaders(brokers(1, 2, 3), state, order) <= expected


def test_only_the_last_in_the_isr_leads_unless_the_election_is_unclean() -> None:
    state = PartitionLeadership((1, 2, 3), (1,))
    assert leaders(brokers(), state, "2,3") == {NO_LEADER}
    assert leaders(brokers(), state, "2,3,1") == {1}
    assert leaders(brokers(), state, "2!,3,1") == {2}
    unclean = PartitionLeadership((1, 2, 3), (1,), allows_unclean_election=True)
    assert leaders(brokers(), unclean, "2,3,1") == {2}


def test_an_unclean_shutdown_leaves_the_eligible_leader_replicas() -> None:
    state = PartitionLeadership((1, 2, 3), (), (1, 2), (1,), min_isr=2)
    assert leaders(brokers(elr=True), state, "1") == {NO_LEADER}
    assert leaders(brokers(elr=True), state, "1,2") == {1}
    assert leaders(brokers(elr=True, clean=(1, 2)), state, "2,1") == {2}


def test_a_new_disk_of_the_last_in_the_isr_is_elected_at_the_next_event() -> None:
    state = PartitionLeadership((1, 2, 3), (1,))
    assert leaders(brokers(), state, "1,2", frozenset({1})) == {1}


def test_a_new_disk_among_several_in_the_isr_is_a_race() -> None:
    """If the broker waits for its old session, its replica leaves the ISR before it registers."""
    state = PartitionLeadership((1, 2, 3), (1, 2, 3), leader=1)
    elected = leaders(brokers(2, 3, 1), state, "1,2,3", frozenset({1}))
    assert 1 in elected
    assert elected & {2, 3}
    assert leaders(brokers(2, 3, 1), state, "2,3,1", frozenset({1})) == {2}


def test_sessions_expire_in_the_order_of_a_hash_table() -> None:
    registered = [(1, 15), (2, 16), (3, 17)]
    for level in (21, 25, 28):
        order = predict_fencing_order(registered, (1, 2, 3), feature_level=level)
        assert sorted(order) == [1, 2, 3]
    assert predict_fencing_order(registered, (2,), feature_level=21) == [2]


def test_without_a_broker_or_a_quorum_nobody_leads() -> None:
    state = PartitionLeadership((1, 2, 3), (1, 2, 3), leader=1)
    voters = ElectionRules(voters=frozenset({1, 2, 3}))
    combined = ClusterBrokers(NOBODY, (1, 2, 3), voters)
    assert leaders(combined, state, "1") == {NO_LEADER}
    assert leaders(combined, state, "1,3") != {NO_LEADER}
    (controller_only,) = predict_possible_leaders(brokers(1, 2, 3), state, NOBODY, [])
    assert controller_only.leader == NO_LEADER
