"""What internal topics say now, replayed record by record as a broker does that loads them."""

from __future__ import annotations

from kfmt_cli.broker.state.replay import Replay
from kfmt_cli.core.lazy import load

# Each topic: what replays it.
REPLAYS: dict[str, str] = {
    "__consumer_offsets": "kfmt_cli.broker.state.groups:Groups",
    "__transaction_state": "kfmt_cli.broker.state.transactions:Transactions",
    "__share_group_state": "kfmt_cli.broker.state.shares:Shares",
    "__cluster_metadata": "kfmt_cli.broker.state.cluster:Cluster",
    "__remote_log_metadata": "kfmt_cli.broker.state.remote:Remote",
}


def replay_of(topic: str) -> Replay:
    """What replays a topic of `REPLAYS`, before its first record."""
    replay: Replay = load(REPLAYS[topic])()
    return replay
