"""Reads of a consumer from a running cluster."""

from __future__ import annotations

from typing import Any

from tools.cluster import Cluster
from tools.live import Live


def consumed(cluster: Live | Cluster, topic: str, partition: int = 0, start: int = 0) -> list[Any]:
    """The messages of a partition, read by a consumer without a group."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {
        "bootstrap.servers": cluster.address,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, start)])
    messages: list[Any] = []
    try:
        while True:
            for message in consumer.consume(1000, 0.3):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF
                    return messages
                messages.append(message)
    finally:
        consumer.close()
