"""`kfmt replay` creates topics: what it says if the cluster refuses or is slow."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="the extra replay is not installed")

from confluent_kafka import KafkaError, KafkaException

from kfmt_cli.commands.replay import cluster as cluster_module
from kfmt_cli.commands.replay.cluster import ClusterClient
from kfmt_cli.commands.replay.topic_plans import TopicPlan
from kfmt_cli.errors import OutputError

PLAN = TopicPlan("t", 2, 3, {"retention.ms": "1"})


class FakeAdmin:
    """A cluster that answers a request for a topic with an error, or lists the topic with these
    leaders, one list for each request for metadata."""

    def __init__(self, error: int | None = None, *leaders: list[int]) -> None:
        self.requests: list[Any] = []
        self._future: Future[None] = Future()
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(KafkaException(KafkaError(error)))
        self._leaders = list(leaders)

    def create_topics(self, topics: list[Any], **_: object) -> dict[str, Future[None]]:
        self.requests += topics
        return {topic.topic: self._future for topic in topics}

    def list_topics(self, **_: object) -> SimpleNamespace:
        leaders = self._leaders.pop(0) if len(self._leaders) > 1 else self._leaders[0]
        partitions = {i: SimpleNamespace(leader=leader) for i, leader in enumerate(leaders)}
        topics = {"t": SimpleNamespace(partitions=partitions)} if leaders else {}
        return SimpleNamespace(topics=topics)


def create(admin: FakeAdmin) -> ClusterClient:
    client = ClusterClient("host:9", {}, _admin=admin)
    client.create_topic(PLAN)
    return client


def test_a_topic_is_created_as_planned_and_has_leaders_in_the_end() -> None:
    admin = FakeAdmin(None, [], [1], [1, -1], [1, 0])
    assert create(admin).n_partitions_by_topic == {"t": 2}
    (request,) = admin.requests
    assert (request.topic, request.num_partitions, request.replication_factor) == ("t", 2, 3)
    assert request.config == PLAN.settings


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KafkaError.TOPIC_ALREADY_EXISTS, "exists, but this user is not allowed to describe it"),
        (KafkaError.POLICY_VIOLATION, "cannot be created: Broker: Policy violation; create it yo"),
    ],
)
def test_a_refusal_is_reported_with_the_topic(error: int, message: str) -> None:
    with pytest.raises(OutputError, match=f"^host:9: t: {message}"):
        create(FakeAdmin(error, [1, 1]))


def test_a_topic_that_stays_without_leaders_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "REQUEST_TIMEOUT_SECONDS", 0.15)
    for leaders in ([], [1], [1, -1], [0, 1, 2]):
        with pytest.raises(OutputError, match="t: was created, but has no leaders yet"):
            create(FakeAdmin(None, leaders))
