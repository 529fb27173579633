"""The cluster that a metadata log describes: its brokers, its partitions' leaders, its settings.

Source: `org.apache.kafka.image.TopicsImage`, `kafka.log.LogManager.isStrayKraftReplica`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kfmt_cli.broker.cluster.election import PartitionLeadership
from kfmt_cli.broker.start.metadata_files import metadata_snapshots, read_voters
from kfmt_cli.broker.start.metadata_replay import replay_metadata_log
from kfmt_cli.broker.version import METADATA_VERSION_FEATURE
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.rows.types import state_rows as types

ELR_FEATURE = "eligible.leader.replicas.version"
MIN_ISR_SETTING, UNCLEAN_ELECTION_SETTING = "min.insync.replicas", "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker, as registered."""

    node_id: int
    epoch: int
    is_fenced: bool
    directory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """A partition of a topic, as registered."""

    topic: str
    partition: int
    topic_id: str
    leadership: PartitionLeadership
    leader_epoch: int
    partition_epoch: int
    directory_ids: tuple[str, ...]
    """The id of each replica's log directory."""


@dataclass(slots=True)
class ClusterImage:
    """The cluster that a metadata log describes.

    log_end_offset: the log end offset of the metadata log. last_epoch: the leader epoch of its last
    batch or snapshot, -1 if it has neither.
    """

    log_end_offset: int = 0
    last_epoch: int = -1
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    """The brokers by node id, in the order of their registrations."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Topic ids by topic name."""
    partitions: dict[tuple[str, int], PartitionRegistration] = field(default_factory=dict)
    voters: frozenset[int] = frozenset()
    """The controllers."""
    _name_by_topic_id: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def metadata_version_level(self) -> int:
        """The feature level of metadata.version, 0 if unknown."""
        return self.features.get(METADATA_VERSION_FEATURE, 0)

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are enabled."""
        return self.features.get(ELR_FEATURE, 0) > 0

    @property
    def recency_key(self) -> tuple[int, int]:
        """Sort key of metadata logs: the newer of two logs has the greater one."""
        return self.last_epoch, self.log_end_offset

    def topic_name(self, topic_id: str) -> str | None:
        """The name of the topic with an id; None if there is none."""
        if len(self._name_by_topic_id) != len(self.topic_ids):  # not yet asked
            self._name_by_topic_id = {id_: name for name, id_ in self.topic_ids.items()}
        return self._name_by_topic_id.get(topic_id)

    def has_replica(self, topic_id: str, partition: int, node_id: int | None) -> bool:
        """Whether a broker has a replica of a partition of the topic with this id."""
        topic = self.topic_name(topic_id)
        registration = None if topic is None else self.partitions.get((topic, partition))
        return registration is not None and (
            node_id is None or node_id in registration.leadership.replicas
        )

    def assigned_directory_id(self, topic: str, partition: int, node_id: int | None) -> str | None:
        """The id of the log directory that a broker's replica is assigned to."""
        registration = self.partitions.get((topic, partition))
        if registration is None or node_id not in registration.leadership.replicas:
            return None
        replica_index = registration.leadership.replicas.index(node_id)
        return (
            registration.directory_ids[replica_index]
            if replica_index < len(registration.directory_ids)
            else None
        )


def read_cluster(
    directory: DirectoryListing, read_errors: list[InputError], end_offset: int | None
) -> ClusterImage:
    """The cluster in the directory of a metadata log, with the end of the log and the voters in
    quorum-state; arguments as for `read_image`."""
    end_offset_and_epoch = read_metadata_end(directory, read_errors, end_offset)
    image = read_image(directory, read_errors, end_offset)
    image.log_end_offset, image.last_epoch = end_offset_and_epoch
    try:
        voters = read_voters(directory)
        voter_ids = frozenset(voter for voter in voters if voter is not None)
        image.voters = image.voters if None in voters else voter_ids or image.voters
    except InputError as error:
        read_errors.append(error)
    return image


