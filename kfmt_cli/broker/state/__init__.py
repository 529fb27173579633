"""The current state in internal topics, replayed record by record like a broker that loads them."""

from __future__ import annotations

from kfmt_cli.broker.state.replay import Replay
from kfmt_cli.core.lazy import load
from kfmt_cli.topics import known_topic

# The replay class of each topic.
REPLAYS: dict[str, str] = {
    "__consumer_offsets": "kfmt_cli.broker.state.groups:Groups",
    "__transaction_state": "kfmt_cli.broker.state.transactions:TransactionalIds",
    "__share_group_state": "kfmt_cli.broker.state.shares:Shares",
    "__cluster_metadata": "kfmt_cli.broker.state.cluster:Cluster",
    "__remote_log_metadata": "kfmt_cli.broker.state.remote:Remote",
    "connect-configs": "kfmt_cli.broker.state.connect:Configs",
    "connect-status": "kfmt_cli.broker.state.connect:Status",
    "connect-offsets": "kfmt_cli.broker.state.connect:SourceOffsets",
    "mm2-offset-syncs": "kfmt_cli.broker.state.mirror:OffsetSyncs",
    "checkpoints": "kfmt_cli.broker.state.mirror:Checkpoints",
    "heartbeats": "kfmt_cli.broker.state.mirror:Heartbeats",
    "_schemas": "kfmt_cli.broker.state.schema_registry:RegistryReplay",
}


def is_replayed(topic: str | None) -> bool:
    """Whether a topic of this name can be replayed."""
    known = known_topic(topic)
    return known is not None and known.name in REPLAYS


def replay_of(topic: str) -> Replay:
    """A new replay for a topic with this name."""
    known = known_topic(topic)
    assert known is not None
    replay: Replay = load(REPLAYS[known.name])()
    return replay
