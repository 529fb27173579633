"""Which partition each directory of a broker has, by topic id and assignment, not by name alone.

A directory's name may be wrong, and its partition.metadata too; the metadata log has the id of each
topic, and the broker that each partition is assigned to. Without it, the checkpoints of the log
directory still name its partitions. Source: `kafka.log.LogManager.loadLogs`,
`LogManager.isStrayKraftReplica`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from kfmt_cli.broker.log_reading.not_files import find_not_a_file
from kfmt_cli.broker.log_reading.offset_intervals import count_offsets, subtract_intervals
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.cluster_image import ClusterImage
from kfmt_cli.broker.metadata.meta_properties import read_topic_id
from kfmt_cli.broker.metadata.metadata_files import METADATA_TOPIC_ID
from kfmt_cli.broker.metadata.opened_log import find_log_start_offset
from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.checkpoints import (
    BOOTSTRAP_CHECKPOINT,
    CLEANER_CHECKPOINT,
    IGNORED_DIRECTORIES,
    LOG_DIRECTORY_FILES,
    METADATA_LOG_NAME,
    is_log_directory,
)
from kfmt_cli.broker.start.directory import LogDirectory, PartitionReplica
from kfmt_cli.core.uuids import format_uuid, parse_uuid
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size, list_directory
from kfmt_cli.disk.file_access import read_bytes_at
from kfmt_cli.disk.file_names import parse_broker_topic_partition, valid_directory_marker_suffix
from kfmt_cli.disk.kinds import PARTITION_METADATA_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.topics import CLUSTER_METADATA

_MAX_SEARCHED_BYTES = 256 << 20
TopicPartition = tuple[str, int]
METADATA_LOG_PARTITION = (CLUSTER_METADATA, 0)
# Those, and names of files that may be directories (`unusable_files`).
_OTHER_NAMES = (
    IGNORED_DIRECTORIES
    | {METADATA_LOG_NAME, BOOTSTRAP_CHECKPOINT}
    | (LOG_DIRECTORY_FILES - {CLEANER_CHECKPOINT})
)


class Situation(Enum):
    """The possible problems of a directory in a log directory."""

    NONE = "it is in its place, under its own name"
    MISNAMED = "it is the only copy of a partition whose name it does not have"
    WITHOUT_ID = "its topic id is missing, malformed or of another topic"
    COPY = "the broker has the same partition elsewhere"
    NESTED = "it is, or contains, a log directory"
    UNKNOWN = "nothing shows which partition it is"


@dataclass(slots=True)
class DirectoryIdentity:
    """A directory in a log directory, and the partition in it."""

    log_directory: LogDirectory
    listing: DirectoryListing
    replica: PartitionReplica | None
    """The partition, if the start of one is predicted."""
    topic_id: str | None = None
    """The valid id in its partition.metadata."""
    has_unusable_id: bool = False
    """Whether its partition.metadata is not a file with a valid id."""
    topic_partition: TopicPartition | None = None
    """The partition that it is."""
    situation: Situation = Situation.NONE
    original: DirectoryIdentity | None = None
    """The directory that it is a copy of."""
    log_directory_path: str | None = None
    """The log directory that it is or contains."""

    @property
    def name(self) -> str:
        """Its name in the log directory."""
        return self.listing.path.rstrip("/").rpartition("/")[2]

    @property
    def needs_id(self) -> bool:
        """Whether it is a partition that lacks its id."""
        return self.situation in (Situation.WITHOUT_ID, Situation.MISNAMED)

    @property
    def named(self) -> TopicPartition | None:
        """The partition that a broker takes from its name."""
        return parse_broker_topic_partition(self.name)

    @property
    def suffix(self) -> str:
        """A broker's mark in its name: delete, future or stray."""
        return valid_directory_marker_suffix(self.name)

    @property
    def right_name(self) -> str:
        """The name that it must have."""
        topic, partition = self.topic_partition or ("", 0)
        return f"{topic}-{partition}"

    @property
    def n_offsets(self) -> int:
        """Number of offsets in its logs."""
        return 0 if self.replica is None else count_offsets(self.replica.contained_offsets)

    @property
    def n_own_offsets(self) -> int:
        """Number of offsets that the directory it is a copy of lacks."""
        original = None if self.original is None else self.original.replica
        if self.replica is None or original is None:
            return self.n_offsets
        return count_offsets(
            subtract_intervals(self.replica.contained_offsets, original.contained_offsets)
        )

    def mark_copy(self, original: DirectoryIdentity) -> None:
        """Mark it as a copy of another directory, which the broker must use instead."""
        self.situation, self.original = Situation.COPY, original


