"""Which logs of several replicas are read, without what reading and comparing them needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kfmt_cli.broker.log_reading.offset_intervals import OffsetIntervals
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.file_names import path_identity
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.path_resolution import is_tiered

if TYPE_CHECKING:
    from kfmt_cli.broker.cluster.replica_choice import ReplicaChoice
    from kfmt_cli.broker.cluster.replica_contents import ReplicaLogContents

TopicAndPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ReplicaFiles:
    """The logs of a replica, in order, each with its size in bytes."""

    directory: str
    topic_id: str | None
    logs: Sequence[tuple[InputFile, int]]
    contents: Sequence[ReplicaLogContents] = ()
    """The contents of the logs of a replica in tiered storage, from manifests; empty for others."""


@dataclass(slots=True)
class ReplicaSelection:
    """The logs to read, selected from all replicas."""

    intervals_by_path: dict[str, OffsetIntervals | None] = field(default_factory=dict)
    """The offsets that are read of a log of a partition with several replicas; None for all. Logs
    that are not read are omitted."""
    replica_paths: set[str] = field(default_factory=set)
    """The logs of partitions with several replicas."""
    rank_by_directory: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The number of a partition, and the rank of the replica in it, by directory."""
    read_error_by_path: dict[str, str] = field(default_factory=dict)
    """Why logs that are not read cannot be read: what they have may be in no other replica."""
    messages: list[str] = field(default_factory=list)

    def add_choice(
        self, topic_partition: TopicAndPartition, choice: ReplicaChoice, group_number: int
    ) -> None:
        """Add the choice for a partition."""
        self.intervals_by_path |= choice.intervals_by_path
        for rank, replica in enumerate(choice.ranked_replicas):
            self.rank_by_directory[replica.directory] = group_number, rank
            for log in replica.logs:
                if log.read_error is not None and log.path not in choice.intervals_by_path:
                    self.read_error_by_path[log.path] = log.read_error
        leader = choice.leader
        for replica, divergence_offset in choice.divergences:
            name = f"{format_display_name(topic_partition[0])}-{topic_partition[1]}"
            self.messages.append(
                f"{name}: the replica in {format_display_name(replica.directory)} (epoch "
                f"{replica.latest_epoch}, log end offset {replica.end_offset}) diverges at offset "
                f"{divergence_offset} from the one in {format_display_name(leader.directory)} "
                f"(epoch {leader.latest_epoch}, log end offset {leader.end_offset}); its records "
                "from there on are skipped; --all-replicas reads both"
            )


class DirectoryIdentities:
    """The directories of logs, each looked up once."""

    def __init__(self) -> None:
        self._identity_by_path: dict[str, str] = {}

    def find_identity(self, log_path: str) -> str:
        """A text that is the same for all logs of a directory, whatever paths lead to it; for a log
        assembled from tiered storage, the directory of its object."""
        if is_tiered(log_path):
            return path_identity(log_path).rpartition("/")[0]
        directory = log_path.rpartition("/")[0] or "/"
        if directory not in self._identity_by_path:
            self._identity_by_path[directory] = path_identity(directory)
        return self._identity_by_path[directory]
