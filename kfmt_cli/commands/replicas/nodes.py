"""replicas: the nodes of a cluster and their replicas, as their disks have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.cluster.cluster_image import ClusterImage, read_cluster
from kfmt_cli.broker.start.brokers import Broker, Replica
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.identity import read_topic_id
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, OFFLINE, Start
from kfmt_cli.broker.start.own_files import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    METADATA_LOG,
    RECOVERY_POINTS,
)
from kfmt_cli.broker.start.ranges import Ranges, merged, ranges_of, without
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.commands.check.directories import CheckedPartitions
from kfmt_cli.core.urls import name_text
from kfmt_cli.core.uuids import uuid_text
from kfmt_cli.disk.given import is_tiered
from kfmt_cli.disk.kinds import PARTITION_METADATA
from kfmt_cli.disk.kinds.kind import read_whole
from kfmt_cli.disk.names import parsed_place, suffix_of
from kfmt_cli.disk.tree import Folder, classify
from kfmt_cli.errors import Caught, InputError
from kfmt_cli.topics import CLUSTER_METADATA

Place = tuple[str, int]
NO_EPOCH = -1
_MARKER_BYTES = 1 << 12


@dataclass(slots=True, eq=False)
class DiskReplica:
    """A replica of a partition. node: the index of its node."""

    node: int
    broker_id: int | None
    directory: LogDirectory
    folder: Folder | None = None
    """Its directory; None if it is missing."""
    file: str | None = None
    topic_id: str | None = None
    log_start: int | None = None
    log_end: int | None = None
    is_end_known: bool = True
    """Whether its last log could be read."""
    start_after: int | None = 0
    """Log start offset after the next start."""
    end_after: int | None = 0
    """Log end offset after the next start; None if the replica goes offline or is unread."""
    is_predicted: bool = True
    """Whether the next start is known; not if a file of its directory could not be read."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int | None = None
    recovery_point: int | None = None
    damaged: Ranges = field(default_factory=list)
    segments: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Base offset, first offset, end offset and fingerprint of each log."""
    partly_read: int = 0
    """Logs with bytes that the disk cannot give; none of them is in `segments`."""
    is_tiered: bool = False
    """It is in tiered storage, which has closed segments only."""
    is_set_aside: bool = False
    """The broker does not take it for the partition's replica: it has another topic id."""

    @property
    def owner(self) -> str:
        """Its broker, or its directory if that is not known to be a broker's."""
        return f"broker {self.broker_id}" if self.broker_id is not None else self.file or ""

    @property
    def latest_epoch(self) -> int | None:
        """The leader epoch of the last batch."""
        return self.epochs[-1][0] if self.epochs else None

    @property
    def undamaged(self) -> Ranges:
        """The offsets in undamaged batches."""
        held = merged((first, end - 1) for _, first, end, _ in self.segments)
        return without(held, self.damaged)

    @property
    def kept(self) -> Ranges:
        """Those that remain after the next start."""
        if self.end_after is None or self.is_set_aside:
            return []
        low, high = self.start_after or 0, self.end_after - 1
        return without(self.undamaged, [(-1, low - 1), (high + 1, 1 << 63)])


def of_brokers(copies: Iterable[DiskReplica]) -> dict[int | None, DiskReplica]:
    """The replica of each broker; of several, the one that is not set aside."""
    found: dict[int | None, DiskReplica] = {}
    for copy in copies:
        if copy.broker_id not in found or not copy.is_set_aside:
            found[copy.broker_id] = copy
    return found


@dataclass(slots=True)
class ClusterNode:
    """A node of the cluster: its log directories."""

    index: int
    broker: Broker
    image: ClusterImage | None = None
    """What its metadata log says."""
    why_not: str | None = None
    """Why the cluster does not admit it."""
    why_no_start: str | None = None
    """Why it does not start. Its replicas are as good as any, but it cannot lead."""

    @property
    def why_absent(self) -> str | None:
        """Why it takes no part in elections."""
        if self.why_not is None and self.why_no_start is not None:
            return f"it does not start: {self.why_no_start}"
        return self.why_not

    @property
    def directories(self) -> list[LogDirectory]:
        """Its log directories, that with the metadata log first."""
        return self.broker.directories

    @property
    def node_id(self) -> int | None:
        """Its id in meta.properties."""
        return self.broker.node_id

    @property
    def cluster_id(self) -> str | None:
        """The cluster id in meta.properties."""
        found = (d.identity.cluster_id for d in self.directories)
        return next((id_ for id_ in found if id_), None)

    @property
    def directory_ids(self) -> set[str]:
        """The ids of its log directories."""
        found = (d.identity.directory_id for d in self.directories)
        return {id_ for id_ in found if id_}

    @property
    def shown(self) -> str:
        """Its first directory, as displayed."""
        return name_text(self.directories[0].path)

    def clean_epoch(self) -> int | None:
        """The broker epoch in `.kafka_cleanshutdown`, NO_EPOCH if it has none; None without the
        file in each directory."""
        markers = [directory.marker for directory in self.directories]
        if None in markers:
            return None
        marker = markers[0] or ""
        with suppress(InputError, ValueError, AttributeError, TypeError):
            data = read_whole(classify(marker, name_text(marker)), _MARKER_BYTES)
            return int(json.loads(data).get("brokerEpoch", NO_EPOCH))
        return NO_EPOCH  # empty before 3.7


