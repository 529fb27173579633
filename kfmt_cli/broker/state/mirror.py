"""MirrorMaker 2: the progress of each mirror.

Source: `org.apache.kafka.connect.mirror.OffsetSyncStore`, `MirrorClient`.
"""

from __future__ import annotations

from kfmt_cli.broker.state.replay import CompactedTopicReplay
from kfmt_cli.rows.types.state_rows import (
    MIRROR_CHECKPOINT_ROW,
    MIRROR_HEARTBEAT_ROW,
    MIRROR_SYNC_ROW,
)


class OffsetSyncsReplay(CompactedTopicReplay):
    """The last pair of corresponding offsets of each partition."""

    topic = "mm2-offset-syncs"
    row_types = (MIRROR_SYNC_ROW,)


class MirrorCheckpointsReplay(CompactedTopicReplay):
    """The committed offsets of each group, as offsets of the mirror."""

    topic = "checkpoints"
    row_types = (MIRROR_CHECKPOINT_ROW,)


class MirrorHeartbeatsReplay(CompactedTopicReplay):
    """The last heartbeat of each flow."""

    topic = "heartbeats"
    row_types = (MIRROR_HEARTBEAT_ROW,)
