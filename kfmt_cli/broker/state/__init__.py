"""The current state in internal topics, replayed record by record like a broker that loads them."""

from __future__ import annotations

from kfmt_cli.broker.state.replay import TopicReplay
from kfmt_cli.core.lazy import import_object
from kfmt_cli.topics import find_known_topic

# The replay class of each topic.
REPLAYS: dict[str, str] = {
    "__consumer_offsets": "kfmt_cli.broker.state.groups:GroupsReplay",
    "__transaction_state": "kfmt_cli.broker.state.transactions:TransactionStateReplay",
    "__share_group_state": "kfmt_cli.broker.state.shares:ShareGroupsReplay",
    "__cluster_metadata": "kfmt_cli.broker.state.cluster:ClusterReplay",
    "__remote_log_metadata": "kfmt_cli.broker.state.remote:RemoteLogReplay",
    "connect-configs": "kfmt_cli.broker.state.connect:ConnectConfigsReplay",
    "connect-status": "kfmt_cli.broker.state.connect:ConnectStatusReplay",
    "connect-offsets": "kfmt_cli.broker.state.connect:ConnectOffsetsReplay",
    "mm2-offset-syncs": "kfmt_cli.broker.state.mirror:OffsetSyncsReplay",
    "checkpoints": "kfmt_cli.broker.state.mirror:MirrorCheckpointsReplay",
    "heartbeats": "kfmt_cli.broker.state.mirror:MirrorHeartbeatsReplay",
    "_schemas": "kfmt_cli.broker.state.schema_registry:SchemaRegistryReplay",
}


def can_replay(topic: str | None) -> bool:
    """Whether a topic of this name can be replayed."""
    known_topic = find_known_topic(topic)
    return known_topic is not None and known_topic.name in REPLAYS


def create_replay(topic: str) -> TopicReplay:
    """A new replay for a topic with this name."""
    known_topic = find_known_topic(topic)
    assert known_topic is not None
    replay: TopicReplay = import_object(REPLAYS[known_topic.name])()
    return replay