def read_image(
    directory: DirectoryListing,
    read_errors: list[InputError],
    end_offset: int | None,
    bootstrap: InputFile | None = None,
) -> ClusterImage:
    """The cluster in the directory of a metadata log. end_offset: its log end offset after a start,
    None for the entire log; errors of unreadable files are added to `read_errors`. bootstrap: the
    initial records of an empty log."""
    image = ClusterImage()
    controller_ids: set[int] = set()
    settings_by_resource: dict[tuple[str, str], dict[str, str]] = {}
    partition_rows: list[Mapping[str, Any]] = []
    replay = replay_metadata_log(directory, read_errors, end_offset, bootstrap)
    for type_, values in replay.iter_rows():
        if type_ is types.TOPIC_ROW:
            image.topic_ids[values["topic"]] = values["topic_id"]
        elif type_ is types.PARTITION_STATE_ROW:
            partition_rows.append(values)
        elif type_ is types.BROKER_ROW:
            _add_broker(image, values)
        elif type_ is types.CONTROLLER_ROW:
            controller_ids.add(values["controller_id"])
        elif type_ is types.FEATURE_ROW:
            image.features[values["feature"]] = values["level"]
        elif type_ is types.CONFIG_ROW and values.get("value") is not None:
            resource_settings = settings_by_resource.setdefault(
                (values["resource_type"], values["resource"]), {}
            )
            resource_settings[values["name"]] = str(values["value"])
    for values in partition_rows:
        _add_partition(image, values, settings_by_resource)
    image.voters = frozenset(controller_ids)
    return image


def read_metadata_end(
    directory: DirectoryListing, read_errors: list[InputError], max_end_offset: int | None = None
) -> tuple[int, int]:
    """The log end offset of a metadata log, at most `max_end_offset`, and the epoch of its last
    batch or snapshot; errors of unreadable files are added to `read_errors`."""
    end_offset, epoch = 0, -1
    for snapshot in metadata_snapshots(directory)[-1:]:
        name = snapshot.path.rpartition("/")[2].partition(".")[0]
        end_offset, epoch = (int(part) for part in name.split("-"))
    for log in directory.logs:
        try:
            with open_log(log, read_ahead=False) as opened_log:
                for block in opened_log.blocks:
                    batches = block.batches
                    row_mask = (batches.crc_valid == 1) & (batches.last_offset + 1 > end_offset)
                    if max_end_offset is not None:
                        row_mask &= batches.last_offset < max_end_offset
                    if row_mask.any():
                        end_offset = int(batches.last_offset[row_mask][-1]) + 1
                        epoch = int(batches.partition_leader_epoch[row_mask][-1])
        except InputError as error:
            read_errors.append(error)
    return end_offset, epoch


def _add_broker(image: ClusterImage, values: Mapping[str, Any]) -> None:
    node_id = values["broker_id"]
    is_fenced = values["state"] == "fenced"
    directory_ids = tuple(values.get("log_dirs") or ())
    image.brokers[node_id] = BrokerRegistration(
        node_id, values["broker_epoch"], is_fenced, directory_ids
    )


def _add_partition(
    image: ClusterImage,
    values: Mapping[str, Any],
    settings_by_resource: Mapping[tuple[str, str], Mapping[str, str]],
) -> None:
    topic, partition = values["topic"], values["partition"]
    topic_settings = dict(settings_by_resource.get(("BROKER", ""), {})) | dict(
        settings_by_resource.get(("TOPIC", topic), {})
    )
    min_isr = topic_settings.get(MIN_ISR_SETTING, "1")
    leadership = PartitionLeadership(
        tuple(values["replicas"]),
        tuple(values["isr"]),
        tuple(values.get("eligible_leader_replicas") or ()),
        tuple(values.get("last_known_elr") or ()),
        values["leader"],
        int(min_isr) if min_isr.isdigit() else 1,
        topic_settings.get(UNCLEAN_ELECTION_SETTING, "false").strip().lower() == "true",
    )
    image.partitions[topic, partition] = PartitionRegistration(
        *(topic, partition, image.topic_ids.get(topic, ""), leadership),
        *(values["leader_epoch"], values["partition_epoch"]),
        tuple(values.get("directories") or ()),
    )
