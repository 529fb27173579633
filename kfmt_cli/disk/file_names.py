"""Parses the names of broker files and directories: offsets, topics, partitions, marks."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.urls import absolute_path, format_display_name, is_url, strip_file_scheme
from kfmt_cli.disk.mounts import MOUNTS

_OFFSET_TEXT = re.compile(r"^[+-]?\d{1,20}$")
# Tiered storage: a segment's base offset and id, and the manifest of Aiven's plug-in.
_REMOTE_OBJECT_PATH = re.compile(r"(?:^|/)([^/]+)-[\w-]{22}/(\d{1,10})/\d{20}-[\w-]{22}\.[^/]*$")
REMOTE_SEGMENT_NAME = re.compile(r"^(\d{20})-[\w-]{22}$")
MANIFEST_SUFFIX, REMOTE_INDEXES_SUFFIX = ".rsm-manifest", ".indexes"


def parse_offset_name(name: str) -> int | None:
    """The offset that a broker reads from a name, before the first dot, or None."""
    offset_text, dot, _ = name.partition(".")
    if not dot or _OFFSET_TEXT.match(offset_text) is None:
        return None
    return int(offset_text) if -MAX_OFFSET - 1 <= int(offset_text) <= MAX_OFFSET else None


# `<topic>-<partition>`, then the suffix of a moved or deleted directory, or a topic id.
_PARTITION_DIRECTORY_PATTERN = re.compile(
    r"^(.+)-(\d+)(?:-[\w-]{22}|\.[0-9a-f]{32}-(?:future|delete|stray))?$"
)

_MARKER_SUFFIX_PATTERN = re.compile(r"\.[0-9a-f]{32}-(future|delete|stray)$")


def directory_marker_suffix(directory_name: str) -> str:
    """A broker's mark in a partition directory's name: future, delete or stray; else empty."""
    match = _MARKER_SUFFIX_PATTERN.search(directory_name)
    return match[1] if match else ""


def format_skipped_directories(paths: Collection[str]) -> str:
    """The message for marked directories that are skipped."""
    marker_suffixes = sorted(
        {directory_marker_suffix(path.rpartition(os.sep)[2]) for path in paths}
    )
    count_text = "1 directory" if len(paths) == 1 else f"{len(paths)} directories"
    return (
        f"{count_text} marked -{' or -'.join(marker_suffixes)} skipped; name one as PATH to read it"
    )


_COMPRESSED_SEGMENT_FILE = re.compile(
    r"^\d{20}\.(?:log|index|timeindex|txnindex|snapshot)\.(?:gz|zst|lz4)$"
)


def is_compressed_segment_name(name: str) -> bool:
    """Whether a name is that of a segment file compressed as a whole."""
    return _COMPRESSED_SEGMENT_FILE.match(name) is not None


def find_topic_name_error(topic: str) -> str | None:
    """Why a topic cannot have this name; None if it can.

    Source: `org.apache.kafka.common.internals.Topic.validate`.
    """
    if topic in (".", "..") or not re.fullmatch(r"[\w.-]{1,249}", topic, re.A):
        name_rule = "a topic name has 1 to 249 characters of a–z, A–Z, 0–9, ., _ and -"
        return f"{topic!r}: {name_rule}"
    return None


_COMPRESSED_OR_TIERED_SUFFIXES = (MANIFEST_SUFFIX, ".gz", ".zst", ".lz4")


def has_compressed_or_tiered_files(file_names: Iterable[str]) -> bool:
    """Whether any name is that of a manifest in tiered storage or a compressed segment file."""
    return any(
        name.endswith(_COMPRESSED_OR_TIERED_SUFFIXES)
        and (name.endswith(MANIFEST_SUFFIX) or is_compressed_segment_name(name))
        for name in file_names
    )


def file_topic_partition(path: str) -> tuple[str | None, int | None]:
    """The topic and partition in the name of a file's directory; (None, None) if it has none."""
    directory_name = path.rpartition(os.sep)[0].rpartition(os.sep)[2]
    if directory_name in ("", os.curdir, os.pardir):
        directory_name = absolute_path(path).rpartition(os.sep)[0].rpartition(os.sep)[2]
    topic_partition = parse_topic_partition(directory_name)
    if topic_partition[0] is None:
        topic_partition = parse_remote_topic_partition(path)
    if topic_partition[0] is not None:
        return topic_partition
    parent = path.rpartition(os.sep)[0]
    return parse_topic_partition(
        _real_directory(parent, cwd_cache_key(parent)).rpartition(os.sep)[2]
    )


