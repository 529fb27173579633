"""Brokers, derived from their log directories, and the effect of a start on all partitions.

Source: `kafka.server.KafkaRaftServer.initializeLogDirs`, `kafka.log.LogManager.loadLogs`,
`LogManager.isStrayKraftReplica`, `kafka.server.ReplicaManager.handleLogDirFailure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.cluster.cluster_image import ClusterImage, read_image
from kfmt_cli.broker.start.directory import LogDirectory, contradictions, directory_at
from kfmt_cli.broker.start.identity import read_topic_id
from kfmt_cli.broker.start.metadata_files import snapshots_of
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, OFFLINE, STRAY, UNSERVED, Start
from kfmt_cli.broker.start.own_files import BOOTSTRAP, METADATA_LOG
from kfmt_cli.broker.start.ranges import Ranges
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.broker.version import BY_DEFAULT, FEATURE, PredictedFor, by_level
from kfmt_cli.core.urls import name_text
from kfmt_cli.core.uuids import uuid_text
from kfmt_cli.disk.kinds import PARTITION_METADATA
from kfmt_cli.disk.names import parsed_place, suffix_of
from kfmt_cli.disk.opening import is_file
from kfmt_cli.disk.tree import Folder, classify, listing
from kfmt_cli.errors import InputError


@dataclass(slots=True)
class Replica:
    """A partition's directory and the effect of each start on it."""

    folder: Folder
    shown: str
    starts: dict[str, Start]
    """The starts, by kind."""
    held: Ranges = field(default_factory=list)
    """The offsets in its logs."""

    @property
    def name(self) -> str:
        """The name of the directory."""
        name = self.folder.path.rpartition("/")[2]
        return name if name.strip(".") else Path(self.folder.path).absolute().name


@dataclass(frozen=True, slots=True)
class Next:
    """The next start of a log directory."""

    file: str
    after: str
    starts: bool
    reason: str | None
    becomes: str | None
    retry: str | None
    """The kind of start that follows a failed one."""
    kafka: PredictedFor
    """The version of the broker."""


@dataclass(frozen=True, slots=True)
class OtherOwner:
    """The broker that a log directory belongs to, instead of the one in its meta.properties."""

    directory: LogDirectory
    node: int
    by_id: bool
    """The metadata log gives the directory.id to that broker; else every partition in it."""


