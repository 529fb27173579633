"""__cluster_metadata: all that a KRaft cluster knows of itself."""

from kfmt_cli.topics.cluster_metadata import access, brokers, partitions, settings

MESSAGES = (
    *brokers.MESSAGES,
    *partitions.MESSAGES,
    *access.MESSAGES,
    *settings.MESSAGES,
)
