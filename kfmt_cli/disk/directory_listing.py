"""Directories on a disk, with their partitions and segments.

One model for every command: a broker's directories are walked once, into a `DirectoryListing` each,
which provides everything else. Source: `kafka.log.LocalLog`: segments are named after their base
offset in 20 digits, partition directories `<topic>-<partition>`.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from errno import ENOENT
from functools import cached_property, lru_cache

from kfmt_cli.core.compressed_files import compressed_suffix
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.changes import SeenAt
from kfmt_cli.disk.directory_walk import broken_link_reason, iter_directories, list_broker_entries
from kfmt_cli.disk.file_access import read_bytes_at, stat_path
from kfmt_cli.disk.file_names import (
    REMOTE_SEGMENT_NAME,
    directory_marker_suffix,
    file_topic_partition,
    has_compressed_or_tiered_files,
    parse_topic_partition,
    path_identity,
)
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name, sort_for_display
from kfmt_cli.disk.kinds.kind import FileKind, FileLevel, InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND
from kfmt_cli.disk.mounts import DirectoryEntries, FileEntry, StoredEntry
from kfmt_cli.disk.segment import Segment, group_segments
from kfmt_cli.errors import DeletionMessage, InputError
from kfmt_cli.topics import CLUSTER_METADATA

_SEGMENT_LOG_NAME = re.compile(r"^\d{20}\.log$")
_PARTITION_NAME = re.compile(r"^(.+)-(\d+)$")
_LOG_LIKE_NAME = re.compile(r"\.log(?:[.~_-].*)?$")
# The bytes of a batch up to its magic, the largest likely batch, and the newest magic.
_BATCH_START_BYTES, _MAX_BATCH_BYTES, _MAX_MAGIC = 17, 1 << 30, 2


def classify_file(path: str, display_name: str) -> InputFile:
    """The input file with the kind that its name implies; a log may be compressed as a whole."""
    file_name = path.rpartition(os.sep)[2]
    file_name = file_name.removesuffix(compressed_suffix(file_name))
    kind, base_offset, _ = classify_name(file_name)
    return InputFile(path, format_display_name(display_name), kind, base_offset)


def is_segment_log(file: InputFile) -> bool:
    """Whether the file has a broker's name for a segment's log."""
    has_log_name = _SEGMENT_LOG_NAME.match(file.path.rpartition(os.sep)[2]) is not None
    return has_log_name and file.base_offset is not None  # 20 digits can exceed the largest offset


def is_remote_log_name(name: str) -> bool:
    """Whether the name is that of a log in tiered storage."""
    return (
        name.endswith(".log") and REMOTE_SEGMENT_NAME.match(name.removesuffix(".log")) is not None
    )


def file_size(file: InputFile) -> int:
    """The file's size in bytes, 0 if unknown."""
    return _find_size(file) or 0


def file_modified_ms(file: InputFile) -> int:
    """When the file was last changed, in milliseconds; 0 if unknown."""
    try:
        return stat_path(file.path).st_mtime_ns // 1_000_000
    except (OSError, InputError):
        return 0


def is_empty_file(file: InputFile) -> bool:
    """Whether the file is known to have no bytes."""
    return _find_size(file) == 0


def _find_size(file: InputFile) -> int | None:
    try:
        return None if file.path == STDIN_PATH else stat_path(file.path).st_size
    except (OSError, InputError):  # opening it reports the error
        return None


def file_topic(file: InputFile) -> str | None:
    """The topic of a file, from its directory or its kind; None if neither has it."""
    return (
        CLUSTER_METADATA if file.kind is KRAFT_SNAPSHOT_KIND else file_topic_partition(file.path)[0]
    )


def format_no_logs_message(path: str) -> str:
    """The message for a directory without log segments."""
    return f"{format_display_name(path)}: no log segments in or under this directory"


def distinct_files(files: Iterable[InputFile], visited_paths: set[str]) -> Iterator[InputFile]:
    """The files not seen before, by real path; adds the paths to `visited_paths`."""
    for file in files:
        identity_path = path_identity(file.stored_path, file.may_be_link)
        if identity_path not in visited_paths:
            yield file
            visited_paths.add(identity_path)