class Broker:
    """The log directories of one broker; the one with the metadata log comes first.

    metadata_ends: the metadata log's end after each kind of start that truncates it for good.
    metadata_fails: the metadata log, which is loaded before all others, does not load. kafka: its
    version. other_owner: once judged, of a log directory that is not its own.
    """

    def __init__(self, directories: list[LogDirectory]) -> None:
        self.directories = directories
        self.kafka = BY_DEFAULT
        self.metadata_ends: dict[str, int] = {}
        self.metadata_fails = False
        self.other_owner: OtherOwner | None = None
        self._offline: dict[tuple[str, str], str] = {}
        self._images: dict[int | None, ClusterImage | None] = {}

    @property
    def is_kraft(self) -> bool:
        """Whether it is a KRaft broker."""
        return any(directory.is_kraft for directory in self.directories)

    @property
    def replicas(self) -> list[Replica]:
        """Those in all its log directories."""
        return [replica for directory in self.directories for replica in directory.replicas]

    def early(self) -> list[tuple[str, str]]:
        """Files and reasons that stop the broker before it reads any log."""
        troubles = [trouble for directory in self.directories for trouble in directory.early]
        troubles += self.directories[0].bootstrap
        if self.is_kraft:
            troubles = [*contradictions(self.directories), *troubles]
        return troubles

    def find_version(self, wanted: PredictedFor | None) -> None:
        """Set its version: the wanted one, else that of the metadata log, else the default."""
        image = None if wanted is not None else self._image(CRASH)
        level = None if image is None else image.features.get(FEATURE)
        self.kafka = wanted or (BY_DEFAULT if level is None else by_level(level))

    def missing_identities(self) -> Iterator[tuple[str, list[str]]]:
        """The path and lines of each missing meta.properties, if another log directory has the ids.

        The directory.id is included if it is the only one in the metadata log that no other
        directory has.
        """
        known = [directory.identity for directory in self.directories]
        whole = next(
            (identity for identity in known if identity.trouble is None and identity.cluster_id),
            None,
        )
        if whole is None or not self.is_kraft:
            return
        image = self._image(CRASH)
        owners = {} if image is None else _owners(image)
        assigned = {directory for directory, node in owners.items() if node == whole.node_id}
        free = assigned - {identity.directory_id for identity in known}
        missing = [directory for directory in self.directories if directory.identity.is_missing]
        for directory in missing:
            lines = ["version=1", f"cluster.id={whole.cluster_id}", f"node.id={whole.node_id}"]
            if len(free) == len(missing) == 1:
                lines += (f"directory.id={directory_id}" for directory_id in free)
            yield directory.path, lines

    def judge(self) -> list[Start]:
        """Adjust the starts of partitions to the broker's files and to each other.

        Returns the starts of files that stop the broker.
        """
        found: list[Start] = []
        self.other_owner = self._find_owner()
        for after in (CRASH, CLEAN):
            early = [Start(file, after, reason, kafka=self.kafka) for file, reason in self.early()]
            found += early
            for directory in self.directories:
                if not early:  # otherwise the broker does not get this far
                    self._identify_all(directory, after)
                found += self._of_directory(directory, after)
            if not early:
                self._duplicates(after)
        return found

    def _identify_all(self, directory: LogDirectory, after: str) -> None:
        for other in directory.replicas:
            start = other.starts.get(after)
            if start is not None and start.reason is None and other.name != METADATA_LOG:
                self._identify(directory, other, start)

    def _of_directory(self, directory: LogDirectory, after: str) -> Iterable[Start]:
        troubles = list(directory.troubles)
        reasons = list(directory.offline)
        loaded = [replica for replica in directory.replicas if after in replica.starts]
        starts = [replica.starts[after] for replica in loaded]
        reasons += [
            (start.file, start.reason) for start in starts if start.is_offline and start.reason
        ]
        if reasons and directory is not self.directories[0]:
            self._offline[directory.path, after] = reasons[0][1]
            for replica, start in zip(loaded, starts, strict=True):
                _become(replica, start, OFFLINE, reasons[0][1])
        else:
            troubles += directory.offline
        return [Start(file, after, reason, kafka=self.kafka) for file, reason in troubles]

    def _identify(self, directory: LogDirectory, replica: Replica, start: Start) -> None:
        """Apply the effect of the partition's identity to its start."""
        folder = replica.folder
        named = next(iter(PARTITION_METADATA.names))
        topic_id = None
        if named in folder.files and named not in folder.special:
            try:
                topic_id = uuid_text(read_topic_id(folder.input(named)))
            except StartFailed as failed:
                start.reason, start.is_offline = str(failed), failed.is_offline
                return
            except InputError as error:
                directory.unread.append(error)
                start.reason, start.is_offline = str(error), True
                return
        place = parsed_place(replica.name)
        if not self.is_kraft or place is None or suffix_of(replica.name) in ("delete", "stray"):
            return
        image = self._image(start.after)
        if topic_id is None:
            _become(replica, start, STRAY, "partition.metadata is missing")
        elif image is not None and not image.has(topic_id, place[1], self.node_id):
            _become(replica, start, STRAY, _why_stray(image, place[0], topic_id))
            is_known = image.topic_ids.get(place[0]) == topic_id
            start.is_consequence = is_known and self.other_owner is not None
        else:
            words = self._why_unserved(directory, image, place, topic_id)
            if words is not None:
                _become(replica, start, UNSERVED, words)
                start.is_consequence = self.other_owner is not None

    def _why_unserved(
        self,
        directory: LogDirectory,
        image: ClusterImage | None,
        place: tuple[str, int],
        topic_id: str,
    ) -> str | None:
        """Why the broker does not serve a partition that it keeps."""
        if image is not None and image.topic_ids.get(place[0]) != topic_id:
            return _of_another(image, place[0], topic_id)
        if directory.unserved is not None:
            return directory.unserved
        assigned = None if image is None else image.directory_of(*place, self.node_id)
        known = (its.identity.directory_id for its in self.directories)
        if assigned is None or _is_reserved(assigned) or assigned in known:
            return None
        if directory.identity.directory_id is None:
            return "meta.properties has no directory.id, so the broker generates a new one"
        words = f"the metadata log assigns it to the log directory with id {assigned}"
        return f"{words}, which this broker does not have"

    def _find_owner(self) -> OtherOwner | None:
        """The owner of a log directory, by the metadata log, if meta.properties names another."""
        image, node = self._image(CRASH), self.node_id
        if image is None or node is None:
            return None
        owners = _owners(image)
        for directory in self.directories:
            owner = owners.get(directory.identity.directory_id or "", node)
            if owner != node:
                return OtherOwner(directory, owner, by_id=True)
            names = (replica.name for replica in directory.replicas)
            places = {place for name in names if (place := parsed_place(name)) is not None}
            known = [
                set(image.partitions[place].state.replicas)
                for place in places & set(image.partitions)
            ]
            others = set.intersection(*known) if known else set()
            if len(others) == 1 and node not in others:
                return OtherOwner(directory, others.pop(), by_id=False)
        return None

    def assigned(self, directory: LogDirectory) -> list[tuple[str, int]]:
        """The partitions whose replica the metadata log gives to a log directory, and that have
        other replicas, too."""
        image, id_ = self._image(CRASH), directory.identity.directory_id
        if image is None or id_ is None:
            return []
        places = sorted(p for p, its in image.partitions.items() if len(its.state.replicas) > 1)
        return [place for place in places if image.directory_of(*place, self.node_id) == id_]

    def knows_other(self, directory: LogDirectory) -> bool:
        """Whether a directory belongs to another broker of the same cluster."""
        node = directory.identity.node_id
        if node in (None, self.node_id):
            return False
        image = self._image(CRASH)
        replicas = [] if image is None else image.partitions.values()
        return any(node in replica.state.replicas for replica in replicas)

    @property
    def node_id(self) -> int | None:
        """Its id in meta.properties."""
        found = (directory.identity.node_id for directory in self.directories)
        return next((node for node in found if node is not None), None)

    def _image(self, after: str) -> ClusterImage | None:
        """The topics that the broker knows, or None if its metadata log is missing, or cannot be
        read: the rest of it may name other topics."""
        end = self.metadata_ends.get(after)
        if end not in self._images:
            self._images[end] = self._read_image(end)
        return self._images[end]

    def _read_image(self, end: int | None) -> ClusterImage | None:
        holder = next((directory for directory in self.directories if directory.has_metadata), None)
        if holder is None:
            return None
        try:
            folder = listing(f"{holder.path}/{METADATA_LOG}")
        except InputError as error:
            holder.unread.append(error)
            return None
        bootstrap = f"{holder.path}/{BOOTSTRAP}"
        first = classify(bootstrap, BOOTSTRAP) if is_file(bootstrap) else None
        n_unread = len(holder.unread)
        image = read_image(folder, holder.unread, end, first)
        is_known = len(holder.unread) == n_unread and (folder.logs or snapshots_of(folder))
        return image if is_known else None

    def _duplicates(self, after: str) -> None:
        known: dict[tuple[tuple[str, int], str], Replica] = {}
        for directory in self.directories:
            for replica in directory.replicas:
                place, start = parsed_place(replica.name), replica.starts.get(after)
                mark = suffix_of(replica.name)
                if place is None or start is None or mark in ("delete", "stray"):
                    continue
                if start.becomes in (STRAY, OFFLINE) or start.reason is not None:
                    continue
                other = known.setdefault((place, mark), replica)
                if other is not replica:
                    start.reason = f"{replica.shown}: same partition as {other.shown}"
                    start.is_twice = True
                elif mark == "future" and self._promotes(directory, place, after):
                    start.reason = (
                        f"{replica.shown}: the broker promotes this -future replica, but the "
                        "partition's directory already exists"
                    )

    def _promotes(self, directory: LogDirectory, place: tuple[str, int], after: str) -> bool:
        """Whether a future replica is in its assigned log directory, where the partition's
        directory already exists."""
        image = self._image(after)
        if image is None or not self.is_kraft:
            return False
        is_there = any(replica.name == f"{place[0]}-{place[1]}" for replica in directory.replicas)
        assigned = image.directory_of(*place, self.node_id)
        return is_there and assigned == directory.identity.directory_id

    def next_start(self, directory: LogDirectory, reasons: list[str]) -> Next:
        """The next start of one of its directories. reasons: why the broker does not start."""
        after = CRASH if directory.marker is None else CLEAN
        early = [reason for _, reason in self.early()]
        reason = next(iter([*early, *reasons]), None)
        if reason is None:
            offline = self._offline.get((directory.path, after))
            becomes = None if offline is None else OFFLINE
            return Next(name_text(directory.path), after, True, offline, becomes, None, self.kafka)
        # A failure before the logs are loaded leaves the marker in place.
        retry = after if early or self.metadata_fails else CRASH
        return Next(name_text(directory.path), after, False, reason, None, retry, self.kafka)


