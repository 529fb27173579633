"""MirrorMaker 2: the progress of each mirror.

Source: `org.apache.kafka.connect.mirror.OffsetSyncStore`, `MirrorClient`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import LatestOfKeys
from kfmt_cli.rows.types.state_types import (
    MIRROR_CHECKPOINT,
    MIRROR_HEARTBEAT,
    MIRROR_SYNC,
    StateType,
)


class OffsetSyncs(LatestOfKeys):
    """The last pair of corresponding offsets of each partition."""

    topic = "mm2-offset-syncs"
    types = (MIRROR_SYNC,)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, value in self.said():
            yield MIRROR_SYNC, {**key, **value}


class Checkpoints(LatestOfKeys):
    """The committed offsets of each group, as offsets of the mirror."""

    topic = "checkpoints"
    types = (MIRROR_CHECKPOINT,)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, value in self.said():
            yield MIRROR_CHECKPOINT, {**key, **value}


class Heartbeats(LatestOfKeys):
    """The last heartbeat of each flow."""

    topic = "heartbeats"
    types = (MIRROR_HEARTBEAT,)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, value in self.said():
            yield (
                MIRROR_HEARTBEAT,
                {
                    "source": key.source_cluster_alias,
                    "target": key.target_cluster_alias,
                    "timestamp": value.timestamp,
                },
            )