@dataclass(frozen=True)
class DirectoryListing:
    """A directory with the names in it."""

    path: str
    """The path that opens it: the path given by the user, with `relative_path`."""
    relative_path: str
    """The path under the directory where the walk began; `.` for that directory."""
    directories: tuple[str, ...]
    """The names of its subdirectories, in order."""
    files: tuple[str, ...]
    """The names of its files, in order."""
    special_files: frozenset[str] = frozenset()
    """The files that are pipes, sockets or devices."""
    linked_files: frozenset[str] = frozenset()
    """The files that are symbolic links."""
    display_prefix: str | None = None
    """The prefix of its files' display names, if it is not the path."""
    stored_name_by_name: Mapping[str, str] = field(default_factory=dict)
    """The stored names of files that are compressed as a whole, by uncompressed name."""
    seen_at: SeenAt = field(default_factory=SeenAt, compare=False)
    """When it was listed."""

    @property
    def name(self) -> str:
        """Its name for display: the path that opens it."""
        return format_display_name(self.path)

    @property
    def has_changed(self) -> bool:
        """Whether its names or a file in it changed since it was listed."""
        return self.seen_at.has_changed(self.path) or self.seen_at.has_any_changed(
            self.input_file(file_name).stored_path for file_name in self.files
        )

    def input_file(self, file_name: str) -> InputFile:
        """The file with this name, with the kind that the name implies."""
        input_file = self._input_file_by_name.get(file_name)
        if input_file is None:
            kind, base_offset, _ = classify_name(file_name)
            if self.accepts_any_log and file_name in self.renamed_logs:
                kind = LOG_KIND
            path = f"{self.path.rstrip(os.sep)}{os.sep}{file_name}"
            display_name = path if self.display_prefix is None else self.display_prefix + file_name
            stored_name = self.stored_name_by_name.get(file_name, "")
            if stored_name:
                display_name = display_name.removesuffix(file_name) + stored_name
            is_link = file_name in self.linked_files
            input_file = InputFile(
                path, format_display_name(display_name), kind, base_offset, is_link, stored_name
            )
            self._input_file_by_name[file_name] = input_file
        return input_file

    @cached_property
    def _input_file_by_name(self) -> dict[str, InputFile]:
        """The results of `input_file` so far."""
        return {}

    @cached_property
    def accepts_any_log(self) -> bool:
        """Whether logs under other names count, because no segment is next to them."""
        return not any(classify_name(file_name)[1] is not None for file_name in self.files)

    @cached_property
    def renamed_logs(self) -> frozenset[str]:
        """The files that may be logs under another name, such as copies."""
        log_like_names = (
            file_name for file_name in self.regular_files if _is_named_like_log(file_name)
        )
        return frozenset(
            file_name
            for file_name in log_like_names
            if _starts_like_batch(f"{self.path}{os.sep}{file_name}")
        )

    def accepts_file(self, file_name: str) -> bool:
        """Whether a file counts: a broker file, or a log under another name or one of its
        indexes."""
        if is_broker_file_name(file_name):
            return True
        suffix = classify_name(file_name)[0].suffix
        log_name = file_name.removesuffix(suffix) + LOG_KIND.suffix if suffix else file_name
        return self.accepts_any_log and log_name in self.renamed_logs

    @property
    def has_broker_files(self) -> bool:
        """Whether any file counts, see `accepts_file`."""
        return any(map(self.accepts_file, self.files))

    @property
    def regular_files(self) -> tuple[str, ...]:
        """The names of its files without pipes and the like, which would block a reader."""
        return tuple(file_name for file_name in self.files if file_name not in self.special_files)

    @property
    def partition_names(self) -> list[str]:
        """Its subdirectories that a broker loads as partitions, by name."""
        names_and_topics = ((name, parse_topic_partition(name)[0]) for name in self.directories)
        return [
            name
            for name, topic in names_and_topics
            if topic is not None and not directory_marker_suffix(name)
        ]

    @property
    def logs(self) -> list[InputFile]:
        """The logs of its segments, in base offset order."""
        files = (self.input_file(file) for file in self.files if file not in self.special_files)
        return sorted(filter(is_segment_log, files), key=lambda file: file.base_offset_or_zero)

    @property
    def remote_logs(self) -> list[InputFile]:
        """Its logs with tiered storage names, in base offset order."""
        files = (self.input_file(file) for file in self.regular_files if is_remote_log_name(file))
        return sorted(files, key=lambda file: file.base_offset_or_zero)

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments whose files are in the directory, in the order of their names.

        Leftover and unfinished files form segments of their own.
        """
        return group_segments(
            self.input_file(file_name)
            for file_name in self.files
            if file_name not in self.special_files
        )

    @property
    def segments_in_use(self) -> Iterator[Segment]:
        """The segments that a broker uses, or any if the directory has no broker files."""
        for segment in self.segments:
            file_name = segment.any_file.path.rpartition(os.sep)[2]
            if self.accepts_file(file_name) and not classify_name(file_name)[2]:
                if classify_name(file_name)[0] is UNKNOWN_KIND:
                    segment.requested_index_kinds = frozenset()
                yield segment


def walk_directories(
    root: str,
    on_error: Callable[[str], None],
    list_entries: Callable[[str], DirectoryEntries] = list_broker_entries,
) -> list[DirectoryListing]:
    """The directory and those under it that a broker would use, topics by name and partitions by
    number.

    on_error: receives messages about unreadable directories. list_entries: lists a directory, see
    `iter_directories`.
    """
    root_prefix = os.path.join(root, "")  # noqa: PTH118 (text, as it was given)
    paths_and_listings = []
    for directory_path, directory_entries in iter_directories(
        root, listing_error_handler(on_error), list_entries
    ):
        relative_path = (
            directory_path.removeprefix(root_prefix) if directory_path != root else os.curdir
        )
        paths_and_listings.append(
            (relative_path, _build_listing(directory_path, relative_path, directory_entries))
        )
    paths_and_listings.sort(key=lambda item: _directory_sort_key(item[0]))
    log_directory_paths = _find_log_directory_paths(paths_and_listings)
    for relative_path, listing in paths_and_listings:
        if relative_path in log_directory_paths:
            _report_broken_links(listing, listing_error_handler(on_error))
    return _select_broker_directories(paths_and_listings, log_directory_paths)


def _report_broken_links(directory: DirectoryListing, on_error: Callable[[str, str], None]) -> None:
    """Report the partitions of a log directory that are broken links."""
    for link_name in sorted(directory.linked_files):
        link_path = f"{directory.path}{os.sep}{link_name}"
        is_partition = parse_topic_partition(link_name)[
            0
        ] is not None and not directory_marker_suffix(link_name)
        if is_partition and (reason := broken_link_reason(link_path)):
            on_error(link_path, reason)


def _find_log_directory_paths(paths_and_listings: list[tuple[str, DirectoryListing]]) -> set[str]:
    """The relative paths of log directories: with files of that level, or with partitions."""
    log_directory_paths = set()
    for relative_path, listing in paths_and_listings:
        classified_names = [classify_name(file_name) for file_name in listing.files]
        known_kinds = (kind for kind, _, _ in classified_names if kind is not UNKNOWN_KIND)
        if any(kind.level is FileLevel.LOG_DIRECTORY for kind in known_kinds):
            log_directory_paths.add(relative_path)
        if any(base_offset is not None for _, base_offset, _ in classified_names):
            log_directory_paths.add(relative_path.rpartition(os.sep)[0] or os.curdir)
    return log_directory_paths


def _select_broker_directories(
    paths_and_listings: list[tuple[str, DirectoryListing]], log_directory_paths: set[str]
) -> list[DirectoryListing]:
    """The root, and the directories under it that a broker would use.

    These are directories with broker files and their siblings, because a broker treats every
    directory in its log directory as a partition; and directories with logs under other names.
    Other programs also have directories named like version-2, and *.log files.
    """
    return [
        listing
        for relative_path, listing in paths_and_listings
        if relative_path == os.curdir
        or (relative_path.rpartition(os.sep)[0] or os.curdir) in log_directory_paths
        or listing.has_broker_files
        or has_compressed_or_tiered_files(listing.files)
    ]


@lru_cache(maxsize=4096)
def _is_named_like_log(file_name: str) -> bool:
    """Whether a name that no broker uses is like a log's, such as that of a copy."""
    return _LOG_LIKE_NAME.search(file_name) is not None and classify_name(file_name)[1:] == (
        None,
        "",
    )


