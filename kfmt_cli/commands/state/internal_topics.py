"""Finds the partitions of internal topics under some paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.state import is_replayed
from kfmt_cli.broker.state.replay import Replay
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.disk.names import mark_of, partition_folder, place_of
from kfmt_cli.disk.targets import GivenPath, targets
from kfmt_cli.disk.tree import Folder, topic_of
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.stream import stream
from kfmt_cli.topics import known_topic


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """The logs of a partition of an internal topic."""

    name: str
    """Its name in output."""
    topic: str
    logs: list[Input]
    snapshots: list[Input]
    """KRaft snapshots, newest first."""
    log_directory: str | None
    """Its log directory, with other partitions; None for a single file."""


def partitions_of(
    paths: Sequence[GivenPath | str], of_topic: str | None, complain: Callable[[str], None]
) -> list[TopicPartition]:
    """The distinct partitions under the paths.

    of_topic: the topic, if the directory is not named after it. complain: called with a message
    for each unreadable input and each path without such a partition.
    """
    found: dict[str, TopicPartition] = {}
    for target in targets(paths, complain):
        try:
            here = dict(_in(target, of_topic))
        except InputError as error:
            complain(str(error))
            continue
        if not here and not target.unlisted:
            words = "contains no internal topic partitions"
            topic = known_topic(place_of(partition_folder(target.path).name)[0])
            if topic is not None:
                words = f"kfmt does not replay this topic ({topic.doc})"
            complain(f"{name_text(target.path)}: {words}")
        for real, partition in here.items():
            found.setdefault(real, partition)
    return list(found.values())


def _in(target: GivenPath, of_topic: str | None) -> Iterator[tuple[str, TopicPartition]]:
    """The partitions at a path, each with its real path; raises InputError."""
    path = target.path
    if target.file is not None:
        yield os.path.realpath(path), _of_file(target.file, of_topic)
    for folder in target.folders:
        named = partition_folder(folder.path)
        given = folder.path == path
        topic = place_of(named.name)[0] or (of_topic if given else None)
        if topic is None or not is_replayed(topic) or (mark_of(named.name) and not given):
            continue
        partition = _of_folder(folder, topic, str(named.parent))
        if partition.logs or partition.snapshots:
            yield os.path.realpath(named), partition


def _of_file(file: Input, of_topic: str | None) -> TopicPartition:
    topic = of_topic or topic_of(file)
    if topic is None or not is_replayed(topic):
        words = "not inside an internal topic's directory; name the topic with --of-topic"
        raise InputError(f"{file.name}: {words}")
    logs, snapshots = ([], [file]) if file.kind is KRAFT_SNAPSHOT else ([file], [])
    return TopicPartition(file.name, topic, logs, snapshots, None)


def _of_folder(folder: Folder, topic: str, log_directory: str) -> TopicPartition:
    from kfmt_cli.broker.start.metadata_files import end_of, snapshots_of

    snapshots = sorted(snapshots_of(folder), key=lambda file: end_of(file) or 0, reverse=True)
    return TopicPartition(folder.name, topic, folder.logs, snapshots, log_directory)


def taken(replay: Replay, log: Input, limit: Limit | None = None) -> Iterator[Finding]:
    """The findings of a log whose records a replay takes; raises InputError."""
    with open_checked(log, read_ahead=False) as opened:
        for record in stream(opened, limit or Limit()):
            if isinstance(record, Finding):
                yield record
            else:
                replay.take(record)
