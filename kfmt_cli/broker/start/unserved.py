"""Partitions that a broker keeps but does not serve, and why.

Source: `kafka.log.LogManager.isStrayKraftReplica`.
"""

from __future__ import annotations

from kfmt_cli.broker.metadata.cluster_image import ClusterImage
from kfmt_cli.broker.start.directory import PartitionReplica
from kfmt_cli.broker.start.outcome import OFFLINE, STRAY, PredictedStart


def format_stray_reason(image: ClusterImage, topic: str, topic_id: str) -> str:
    """Why the metadata log does not assign a partition to this broker, which makes it stray."""
    metadata_topic_id = image.topic_id_by_name.get(topic)
    if metadata_topic_id is None:
        return "the metadata log does not contain its topic"
    if metadata_topic_id == topic_id:
        return "the metadata log does not assign it to this broker"
    return (
        f"its topic has id {metadata_topic_id} in the metadata log, but {topic_id} in "
        "partition.metadata"
    )


def format_foreign_topic_reason(image: ClusterImage, topic: str, topic_id: str) -> str:
    """Why a partition with the id of another topic of this broker is not served."""
    owner_topic = image.find_topic_name(topic_id)
    reason = f"partition.metadata has id {topic_id}, the id of topic {owner_topic}"
    metadata_topic_id = image.topic_id_by_name.get(topic)
    return (
        reason
        if metadata_topic_id is None
        else f"{reason}; the id of its topic is {metadata_topic_id}"
    )


def mark_unserved(
    replica: PartitionReplica, start: PredictedStart, unserved_state: str, reason: str
) -> None:
    """Mark a partition as not served: consumers receive none of its records."""
    start.becomes, start.reason = unserved_state, f"{replica.display_path}: {reason}"
    if unserved_state == STRAY:
        start.log_start_offset = start.log_end_offset = 0
    elif unserved_state == OFFLINE:
        start.log_start_offset = start.log_end_offset = None
    start.cut, start.deleted, start.lost = [], [], []
    start.unreachable = list(replica.contained_offsets)
