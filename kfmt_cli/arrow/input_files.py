"""The input files of a request, wherever they are stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice

from kfmt_cli.arrow.tiered_logs import (
    ManifestCache,
    ManifestVersion,
    open_tiered_source,
    parse_object_prefix,
    tiered_log_contents,
    with_log_size,
)
from kfmt_cli.arrow.topic_ids import TopicIdCache, find_known_topic_id
from kfmt_cli.broker.cluster.replica_contents import ReplicaLogContents
from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.core.compressed_files import COMPRESSED_FILE_MESSAGE, compressed_suffix
from kfmt_cli.core.parallel import MAX_CONNECTIONS, group_small_items, map_ordered
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.core.urls import format_display_name, is_local, path_in_listings
from kfmt_cli.disk.directory_listing import is_broker_file_name
from kfmt_cli.disk.file_listing import iter_files
from kfmt_cli.disk.file_names import (
    MANIFEST_SUFFIX,
    directory_marker_suffix,
    distinct_paths,
    file_topic_partition,
    format_skipped_directories,
    path_identity,
)
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import FileKind, InputFile, quote_content
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND, LOG_KINDS
from kfmt_cli.disk.mounts import MOUNTS, SourceOpener
from kfmt_cli.disk.path_resolution import is_tiered
from kfmt_cli.disk.redpanda import REDPANDA_MESSAGE, is_redpanda_log
from kfmt_cli.errors import InputError, UsageError, unknown_name_question
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.replica_splits import select_replica_splits
from kfmt_cli.execution.split_reader import SplitReader

KINDS_BY_TABLE = {
    "records": frozenset({LOG_KIND}),
    "batches": frozenset({LOG_KIND}),
    "snapshot_records": frozenset({KRAFT_SNAPSHOT_KIND}),
    "index_entries": frozenset({OFFSET_INDEX_KIND, TIME_INDEX_KIND}),
}


def list_input_files(
    request: ReadRequest,
    report_skipped: Callable[[str], None] | None = None,
    list_files: Callable[[str], Iterable[StoredFile]] | None = None,
    *,
    require_topics: bool = False,
    manifest_cache: ManifestCache | None = None,
) -> FileSplits:
    """All files of the request, each as one split; an unreadable directory, or one of several paths
    that is missing or empty, is an entry with its error. Raises InputError, also if every entry is
    an error.

    Directories that a broker has marked (-future, -delete, -stray) are skipped unless named.
    report_skipped: receives a message about skipped directories. list_files: lists the files under
    a path; None for the default way. require_topics: raise UsageError for a topic without files.
    manifest_cache: the manifests of the previous listing, updated to this one.
    """
    version_by_object_prefix: dict[str, ManifestVersion] = {}
    manifest_cache = manifest_cache or ManifestCache()
    tiered_contents: dict[str, ReplicaLogContents] = {}
    all_splits = topic_splits = FileSplits(
        _iter_input_files(
            request, version_by_object_prefix, report_skipped, list_files or iter_files
        )
    )
    if version_by_object_prefix or request.topics:
        topic_splits = FileSplits(
            _iter_topic_files(
                request, all_splits, version_by_object_prefix, manifest_cache, tiered_contents
            )
        )
    manifest_cache.drop_unlisted_manifests(version_by_object_prefix)
    if require_topics and request.topics:
        _require_topics(request.topics, topic_splits, all_splits)
    if topic_splits and not topic_splits.readable_splits:
        raise InputError(
            "; ".join(f"{path}: {error}" for path, error in topic_splits.read_errors.items())
        )
    input_splits = topic_splits.sorted_unique()
    if request.reads_all_replicas:
        return input_splits
    return select_replica_splits(
        input_splits,
        request,
        partial(find_known_topic_id, TopicIdCache()),
        report_skipped,
        tiered_contents,
    ).sorted_unique()


def _require_topics(
    topics: frozenset[str], topic_splits: FileSplits, all_splits: FileSplits
) -> None:
    """Raise UsageError for a topic without files, InputError if it may be where nothing could be
    read."""
    missing_topics = sorted(topics - {split.topic_partition[0] for split in topic_splits})
    if missing_topics:
        existing_topics = sorted(
            {topic for split in all_splits if (topic := split.topic_partition[0]) is not None}
        )
        question = unknown_name_question(
            missing_topics[0], existing_topics, display=format_display_name
        )
        message = f"no topic {quote_content(missing_topics[0])} in the given paths"
        if errors := all_splits.read_errors:
            error_texts = (f"{path}: {reason}" for path, reason in errors.items())
            raise InputError(f"{message} that could be read; {'; '.join(error_texts)}")
        raise UsageError(f"{message}{question}")


def _iter_input_files(
    request: ReadRequest,
    version_by_object_prefix: dict[str, ManifestVersion],
    report_skipped: Callable[[str], None] | None,
    list_files: Callable[[str], Iterable[StoredFile]],
) -> Iterator[FileSplit]:
    """List the files of all topics.

    version_by_object_prefix: receives the manifests of tiered storage, by the object prefixes of
    their segments. A segment in tiered storage is listed once, even if several paths lead to it.
    """
    tiered_identities: set[str] = set()
    for path in (paths := distinct_paths(request.paths)):
        skipped_directories = set[str]()
        current_directory = ""
        is_directory_skipped = False
        has_kafka_files, has_redpanda_files = False, False
        stored_files = _list_requested_path(path, list_files, is_only_path=len(paths) == 1)
        first_files = list(islice(stored_files, 2))
        is_single_file = first_files[0].path == path_in_listings(path)
        for stored_file in _find_manifest(first_files[0].path) if is_single_file else ():
            version_by_object_prefix[stored_file.path.removesuffix(MANIFEST_SUFFIX)] = (
                stored_file.size,
                stored_file.modified_ns,
            )
        for stored_file in chain(first_files, stored_files):
            if stored_file.path.endswith(MANIFEST_SUFFIX) and not stored_file.error:
                version_by_object_prefix[stored_file.path.removesuffix(MANIFEST_SUFFIX)] = (
                    stored_file.size,
                    stored_file.modified_ns,
                )
            parent_directory, _, file_name = stored_file.path.rpartition("/")
            has_kafka_files = has_kafka_files or is_broker_file_name(file_name)
            has_redpanda_files = has_redpanda_files or is_redpanda_log(file_name)
            if parent_directory != current_directory:
                current_directory = parent_directory
                is_directory_skipped = _is_marked_directory(parent_directory, path)
            split = _create_split(request, stored_file, file_name, is_single_file)
            if split is not None and is_tiered(split.path):
                tiered_identity = path_identity(split.path)
                if tiered_identity in tiered_identities:
                    continue
                tiered_identities.add(tiered_identity)
            if split is not None and is_directory_skipped:
                skipped_directories.add(current_directory)
            elif split is not None:
                yield split
        if has_redpanda_files and not has_kafka_files:
            raise InputError(f"{path}: {REDPANDA_MESSAGE}")
        if skipped_directories and report_skipped is not None:
            report_skipped(f"{path}: {format_skipped_directories(skipped_directories)}\n")


def _list_requested_path(
    path: str, list_files: Callable[[str], Iterable[StoredFile]], *, is_only_path: bool
) -> Iterator[StoredFile]:
    """The files under a path that the user gave, at least one. One of several paths that cannot be
    listed or has no files is an entry with an `error`; raises InputError for the only path."""
    is_empty = True
    try:
        for stored_file in list_files(path):
            is_empty = False
            yield stored_file
        if is_empty:
            raise InputError(f"{path}: contains no files")
    except InputError as error:
        if is_only_path:
            raise
        reason = str(error).removeprefix(f"{format_display_name(path)}: ")
        yield StoredFile(path_in_listings(path), 0, 0, reason)


def _create_split(
    request: ReadRequest, stored_file: StoredFile, file_name: str, is_explicit: bool
) -> FileSplit | None:
    """A file as one split, None if the request does not include it. is_explicit: its own path
    was given, so a log may have any name."""
    path = stored_file.path
    file_bytes = stored_file.size
    read_error = stored_file.error
    compression_suffix = compressed_suffix(file_name)
    kind, base_offset, transient_suffix = classify_name(file_name.removesuffix(compression_suffix))
    if read_error is None:
        if transient_suffix and not is_explicit:
            return None
        if compression_suffix and kind in LOG_KINDS:
            read_error = COMPRESSED_FILE_MESSAGE
    if read_error is not None and (kind is UNKNOWN_KIND or _table_reads_kind(request, kind)):
        return FileSplit(path, UNKNOWN_KIND, None, 0, 0, 0, 0, read_error=read_error)
    table_reads_logs = any(_table_reads_kind(request, log_kind) for log_kind in LOG_KINDS)
    may_be_log = is_explicit and table_reads_logs and (kind is UNKNOWN_KIND or kind in LOG_KINDS)
    if not _table_reads_kind(request, kind) and not may_be_log:
        return None
    return FileSplit(path, kind, base_offset, file_bytes, stored_file.modified_ns, 0, file_bytes)


def _table_reads_kind(request: ReadRequest, kind: FileKind) -> bool:
    """Whether the table of the request has rows of this kind of file."""
    return kind in KINDS_BY_TABLE.get(request.table, LOG_KINDS)


def _find_manifest(path: str) -> Iterable[StoredFile]:
    """The manifest of a file that was named explicitly; empty for a file without one. Raises
    InputError."""
    object_prefix = parse_object_prefix(path)
    try:
        return () if object_prefix is None else list(iter_files(object_prefix + MANIFEST_SUFFIX))
    except InputError as error:
        if error.is_missing:
            return ()
        raise


def _iter_topic_files(
    request: ReadRequest,
    all_splits: FileSplits,
    version_by_object_prefix: Mapping[str, ManifestVersion],
    manifest_cache: ManifestCache,
    tiered_contents: dict[str, ReplicaLogContents],
) -> Iterator[FileSplit]:
    """The files of the requested topics.

    The size of a segment in tiered storage comes from its manifest. Its offsets that other such
    segments have, those of the latest leader first, are not read from it. tiered_contents: receives
    the contents of segments in tiered storage whose partitions also have local logs, by path.
    """
    local_partitions: set[object] = set()
    for split in all_splits:
        if parse_object_prefix(split.path) in version_by_object_prefix:
            continue
        if split.read_error or request.includes_topic(file_topic_partition(split.path)[0]):
            yield split
            if split.kind is LOG_KIND and split.base_offset is not None:
                local_partitions.add(split.topic_partition)
    tiered_splits = all_splits.select_where(
        lambda split: parse_object_prefix(split.path) in version_by_object_prefix
    )
    resolve_split = partial(
        _resolve_tiered_split, request, version_by_object_prefix, manifest_cache
    )
    resolved_splits = map_ordered(resolve_split, tiered_splits, MAX_CONNECTIONS)
    read_intervals_by_partition: dict[object, OffsetIntervals] = defaultdict(list)
    for partition, segments in groupby(resolved_splits, lambda pair: pair[0].topic_id_partition):
        read_intervals = read_intervals_by_partition[partition]
        for split, contents in sorted(segments, key=lambda pair: -pair[1].latest_epoch):
            if split.read_error:
                yield split
                continue
            own_intervals = contents.undamaged_intervals
            remaining_intervals = subtract_intervals(own_intervals, read_intervals)
            if remaining_intervals and request.includes_topic(split.topic_partition[0]):
                if split.topic_partition in local_partitions:
                    tiered_contents[split.path] = contents.restrict_to(remaining_intervals)
                is_complete = remaining_intervals == own_intervals
                offset_intervals = () if is_complete else tuple(remaining_intervals)
                yield replace(split, offset_intervals=offset_intervals)
            read_intervals[:] = merge_intervals([*read_intervals, *own_intervals])


def _resolve_tiered_split(
    request: ReadRequest,
    version_by_object_prefix: Mapping[str, ManifestVersion],
    manifest_cache: ManifestCache,
    split: FileSplit,
) -> tuple[FileSplit, ReplicaLogContents]:
    """A segment in tiered storage with the original size of its log, or with the reason that it
    cannot be read; and its contents."""
    object_prefix = split.path.removesuffix(LOG_KIND.suffix)
    try:
        contents = manifest_cache.read_contents(
            object_prefix, version_by_object_prefix[object_prefix]
        )
        return with_log_size(request, split, contents), tiered_log_contents(split, contents)
    except InputError as error:
        unreadable = replace(split, kind=UNKNOWN_KIND, read_error=str(error), is_tiered=True)
        return unreadable, ReplicaLogContents(split.path, split.base_offset_or_zero)


def mount_split_files(
    request: ReadRequest, splits: Iterable[FileSplit]
) -> AbstractContextManager[None]:
    """Mount segments in tiered storage, so that their paths open logs instead of chunks, and stored
    objects with their listed sizes, which saves requests."""
    opener_by_path: dict[str, SourceOpener] = {}
    for split in splits:
        if split.is_tiered:
            opener_by_path[split.path] = partial(
                open_tiered_source, request, split.object_size, split.encoded_chunking
            )
        elif not is_local(split.path) and MOUNTS.find_tree_and_subpath(split.path) is None:
            opener_by_path[split.path] = partial(StoredSource, listed_size=split.file_size)
    return MOUNTS.override_openers(opener_by_path)


def _is_marked_directory(directory: str, root_path: str) -> bool:
    """Whether a broker has marked a directory under a listed path that does not name it."""
    directory_name = directory.rpartition("/")[2]
    return directory_marker_suffix(directory_name) != "" and directory_name not in root_path.split(
        "/"
    )


def create_split_reader(request: ReadRequest, split: FileSplit) -> SplitReader:
    """A reader for a split, with the selection and options of the request."""
    return SplitReader(
        request.selection_for(split),
        request.decompression_limit,
        fail_fast=request.fail_fast,
        raises_if_unreadable=request.raises_if_unreadable,
    )


def group_small_splits(splits: Sequence[FileSplit]) -> Iterator[list[FileSplit]]:
    """The splits in order, with consecutive small logs grouped and others separate."""

    def groupable_bytes(split: FileSplit) -> int | None:
        is_whole_log = split.kind is LOG_KIND and split.is_entire_file and not split.read_error
        is_whole_log = is_whole_log and not split.offset_intervals
        return split.file_size if is_whole_log else None

    return group_small_items(splits, groupable_bytes)


def input_file(split: FileSplit) -> InputFile:
    """The file of a split."""
    return InputFile(split.path, split.path, split.kind, split.base_offset)
