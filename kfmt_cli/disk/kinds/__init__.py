"""The kinds of files on a broker's disk: one registry, by which every name is understood.

To add a kind, write a file next to the others (names, level, row types, reader) and add it to
`KINDS`. Source of the names: `org.apache.kafka.storage.internals.log.LogFileUtils`,
`kafka.log.LocalLog`, `org.apache.kafka.snapshot.Snapshots`.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Iterable
from functools import lru_cache

from kfmt_cli.disk.kinds.checkpoint import CHECKPOINT
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, PRODUCER_SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import TRANSIENT, Kind, LazyKind, Level
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.disk.names import MOST_OFFSET

_PROPERTIES = "kfmt_cli.disk.kinds.properties"
META_PROPERTIES = LazyKind(
    "meta_properties",
    Level.LOG_DIRECTORY,
    "meta.properties",
    f"{_PROPERTIES}:META_PROPERTIES",
)
CLEAN_SHUTDOWN = LazyKind(
    "clean_shutdown",
    Level.LOG_DIRECTORY,
    ".kafka_cleanshutdown",
    f"{_PROPERTIES}:CLEAN_SHUTDOWN",
)
PARTITION_METADATA = LazyKind(
    "partition_metadata",
    Level.PARTITION,
    "partition.metadata",
    f"{_PROPERTIES}:PARTITION_METADATA",
)
QUORUM_STATE = LazyKind(
    "quorum_state",
    Level.PARTITION,
    "quorum-state",
    f"{_PROPERTIES}:QUORUM_STATE",
)
UNKNOWN = Kind("unknown", Level.LOG_DIRECTORY)
# In the order in which a directory's files of a level are shown.
KINDS: list[Kind] = [
    META_PROPERTIES,
    CLEAN_SHUTDOWN,
    CHECKPOINT,
    PARTITION_METADATA,
    QUORUM_STATE,
    KRAFT_SNAPSHOT,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    PRODUCER_SNAPSHOT,
]
INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

_TRANSIENT = re.compile(rf"\.({'|'.join(TRANSIENT)})$")
# Segments are named for their base offset; so are the files of remote storage and its cache.
_OFFSET = re.compile(r"^(?:(\d{20})(?=[.-])|(\d{1,20})(?=_))")


@lru_cache(maxsize=4096)
def kind_of(file: str) -> tuple[Kind, int | None, str]:
    """What a name without its directory says: kind, base offset, and the suffix of a file that a
    broker is done with, or has not finished, empty for any other.

    Partitions have files of the same names, so that few are looked at.
    """
    transient = _TRANSIENT.search(file)
    suffix = transient[1] if transient else ""
    name = file[: transient.start()] if transient else file
    kind = next((kind for kind in KINDS if kind.is_named(name)), UNKNOWN)
    offset = _OFFSET.match(name) if kind.level is Level.SEGMENT else None
    base_offset = int(offset[1] or offset[2]) if offset else None
    if base_offset is not None and base_offset > MOST_OFFSET:
        base_offset = None
    return kind, base_offset, suffix


def in_order(files: Iterable[str]) -> list[str]:
    """The names of a directory's files in the order in which they are shown.

    Those of the log directory, of the partition, then segment by segment; then the copies that a
    broker is done with, or has not finished; then what is not known.
    """
    return sorted(files, key=_rank)


_LEVELS = (Level.LOG_DIRECTORY, Level.PARTITION, Level.SEGMENT)


def _rank(file: str) -> tuple[int, int, int, int, str]:
    kind, base_offset, transient = kind_of(file)
    if kind is UNKNOWN:
        return 2, 0, 0, 0, file
    level = _LEVELS.index(kind.level)
    return int(bool(transient)), level, base_offset or 0, KINDS.index(kind), file


def kind_named(name: str) -> Kind:
    """The kind of that name."""
    return next((kind for kind in KINDS if kind.name == name), UNKNOWN)


def is_transient(path: str) -> bool:
    """Whether a file is one that a broker is done with, or has not finished."""
    return kind_of(path.rpartition("/")[2])[2] != ""


# A process that is handed a kind finds its own one of that name.
copyreg.pickle(Kind, lambda kind: (kind_named, (kind.name,)))
