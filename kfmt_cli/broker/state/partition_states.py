"""Topics and partitions, as changed by the records of the cluster metadata.

Source: `org.apache.kafka.image.TopicsDelta`, `org.apache.kafka.metadata.PartitionRegistration`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.core.layout.fields import Fields as Data
from kfmt_cli.formats.meanings import RECOVERY_STATES
from kfmt_cli.rows.types.state_types import PARTITION, TOPIC, StateType

# Fields that a partition change may replace; null keeps the value.
_REPLACED = (
    *("isr", "replicas", "removing_replicas", "adding_replicas", "directories"),
    *("eligible_leader_replicas", "last_known_elr"),
)


NO_CHANGE = -2  # as leader


class ClusterPartitions:
    """The topics by id, and their partitions."""

    def __init__(self) -> None:
        self._topics: dict[str, str] = {}
        self._partitions: dict[str, dict[int, Data]] = {}

    def topic(self, data: Data) -> None:
        """Add a topic."""
        self._topics[data.topic_id] = data.name

    def remove_topic(self, data: Data) -> str | None:
        """Delete a topic; returns its name."""
        self._partitions.pop(data.topic_id, None)
        return self._topics.pop(data.topic_id, None)

    def partition(self, data: Data) -> None:
        """Add a partition."""
        self._partitions.setdefault(data.topic_id, {})[data.partition_id] = Data(data)

    def change(self, data: Data) -> None:
        """Change some facts of a partition; naming a leader begins a new epoch."""
        known = self._partitions.get(data.topic_id, {}).get(data.partition_id)
        if known is None:
            return
        for name in _REPLACED:
            if data.get(name) is not None:
                known[name] = data[name]
        if data.get("leader", NO_CHANGE) != NO_CHANGE:
            known.leader = data.leader
            known.leader_epoch += 1
        if "leader_recovery_state" in data:
            known.leader_recovery_state = data.leader_recovery_state
        known.partition_epoch += 1

    def clear_elr(self, data: Data) -> None:
        """Clear the eligible leader replicas of one topic or of all."""
        name = data.topic_name
        for topic_id, partitions in self._partitions.items():
            if not name or self._topics.get(topic_id) == name:
                for row in partitions.values():
                    row.eligible_leader_replicas = row.last_known_elr = []

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Topics, then partitions."""
        for topic_id, name in self._topics.items():
            n_partitions = len(self._partitions.get(topic_id, {}))
            yield TOPIC, {"topic": name, "topic_id": topic_id, "partitions": n_partitions}
        for topic_id, partitions in self._partitions.items():
            for number, value in partitions.items():
                recovery = value.get("leader_recovery_state", 0)
                known = 0 <= recovery < len(RECOVERY_STATES)
                yield (
                    PARTITION,
                    {
                        **value,
                        "topic": self._topics.get(topic_id, topic_id),
                        "partition": number,
                        "leader_recovery_state": (
                            RECOVERY_STATES[recovery] if known else f"unknown-{recovery}"
                        ),
                    },
                )
