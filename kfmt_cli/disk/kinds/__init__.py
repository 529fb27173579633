"""The kinds of files on a broker's disk: one registry that interprets every name.

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

META_PROPERTIES = LazyKind("meta_properties", Level.LOG_DIRECTORY, "meta.properties")
CLEAN_SHUTDOWN = LazyKind("clean_shutdown", Level.LOG_DIRECTORY, ".kafka_cleanshutdown")
PARTITION_METADATA = LazyKind("partition_metadata", Level.PARTITION, "partition.metadata")
QUORUM_STATE = LazyKind("quorum_state", Level.PARTITION, "quorum-state")
UNKNOWN = Kind("unknown", Level.LOG_DIRECTORY)
# In the display order of a directory's files per level.
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
# Segments are named after their base offset; so are files in remote storage and its cache.
_OFFSET = re.compile(r"^(?:(\d{20})(?=[.-])|(\d{1,20})(?=_))")


@lru_cache(maxsize=4096)
def kind_of(file: str) -> tuple[Kind, int | None, str]:
    """The kind, base offset and suffix of a file name without its directory.

    The suffix marks a leftover or unfinished file and is empty otherwise. Partitions share file
    names, so the cache needs few entries.
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
    """The names of a directory's files in display order.

    Files of the log directory come first, then of the partition, then segment by segment; then
    leftover and unfinished files; then unknown ones.
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
    """The kind with a name, or `UNKNOWN`."""
    return next((kind for kind in KINDS if kind.name == name), UNKNOWN)


def is_transient(path: str) -> bool:
    """Whether a file is a leftover or unfinished one."""
    return kind_of(path.rpartition("/")[2])[2] != ""


# A kind that is pickled becomes the other process's kind with the same name.
copyreg.pickle(Kind, lambda kind: (kind_named, (kind.name,)))
