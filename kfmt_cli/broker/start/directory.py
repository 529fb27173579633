"""A log directory as a starting broker finds it: what it goes by, and what keeps it down.

Source: `kafka.log.LogManager.loadLogs`, `kafka.server.KafkaServer`,
`org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.start.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointError,
    offsets_of,
)
from kfmt_cli.core.finding import Severity
from kfmt_cli.errors import InputError
from kfmt_cli.files.disk import Folder
from kfmt_cli.files.kinds import CLEAN_SHUTDOWN, META_PROPERTIES, QUORUM_STATE
from kfmt_cli.files.kinds.kind import Contents, Input
from kfmt_cli.topics import CLUSTER_METADATA

Offsets = dict[tuple[str, int], int]
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OF_LOG_DIRECTORY = frozenset(
    {RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS}
    | META_PROPERTIES.names
    | CLEAN_SHUTDOWN.names
)


@dataclass(slots=True)
class LogDirectory:
    """What a log directory's own files say.

    marker: the path of `.kafka_cleanshutdown`, where it is there. offsets: by checkpoint file.
    troubles: the files that keep the broker down, each with the reason.
    """

    marker: str | None = None
    offsets: dict[str, Offsets] = field(default_factory=dict)
    troubles: list[tuple[str, str]] = field(default_factory=list)

    def offset(self, checkpoint: str, partition: tuple[str, int]) -> int:
        """The offset of a partition in a checkpoint, 0 without one."""
        return self.offsets.get(checkpoint, {}).get(partition, 0)


def is_log_directory(folder: Folder) -> bool:
    """Whether a directory has files that brokers write into their log directories."""
    return not OF_LOG_DIRECTORY.isdisjoint(folder.files)


def read_log_directory(folder: Folder) -> LogDirectory:
    """What a log directory's own files say, and which of them keep a broker down."""
    markers = CLEAN_SHUTDOWN.names.intersection(folder.files)
    found = LogDirectory(next((folder.input(it).path for it in markers), None))
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS):
        if name not in folder.files:
            continue
        file = folder.input(name)
        try:
            found.offsets[name] = offsets_of(file)
        except (CheckpointError, InputError) as error:
            # The cleaner reads its own one later.
            if name != CLEANER_OFFSETS:
                found.troubles.append((file.name, str(error)))
    found.troubles += _wrong(folder, META_PROPERTIES.names, META_PROPERTIES.read)
    return found


def directory_at(path: Path) -> LogDirectory:
    """What the own files of a log directory say, of which nothing else is listed."""
    names = tuple(it for it in sorted(OF_LOG_DIRECTORY) if (path / it).is_file())
    return read_log_directory(Folder(str(path), str(path), (), names))


def quorum_troubles(folder: Folder) -> list[tuple[str, str]]:
    """What keeps a broker down in the directory of the metadata log."""
    if not folder.path.rpartition("/")[2].startswith(CLUSTER_METADATA):
        return []
    return list(_wrong(folder, QUORUM_STATE.names, QUORUM_STATE.read))


def _wrong(
    folder: Folder, names: frozenset[str], read: Callable[[Input], Contents]
) -> Iterator[tuple[str, str]]:
    for name in names.intersection(folder.files):
        file = folder.input(name)
        try:
            found = read(file).findings
        except InputError as error:
            yield file.name, str(error)
            continue
        wrong = [it for it in found if it.code.severity is Severity.ERROR]
        if wrong:
            yield file.name, f"{file.name}: {wrong[0].message}"
