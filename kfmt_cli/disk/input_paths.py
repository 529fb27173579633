"""The files and directories at the paths that a user gives.

Every command that takes paths uses this module. A missing path, standard input, a directory without
logs and one that cannot be listed therefore behave the same everywhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from kfmt_cli.core.compressed_files import compressed_suffix
from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.urls import format_display_name, is_local
from kfmt_cli.disk.directory_listing import (
    DirectoryListing,
    format_no_logs_message,
    is_broker_file_name,
    iter_all_files,
    iter_input_files,
    list_directory,
)
from kfmt_cli.disk.file_access import is_directory, stat_path
from kfmt_cli.disk.file_names import (
    directory_marker_suffix,
    format_skipped_directories,
    parse_topic_partition,
    partition_directory,
    path_identity,
)
from kfmt_cli.disk.kinds import UNKNOWN_KIND
from kfmt_cli.disk.kinds.kind import FileKind, InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.disk.pasted_input import resolve_pasted_file
from kfmt_cli.disk.path_resolution import (
    is_tiered,
    list_broker_directories,
    mount_and_resolve_path,
    problem_messages,
    resolve_input_file,
)
from kfmt_cli.disk.redpanda import REDPANDA_MESSAGE, is_redpanda_directory, is_redpanda_log
from kfmt_cli.disk.segment import SEGMENT_KINDS, Segment
from kfmt_cli.disk.topic_filter import TOPIC_PATTERNS, matches_topic, missing_topic_error
from kfmt_cli.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class InputPath:
    """A path given by the user, with the files there."""

    path: str
    """As given, apart from what `mount_and_resolve_path` changes."""
    file: InputFile | None = None
    """The file; None for a directory."""
    directories: list[DirectoryListing] = field(default_factory=list)
    """The directory, and the directories under it that a broker would use."""
    listing_errors: list[str] = field(default_factory=list)
    """Messages about files and directories that could not be listed or assembled."""
    other_topics: tuple[str | None, ...] = ()
    """The topics of its directories if none of them is to be read."""

    def exclude_marked_directories(self, on_note: Callable[[str], None]) -> InputPath:
        """This path without the marked directories under it, which are copies or data that a broker
        no longer serves. on_note: receives a message about them."""
        marked_directories = [
            directory for directory in self.directories if self._is_marked_directory(directory)
        ]
        if not marked_directories:
            return self
        message = format_skipped_directories([directory.path for directory in marked_directories])
        on_note(f"{format_display_name(self.path)}: {message}\n")
        unmarked_directories = [
            directory for directory in self.directories if not self._is_marked_directory(directory)
        ]
        return replace(self, directories=unmarked_directories)

    def _is_marked_directory(self, directory: DirectoryListing) -> bool:
        return (
            directory.path != self.path and directory_marker_suffix(Path(directory.path).name) != ""
        )

    def iter_files(self, kinds: frozenset[FileKind] | None) -> Iterator[InputFile]:
        """The file, or the files of some kinds in the directory; raises InputError if there are
        none.

        kinds: None for all files. Otherwise leftover and unfinished files are skipped unless named.
        """
        if self.file is not None:
            yield self.file
            return
        directories = self.directories
        matching_files = (
            iter_all_files(directories) if kinds is None else iter_input_files(directories, kinds)
        )
        files = list(matching_files)
        if all(file.kind is UNKNOWN_KIND for file in files) and not self.listing_errors:
            raise InputError(format_no_logs_message(self.path))
        yield from files

    def iter_segments(self, skipped_counts: Counter[str] | None = None) -> Iterator[Segment]:
        """The segments in the directory, or the file's segment; raises InputError if none.

        skipped_counts: counts the directory's other files, like `iter_input_files`.
        """
        if self.file is not None:
            yield self._find_segment(self.file)
            return
        # Count the skipped files, including any that are not part of a segment.
        n_files = sum(1 for _ in iter_input_files(self.directories, SEGMENT_KINDS, skipped_counts))
        if not n_files and not self.listing_errors:
            raise InputError(format_no_logs_message(self.path))
        for directory in self.directories:
            yield from directory.segments_in_use

    def _find_segment(self, file: InputFile) -> Segment:
        """The segment of a file given by the user."""
        if file.kind not in SEGMENT_KINDS:
            raise InputError(f"{file.name}: neither a log nor an index")
        if compressed_suffix(file.path):
            return Segment(file, requested_index_kinds=frozenset(), is_explicit=True)
        directory = list_parent_directory(file.path)
        file_name = Path(file.path).name
        segment = next(
            (
                segment
                for segment in directory.segments
                if file_name in _segment_file_names(segment)
            ),
            None,
        )
        if segment is None:
            raise InputError(f"{file.name}: not a regular file")
        segment.is_explicit = True
        if file.kind is LOG_KIND:
            segment.log = file  # with the display name given by the user
        else:
            segment.requested_index_kinds = frozenset({file.kind})
        return segment


def reject_stdin(*paths: str) -> None:
    """Raise UsageError if standard input is among the paths."""
    if STDIN_PATH in paths:
        raise UsageError("-: this command cannot read standard input")


def resolve_path(path: str, *, accepts_stdin: bool = False) -> InputPath:
    """The files at a path.

    accepts_stdin: - is standard input, and pasted bytes are a log. Raises InputError if the path
    does not exist or has Redpanda data, UsageError for - if the command cannot read it.
    """
    if not accepts_stdin:
        reject_stdin(path)
    elif (pasted_file := resolve_pasted_file(path)) is not None:
        return InputPath(pasted_file.path, pasted_file)
    if path and path != STDIN_PATH:
        path = mount_and_resolve_path(path)
    if path and is_directory(path):
        listing_errors: list[str] = []
        directories = list_broker_directories(path, listing_errors.append)
        has_broker_files = any(
            is_broker_file_name(file) for directory in directories for file in directory.files
        )
        if not has_broker_files and is_redpanda_directory(path):
            raise InputError(f"{format_display_name(path)}: {REDPANDA_MESSAGE}")
        listing_errors = list(dict.fromkeys([*problem_messages(path), *listing_errors]))
        return _select_directories(InputPath(path, None, directories, listing_errors))
    if not path or (path != STDIN_PATH and _is_missing(path)):
        if messages := problem_messages(path):
            raise InputError(messages[0])
        from kfmt_cli.disk.missing_paths import missing_path_message

        raise InputError(missing_path_message(path), file=path, is_missing=True)
    if is_redpanda_log(Path(path).name):
        raise InputError(f"{format_display_name(path)}: {REDPANDA_MESSAGE}")
    file = resolve_input_file(path)
    return InputPath(path, file, listing_errors=problem_messages(path))


def _select_directories(input_path: InputPath) -> InputPath:
    """A directory without the partitions of topics that the run does not read."""
    if not (patterns := TOPIC_PATTERNS.get()):
        return input_path
    topics = [directory_topic(directory) for directory in input_path.directories]
    directories = [
        directory
        for directory, topic in zip(input_path.directories, topics, strict=True)
        if topic is not None and matches_topic(topic, patterns)
    ]
    return replace(
        input_path, directories=directories, other_topics=() if directories else tuple(topics)
    )


def directory_topic(directory: DirectoryListing) -> str | None:
    """The topic in the name of a partition directory; None for another directory."""
    return parse_topic_partition(partition_directory(directory.path).name)[0]


def resolve_trailing_parent(path: str) -> str:
    """The path with an ending .. resolved, so that it shows its last name and its parent."""
    if not is_local(path):
        return path
    if path.rpartition(os.sep)[2] == os.pardir and os.path.lexists(path):
        return os.path.realpath(path)
    return path and str(Path(path))


def resolve_all_paths(paths: Iterable[str]) -> tuple[InputPath | str, ...]:
    """The files at each path, for several calls of `resolve_paths`; a path that cannot be resolved
    stays a string."""
    resolved_paths: list[InputPath | str] = []
    for path in map(resolve_trailing_parent, paths):
        try:
            resolved_paths.append(resolve_path(path))
        except InputError:
            resolved_paths.append(path)
    return tuple(resolved_paths)


def resolve_paths(
    paths: Sequence[InputPath | str],
    on_error: Callable[[str], None],
    *,
    accepts_stdin: bool = False,
    includes_duplicates: bool = False,
) -> Iterator[InputPath]:
    """The files at each path, each directory once; raises UsageError.

    on_error: receives messages about missing paths, Redpanda data and directories that cannot be
    listed. includes_duplicates: keep tiered segments that local directories also contain.
    """
    if not accepts_stdin:
        reject_stdin(*(path for path in paths if isinstance(path, str)))
    resolved_paths = _require_topics(
        _iter_resolved_paths(paths, on_error, accepts_stdin=accepts_stdin)
    )
    yield from resolved_paths if includes_duplicates else drop_duplicate_segments(resolved_paths)


def _require_topics(input_paths: Iterable[InputPath]) -> Iterator[InputPath]:
    """The paths with topics to read; raises NotFoundError if all are without, and a filter is
    set."""
    other_topics: list[str | None] = []
    has_path = False
    for input_path in input_paths:
        other_topics += input_path.other_topics
        if not input_path.other_topics:
            has_path = True
            yield input_path
    if other_topics and not has_path:
        raise missing_topic_error(TOPIC_PATTERNS.get(), other_topics)


def drop_duplicate_segments(input_paths: Iterable[InputPath]) -> Iterator[InputPath]:
    """The paths without tiered segments that local directories of their partitions also contain.

    From the first tiered directory onward, all paths are read before one is yielded.
    """
    remaining_paths, local_directories = iter(input_paths), list[DirectoryListing]()
    for resolved_path in remaining_paths:
        if not any(is_tiered(directory.path) for directory in resolved_path.directories):
            local_directories += resolved_path.directories
            yield resolved_path
            continue
        pending_paths = [resolved_path, *remaining_paths]
        local_start_offset_by_name = _local_start_offsets(
            chain(local_directories, *(input_path.directories for input_path in pending_paths))
        )
        for input_path in pending_paths:
            trimmed_directories = (
                _exclude_local_files(directory, local_start_offset_by_name)
                for directory in input_path.directories
            )
            directories = [directory for directory in trimmed_directories if directory is not None]
            if len(directories) == len(input_path.directories) or any(
                directory.logs for directory in directories
            ):
                yield replace(input_path, directories=directories)


def _local_start_offsets(directories: Iterable[DirectoryListing]) -> dict[str, int]:
    """The first offset of the directories that are not tiered, by directory name."""
    start_offset_by_name: dict[str, int] = {}
    for directory in directories:
        if not is_tiered(directory.path) and (logs := directory.logs):
            directory_name, base_offset = Path(directory.path).name, logs[0].base_offset_or_zero
            start_offset_by_name[directory_name] = min(
                base_offset, start_offset_by_name.get(directory_name, base_offset)
            )
    return start_offset_by_name


def _exclude_local_files(
    tiered_directory: DirectoryListing, local_start_offset_by_name: Mapping[str, int]
) -> DirectoryListing | None:
    """A tiered directory without the files that the local one also has; None if no log is left.
    local_start_offset_by_name: the first offset of each local directory, by name."""
    local_start_offset = local_start_offset_by_name.get(Path(tiered_directory.path).name)
    if local_start_offset is None or not is_tiered(tiered_directory.path):
        return tiered_directory
    file_names = (
        file_name
        for file_name in tiered_directory.files
        if not _has_min_offset(file_name, local_start_offset)
    )
    trimmed_directory = replace(tiered_directory, files=tuple(file_names))
    return trimmed_directory if trimmed_directory.logs else None


def _has_min_offset(file_name: str, min_offset: int) -> bool:
    """Whether a file's name begins with an offset of at least `min_offset`."""
    offset = parse_int(file_name.partition(".")[0])
    return offset is not None and offset >= min_offset