class BrokerIdentities:
    """The directories in a broker's log directories, each with the partition that it is.

    node_id: the broker's id, None if unknown. missing_partitions: the partitions that the metadata
    log assigns to the broker but that have no directory there.
    """

    def __init__(self, broker: BrokerDirectories, node_id: int | None) -> None:
        self.broker = broker
        self.image: ClusterImage | None = broker.cluster_image
        self.directories = [
            identity for directory in broker.directories for identity in _iter_children(directory)
        ]
        self._node_id = node_id
        self._ids_in_metadata: bytes | None = None
        self._assigned = self._find_assigned_partitions()
        self._owners_by_partition: dict[TopicPartition, list[DirectoryIdentity]] = defaultdict(list)
        self._resolve()
        self.missing_partitions = [
            topic_partition
            for topic_partition in self._assigned
            if topic_partition not in self._owners_by_partition
        ]

    @property
    def missing_alone(self) -> list[TopicPartition]:
        """The missing partitions that have no replica on another broker."""
        registrations = {} if self.image is None else self.image.registration_by_partition
        return [
            topic_partition
            for topic_partition in self.missing_partitions
            if len(registrations[topic_partition].leadership.replicas) == 1
        ]

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic; None if unknown."""
        return None if self.image is None else self.image.topic_id_by_name.get(topic)

    def _find_assigned_partitions(self) -> list[TopicPartition]:
        owner = self.broker.foreign_owner
        is_foreign = owner is not None and owner.node_id != self._node_id
        if self.image is None or self._node_id is None or is_foreign:
            return []
        return sorted(
            topic_partition
            for topic_partition, registration in self.image.registration_by_partition.items()
            if self._node_id in registration.leadership.replicas
        )

    def _resolve(self) -> None:
        identities = [
            identity for identity in self.directories if identity.situation is Situation.NONE
        ]
        for identity in identities:
            if self._is_id_damaged(identity):
                identity.topic_id = None
        steps = (
            self._resolve_metadata_log,
            self._resolve_by_both,
            self._resolve_by_id,
            self._resolve_by_name,
            self._resolve_future,
        )
        for step in steps:
            for identity in identities:
                if identity.topic_partition is None:
                    step(identity)
        self._resolve_duplicates()
        for identity in identities:
            if identity.topic_partition is None:
                identity.situation = Situation.UNKNOWN

    def _is_id_damaged(self, identity: DirectoryIdentity) -> bool:
        """Whether no topic of the cluster ever had the id."""
        topic_id = identity.topic_id
        return (
            self.image is not None
            and topic_id is not None
            and self.image.find_topic_name(topic_id) is None
            and not identity.suffix
            and not self._was_topic(topic_id)
        )

    def _resolve_metadata_log(self, identity: DirectoryIdentity) -> None:
        """The metadata log under another name, if no directory has its name."""
        if identity.topic_id == format_uuid(METADATA_TOPIC_ID) and not (
            METADATA_LOG_PARTITION in self._owners_by_partition
            or any(directory.has_metadata_log for directory in self.broker.directories)
        ):
            self._claim(identity, METADATA_LOG_PARTITION, Situation.MISNAMED)

    def _resolve_by_both(self, identity: DirectoryIdentity) -> None:
        """A directory whose name and id agree; without a metadata log, whose name is valid."""
        named = identity.named
        if named is None or identity.suffix:
            return
        if self.image is None or (
            identity.topic_id is not None and identity.topic_id == self.topic_id(named[0])
        ):
            self._claim(identity, named, Situation.NONE)

    def _resolve_by_id(self, identity: DirectoryIdentity) -> None:
        """Find the partition of a directory whose topic id is that of another topic."""
        topic = None
        if self.image is not None and identity.topic_id is not None:
            topic = self.image.find_topic_name(identity.topic_id)
        if topic is None or identity.suffix == "future":
            return
        partition = self._find_partition_number(identity, topic)
        if partition is None or (topic, partition) not in self._assigned:
            return
        topic_partition = topic, partition
        owners = self._owners_by_partition.get(topic_partition, [])
        if any(owner.n_offsets or not identity.n_offsets for owner in owners):
            if identity.suffix:
                return  # the broker has set it aside, and has the partition
            if not self._claim_by_name(identity):
                identity.topic_partition = topic_partition
                identity.mark_copy(owners[0])
            return
        if self._has_directory_without_id(topic_partition) and self._claim_by_name(identity):
            return
        for owner in owners:  # empty: the broker has created it again
            owner.mark_copy(identity)
        self._claim(identity, topic_partition, Situation.MISNAMED)

    def _claim_by_name(self, identity: DirectoryIdentity) -> bool:
        """Take a directory for the partition in its name, if no other one is that."""
        named = identity.named
        if named is None or named not in self._assigned or named in self._owners_by_partition:
            return False
        self._claim(identity, named, Situation.WITHOUT_ID)
        return True

    def _has_directory_without_id(self, topic_partition: TopicPartition) -> bool:
        return any(
            other.named == topic_partition and other.topic_id is None and not other.suffix
            for other in self.directories
        )

    def _was_topic(self, topic_id: str) -> bool:
        """Whether the metadata log has, or may have had, a topic with an id."""
        if self._ids_in_metadata is None:
            self._ids_in_metadata = _read_metadata_bytes(self.broker)
        data = self._ids_in_metadata
        return not data or parse_uuid(topic_id) in data

    def _resolve_future(self, identity: DirectoryIdentity) -> None:
        """Compare a future replica in the directory of the replica that it replaces, which a start
        would promote, with that one."""
        named = identity.named
        owners = [] if named is None else self._owners_by_partition.get(named, [])
        if (
            identity.suffix != "future"
            or named is None
            or not owners
            or owners[0].log_directory is not identity.log_directory
        ):
            return
        if identity.n_offsets > owners[0].n_offsets:
            owners[0].mark_copy(identity)
            self._claim(identity, named, Situation.MISNAMED)
        else:
            identity.topic_partition = named
            identity.mark_copy(owners[0])

    def _claim(
        self, identity: DirectoryIdentity, topic_partition: TopicPartition, situation: Situation
    ) -> None:
        identity.topic_partition, identity.situation = topic_partition, situation
        self._owners_by_partition[topic_partition].append(identity)

    def _resolve_by_name(self, identity: DirectoryIdentity) -> None:
        """Find the partition of a directory without a topic id."""
        if identity.topic_id is not None or identity.suffix:
            return
        topic_partition = identity.named
        if topic_partition is None and identity.n_offsets:
            candidates = self._assigned if self.image is not None else self._checkpointed(identity)
            topic_partition = _find_name_in(identity.name, candidates)
        if topic_partition is None:
            return
        if identity.n_offsets and topic_partition in self._owners_by_partition:
            # Both may have records: the one with more of them is kept.
            self._claim(identity, topic_partition, Situation.WITHOUT_ID)
        elif identity.named is None:
            self._claim(identity, topic_partition, Situation.MISNAMED)
        else:
            self._claim_by_name(identity)

    @staticmethod
    def _checkpointed(identity: DirectoryIdentity) -> Collection[TopicPartition]:
        offsets_by_checkpoint = identity.log_directory.offsets_by_checkpoint.values()
        return {partition for offsets in offsets_by_checkpoint for partition in offsets}

    def _find_partition_number(self, identity: DirectoryIdentity, topic: str) -> int | None:
        """The number after a topic in a directory's name, or after another topic's, else the only
        one that no directory has."""
        match = re.search(rf"{re.escape(topic)}-(\d+)(?!\d)", identity.name)
        if match is not None:
            return int(match[1])
        if identity.named is not None:
            return identity.named[1]
        unowned = [
            partition
            for assigned_topic, partition in self._assigned
            if assigned_topic == topic and (topic, partition) not in self._owners_by_partition
        ]
        if len(unowned) == 1:
            return unowned[0]
        of_topic = [partition for name, partition in self._assigned if name == topic]
        return of_topic[0] if len(of_topic) == 1 else None

    def _resolve_duplicates(self) -> None:
        """Of several directories with one partition, keep the one with the most offsets, and among
        equals the one where the metadata log assigns it, and whose name is right."""
        for topic_partition, owners in self._owners_by_partition.items():
            remaining = [owner for owner in owners if owner.situation is not Situation.COPY]
            if len(remaining) < 2:
                continue
            kept = max(remaining, key=self._preference)
            for owner in remaining:
                if owner is not kept:
                    owner.mark_copy(kept)
            if kept.name != kept.right_name:
                kept.situation = Situation.MISNAMED
            self._owners_by_partition[topic_partition] = [kept]

    def _preference(self, identity: DirectoryIdentity) -> tuple[int, bool, bool, bool]:
        assigned_id = None
        if self.image is not None and identity.topic_partition is not None:
            assigned_id = self.image.find_assigned_directory_id(
                *identity.topic_partition, self._node_id
            )
        is_assigned = assigned_id == identity.log_directory.meta_properties.directory_id
        return (
            identity.n_offsets,
            identity.situation is Situation.NONE,
            is_assigned,
            identity.name == identity.right_name,
        )


def _iter_children(log_directory: LogDirectory) -> Iterator[DirectoryIdentity]:
    """The directories in a log directory, without the metadata log and those that it ignores."""
    listing = log_directory.listing
    if listing is None or not log_directory.is_fully_listed:
        return
    replica_by_name = {replica.name: replica for replica in log_directory.replicas}
    for name in listing.directories:
        if name in _OTHER_NAMES:
            continue
        replica = replica_by_name.get(name)
        if replica is not None:
            identity = DirectoryIdentity(log_directory, replica.directory, replica)
            _set_id(identity)
            yield identity
            continue
        try:
            child = list_directory(f"{log_directory.path}/{name}")
        except InputError as error:
            log_directory.read_errors.append(error)
            continue
        identity = DirectoryIdentity(log_directory, child, None)
        _set_id(identity)
        identity.log_directory_path = _find_log_directory(child, log_directory.read_errors)
        if identity.log_directory_path is not None:
            identity.situation = Situation.NESTED
        yield identity


def _find_log_directory(
    listing: DirectoryListing, read_errors: list[InputError], depth: int = 2
) -> str | None:
    """The log directory that a directory is or contains, at most two levels down; adds the errors
    of unreadable directories to `read_errors`."""
    if is_log_directory(listing):
        return listing.path
    for name in listing.directories if depth else ():
        try:
            child = list_directory(f"{listing.path.rstrip('/')}/{name}")
        except InputError as error:
            read_errors.append(error)
            continue
        if child.logs and parse_broker_topic_partition(name) is not None:
            return listing.path
        path = _find_log_directory(child, read_errors, depth - 1)
        if path is not None:
            return path
    return None


def _set_id(identity: DirectoryIdentity) -> None:
    """Read the topic id in partition.metadata."""
    for name in PARTITION_METADATA_KIND.names:
        if find_not_a_file(identity.listing, name) is not None:
            identity.has_unusable_id = True
        elif name in identity.listing.files:
            try:
                identity.topic_id = format_uuid(read_topic_id(identity.listing.input_file(name)))
            except StartError:
                identity.has_unusable_id = True
            except InputError as error:  # what it has is unknown
                identity.log_directory.read_errors.append(error)


def _find_name_in(name: str, candidates: Collection[TopicPartition]) -> TopicPartition | None:
    """The partition whose directory's name a name contains; the longest one."""
    matching = [
        (topic, partition)
        for topic, partition in candidates
        if re.search(rf"(?<![\w.-]){re.escape(f'{topic}-{partition}')}(?!\d)", name)
    ]
    return max(matching, key=lambda partition: len(partition[0]), default=None)


def _read_metadata_bytes(broker: BrokerDirectories) -> bytes:
    """The bytes of a metadata log that has all records since the cluster was created; empty if it
    does not, or is too large to search."""
    try:
        listing = list_directory(f"{broker.directories[0].path}/{METADATA_LOG_NAME}")
        logs = listing.logs
        if not logs or find_log_start_offset(listing):
            return b""
        n_bytes = [file_size(log) for log in logs]
        if sum(n_bytes) > _MAX_SEARCHED_BYTES:
            return b""
        return b"".join(
            read_bytes_at(log.path, 0, size, log.name)
            for log, size in zip(logs, n_bytes, strict=True)
        )
    except InputError:
        return b""
