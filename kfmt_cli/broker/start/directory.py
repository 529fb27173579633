"""A log directory as a starting broker finds it: its own files, and those that prevent a start.

Source: `kafka.log.LogManager.loadLogs`, `kafka.server.KafkaServer`,
`org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kfmt_cli.broker.start.checkpoints import CheckpointError, NumberError, offsets_of
from kfmt_cli.broker.start.identity import Identity, readable
from kfmt_cli.broker.start.metadata_files import bootstrap_trouble, troubles_of, with_errors
from kfmt_cli.broker.start.own_files import (
    BOOTSTRAP,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    METADATA_LOG,
    OF_LOG_DIRECTORY,
    RECOVERY_POINTS,
)
from kfmt_cli.core.urls import url_text
from kfmt_cli.disk.kinds import CLEAN_SHUTDOWN, META_PROPERTIES
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import is_file, is_folder
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import InputError

if TYPE_CHECKING:
    from kfmt_cli.broker.start.brokers import Replica

Offsets = dict[tuple[str, int], int]
NO_IDENTITY = Identity(is_missing=True)


@dataclass(slots=True)
class LogDirectory:
    """The contents of a log directory's own files."""

    path: str = ""
    marker: str | None = None
    """The path of `.kafka_cleanshutdown`, None if missing."""
    offsets: dict[str, Offsets] = field(default_factory=dict)
    """The offsets of each checkpoint file."""
    early: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    """The files that prevent a start, each with the reason. `early` has those that the broker reads
    before `.kafka_cleanshutdown`."""
    offline: list[tuple[str, str]] = field(default_factory=list)
    """The files that prevent a start only if there is no other log directory."""
    unserved: str | None = None
    """Why the broker serves no partition."""
    bootstrap: list[tuple[str, str]] = field(default_factory=list)
    """bootstrap.checkpoint, if it prevents a start where the metadata log belongs here."""
    identity: Identity = NO_IDENTITY
    """The contents of meta.properties."""
    has_metadata: bool = False
    is_listed: bool = True
    """Whether the whole directory was listed."""
    unread: list[InputError] = field(default_factory=list)
    """The errors of files, here or in a partition, that could not be read."""
    replicas: list[Replica] = field(default_factory=list)
    """The partitions in it, where their starts are predicted."""

    @property
    def is_kraft(self) -> bool:
        """Whether it belongs to a KRaft broker."""
        return self.has_metadata or self.identity.is_kraft

    def offset(self, checkpoint: str, partition: tuple[str, int]) -> int:
        """The offset of a partition in a checkpoint, 0 if missing."""
        return self.offsets.get(checkpoint, {}).get(partition, 0)


def read_log_directory(folder: Folder) -> LogDirectory:
    """The contents of a log directory's own files, and which of them prevent a start."""
    there = {*folder.files, *folder.folders}
    markers = CLEAN_SHUTDOWN.names.intersection(there)
    marker = next((folder.input(marker).path for marker in markers), None)
    found = LogDirectory(url_text(str(Path(folder.path))), marker)
    found.has_metadata = METADATA_LOG in folder.folders
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS):
        if name in folder.readable:
            _read_checkpoint(found, name, folder.input(name))
    for name in META_PROPERTIES.names.intersection(folder.files):
        file = folder.input(name)
        if name in folder.special:
            found.identity = Identity(trouble=f"{file.name}: not a file")
        else:
            found.identity = readable(file, found.unread)
    if found.is_kraft:
        if BOOTSTRAP in folder.readable:
            given = [folder.input(BOOTSTRAP)]
            found.bootstrap += troubles_of(given, bootstrap_trouble, found.unread)
    else:
        found.early += with_errors(folder, META_PROPERTIES, found.unread)
    return found


def _read_checkpoint(found: LogDirectory, name: str, file: Input) -> None:
    try:
        found.offsets[name] = offsets_of(file)
    except NumberError as error:
        # A broker treats the other two as empty.
        if name == HIGH_WATERMARKS:
            found.unserved = str(error)
    except (CheckpointError, InputError) as error:
        if isinstance(error, InputError):
            found.unread.append(error)
        # The cleaner reads its own checkpoint later.
        if name != CLEANER_OFFSETS:
            found.offline.append((file.name, str(error)))


def directory_at(path: Path) -> LogDirectory:
    """The contents of a log directory's own files; nothing else in it is listed."""
    names = tuple(
        name for name in sorted({*OF_LOG_DIRECTORY, BOOTSTRAP}) if is_file(f"{path}/{name}")
    )
    named = (METADATA_LOG, *CLEAN_SHUTDOWN.names)
    folders = tuple(name for name in named if is_folder(f"{path}/{name}"))
    shown = url_text(str(path))
    found = read_log_directory(Folder(shown, shown, folders, names))
    found.is_listed = False
    return found


def contradictions(directories: list[LogDirectory]) -> list[tuple[str, str]]:
    """The files or directories that stop a KRaft broker with several log directories, each with the
    reason. The directory with the metadata log comes first."""
    troubles: list[tuple[str, str]] = []
    first = directories[0]
    ids: dict[str, str] = {}
    for directory in directories:
        identity = directory.identity
        if identity.is_missing:
            words = f"{directory.path}: no meta.properties in this log directory"
            troubles.append((directory.path, words))
            continue
        trouble = identity.trouble
        if trouble is None and identity.node_id is None:
            trouble = f"{directory.path}: meta.properties has no node.id"
        elif trouble is None and identity.cluster_id is None:
            trouble = f"{directory.path}: meta.properties has no cluster.id"
        elif trouble is None and identity.directory_id in ids:
            other = ids[identity.directory_id or ""]
            trouble = f"{directory.path}: directory.id duplicates that of {other}"
        elif trouble is None and directory is not first and directory.has_metadata:
            trouble = (
                f"{directory.path}: contains a metadata log, but the metadata log is in "
                f"{first.path}"
            )
        if trouble is not None:
            troubles.append((directory.path, trouble))
            continue
        if identity.directory_id is not None:
            ids[identity.directory_id] = directory.path
        if directory is not first:
            for name in ("cluster_id", "node_id"):
                mine, its = getattr(first.identity, name), getattr(identity, name)
                if None not in (mine, its) and mine != its:
                    spelled = name.replace("_", ".")
                    words = f"{directory.path}: {spelled} is {its}, but {mine} in {first.path}"
                    troubles.append((directory.path, words))
    return troubles
