"""Detects changes on a disk while kfmt reads it.

A broker writes, rolls, replaces and deletes files while kfmt reads them, so two files that are
compared may have been read at different times. A finding about two files is therefore made only if
both have been unchanged since they were seen, or if a second look finds it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kfmt_cli.core import source
from kfmt_cli.core.urls import absolute_path, is_local
from kfmt_cli.disk.file_access import find_disk_path, path_exists, stat_path
from kfmt_cli.errors import InputError

if TYPE_CHECKING:
    from kfmt_cli.disk.segment import Segment

LISTED_DIRECTORIES: set[str] = set()
"""The paths of the directories that this process has listed."""


@dataclass(frozen=True, slots=True)
class SeenAt:
    """The time at which some files were first seen."""

    ns: int = field(default_factory=time.time_ns)
    """Nanoseconds since the epoch."""

    def has_changed(self, path: str) -> bool:
        """Whether a file or directory on a disk was written, replaced or deleted since, or so
        shortly before that its writer may not have finished.

        Times of changes are compared, not sizes: a broker maps its indexes, whose sizes are those
        of the preallocated files; but it writes the log first, and never an index alone.
        """
        if find_disk_path(path) != path:
            return False  # objects, and files that kfmt unpacked
        try:
            status = stat_path(path)
        except (OSError, InputError):
            return True
        return max(status.st_mtime_ns, status.st_ctime_ns) > self.ns - source.MAX_WRITE_NS

    def has_any_changed(self, paths: Iterable[str]) -> bool:
        """Whether any of some files or directories changed."""
        return any(map(self.has_changed, paths))

    def has_segment_changed(self, segment: Segment) -> bool:
        """Whether a file of a segment changed, or the names next to it did."""
        files = [*segment.index_by_kind.values(), segment.any_file]
        return self.has_any_changed(
            [*(file.path for file in files), parent_path(segment.any_file.path)]
        )

    def wait_until_settled(self) -> None:
        """Wait until writes that began shortly before are complete; at most `MAX_WRITE_NS`."""
        time.sleep(max(0, self.ns + source.MAX_WRITE_NS - time.time_ns()) / 1e9)


def parent_path(path: str) -> str:
    """The directory of a file, as a path that opens it."""
    directory, slash, _ = path.rpartition("/")
    return directory or slash or "."


def was_deleted_meanwhile(error: InputError) -> bool:
    """Whether an unreadable input is a file that was listed and no longer exists: a broker deletes
    segments and replaces those that it cleans."""
    directory = parent_path(error.file)
    return error.is_missing and not LISTED_DIRECTORIES.isdisjoint(
        (directory, absolute_path(directory))
    )


def missing_file_error(path: str, message: str) -> InputError:
    """The error for a file that could not be read; it records whether the file still exists."""
    return InputError(message, file=path, is_missing=is_local(path) and not path_exists(path))
