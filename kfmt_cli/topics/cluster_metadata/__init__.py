"""__cluster_metadata: the metadata of a KRaft cluster."""

from kfmt_cli.topics.cluster_metadata import access, brokers, partitions, settings

MESSAGES = (
    *brokers.MESSAGES,
    *partitions.MESSAGES,
    *access.MESSAGES,
    *settings.MESSAGES,
)
