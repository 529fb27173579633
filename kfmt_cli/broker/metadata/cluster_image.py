"""The cluster that a metadata log describes: its brokers, its partitions' leaders, its settings.

Source: `org.apache.kafka.image.TopicsImage`, `kafka.log.LogManager.isStrayKraftReplica`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kfmt_cli.broker.metadata.metadata_files import read_voter_ids
from kfmt_cli.broker.metadata.metadata_replay import replay_metadata_log
from kfmt_cli.broker.metadata.opened_log import open_metadata_log
from kfmt_cli.broker.state.replay import LoadFailure
from kfmt_cli.broker.version import METADATA_VERSION_FEATURE
from kfmt_cli.core.integers import parse_java_int
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.rows.types import state_rows as types

ELR_FEATURE = "eligible.leader.replicas.version"
NO_LEADER = -1
MIN_ISR_SETTING, UNCLEAN_ELECTION_SETTING = "min.insync.replicas", "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker, as registered."""

    node_id: int
    epoch: int
    is_fenced: bool
    directory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """A partition's replicas, leader and election settings in the metadata."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    """Eligible leader replicas."""
    last_known: tuple[int, ...] = ()
    """The last known leader, which the metadata stores in the field of the last known ELR."""
    leader: int = NO_LEADER
    min_isr: int = 1
    allows_unclean_election: bool = False
    """unclean.leader.election.enable."""
    elected_from: str | None = None
    """How the leader was elected: isr, elr, last_known_leader or unclean; None for the leader that
    the metadata already had."""


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
    adding_replicas: tuple[int, ...] = ()
    """The replicas that a reassignment adds, and those that it removes; all are replicas now."""
    removing_replicas: tuple[int, ...] = ()

    def next_leader(self, leader: int, started_nodes: Collection[int]) -> int:
        """The leader once a reassignment in flight is finished: the same, unless it is removed and
        brokers with all replicas that are added have started.

        Source: `org.apache.kafka.controller.PartitionReassignmentReplicas`,
        maybeCompleteReassignment.
        """
        remaining_replicas = (
            node for node in self.leadership.replicas if node not in self.removing_replicas
        )
        if leader not in self.removing_replicas or not set(self.adding_replicas) <= set(
            started_nodes
        ):
            return leader
        return next((node for node in remaining_replicas if node in started_nodes), leader)


@dataclass(slots=True)
class ClusterImage:
    """The cluster that a metadata log describes.

    log_end_offset: the log end offset of the metadata log. last_epoch: the leader epoch of its last
    batch or snapshot, -1 if it has neither.
    """

    log_end_offset: int = 0
    last_epoch: int = -1
    level_by_feature: dict[str, int] = field(default_factory=dict)
    broker_by_node_id: dict[int, BrokerRegistration] = field(default_factory=dict)
    """The brokers by node id, in the order of their registrations."""
    topic_id_by_name: dict[str, str] = field(default_factory=dict)
    """Topic ids by topic name."""
    registration_by_partition: dict[tuple[str, int], PartitionRegistration] = field(
        default_factory=dict
    )
    voter_ids: frozenset[int] = frozenset()
    """The controllers."""
    load_failure: LoadFailure | None = None
    """The first record that a broker cannot apply, where it halts."""
    _name_by_topic_id: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def metadata_version_level(self) -> int:
        """The feature level of metadata.version, 0 if unknown."""
        return self.level_by_feature.get(METADATA_VERSION_FEATURE, 0)

    @property
    def is_elr_enabled(self) -> bool:
        """Whether eligible leader replicas are enabled."""
        return self.level_by_feature.get(ELR_FEATURE, 0) > 0

    @property
    def recency_key(self) -> tuple[int, int]:
        """Sort key of metadata logs: the newer of two logs has the greater one."""
        return self.last_epoch, self.log_end_offset

    @property
    def node_id_by_directory_id(self) -> dict[str, int]:
        """The broker that each directory.id is assigned to, if it has replicas."""
        return {
            directory_id: node_id
            for registration in self.registration_by_partition.values()
            for node_id, directory_id in zip(
                registration.leadership.replicas, registration.directory_ids, strict=False
            )
            if not is_reserved_directory_id(directory_id)
        }

    def find_topic_name(self, topic_id: str) -> str | None:
        """The name of the topic with an id; None if there is none."""
        if len(self._name_by_topic_id) != len(self.topic_id_by_name):  # not yet asked
            self._name_by_topic_id = {
                registered_id: topic for topic, registered_id in self.topic_id_by_name.items()
            }
        return self._name_by_topic_id.get(topic_id)

    def has_replica(self, topic_id: str, partition: int, node_id: int | None) -> bool:
        """Whether a broker has a replica of a partition of the topic with this id."""
        topic_name = self.find_topic_name(topic_id)
        registration = (
            None
            if topic_name is None
            else self.registration_by_partition.get((topic_name, partition))
        )
        return registration is not None and (
            node_id is None or node_id in registration.leadership.replicas
        )

    def find_only_common_replica(
        self, topic_partitions: Iterable[tuple[str, int] | None]
    ) -> int | None:
        """The only broker that has a replica of all given partitions; partitions that the cluster
        does not have are ignored."""
        replica_sets = [
            set(self.registration_by_partition[topic_partition].leadership.replicas)
            for topic_partition in topic_partitions
            if topic_partition in self.registration_by_partition
        ]
        common_ids = set.intersection(*replica_sets) if replica_sets else set()
        return common_ids.pop() if len(common_ids) == 1 else None

    def find_assigned_directory_id(
        self, topic: str, partition: int, node_id: int | None
    ) -> str | None:
        """The id of the log directory that a broker's replica is assigned to."""
        registration = self.registration_by_partition.get((topic, partition))
        if registration is None or node_id not in registration.leadership.replicas:
            return None
        replica_index = registration.leadership.replicas.index(node_id)
        return (
            registration.directory_ids[replica_index]
            if replica_index < len(registration.directory_ids)
            else None
        )