def nodes_of(checked: CheckedPartitions, unread: list[InputError]) -> list[ClusterNode]:
    """The nodes whose directories were checked; errors of unreadable files are added to
    `unread`."""
    found: list[ClusterNode] = []
    for broker in checked.brokers:
        node = ClusterNode(len(found), broker)
        node.image = _image(node, unread)
        found.append(node)
    for next_start in checked.nexts:
        for node in found:
            is_its = any(next_start.file == name_text(d.path) for d in node.directories)
            if is_its and not next_start.starts and node.why_no_start is None:
                node.why_no_start = next_start.reason
    return found


def _image(node: ClusterNode, unread: list[InputError]) -> ClusterImage | None:
    for directory in node.directories:
        for replica in directory.replicas:
            if replica.name == METADATA_LOG:
                start = _next_start(replica, directory)
                end = start.log_end_offset if start is not None else None
                return read_cluster(replica.folder, unread, end)
    return None


def _next_start(replica: Replica, directory: LogDirectory) -> Start | None:
    return replica.starts.get(CRASH if directory.marker is None else CLEAN)


def copies_of(
    nodes: Iterable[ClusterNode], reports: Mapping[str, CheckedDirectory], unread: list[InputError]
) -> dict[Place, list[DiskReplica]]:
    """The replicas of each partition on the disks of some nodes."""
    found: dict[Place, list[DiskReplica]] = {}
    for node in nodes:
        for directory in node.directories:
            for replica in directory.replicas:
                place = parsed_place(replica.name)
                if place is None or suffix_of(replica.name) or place[0] == CLUSTER_METADATA:
                    continue
                report = reports[replica.folder.name]
                copy = _copy(node, directory, replica, report, place, unread)
                found.setdefault(place, []).append(copy)
    return found


def _copy(
    node: ClusterNode,
    directory: LogDirectory,
    replica: Replica,
    report: CheckedDirectory,
    place: Place,
    unread: list[InputError],
) -> DiskReplica:
    copy = DiskReplica(node.index, node.node_id, directory, replica.folder, report.shown)
    copy.topic_id = _topic_id(replica.folder, unread)
    copy.is_tiered = is_tiered(replica.folder.path)
    copy.partly_read = report.partly_read
    for log in report.prints:
        first, end = report.extents.get(log.base, (log.base, log.base))
        copy.segments.append((log.base, first, end, log.fingerprint))
        for epoch, offset in log.epochs:
            if not copy.epochs or copy.epochs[-1][0] != epoch:
                copy.epochs.append((epoch, offset))
    ends = [end for _, end in report.extents.values()]
    for last in replica.folder.logs[-1:]:
        copy.is_end_known = any(log.base == last.base for log in report.prints)
    checkpoint = directory.offset(LOG_STARTS, place)
    if ends:
        copy.log_start = max(checkpoint, min(report.extents))
        copy.log_end = max(ends)
    copy.high_watermark = directory.offsets.get(HIGH_WATERMARKS, {}).get(place)
    copy.recovery_point = directory.offsets.get(RECOVERY_POINTS, {}).get(place)
    copy.damaged = _damaged(replica.folder, report, unread)
    start = _next_start(replica, directory)
    copy.is_predicted = start is not None
    if start is None or start.becomes == OFFLINE or not start.starts:
        copy.start_after = copy.end_after = None
    else:
        copy.start_after, copy.end_after = start.log_start_offset, start.log_end_offset
    return copy


def _topic_id(folder: Folder, unread: list[InputError]) -> str | None:
    for name in PARTITION_METADATA.names.intersection(folder.readable):
        with Caught(unread.append), suppress(StartFailed):
            return uuid_text(read_topic_id(folder.input(name)))
    return None


def _damaged(folder: Folder, report: CheckedDirectory, unread: list[InputError]) -> Ranges:
    """The offsets in damaged batches of a partition's logs, and those of unreadable logs."""
    named = [log.base for log in folder.logs]
    was_read = {log.base for log in report.prints}
    ends = [*(base - 1 for base in named[1:]), *named[-1:]]
    found = [pair for pair in zip(named, ends, strict=True) if pair[0] not in was_read]
    bases = sorted(report.extents)
    following = dict(zip(bases, [*bases[1:], None], strict=True)) if bases else {}
    wrong = {Path(finding.file).name for finding in report.errors_in_logs}
    for file in map(folder.input, sorted(wrong.intersection(folder.files))):
        with Caught(unread.append):
            in_log = ranges_of(file, file.base)
            found += without(in_log.held(following.get(file.base)), in_log.undamaged())
    return merged(found)