def _owners(image: ClusterImage) -> dict[str, int]:
    """The broker of each log directory that has replicas."""
    return {
        directory: broker
        for partition in image.partitions.values()
        for broker, directory in zip(partition.state.replicas, partition.directories, strict=False)
        if not _is_reserved(directory)
    }


def _why_stray(image: ClusterImage, topic: str, topic_id: str) -> str:
    """Why a partition that the metadata log does not assign to this broker is set aside."""
    known = image.topic_ids.get(topic)
    if known is None:
        return "the metadata log does not contain its topic"
    if known == topic_id:
        return "the metadata log does not assign it to this broker"
    return f"its topic has id {known} in the metadata log, but {topic_id} in partition.metadata"


def _of_another(image: ClusterImage, topic: str, topic_id: str) -> str:
    """Why a partition with the id of another topic of this broker is not served."""
    other = next(name for name, id_ in image.topic_ids.items() if id_ == topic_id)
    words = f"partition.metadata has id {topic_id}, the id of topic {other}"
    known = image.topic_ids.get(topic)
    return words if known is None else f"{words}; the id of its topic is {known}"


def _become(replica: Replica, start: Start, what: str, reason: str) -> None:
    """Mark a partition as not served: consumers receive none of its records."""
    start.becomes, start.reason = what, f"{replica.shown}: {reason}"
    if what == STRAY:
        start.log_start_offset = start.log_end_offset = 0
    elif what == OFFLINE:
        start.log_start_offset = start.log_end_offset = None
    start.cut, start.deleted, start.lost = [], [], []
    start.unreachable = list(replica.held)


