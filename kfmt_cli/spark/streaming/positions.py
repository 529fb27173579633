"""Positions of a stream in its partitions, as a checkpoint stores them.

A key names a partition, not a directory: a partition that moves to another disk keeps its position.
The key is `orders-0@<topic id>`; `orders-0` if the topic id is unknown; the path for a directory
that is not a partition's. In checkpoints of older versions, all keys are paths.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any

from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.spark.streaming.partition_directories import FollowedPartition

_KEY_PATTERN = re.compile(r"(?P<name>.+-\d+)@(?P<topic_id>[\w-]{22})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The position reached in a partition."""

    offset: int = 0
    """The next offset."""
    segment: int = 0
    """The base offset of the segment that contains the next offset, or will contain it."""
    byte: int = 0
    """The byte in the segment at which the batch with the next offset begins."""
    last: int = -1
    """The byte in the same segment at which the previous batch begins; -1 if that is unknown."""
    epoch: int = -1
    """The leader epoch of the previous batch; -1 if that is unknown."""
    first: int = -1
    """The offset at which reading of the partition began; -1 for the beginning of its log."""
    restarts: int = 0
    """How often reading continued at another offset than the next one, because data was lost."""
    deleted: int = 0
    """1 if the partition was missing in a run with failOnDataLoss=false, which is then settled."""

    @property
    def is_start_known(self) -> bool:
        """Whether reading began at a given offset, rather than at the start of the log."""
        return self.offset > 0 or self.first >= 0

    @classmethod
    def starting_at(cls, offset: int, restarts: int = 0) -> PartitionPosition:
        """A position at which reading begins, in the segment with this base offset or before."""
        return cls(offset, offset, 0, first=offset, restarts=restarts)

    def to_checkpoint_fields(self) -> dict[str, int]:
        """The position as stored in a checkpoint, without unknown values."""
        unknown_value_by_name = {"last": -1, "epoch": -1, "first": -1, "restarts": 0, "deleted": 0}
        return {
            name: value
            for name, value in asdict(self).items()
            if unknown_value_by_name.get(name) != value
        }


@dataclass(slots=True)
class ResumedPositions:
    """The positions of a checkpoint, assigned to the current partitions."""

    position_by_key: dict[str, PartitionPosition] = field(default_factory=dict)
    """By the keys of the current partitions."""
    deleted_position_by_key: dict[str, PartitionPosition] = field(default_factory=dict)
    """Positions of missing partitions, by the checkpoint's keys."""
    old_key_by_recreated_key: dict[str, str] = field(default_factory=dict)
    """Keys in `deleted` by the key of a partition with the same name and another topic id."""


def resume_positions(
    checkpoint: Mapping[str, Any], partitions: Mapping[str, FollowedPartition]
) -> ResumedPositions:
    """Find the partition of each position in a checkpoint."""
    resumed_positions = ResumedPositions(
        {
            key: PartitionPosition(**{**checkpoint[key], "deleted": 0})
            for key in partitions
            if key in checkpoint
        }
    )
    resumed_positions.deleted_position_by_key = {
        key: PartitionPosition(**fields)
        for key, fields in checkpoint.items()
        if key not in partitions
    }
    if not resumed_positions.deleted_position_by_key:
        return resumed_positions
    directory_paths = {
        directory.path for partition in partitions.values() for directory in partition.directories
    }
    deleted_keys_by_name = defaultdict[str, list[str]](list)
    for key in resumed_positions.deleted_position_by_key:
        deleted_keys_by_name[parse_partition_name(key)].append(key)
    for key, partition in partitions.items():
        if key in resumed_positions.position_by_key:
            continue
        same_name_keys = [
            old_key
            for old_key in deleted_keys_by_name.get(partition.name, [])
            if old_key in resumed_positions.deleted_position_by_key
        ]
        matching_keys = [
            directory.path
            for directory in partition.directories
            if directory.path in resumed_positions.deleted_position_by_key
        ]
        matching_keys += [
            old_key
            for old_key in same_name_keys
            if _is_key_of_partition(old_key, partition, directory_paths)
            and old_key not in matching_keys
        ]
        if matching_keys:
            matching_positions = [
                resumed_positions.deleted_position_by_key.pop(old_key) for old_key in matching_keys
            ]
            resumed_positions.position_by_key[key] = replace(
                max(matching_positions, key=attrgetter("offset")), deleted=0
            )
        elif same_name_keys:
            resumed_positions.old_key_by_recreated_key[key] = same_name_keys[0]
    return resumed_positions


def _is_key_of_partition(
    old_key: str, partition: FollowedPartition, directory_paths: set[str]
) -> bool:
    """Whether a position with the partition's name belongs to the partition: not if both have topic
    ids, as these differ, nor if the key is the existing directory of another partition."""
    both_have_ids = _KEY_PATTERN.match(old_key) is not None and partition.topic_id is not None
    return not both_have_ids and old_key not in directory_paths


def parse_partition_name(checkpoint_key: str) -> str:
    """The topic and partition in a key; the path of a directory that is not a partition's."""
    if (match := _KEY_PATTERN.match(checkpoint_key)) is not None:
        return match["name"]
    if "/" not in checkpoint_key:
        return checkpoint_key
    topic, partition = parse_topic_partition(checkpoint_key.rpartition("/")[2])
    return checkpoint_key if topic is None else f"{format_display_name(topic)}-{partition}"


def format_checkpoint_key(checkpoint_key: str) -> str:
    """A key as text for people."""
    match = _KEY_PATTERN.match(checkpoint_key)
    return checkpoint_key if match is None else f"{match['name']} (topic id {match['topic_id']})"


def limit_position(
    position: PartitionPosition,
    previous_position: PartitionPosition | None,
    limit_fields: Mapping[str, int] | None,
) -> PartitionPosition:
    """A position, but at most `limit_fields`, and not before `previous_position`."""
    if limit_fields is None:
        return position if previous_position is None else previous_position
    max_position = PartitionPosition(**limit_fields)
    if position.offset <= max_position.offset:
        return position
    start_position = compute_start_position(previous_position, position)
    if max_position.offset <= start_position.offset:
        return start_position
    return replace(max_position, first=position.first, restarts=position.restarts)


def compute_start_position(
    previous_position: PartitionPosition | None, end_position: PartitionPosition
) -> PartitionPosition:
    """The position at which the data up to `end_position` begins, after `previous_position`."""
    if previous_position is None or end_position.restarts > previous_position.restarts:
        first_offset = max(end_position.first, 0)
        return PartitionPosition(
            first_offset, first_offset, first=end_position.first, restarts=end_position.restarts
        )
    return previous_position
