"""Disk usage under a directory: every file, by purpose."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.core.urls import absolute
from kfmt_cli.disk.directories import each_directory, stored_entries
from kfmt_cli.disk.kinds import INDEXES, UNKNOWN, kind_of
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.disk.names import MANIFEST, STORED_INDEXES, STORED_STEM, mark_of
from kfmt_cli.disk.tree import unlisted

BLOCK = 512  # the unit of `st_blocks`
LOGS = "logs"
REMOTE_CACHE = "remote-log-index-cache"
# What a broker does with the files, if that does not depend on settings.
BECOMES = {
    "left_over": "A broker deletes them when it starts.",
    "marked_delete": "A broker deletes them after it starts.",
    "marked_stray": "No broker ever deletes them.",
    "other": "No broker ever deletes them.",
}
PURPOSES = {
    LOGS: "log segments in use",
    "indexes": "their indexes; active ones are preallocated",
    "producer_snapshots": "producer state snapshots",
    "kraft_snapshots": "cluster metadata snapshots",
    "swap": ".swap files: an unfinished segment replacement",
    "left_over": ".deleted, .cleaned and similar files",
    "marked_delete": "-delete directories",
    "marked_stray": "-stray directories",
    "marked_future": "-future directories: replicas being moved here",
    "remote_index_cache": f"{REMOTE_CACHE}: cached indexes of remote segments",
    "remote_storage": "manifests and indexes of segments in remote storage",
    "broker_files": "checkpoints and other small broker files",
    "other": "files not written by a broker",
}


@dataclass(slots=True)
class Usage:
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
    """When the last of them are deleted, in milliseconds."""
    freed_odd: int | None = None
    """Bytes kept much longer because of timestamps in the future."""


def usage_below(top: str, complain: Callable[[str], None]) -> list[Usage]:
    """The usage of every purpose found under a directory.

    A file with several names counts once, and a link to a file does not. complain: receives
    messages about directories that cannot be listed.
    """
    name = absolute(top).rpartition(os.sep)[2]
    found = {purpose: Usage(purpose) for purpose in PURPOSES}
    seen: set[tuple[int, int]] = set()
    for folder, its in each_directory(top, unlisted(complain), stored_entries):
        of_folder = _purpose_of_all(f"{name}{os.sep}{os.path.relpath(folder, top)}")
        for entry in its.files:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # deleted meanwhile
            if not stat.S_ISREG(status.st_mode):
                continue
            if status.st_nlink > 1:
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
            usage = found[of_folder or _purpose_of(entry.name)]
            usage.files += 1
            usage.bytes += status.st_size
            in_blocks = status.st_blocks is not None  # of a store, none are known
            usage.disk_bytes += BLOCK * status.st_blocks if in_blocks else status.st_size
    return [usage for usage in found.values() if usage.files]


def _purpose_of_all(folder: str) -> str:
    """The purpose of all files of a directory, from its path starting at the one given; empty if
    their names decide."""
    parts = PurePath(folder).parts
    if REMOTE_CACHE in parts:
        return "remote_index_cache"
    mark = next(filter(None, map(mark_of, parts)), "")
    return f"marked_{mark}" if mark else ""


def _purpose_of(name: str) -> str:
    """The purpose of a file with this name."""
    stem, dot, suffix = name.rpartition(".")
    if dot + suffix in (MANIFEST, STORED_INDEXES) and STORED_STEM.match(stem):
        return "remote_storage"
    kind, _, transient = kind_of(name)
    if transient:
        return "swap" if transient == "swap" else "left_over"
    return _OF_KINDS.get(kind, "broker_files")


_OF_KINDS = {
    **dict.fromkeys(INDEXES, "indexes"),
    LOG: LOGS,
    PRODUCER_SNAPSHOT: "producer_snapshots",
    KRAFT_SNAPSHOT: "kraft_snapshots",
    UNKNOWN: "other",
}