def _is_reserved(directory_id: str) -> bool:
    """Whether an id is reserved and names no known directory."""
    return directory_id.startswith("AAAAAAAAAAAAAAAAAAAA")


def version_at(log_directory: Path) -> PredictedFor:
    """The version of the broker of a log directory, by its metadata log or the default."""
    broker = Broker([directory_at(log_directory)])
    broker.find_version(None)
    return broker.kafka


def group(directories: Iterable[LogDirectory], together: frozenset[str]) -> list[Broker]:
    """Group log directories by broker.

    A broker has one metadata log. A directory without one belongs to the broker that has the same
    ids. If it was given together with a broker's directory, it belongs to that broker, unless its
    ids name another broker that the metadata log knows. together: the paths given.
    """
    every = list(directories)
    groups: list[Broker] = []
    for directory in every:
        if directory.has_metadata:
            of = next((group for group in groups if _same(group.directories[0], directory)), None)
            # A directory with the same id is a copy, a broker of its own unless both are given.
            its = directory.identity.directory_id
            is_copy = of is not None and of.directories[0].identity.directory_id == its
            are_given = of is not None and {of.directories[0].path, directory.path} <= together
            if of is None or (is_copy and not are_given):
                groups.append(Broker([directory]))
            else:
                of.directories.append(directory)
    holders = [group for group in groups if group.directories[0].path in together]
    for directory in every:
        if directory.has_metadata:
            continue
        for broker in groups:
            if _same(broker.directories[0], directory):
                broker.directories.append(directory)
                break
        else:
            is_given = directory.path in together and len(holders) == 1
            if is_given and not holders[0].knows_other(directory):
                holders[0].directories.append(directory)
            else:
                groups.append(Broker([directory]))
    return groups


def _same(one: LogDirectory, other: LogDirectory) -> bool:
    mine, its = one.identity, other.identity
    same = (mine.cluster_id, mine.node_id) == (its.cluster_id, its.node_id)
    return mine.node_id is not None and same
