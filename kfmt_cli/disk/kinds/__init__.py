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

from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.disk.kinds.checkpoint import CHECKPOINT_KIND, STREAMS_CHECKPOINT_KIND
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    PRODUCER_SNAPSHOT_KIND,
    TIME_INDEX_KIND,
    TRANSACTION_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import TRANSIENT_SUFFIXES, FileKind, FileLevel, LazyFileKind
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND

META_PROPERTIES_KIND = LazyFileKind("meta_properties", FileLevel.LOG_DIRECTORY, "meta.properties")
CLEAN_SHUTDOWN_KIND = LazyFileKind(
    "clean_shutdown", FileLevel.LOG_DIRECTORY, ".kafka_cleanshutdown"
)
PARTITION_METADATA_KIND = LazyFileKind(
    "partition_metadata", FileLevel.PARTITION, "partition.metadata"
)
QUORUM_STATE_KIND = LazyFileKind("quorum_state", FileLevel.PARTITION, "quorum-state")
UNKNOWN_KIND = FileKind("unknown", FileLevel.LOG_DIRECTORY)
# In the display order of a directory's files per level.
KINDS: list[FileKind] = [
    META_PROPERTIES_KIND,
    CLEAN_SHUTDOWN_KIND,
    CHECKPOINT_KIND,
    STREAMS_CHECKPOINT_KIND,
    PARTITION_METADATA_KIND,
    QUORUM_STATE_KIND,
    KRAFT_SNAPSHOT_KIND,
    LOG_KIND,
    OFFSET_INDEX_KIND,
    TIME_INDEX_KIND,
    TRANSACTION_INDEX_KIND,
    PRODUCER_SNAPSHOT_KIND,
]
INDEX_KINDS = (OFFSET_INDEX_KIND, TIME_INDEX_KIND, TRANSACTION_INDEX_KIND)

_TRANSIENT_SUFFIX_PATTERN = re.compile(rf"\.({'|'.join(TRANSIENT_SUFFIXES)})$")
# Segments are named after their base offset; so are files in remote storage and its cache.
_BASE_OFFSET_PATTERN = re.compile(r"^(?:(\d{20})(?=[.-])|(\d{1,20})(?=_))")


@lru_cache(maxsize=4096)
def classify_name(file_name: str) -> tuple[FileKind, int | None, str]:
    """The kind, base offset and suffix of a file name without its directory.

    The suffix marks a leftover or unfinished file and is empty otherwise. Partitions share file
    names, so the cache needs few entries.
    """
    transient_match = _TRANSIENT_SUFFIX_PATTERN.search(file_name)
    transient_suffix = transient_match[1] if transient_match else ""
    name_without_suffix = file_name[: transient_match.start()] if transient_match else file_name
    kind = next((kind for kind in KINDS if kind.matches_name(name_without_suffix)), UNKNOWN_KIND)
    offset_match = (
        _BASE_OFFSET_PATTERN.match(name_without_suffix) if kind.level is FileLevel.SEGMENT else None
    )
    base_offset = int(offset_match[1] or offset_match[2]) if offset_match else None
    if base_offset is not None and base_offset > MAX_OFFSET:
        base_offset = None
    return kind, base_offset, transient_suffix


def sort_for_display(names: Iterable[str]) -> list[str]:
    """The names of a directory's files in display order.

    Files of the log directory come first, then of the partition, then segment by segment; then
    leftover and unfinished files; then unknown ones.
    """
    return sorted(names, key=_display_sort_key)


_LEVEL_ORDER = (FileLevel.LOG_DIRECTORY, FileLevel.PARTITION, FileLevel.SEGMENT)


def _display_sort_key(file_name: str) -> tuple[int, int, int, int, str]:
    kind, base_offset, transient_suffix = classify_name(file_name)
    if kind is UNKNOWN_KIND:
        return 2, 0, 0, 0, file_name
    level_rank = _LEVEL_ORDER.index(kind.level)
    return int(bool(transient_suffix)), level_rank, base_offset or 0, KINDS.index(kind), file_name


def find_kind(name: str) -> FileKind:
    """The kind of this name, or `UNKNOWN_KIND`."""
    return next((kind for kind in KINDS if kind.name == name), UNKNOWN_KIND)


def is_transient_file(path: str) -> bool:
    """Whether a file is a leftover or unfinished one."""
    return classify_name(path.rpartition("/")[2])[2] != ""


# Unpickling returns the process's own kind of the same name, as kinds are compared by identity.
copyreg.pickle(FileKind, lambda kind: (find_kind, (kind.name,)))
