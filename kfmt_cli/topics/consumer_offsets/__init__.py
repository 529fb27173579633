"""__consumer_offsets: groups, their members, and their committed offsets."""

from kfmt_cli.topics.consumer_offsets import (
    classic,
    consumer_groups,
    share_groups,
    streams_groups,
    streams_topology,
)

MESSAGES = (
    *classic.MESSAGES,
    *consumer_groups.MESSAGES,
    *share_groups.MESSAGES,
    *streams_groups.MESSAGES,
    *streams_topology.MESSAGES,
)
