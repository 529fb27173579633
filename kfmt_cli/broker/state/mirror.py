"""MirrorMaker 2: the progress of each mirror.

Source: `org.apache.kafka.connect.mirror.OffsetSyncStore`, `MirrorClient`.
"""

from __future__ import annotations

from kfmt_cli.broker.state.replay import LatestOfKeys
from kfmt_cli.rows.types.state_types import MIRROR_CHECKPOINT, MIRROR_HEARTBEAT, MIRROR_SYNC


class OffsetSyncs(LatestOfKeys):
    """The last pair of corresponding offsets of each partition."""

    topic = "mm2-offset-syncs"
    types = (MIRROR_SYNC,)


class Checkpoints(LatestOfKeys):
    """The committed offsets of each group, as offsets of the mirror."""

    topic = "checkpoints"
    types = (MIRROR_CHECKPOINT,)


class Heartbeats(LatestOfKeys):
    """The last heartbeat of each flow."""

    topic = "heartbeats"
    types = (MIRROR_HEARTBEAT,)
