"""The topics and the version that a starting KRaft broker knows from its metadata log.

Source: `org.apache.kafka.image.TopicsImage`, `kafka.log.LogManager.isStrayKraftReplica`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.state import replay_of
from kfmt_cli.broker.state.replay import Replay
from kfmt_cli.broker.version import FEATURE
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.uuids import uuid_bytes
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.errors import InputError
from kfmt_cli.findings.damage import BATCH_TRUNCATED
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.log.block import Block
from kfmt_cli.log.open_log import open_log
from kfmt_cli.log.stream import stream
from kfmt_cli.rows.types.state_types import FEATURE as FEATURE_LEVEL
from kfmt_cli.rows.types.state_types import PARTITION, TOPIC
from kfmt_cli.topics import CLUSTER_METADATA


@dataclass(frozen=True, slots=True)
class Replicas:
    """The brokers of a partition, and the id of each one's log directory."""

    brokers: tuple[int, ...]
    directories: tuple[str, ...]


@dataclass(slots=True)
class Image:
    """The partitions of each topic, and the version."""

    ids: dict[str, bytes] = field(default_factory=dict)
    """Topic ids, by name."""
    partitions: dict[tuple[str, int], Replicas] = field(default_factory=dict)
    version_level: int | None = None
    """The feature level of metadata.version."""

    def has(self, topic_id: bytes, partition: int, node: int | None) -> bool:
        """Whether a broker has a replica of a partition of the topic with this id."""
        topic = next((name for name, id_ in self.ids.items() if id_ == topic_id), None)
        replicas = None if topic is None else self.partitions.get((topic, partition))
        return replicas is not None and (node is None or node in replicas.brokers)

    def directory_of(self, topic: str, partition: int, node: int | None) -> str | None:
        """The id of the log directory that a broker's replica is assigned to."""
        replicas = self.partitions.get((topic, partition))
        if replicas is None or node not in replicas.brokers:
            return None
        row = replicas.brokers.index(node)
        return replicas.directories[row] if row < len(replicas.directories) else None


def read_image(
    snapshots: list[Input],
    logs: list[Input],
    unread: list[InputError],
    end: int | None,
    bootstrap: Input | None,
) -> Image:
    """The topics and the version in a metadata log; arguments as for `replayed`."""
    image = Image()
    for type_, row in replayed(snapshots, logs, unread, end, bootstrap).rows():
        values = Fields(row)
        if type_ is TOPIC:
            image.ids[values.topic] = uuid_bytes(values.topic_id)
        elif type_ is PARTITION:
            directories = tuple(values.get("directories") or ())
            replicas = Replicas(tuple(values.replicas), directories)
            image.partitions[values.topic, values.partition] = replicas
        elif type_ is FEATURE_LEVEL and values.feature == FEATURE:
            image.version_level = values.level
    return image


def replayed(
    snapshots: list[Input],
    logs: list[Input],
    unread: list[InputError],
    end: int | None = None,
    bootstrap: Input | None = None,
) -> Replay:
    """A metadata log, replayed. snapshots: in order; only the newest counts. unread: the errors
    of unreadable files are added to it. end: the log end offset after a start, None for the whole
    log. bootstrap: the initial records of an empty log."""
    replay = replay_of(CLUSTER_METADATA)
    first = 0
    n_records = 0
    for file in snapshots[-1:]:
        first = int(file.path.rpartition("/")[2][:20])
        n_records += _take(replay, [file], unread, 0, None)
    n_records += _take(replay, logs, unread, first, end)
    if not n_records and bootstrap is not None:
        _take(replay, [bootstrap], unread, 0, None)
    return replay


def replayed_undamaged(
    snapshots: list[Input],
    logs: list[Input],
    unread: list[InputError],
    damage: list[InputError],
) -> Replay:
    """A metadata log, replayed from the newest undamaged snapshot. snapshots: in order. damage:
    receives an error for each damaged part of these files, whose records are missing."""
    replay = replay_of(CLUSTER_METADATA)
    first = 0
    for file in reversed(snapshots):
        n_before = len(damage)
        _take(replay, [file], unread, 0, None, damage)
        if len(damage) == n_before:
            first = int(file.path.rpartition("/")[2][:20])
            break
        replay.begin()
    _take(replay, logs, unread, first, None, damage)
    return replay


def _take(
    replay: Replay,
    files: Iterable[Input],
    unread: list[InputError],
    first: int,
    end: int | None,
    damage: list[InputError] | None = None,
) -> int:
    """Replay records of files between two offsets; returns the number of data records."""
    n_records = 0
    for file in files:
        try:
            with open_log(file, read_ahead=False) as opened:
                log = opened
                if damage is not None:
                    log = replace(opened, blocks=_noting(file, opened.blocks, damage))
                for record in stream(log, Limit()):
                    if isinstance(record, Finding) or record.offset < first:
                        continue
                    if end is not None and record.offset >= end:
                        return n_records
                    replay.take(record)
                    n_records += record.control is None
        except InputError as error:
            unread.append(error)
    return n_records


def _noting(file: Input, blocks: Iterable[Block], errors: list[InputError]) -> Iterator[Block]:
    """The same blocks; adds an error for each damaged part. The end of a log may be cut off, as
    after a crash."""
    for block in blocks:
        batches = block.batches
        damaged = batches.position[batches.crc_valid == 0].tolist()
        said = [(at, "a batch fails its checksum") for at in damaged]
        errors_here = (each for each in block.findings if is_error(each))
        found = [each for each in errors_here if each.code is not BATCH_TRUNCATED]
        said += [(each.position or 0, each.message) for each in found]
        for at, words in said:
            errors.append(InputError(f"{file.name} byte {at}: {words}", file=file.path))
        yield block
