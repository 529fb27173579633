"""The tree on the left: log directories, topics, partitions, segments and their files."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size, is_segment_log
from kfmt_cli.disk.file_names import directory_marker_suffix, parse_topic_partition
from kfmt_cli.disk.input_paths import InputPath, resolve_paths
from kfmt_cli.disk.kinds import UNKNOWN_KIND, sort_for_display
from kfmt_cli.disk.kinds.kind import InputFile

MIN_NAME_DIGITS = 6  # minimum number of digits shown of a segment name


class NodeKind(enum.Enum):
    """The kind of a node."""

    ROOT = "all inputs"
    DIRECTORY = "log directory"
    TOPIC = "topic"
    PARTITION = "partition"
    FILE = "file"


@dataclass(eq=False)
class DiskNode:
    """A node: a directory, several of them, or a file."""

    kind: NodeKind
    label: str
    path: str
    """The path to open; for a topic, the directory that contains its partitions."""
    display_path: str
    """The path as shown, and as commands accept it."""
    children: list[DiskNode] = field(default_factory=list)
    file: InputFile | None = None

    @cached_property
    def total_bytes(self) -> int:
        """The size of all files under the node in bytes."""
        if self.file is not None:
            return file_size(self.file)
        return sum(child.total_bytes for child in self.children)

    @property
    def has_files(self) -> bool:
        """Whether the node is a file or has children, and so has something to check."""
        return self.file is not None or bool(self.children)

    @property
    def is_log(self) -> bool:
        """Whether this is a file with batches."""
        return self.file is not None and self.file.kind.reader is None

    def iter_named_nodes(self) -> Iterable[DiskNode]:
        """The nodes that a command names for this one."""
        if self.kind not in (NodeKind.ROOT, NodeKind.TOPIC):
            yield self
            return
        for child in self.children:
            yield from child.iter_named_nodes()

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths to pass to commands."""
        return tuple(node.path for node in self.iter_named_nodes())

    @cached_property
    def display_paths(self) -> tuple[str, ...]:
        """The same paths as a user types them."""
        return tuple(node.display_path for node in self.iter_named_nodes())

    def iter_partitions(self) -> Iterable[DiskNode]:
        """The partitions at and under this node."""
        if self.kind is NodeKind.PARTITION:
            yield self
        for child in self.children:
            yield from child.iter_partitions()

    def iter_checkable_nodes(self) -> Iterable[DiskNode]:
        """The partitions at and under this node, and the files outside any partition that `check`
        reads for a log directory."""
        if self.kind is NodeKind.PARTITION or self.file is not None:
            yield self
            return
        for child in self.children:
            if child.file is None or child.file.kind is not UNKNOWN_KIND:
                yield from child.iter_checkable_nodes()

    def logs(self) -> list[DiskNode]:
        """The logs of a partition, in the order of their base offsets."""
        return [child for child in self.children if child.file and is_segment_log(child.file)]


def build_disk_tree(paths: tuple[str, ...], report_error: Callable[[str], None]) -> DiskNode:
    """The tree of the files under some paths; raises UsageError. report_error: called with a
    message for each unreadable path."""
    roots = [_root_node(input_path) for input_path in resolve_paths(paths, report_error)]
    if len(roots) == 1:
        return roots[0]
    return DiskNode(NodeKind.ROOT, "all inputs", os.curdir, "", roots)


def _root_node(input_path: InputPath) -> DiskNode:
    """The tree of one of the user's paths."""
    display_path = format_display_name(input_path.path)
    if input_path.file is not None:
        return file_node(input_path.file, shows_full_name=True)
    partitions_by_parent: dict[str, list[DirectoryListing]] = {}
    for directory in input_path.directories:
        if directory.path != input_path.path and _is_partition(directory):
            partitions_by_parent.setdefault(str(Path(directory.path).parent), []).append(directory)
    root_directory = input_path.directories[0] if input_path.directories else None
    if root_directory is not None and (
        _is_partition(root_directory)
        or root_directory.remote_logs
        or (root_directory.accepts_any_log and root_directory.renamed_logs)
    ):
        return _partition_node(root_directory, display_path)
    directory_by_path = {
        str(Path(directory.path)): directory for directory in input_path.directories
    }
    root_path = str(Path(input_path.path))
    if set(partitions_by_parent) <= {root_path}:
        return _directory_node(
            root_directory,
            input_path.path,
            display_path,
            partitions_by_parent.get(root_path, []),
            display_path,
        )
    paths_with_files = (
        path
        for path, directory in directory_by_path.items()
        if directory.files and not _is_partition(directory)
    )
    directory_nodes = [
        _directory_node(
            directory_by_path.get(path),
            path,
            format_display_name(path),
            partitions_by_parent.get(path, []),
            os.path.relpath(path, root_path),
        )
        for path in sorted({*partitions_by_parent, *paths_with_files})
    ]
    if len(directory_nodes) == 1 and directory_nodes[0].path != root_path:
        directory_nodes[0].label = directory_nodes[0].display_path
        return directory_nodes[0]
    return DiskNode(NodeKind.ROOT, display_path, input_path.path, display_path, directory_nodes)


def _is_partition(directory: DirectoryListing) -> bool:
    directory_name = Path(directory.path).name
    return bool(directory.logs or directory.remote_logs) or (
        parse_topic_partition(directory_name)[0] is not None
        or directory_marker_suffix(directory_name) != ""
    )


def _directory_node(
    directory: DirectoryListing | None,
    path: str,
    display_path: str,
    partitions: list[DirectoryListing],
    label: str,
) -> DiskNode:
    """A log directory: its topics, then its own files."""
    nodes_by_topic: dict[str, list[DiskNode]] = {}
    for partition in partitions:
        partition_node = _partition_node(partition, Path(partition.path).name)
        topic = parse_topic_partition(Path(partition.path).name)[0] or partition_node.label
        nodes_by_topic.setdefault(topic, []).append(partition_node)
    child_nodes = [
        nodes[0] if len(nodes) == 1 else DiskNode(NodeKind.TOPIC, topic, path, display_path, nodes)
        for topic, nodes in nodes_by_topic.items()
    ]
    child_nodes += _file_nodes(directory)
    return DiskNode(NodeKind.DIRECTORY, label, path, display_path, child_nodes)


def _partition_node(directory: DirectoryListing, label: str) -> DiskNode:
    file_nodes = _file_nodes(directory)
    return DiskNode(
        NodeKind.PARTITION, format_display_name(label), directory.path, directory.name, file_nodes
    )


def _file_nodes(directory: DirectoryListing | None) -> list[DiskNode]:
    if directory is None:
        return []
    input_files = [
        directory.input_file(file_name) for file_name in sort_for_display(directory.regular_files)
    ]
    sorted_files = sorted(input_files, key=lambda file: not file.kind.has_batches)
    return [file_node(file) for file in sorted_files]


def file_node(file: InputFile, *, shows_full_name: bool = False) -> DiskNode:
    """The node of a file."""
    file_name = format_display_name(Path(file.path).name)
    label = format_display_name(file.name) if shows_full_name else _short_file_name(file_name)
    return DiskNode(NodeKind.FILE, label, file.path, file.name, file=file)


def _short_file_name(file_name: str) -> str:
    """A segment file's name without most of its leading zeros."""
    offset_digits = file_name[:20]
    if len(file_name) > 20 and offset_digits.isdigit():
        trimmed_digits = offset_digits.lstrip("0") or "0"
        return f"…{trimmed_digits.rjust(MIN_NAME_DIGITS, '0')}{file_name[20:]}"
    return file_name