def _starts_like_batch(path: str) -> bool:
    """Whether at least two of the first batch's offset, length and magic are plausible."""
    try:
        header_start = read_bytes_at(path, 0, _BATCH_START_BYTES)
    except InputError:  # reading it reports the error
        return True
    if len(header_start) < _BATCH_START_BYTES:
        return False
    offset_prefix, batch_length, magic = (
        header_start[:2],
        int.from_bytes(header_start[8:12], "big"),
        header_start[16],
    )
    return (offset_prefix == bytes(2)) + (0 < batch_length < _MAX_BATCH_BYTES) + (
        magic <= _MAX_MAGIC
    ) > 1


def is_broker_file_name(file_name: str) -> bool:
    """Whether a broker writes files with such a name; segment files begin with an offset."""
    kind, base_offset, _ = classify_name(file_name)
    if kind.level is FileLevel.SEGMENT and kind.suffix:
        return base_offset is not None
    return kind is not UNKNOWN_KIND


def list_directory(path: str, display_prefix: str | None = None) -> DirectoryListing:
    """A directory without the contents of its subdirectories; raises InputError. display_prefix:
    the prefix of its files' display names, if it is not the path."""
    try:
        return replace(
            _build_listing(path, os.curdir, list_broker_entries(path)),
            display_prefix=display_prefix,
        )
    except OSError as error:
        raise InputError(f"{format_display_name(path)}: {error.strerror}") from error


