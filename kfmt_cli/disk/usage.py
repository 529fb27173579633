"""Disk usage under a directory: every file, by purpose."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.core.urls import absolute_path
from kfmt_cli.disk.directory_listing import listing_error_handler
from kfmt_cli.disk.directory_walk import iter_directories, list_stored_entries
from kfmt_cli.disk.file_names import (
    MANIFEST_SUFFIX,
    REMOTE_INDEXES_SUFFIX,
    REMOTE_SEGMENT_NAME,
    directory_marker_suffix,
)
from kfmt_cli.disk.kinds import INDEX_KINDS, UNKNOWN_KIND, classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND

DISK_BLOCK_BYTES = 512  # the unit of `st_blocks`
LOGS_PURPOSE = "logs"
REMOTE_CACHE_DIRECTORY = "remote-log-index-cache"
# What a broker does with the files, if that does not depend on settings.
OUTCOME_BY_PURPOSE = {
    "left_over": "A broker deletes them when it starts.",
    "marked_delete": "A broker deletes them after it starts.",
    "marked_stray": "No broker ever deletes them.",
    "other": "No broker ever deletes them.",
}
USAGE_PURPOSES = {
    LOGS_PURPOSE: "log segments in use",
    "indexes": "their indexes; active ones are preallocated",
    "producer_snapshots": "producer state snapshots",
    "kraft_snapshots": "cluster metadata snapshots",
    "swap": ".swap files: an unfinished segment replacement",
    "left_over": ".deleted, .cleaned and similar files",
    "marked_delete": "-delete directories",
    "marked_stray": "-stray directories",
    "marked_future": "-future directories: replicas being moved here",
    "remote_index_cache": f"{REMOTE_CACHE_DIRECTORY}: cached indexes of remote segments",
    "remote_storage": "manifests and indexes of segments in remote storage",
    "broker_files": "checkpoints and other small broker files",
    "other": "files not written by a broker",
}


@dataclass(slots=True)
class DiskUsage:
    """Files of one purpose."""

    purpose: str
    files: int = 0
    bytes: int = 0
    """Their sizes in total."""
    disk_bytes: int = 0
    """Bytes used on the disk, without holes."""
    freed_now: int | None = None
    """Bytes that the next retention check frees; None if retention does not apply."""
    freed_later: int | None = None
    """Bytes that time-based retention frees later."""
    freed_by: int | None = None
    """When the last of these are freed, in milliseconds."""
    freed_odd: int | None = None
    """Bytes kept much longer because of timestamps in the future."""


def read_disk_usage(root: str, on_error: Callable[[str], None]) -> list[DiskUsage]:
    """The usage of every purpose found under a directory.

    A file with several names counts once; symbolic links to files do not count. on_error: receives
    messages about directories that cannot be listed.
    """
    root_name = absolute_path(root).rpartition(os.sep)[2]
    usage_by_purpose = {purpose: DiskUsage(purpose) for purpose in USAGE_PURPOSES}
    counted_inodes: set[tuple[int, int]] = set()
    for directory, entries in iter_directories(
        root, listing_error_handler(on_error), list_stored_entries
    ):
        directory_purpose = _directory_purpose(
            f"{root_name}{os.sep}{os.path.relpath(directory, root)}"
        )
        for entry in entries.files:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # deleted meanwhile
            if not stat.S_ISREG(status.st_mode):
                continue
            if status.st_nlink > 1:
                if (status.st_dev, status.st_ino) in counted_inodes:
                    continue
                counted_inodes.add((status.st_dev, status.st_ino))
            usage = usage_by_purpose[directory_purpose or _file_purpose(entry.name)]
            usage.files += 1
            usage.bytes += status.st_size
            has_block_count = status.st_blocks is not None  # unknown in object stores
            usage.disk_bytes += (
                DISK_BLOCK_BYTES * status.st_blocks if has_block_count else status.st_size
            )
    return [usage for usage in usage_by_purpose.values() if usage.files]


def _directory_purpose(path_from_root: str) -> str:
    """The purpose of all files of a directory; empty if their names decide. path_from_root: its
    path, from the name of the root onward."""
    path_parts = PurePath(path_from_root).parts
    if REMOTE_CACHE_DIRECTORY in path_parts:
        return "remote_index_cache"
    marker_suffix = next(filter(None, map(directory_marker_suffix, path_parts)), "")
    return f"marked_{marker_suffix}" if marker_suffix else ""


def _file_purpose(file_name: str) -> str:
    """The purpose of a file with this name."""
    base_name, dot, suffix = file_name.rpartition(".")
    if dot + suffix in (MANIFEST_SUFFIX, REMOTE_INDEXES_SUFFIX) and REMOTE_SEGMENT_NAME.match(
        base_name
    ):
        return "remote_storage"
    kind, _, transient_suffix = classify_name(file_name)
    if transient_suffix:
        return "swap" if transient_suffix == "swap" else "left_over"
    return _PURPOSE_BY_KIND.get(kind, "broker_files")


_PURPOSE_BY_KIND = {
    **dict.fromkeys(INDEX_KINDS, "indexes"),
    LOG_KIND: LOGS_PURPOSE,
    PRODUCER_SNAPSHOT_KIND: "producer_snapshots",
    KRAFT_SNAPSHOT_KIND: "kraft_snapshots",
    UNKNOWN_KIND: "other",
}
