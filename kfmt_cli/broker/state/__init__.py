"""What internal topics say now, replayed record by record as a broker does that loads them."""

from __future__ import annotations

from kfmt_cli.broker.state.replay import Replay
from kfmt_cli.core.lazy import load
from kfmt_cli.topics import known_topic

# Each topic: what replays it.
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
    """What replays a topic of this name, before its first record."""
    known = known_topic(topic)
    assert known is not None
    replay: Replay = load(REPLAYS[known.name])()
    return replay