def _build_listing(path: str, relative_path: str, entries: DirectoryEntries) -> DirectoryListing:
    # Few entries are irregular; only these are examined further.
    irregular_entries = [
        entry for entry in entries.files if not entry.is_file(follow_symlinks=False)
    ]
    return DirectoryListing(
        path,
        relative_path,
        tuple(sorted([*entries.directories, *entries.directory_links])),
        tuple(sorted(entry.name for entry in entries.files)),
        frozenset(entry.name for entry in irregular_entries if _is_special_file(entry)),
        frozenset(entry.name for entry in irregular_entries if entry.is_symlink()),
        stored_name_by_name={
            entry.name: entry.stored_name
            for entry in entries.files
            if isinstance(entry, StoredEntry) and entry.stored_name
        },
    )


def listing_error_handler(on_error: Callable[[str], None]) -> Callable[[str, str], None]:
    """The callback with which `iter_directories` reports a directory that cannot be listed."""
    return lambda path, reason: on_error(
        (DeletionMessage if reason == os.strerror(ENOENT) else str)(
            f"{format_display_name(path)}: {reason}"
        )
    )


def _is_special_file(entry: FileEntry) -> bool:
    """Whether opening a file would block.

    A file that cannot be examined is opened, which reports why.
    """
    try:
        return not entry.is_file() and not stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return False


def iter_input_files(
    directories: Iterable[DirectoryListing],
    kinds: frozenset[FileKind],
    skipped_counts: Counter[str] | None = None,
) -> Iterator[InputFile]:
    """The files of some kinds, without leftover and unfinished ones.

    skipped_counts: counts the other files: by kind, as `other`, or by the suffix of a leftover
    file.
    """
    for directory in directories:
        for file_name in directory.files:
            kind, _, transient_suffix = classify_name(file_name)
            is_unaccepted = not directory.accepts_file(file_name)
            if not is_unaccepted and not is_broker_file_name(file_name):
                kind = directory.input_file(file_name).kind
            if (
                transient_suffix
                or kind not in kinds
                or file_name in directory.special_files
                or is_unaccepted
            ):
                if skipped_counts is not None:
                    is_counted_by_kind = (kind.suffix or kind.has_batches) and not is_unaccepted
                    skipped_counts[
                        transient_suffix or (kind.name if is_counted_by_kind else "other")
                    ] += 1
                continue
            yield directory.input_file(file_name)


def iter_all_files(directories: Iterable[DirectoryListing]) -> Iterator[InputFile]:
    """All files except pipes and the like, in display order: partitions first, and in each
    directory segments first."""
    for directory in sorted(directories, key=lambda directory: not _has_segments(directory)):
        for file_name in sorted(
            sort_for_display(directory.files), key=lambda name: not name[:1].isdigit()
        ):
            if file_name not in directory.special_files:
                yield directory.input_file(file_name)


def _has_segments(directory: DirectoryListing) -> bool:
    return any(file_name[:1].isdigit() for file_name in directory.files)


def _directory_sort_key(relative_path: str) -> list[tuple[str, int]]:
    """Sort key: topics by name, partitions by number; a directory before its contents."""
    sort_key = []
    for path_part in () if relative_path == os.curdir else relative_path.split(os.sep):  # noqa: PTH206 (many)
        partition_match = _PARTITION_NAME.match(path_part)
        sort_key.append(
            (partition_match[1], int(partition_match[2])) if partition_match else (path_part, -1)
        )
    return sort_key
