"""The ids that each meta.properties of a broker must have, where other files show them.

The metadata log has the directory.ids of each broker and the partitions in each directory; the
other log directories of the broker have its cluster.id and node.id. Source:
`org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.metadata.cluster_image import ClusterImage, is_reserved_directory_id
from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.core.uuids import format_uuid, parse_uuid


@dataclass(frozen=True, slots=True)
class KnownProperties:
    """The ids of a log directory whose meta.properties must be written; None if unknown."""

    directory: LogDirectory
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    new_cluster_id: str | None

    @property
    def has_new_cluster_id(self) -> bool:
        """Whether no file has the cluster.id, so that a new one is generated: a cluster of one node
        may change it."""
        return self.cluster_id is not None and self.cluster_id == self.new_cluster_id

    @property
    def lines(self) -> list[str]:
        """The lines of the file; empty if an id that a broker requires is unknown."""
        if self.cluster_id is None or self.node_id is None:
            return []
        lines = ["version=1", f"cluster.id={self.cluster_id}", f"node.id={self.node_id}"]
        if self.directory_id is not None:
            lines.append(f"directory.id={self.directory_id}")
        return lines


def iter_needed_properties(
    broker: BrokerDirectories, other_directories: Sequence[LogDirectory]
) -> Iterator[KnownProperties]:
    """The ids of each log directory of a broker that needs another meta.properties.

    other_directories: those of other brokers; their cluster.id counts if all have the same.
    """
    if not broker.is_kraft:
        return
    image = broker.cluster_image
    used_ids: set[str | None] = set()
    for directory in broker.directories:
        node_id = _find_node_id(broker, directory, image)
        directory_id = _find_directory_id(
            [*broker.directories, *other_directories], directory, node_id, image, used_ids
        )
        used_ids.add(directory_id)
        known = KnownProperties(
            directory,
            _find_cluster_id(broker, directory, other_directories),
            node_id,
            directory_id,
            _new_cluster_id(broker),
        )
        if _is_rewrite_needed(directory, known):
            yield known


def find_known_node_id(broker: BrokerDirectories) -> int | None:
    """The broker's id, by its meta.properties or by the metadata log; None if unknown."""
    return _find_node_id(broker, broker.directories[0], broker.cluster_image)


def _is_rewrite_needed(directory: LogDirectory, known: KnownProperties) -> bool:
    properties = directory.meta_properties
    is_complete = properties.cluster_id is not None and properties.node_id is not None
    if properties.is_missing or properties.problem is not None or not is_complete:
        return True
    ids = properties.cluster_id, properties.node_id, properties.directory_id
    return ids != (known.cluster_id, known.node_id, known.directory_id)


def _find_cluster_id(
    broker: BrokerDirectories, directory: LogDirectory, other_directories: Sequence[LogDirectory]
) -> str | None:
    """Its own, else that of the broker's other directories, else the only one of other brokers."""
    own_id = directory.meta_properties.cluster_id
    first_id = broker.directories[0].meta_properties.cluster_id
    if own_id is not None and (
        own_id == first_id or first_id is None or not _is_own(broker, directory)
    ):
        return own_id
    for directories in (broker.directories, other_directories):
        ids = {other.meta_properties.cluster_id for other in directories if other is not directory}
        ids.discard(None)
        if len(ids) == 1:
            return ids.pop()
    return own_id or _new_cluster_id(broker)


def _new_cluster_id(broker: BrokerDirectories) -> str | None:
    """An id for a cluster with a single node: no other node has to agree. It is always the same for
    the same disk."""
    image = broker.cluster_image
    if image is None or len(image.broker_by_node_id) != 1:
        return None
    node_ids = {*image.broker_by_node_id, *image.voter_ids}
    if len(node_ids) != 1:
        return None
    seed = ",".join([*map(str, sorted(node_ids)), *sorted(image.topic_id_by_name.values())])
    return format_uuid(hashlib.sha256(seed.encode()).digest()[:16])