def read_cluster_with_end(
    directory: DirectoryListing, read_errors: list[InputError], end_offset: int | None
) -> ClusterImage:
    """The cluster in the directory of a metadata log, with the end of the log and the voters in
    quorum-state; arguments as for `read_cluster_image`."""
    opened_log = open_metadata_log(directory, read_errors, end_offset)
    image = read_cluster_image(directory, read_errors, end_offset)
    image.log_end_offset, image.last_epoch = opened_log.end_offset, opened_log.last_epoch
    try:
        voter_ids_or_none = read_voter_ids(directory)
        voter_ids = frozenset(voter_id for voter_id in voter_ids_or_none if voter_id is not None)
        image.voter_ids = (
            image.voter_ids if None in voter_ids_or_none else voter_ids or image.voter_ids
        )
    except InputError as error:
        read_errors.append(error)
    return image


def read_cluster_image(
    directory: DirectoryListing,
    read_errors: list[InputError],
    end_offset: int | None,
    bootstrap_file: InputFile | None = None,
) -> ClusterImage:
    """The cluster in the directory of a metadata log. end_offset: its log end offset after a start,
    None for the entire log; errors of unreadable files are added to `read_errors`. bootstrap_file:
    the initial records of an empty log."""
    image = ClusterImage()
    controller_ids: set[int] = set()
    settings_by_resource: dict[tuple[str, str], dict[str, str]] = {}
    partition_rows: list[Mapping[str, Any]] = []
    replay = replay_metadata_log(directory, read_errors, end_offset, bootstrap_file)
    for row_type, row_values in replay.iter_rows():
        if row_type is types.TOPIC_ROW:
            image.topic_id_by_name[row_values["topic"]] = row_values["topic_id"]
        elif row_type is types.PARTITION_STATE_ROW:
            partition_rows.append(row_values)
        elif row_type is types.BROKER_ROW:
            _add_broker_registration(image, row_values)
        elif row_type is types.CONTROLLER_ROW:
            controller_ids.add(row_values["controller_id"])
        elif row_type is types.FEATURE_ROW:
            image.level_by_feature[row_values["feature"]] = row_values["level"]
        elif row_type is types.CONFIG_ROW and row_values.get("value") is not None:
            resource_settings = settings_by_resource.setdefault(
                (row_values["resource_type"], row_values["resource"]), {}
            )
            resource_settings[row_values["name"]] = str(row_values["value"])
    for row_values in partition_rows:
        _add_partition_registration(image, row_values, settings_by_resource)
    image.voter_ids, image.load_failure = frozenset(controller_ids), replay.load_failure
    return image


def _add_broker_registration(image: ClusterImage, row_values: Mapping[str, Any]) -> None:
    node_id = row_values["broker_id"]
    is_fenced = row_values["state"] == "fenced"
    directory_ids = tuple(row_values.get("log_dirs") or ())
    image.broker_by_node_id[node_id] = BrokerRegistration(
        node_id, row_values["broker_epoch"], is_fenced, directory_ids
    )


def _add_partition_registration(
    image: ClusterImage,
    row_values: Mapping[str, Any],
    settings_by_resource: Mapping[tuple[str, str], Mapping[str, str]],
) -> None:
    topic, partition = row_values["topic"], row_values["partition"]
    topic_settings = dict(settings_by_resource.get(("BROKER", ""), {})) | dict(
        settings_by_resource.get(("TOPIC", topic), {})
    )
    min_isr = parse_java_int(topic_settings.get(MIN_ISR_SETTING, "1").strip())
    leadership = PartitionLeadership(
        tuple(row_values["replicas"]),
        tuple(row_values["isr"]),
        tuple(row_values.get("eligible_leader_replicas") or ()),
        tuple(row_values.get("last_known_elr") or ()),
        row_values["leader"],
        max(min_isr or 1, 1),
        topic_settings.get(UNCLEAN_ELECTION_SETTING, "false").strip().lower() == "true",
    )
    image.registration_by_partition[topic, partition] = PartitionRegistration(
        *(topic, partition, image.topic_id_by_name.get(topic, ""), leadership),
        *(row_values["leader_epoch"], row_values["partition_epoch"]),
        tuple(row_values.get("directories") or ()),
        tuple(row_values.get("adding_replicas") or ()),
        tuple(row_values.get("removing_replicas") or ()),
    )


def is_reserved_directory_id(directory_id: str) -> bool:
    """Whether an id is reserved and names no known directory."""
    return directory_id.startswith("AAAAAAAAAAAAAAAAAAAA")