def real_path(path: str, may_be_link: bool = True) -> str:
    """The path without symbolic links. may_be_link: also follow the last component."""
    if is_url(path):
        return path
    parent, _, last_component = path.rpartition(os.sep)
    ends_in_name = last_component not in ("", os.curdir, os.pardir)
    if not ends_in_name or (may_be_link and os.path.islink(path)):  # noqa: PTH114 (many)
        return os.path.realpath(path)
    parent = parent or (os.sep if path.startswith(os.sep) else "")
    real_parent = _real_directory(parent, cwd_cache_key(parent))
    return f"{real_parent.rstrip(os.sep)}{os.sep}{last_component}"


def path_identity(path: str, may_be_link: bool = True) -> str:
    """A path that is the same for all paths to a file or directory: without symbolic links, or, if
    it was assembled from tiered storage, the path of its object."""
    tree_and_subpath = MOUNTS.find_tree_and_subpath(path)
    return real_path(
        path
        if tree_and_subpath is None
        else tree_and_subpath[0].identity_path(tree_and_subpath[1]),
        may_be_link,
    )


def distinct_paths(paths: Iterable[str]) -> list[str]:
    """The paths without those that lead to the same file or directory as an earlier one."""
    path_by_identity: dict[str, str] = {}
    for path in paths:
        path_by_identity.setdefault(path_identity(strip_file_scheme(path)), path)
    return list(path_by_identity.values())


@lru_cache(maxsize=1024)
def _real_directory(directory: str, _: str) -> str:
    return os.path.realpath(directory)


def partition_directory(path: str) -> Path:
    """The absolute path of a partition's directory, as a broker names it: a link keeps its own
    name, unless only its target is named like a partition."""
    link_path = Path(real_path(str(Path(path)), may_be_link=False))  # without /.
    if parse_topic_partition(link_path.name)[0] is not None:
        return link_path
    return Path(os.path.realpath(link_path))  # resolve() fails on links in a circle


def log_partition_directory(path: str) -> Path:
    """The partition directory of a log, see `partition_directory`."""
    parent = partition_directory(os.path.dirname(path) or os.curdir)  # noqa: PTH120 (text)
    return (
        parent
        if parse_topic_partition(parent.name)[0] is not None
        else Path(os.path.realpath(path)).parent
    )


def parse_remote_topic_partition(object_path: str) -> tuple[str | None, int | None]:
    """The topic and partition of a segment in tiered storage, as named by Aiven's plug-in."""
    match = _REMOTE_OBJECT_PATH.search(object_path)
    return (match[1], int(match[2])) if match else (None, None)


def cwd_cache_key(path: str) -> str:
    """The part of a cache's key that a relative path needs: the current directory; else empty."""
    try:
        return "" if path.startswith(os.sep) else os.getcwd()  # noqa: PTH109 (many)
    except OSError:  # it was deleted
        return ""


@lru_cache(maxsize=4096)
def parse_topic_partition(directory_name: str) -> tuple[str | None, int | None]:
    """The topic, as display text, and partition in a directory's name; (None, None) for others."""
    match = _PARTITION_DIRECTORY_PATTERN.match(directory_name)
    return (format_display_name(match[1]), int(match[2])) if match else (None, None)


_NAMED_TOPIC_ID_PATTERN = re.compile(r"^.+-\d+-([\w-]{22})$")


def parse_directory_topic_id(directory_name: str) -> str | None:
    """The topic id in the name of a directory of Kafka's LocalTieredStorage; None for others."""
    match = _NAMED_TOPIC_ID_PATTERN.match(directory_name)
    return None if match is None else match[1]


_MARKED_DIRECTORY_PATTERN = re.compile(r"^(\S+-\S+)\.\S+-(?:delete|future|stray)$")
_TOPIC_PARTITION_PATTERN = re.compile(r"^(.+)-(\+?\d+)$", re.DOTALL)
MAX_PARTITION = (1 << 31) - 1


@lru_cache(maxsize=4096)
def parse_broker_topic_partition(directory_name: str) -> tuple[str, int] | None:
    """The topic and partition that a broker, which checks less than `parse_topic_partition`, reads
    from a directory's name; None for a name with which a broker does not start."""
    if directory_name.endswith(("-delete", "-future", "-stray")):
        marked_match = _MARKED_DIRECTORY_PATTERN.match(directory_name)
        if marked_match is None:
            return None
        directory_name = marked_match[1]
    match = _TOPIC_PARTITION_PATTERN.match(directory_name)
    if match is None or int(match[2]) > MAX_PARTITION:
        return None
    return format_display_name(match[1]), int(match[2])


def valid_directory_marker_suffix(directory_name: str) -> str:
    """A broker's mark on a directory whose name it accepts: delete, future or stray; else empty."""
    return (
        directory_name.rpartition("-")[2] if _MARKED_DIRECTORY_PATTERN.match(directory_name) else ""
    )