def _is_own(broker: BrokerDirectories, directory: LogDirectory) -> bool:
    """Whether the metadata log registers a directory to the broker that it was given with."""
    directory_id = directory.meta_properties.directory_id
    return directory_id is not None and directory_id in _registered_ids(
        broker.cluster_image, broker.node_id
    )


def _find_node_id(
    broker: BrokerDirectories, directory: LogDirectory, image: ClusterImage | None
) -> int | None:
    """The id of the broker to which the metadata log registers the directory.id, unless only the
    node in meta.properties has all partitions in the directory. Otherwise, the first registered id
    of these: the node's own, the only broker with all of the partitions, the broker of the other
    directories, the only broker."""
    properties = directory.meta_properties
    own_id = properties.node_id if properties.node_id is None or properties.node_id >= 0 else None
    if image is None:
        return own_id if own_id is not None else broker.node_id
    common_id = image.find_only_common_replica(
        replica.topic_partition for replica in directory.replicas
    )
    if properties.directory_id is not None and (own_id is None or own_id != common_id):
        for node_id in image.broker_by_node_id:
            if properties.directory_id in _registered_ids(image, node_id):
                return node_id
    registered_ids = {*image.broker_by_node_id, *image.voter_ids}
    candidates = [
        own_id,
        common_id,
        broker.node_id,
        next(iter(registered_ids)) if len(registered_ids) == 1 else None,
    ]
    return next((node_id for node_id in candidates if node_id in registered_ids), own_id)


def _find_directory_id(
    directories: Sequence[LogDirectory],
    directory: LogDirectory,
    node_id: int | None,
    image: ClusterImage | None,
    used_ids: Collection[str | None],
) -> str | None:
    """Its own, unless the metadata log assigns its partitions to another one that no directory has;
    without its own, the only registered one that no other directory has."""
    own_id = directory.meta_properties.directory_id
    earlier_directories = directories[: directories.index(directory)]
    is_valid = (
        own_id is not None
        and _is_valid_id(own_id)
        and all(other.meta_properties.directory_id != own_id for other in earlier_directories)
    )
    claimed_ids = {
        *used_ids,
        *(other.meta_properties.directory_id for other in directories if other is not directory),
    }
    registered_ids = _registered_ids(image, node_id)
    if is_valid and own_id in registered_ids:
        return own_id
    unclaimed_ids = registered_ids - claimed_ids
    assigned_ids = _assigned_ids(directory, node_id, image) & unclaimed_ids
    if len(assigned_ids) == 1:
        return assigned_ids.pop()
    if is_valid:
        return own_id
    is_only_one = True
    for other in directories:
        is_known = other.meta_properties.directory_id in registered_ids
        if other is directory or other in earlier_directories or is_known:
            continue
        others_ids = _assigned_ids(other, node_id, image) & unclaimed_ids
        is_only_one &= len(others_ids) == 1
        unclaimed_ids -= others_ids
    return unclaimed_ids.pop() if len(unclaimed_ids) == 1 and is_only_one else None


def _assigned_ids(
    directory: LogDirectory, node_id: int | None, image: ClusterImage | None
) -> set[str]:
    """The directory.ids that the metadata log assigns the partitions in a directory to."""
    assigned_ids: set[str] = set()
    for replica in directory.replicas if image is not None else ():
        topic_partition = replica.topic_partition
        if image is not None and topic_partition is not None:
            assigned_id = image.find_assigned_directory_id(*topic_partition, node_id)
            assigned_ids |= set() if assigned_id is None else {assigned_id}
    return assigned_ids


def _is_valid_id(directory_id: str) -> bool:
    try:
        parse_uuid(directory_id)
    except ValueError:
        return False
    return not is_reserved_directory_id(directory_id)


def _registered_ids(image: ClusterImage | None, node_id: int | None) -> set[str]:
    """The directory.ids of a broker in the metadata log."""
    if image is None or node_id is None:
        return set()
    registration = image.broker_by_node_id.get(node_id)
    ids = set() if registration is None else set(registration.directory_ids)
    ids |= {
        directory_id
        for directory_id, owner in image.node_id_by_directory_id.items()
        if owner == node_id
    }
    return {directory_id for directory_id in ids if not is_reserved_directory_id(directory_id)}