def _iter_resolved_paths(
    paths: Sequence[InputPath | str], on_error: Callable[[str], None], *, accepts_stdin: bool
) -> Iterator[InputPath]:
    visited_paths: set[str] = set()
    is_single_path = len(paths) == 1
    for path in paths:
        try:
            input_path = (
                path
                if isinstance(path, InputPath)
                else resolve_path(path, accepts_stdin=accepts_stdin)
            )
        except InputError as error:
            on_error(str(error))
            continue
        identity_path = path_identity(input_path.path)
        if identity_path in visited_paths and input_path.path != STDIN_PATH:
            continue
        visited_paths.add(identity_path)
        for message in input_path.listing_errors:
            on_error(message)
        unvisited_path = (
            input_path
            if is_single_path
            else _exclude_visited_directories(input_path, visited_paths)
        )
        if (
            unvisited_path is input_path
            or unvisited_path.listing_errors
            or any(directory.has_broker_files for directory in unvisited_path.directories)
        ):
            yield unvisited_path


def _exclude_visited_directories(input_path: InputPath, visited_paths: set[str]) -> InputPath:
    """A path without the directories that earlier paths lead to; adds the others to
    `visited_paths`."""
    unvisited_directories: list[DirectoryListing] = []
    for directory in input_path.directories:
        identity_path = path_identity(directory.path)
        if directory.path == input_path.path or identity_path not in visited_paths:
            unvisited_directories.append(directory)
        if not input_path._is_marked_directory(directory):  # it must be named to be read
            visited_paths.add(identity_path)
    return (
        input_path
        if len(unvisited_directories) == len(input_path.directories)
        else replace(input_path, directories=unvisited_directories)
    )


def list_parent_directory(path: str) -> DirectoryListing:
    """The directory of a file, with display names of the same prefix; raises InputError."""
    parent, name = os.path.split(path)
    return list_directory(parent or os.curdir, path.removesuffix(name))


def _is_missing(path: str) -> bool:
    """Whether a path is missing; other errors are reported on opening."""
    try:
        stat_path(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # also a name with a zero byte
        return True
    except OSError:
        return False
    return False


def _segment_file_names(segment: Segment) -> set[str]:
    files = [*segment.index_by_kind.values(), *([segment.log] if segment.log else [])]
    return {Path(file.path).name for file in files}
