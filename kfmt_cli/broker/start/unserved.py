"""Why a broker does not serve a partition that is in its log directories."""

from __future__ import annotations

from kfmt_cli.broker.cluster.cluster_image import ClusterImage


def owner_by_directory_id(image: ClusterImage) -> dict[str, int]:
    """The broker that the metadata log assigns each directory.id to, if it has replicas."""
    return {
        directory_id: broker_id
        for partition in image.registration_by_partition.values()
        for broker_id, directory_id in zip(
            partition.leadership.replicas, partition.directory_ids, strict=False
        )
        if not is_reserved_directory_id(directory_id)
    }


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


def is_reserved_directory_id(directory_id: str) -> bool:
    """Whether an id is reserved and names no known directory."""
    return directory_id.startswith("AAAAAAAAAAAAAAAAAAAA")
