"""Segment files that are compressed as a whole, shown uncompressed, as on a broker's disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, cast

from kfmt_cli.core.compressed_files import compressed_suffix, decompressing_reader
from kfmt_cli.core.source import Source, open_as_file
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.file_names import is_compressed_segment_name
from kfmt_cli.disk.mounts import (
    DirectoryEntries,
    OverlayTree,
    ReadProblem,
    StoredEntry,
    join_subpath,
    messages_under_path,
    open_disk_source,
)
from kfmt_cli.disk.unpacked_files import (
    UnreadableTailSource,
    mark_unreadable_tail,
    unpack_failure_text,
    write_sparse_file,
)
from kfmt_cli.errors import InputError


@dataclass(slots=True)
class CompressedFilesOverlay(OverlayTree):
    """A directory with segment files that are compressed as a whole. They are unpacked into
    `scratch_directory` when their directory is listed."""

    scratch_directory: str
    _problems: dict[ReadProblem, None] = field(default_factory=dict)
    _error_by_path: dict[str, InputError] = field(default_factory=dict)
    """Why the rest of a file cannot be unpacked, by the file's path."""

    def list_entries(self, subpath: str) -> DirectoryEntries:
        stored_entries = OverlayTree.list_entries(self, subpath)
        stored_names = {entry.name for entry in stored_entries.files}
        listed_entries = []
        for entry in stored_entries.files:
            uncompressed_name = entry.name.removesuffix(compressed_suffix(entry.name))
            entry_subpath = join_subpath(subpath, entry.name)
            if not is_compressed_segment_name(entry.name):
                listed_entries.append(entry)
            elif uncompressed_name not in stored_names:
                unpacked_path = Path(self.scratch_directory, subpath, uncompressed_name)
                if not unpacked_path.exists():
                    self._unpack_file(entry_subpath, unpacked_path)
                listed_entries.append(
                    StoredEntry(uncompressed_name, unpacked_path.stat(), entry.name)
                )
            else:
                message = f"not read: {uncompressed_name} is next to it, which brokers read"
                message = (
                    f"{format_display_name(join_subpath(self.mount_point, entry_subpath))}: "
                    f"{message}"
                )
                self._problems[entry_subpath, message] = None
        return replace(stored_entries, files=listed_entries)

    def _find_unpacked_path(self, subpath: str) -> str | None:
        """The path of an unpacked file; None for one that is stored as it is."""
        unpacked_path = Path(self.scratch_directory, subpath)
        return str(unpacked_path) if unpacked_path.is_file() else None

    def stat(self, subpath: str) -> os.stat_result:
        unpacked_path = self._find_unpacked_path(subpath)
        return OverlayTree.stat(self, subpath) if unpacked_path is None else os.stat(unpacked_path)  # noqa: PTH116

    def open_source(self, subpath: str) -> Source:
        unpacked_path = self._find_unpacked_path(subpath)
        if unpacked_path is None:
            return OverlayTree.open_source(self, subpath)
        source = open_disk_source(unpacked_path, join_subpath(self.mount_point, subpath))
        return (
            UnreadableTailSource(source, self._error_by_path[subpath])
            if subpath in self._error_by_path
            else source
        )

    def local_path(self, subpath: str) -> str | None:
        if subpath in self._error_by_path:
            return None
        local_path = self._find_unpacked_path(subpath) or OverlayTree.local_path(self, subpath)
        return None if local_path is None or Path(local_path).is_dir() else local_path

    def is_compressed_or_chunked(self, subpath: str) -> bool:
        return OverlayTree.is_compressed_or_chunked(self, subpath) or any(
            is_compressed_segment_name(entry.name)
            for entry in OverlayTree.list_entries(self, subpath).files
        )

    def problem_messages(self, subpath: str) -> list[str]:
        return [
            *OverlayTree.problem_messages(self, subpath),
            *messages_under_path(self._problems, subpath),
        ]

    def _unpack_file(self, subpath: str, unpacked_path: Path) -> None:
        """Unpack a file, or as much of its start as possible."""
        display_path = format_display_name(join_subpath(self.mount_point, subpath))
        modified_seconds = OverlayTree.stat(self, subpath).st_mtime
        try:
            with open_as_file(OverlayTree.open_source(self, subpath)) as compressed_file:
                uncompressed_stream = SimpleNamespace(
                    read=decompressing_reader(
                        compressed_file, compressed_suffix(subpath), display_path
                    )
                )
                write_sparse_file(
                    unpacked_path, modified_seconds, cast(IO[bytes], uncompressed_stream)
                )
        except InputError as error:
            mark_unreadable_tail(unpacked_path, modified_seconds)
            uncompressed_path = subpath.removesuffix(compressed_suffix(subpath))
            self._error_by_path[uncompressed_path] = error
            self._problems[uncompressed_path, str(error)] = None
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{display_path}: {unpack_failure_text()}: {reason}") from error
