"""What a metadata log says about a cluster: its brokers, its partitions' leaders, its settings.

Source: `org.apache.kafka.image.TopicsImage`, `kafka.log.LogManager.isStrayKraftReplica`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kfmt_cli.broker.cluster.election import Leadership
from kfmt_cli.broker.start.image import replayed
from kfmt_cli.broker.start.metadata_files import snapshots_of, voters_of
from kfmt_cli.broker.version import FEATURE
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import InputError
from kfmt_cli.log.open_log import open_log
from kfmt_cli.rows.types import state_types as types

ELR_FEATURE = "eligible.leader.replicas.version"
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker, as registered."""

    node: int
    epoch: int
    is_fenced: bool
    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionInMetadata:
    """A partition of a topic."""

    topic: str
    partition: int
    topic_id: str
    state: Leadership
    leader_epoch: int
    partition_epoch: int
    directories: tuple[str, ...]
    """The id of each replica's log directory."""


@dataclass(slots=True)
class ClusterImage:
    """The cluster that a metadata log describes. end, epoch: of its log end."""

    end: int = 0
    epoch: int = -1
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    """In the order of their registrations."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """By name."""
    partitions: dict[tuple[str, int], PartitionInMetadata] = field(default_factory=dict)
    voters: frozenset[int] = frozenset()
    """The controllers."""

    @property
    def level(self) -> int:
        """The feature level of metadata.version, 0 if unknown."""
        return self.features.get(FEATURE, 0)

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are enabled."""
        return self.features.get(ELR_FEATURE, 0) > 0

    @property
    def key(self) -> tuple[int, int]:
        """The newer of two logs has the greater one."""
        return self.epoch, self.end

    def has(self, topic_id: str, partition: int, node: int | None) -> bool:
        """Whether a broker has a replica of a partition of the topic with this id."""
        topic = next((name for name, id_ in self.topic_ids.items() if id_ == topic_id), None)
        known = None if topic is None else self.partitions.get((topic, partition))
        return known is not None and (node is None or node in known.state.replicas)

    def directory_of(self, topic: str, partition: int, node: int | None) -> str | None:
        """The id of the log directory that a broker's replica is assigned to."""
        known = self.partitions.get((topic, partition))
        if known is None or node not in known.state.replicas:
            return None
        row = known.state.replicas.index(node)
        return known.directories[row] if row < len(known.directories) else None


def read_cluster(folder: Folder, unread: list[InputError], end: int | None) -> ClusterImage:
    """The cluster in the directory of a metadata log, with the end of the log and the voters in
    quorum-state; arguments as for `read_image`."""
    at_end = metadata_end(folder, unread, end)
    image = read_image(folder, unread, end)
    image.end, image.epoch = at_end
    try:
        voters = voters_of(folder)
        known = frozenset(voter for voter in voters if voter is not None)
        image.voters = image.voters if None in voters else known or image.voters
    except InputError as error:
        unread.append(error)
    return image


def read_image(
    folder: Folder, unread: list[InputError], end: int | None, bootstrap: Input | None = None
) -> ClusterImage:
    """The cluster in the directory of a metadata log. end: its log end offset after a start, None
    for the whole log; errors of unreadable files are added to `unread`. bootstrap: the initial
    records of an empty log."""
    image = ClusterImage()
    controllers: set[int] = set()
    settings: dict[tuple[str, str], dict[str, str]] = {}
    rows: list[Mapping[str, Any]] = []
    replay = replayed(folder, unread, end, bootstrap)
    for type_, values in replay.rows():
        if type_ is types.TOPIC:
            image.topic_ids[values["topic"]] = values["topic_id"]
        elif type_ is types.PARTITION:
            rows.append(values)
        elif type_ is types.BROKER:
            _add_broker(image, values)
        elif type_ is types.CONTROLLER:
            controllers.add(values["controller_id"])
        elif type_ is types.FEATURE:
            image.features[values["feature"]] = values["level"]
        elif type_ is types.CONFIG and values.get("value") is not None:
            named = settings.setdefault((values["resource_type"], values["resource"]), {})
            named[values["name"]] = str(values["value"])
    for values in rows:
        _add_partition(image, values, settings)
    image.voters = frozenset(controllers)
    return image


def metadata_end(
    folder: Folder, unread: list[InputError], most: int | None = None
) -> tuple[int, int]:
    """The log end offset of a metadata log, at most `most`, and the epoch of its last batch or
    snapshot; errors of unreadable files are added to `unread`."""
    end, epoch = 0, -1
    for snapshot in snapshots_of(folder)[-1:]:
        name = snapshot.path.rpartition("/")[2].partition(".")[0]
        end, epoch = (int(part) for part in name.split("-"))
    for log in folder.logs:
        try:
            with open_log(log, read_ahead=False) as opened:
                for block in opened.blocks:
                    batches = block.batches
                    rows = (batches.crc_valid == 1) & (batches.last_offset + 1 > end)
                    if most is not None:
                        rows &= batches.last_offset < most
                    if rows.any():
                        end = int(batches.last_offset[rows][-1]) + 1
                        epoch = int(batches.partition_leader_epoch[rows][-1])
        except InputError as error:
            unread.append(error)
    return end, epoch


def _add_broker(image: ClusterImage, values: Mapping[str, Any]) -> None:
    node = values["broker_id"]
    is_fenced = values["state"] == "fenced"
    directories = tuple(values.get("log_dirs") or ())
    image.brokers[node] = RegisteredBroker(node, values["broker_epoch"], is_fenced, directories)


def _add_partition(
    image: ClusterImage,
    values: Mapping[str, Any],
    settings: Mapping[tuple[str, str], Mapping[str, str]],
) -> None:
    topic, number = values["topic"], values["partition"]
    named = dict(settings.get(("BROKER", ""), {})) | dict(settings.get(("TOPIC", topic), {}))
    min_isr = named.get(MIN_ISR, "1")
    state = Leadership(
        tuple(values["replicas"]),
        tuple(values["isr"]),
        tuple(values.get("eligible_leader_replicas") or ()),
        tuple(values.get("last_known_elr") or ()),
        values["leader"],
        int(min_isr) if min_isr.isdigit() else 1,
        named.get(UNCLEAN, "false").strip().lower() == "true",
    )
    image.partitions[topic, number] = PartitionInMetadata(
        *(topic, number, image.topic_ids.get(topic, ""), state),
        *(values["leader_epoch"], values["partition_epoch"]),
        tuple(values.get("directories") or ()),
    )
