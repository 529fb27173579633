"""The tree on the left: log directories, topics, partitions, segments and their files."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import UNKNOWN, in_order
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import mark_of, place_of
from kfmt_cli.disk.targets import GivenPath, targets
from kfmt_cli.disk.tree import Folder, is_segment, size_of

SHORT_NAME = 6  # least digits shown of a segment name


class NodeKind(enum.Enum):
    """The kind of a node."""

    TOP = "all inputs"
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
    """The path to open it by; for a topic, the directory of its partitions."""
    name: str
    """The path as shown, and as commands take it."""
    children: list[DiskNode] = field(default_factory=list)
    file: Input | None = None

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        if self.file is not None:
            return size_of(self.file)
        return sum(child.size for child in self.children)

    @property
    def has_files(self) -> bool:
        """Whether there is something to check."""
        return self.file is not None or bool(self.children)

    @property
    def is_log(self) -> bool:
        """Whether this is a file with batches."""
        return self.file is not None and self.file.kind.read is None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths to call commands with."""
        if self.kind in (NodeKind.TOP, NodeKind.TOPIC):
            return tuple(path for child in self.children for path in child.paths)
        return (self.path,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The same paths as a user types them."""
        if self.kind in (NodeKind.TOP, NodeKind.TOPIC):
            return tuple(name for child in self.children for name in child.names)
        return (self.name,)

    def partitions(self) -> Iterable[DiskNode]:
        """The partitions at and under this node."""
        if self.kind is NodeKind.PARTITION:
            yield self
        for child in self.children:
            yield from child.partitions()

    def checkable(self) -> Iterable[DiskNode]:
        """The partitions at and under this node, and the files outside any partition that `check`
        of the directory reads."""
        if self.kind is NodeKind.PARTITION or self.file is not None:
            yield self
            return
        for child in self.children:
            if child.file is None or child.file.kind is not UNKNOWN:
                yield from child.checkable()

    def logs(self) -> list[DiskNode]:
        """The logs of a partition, in the order of their base offsets."""
        return [child for child in self.children if child.file and is_segment(child.file)]


def disk_of(paths: tuple[str, ...], complain: Callable[[str], None]) -> DiskNode:
    """The tree of the files at some paths; raises UsageError. complain: receives unreadable
    paths."""
    found = [_given(target) for target in targets(paths, complain)]
    if len(found) == 1:
        return found[0]
    return DiskNode(NodeKind.TOP, "all inputs", os.curdir, "", found)


def _given(target: GivenPath) -> DiskNode:
    """The tree of one given path."""
    shown = name_text(target.path)
    if target.file is not None:
        return file_node(target.file, whole_name=True)
    by_parent: dict[str, list[Folder]] = {}
    for folder in target.folders:
        if folder.path != target.path and _is_partition(folder):
            by_parent.setdefault(str(Path(folder.path).parent), []).append(folder)
    own = target.folders[0] if target.folders else None
    if own is not None and (
        _is_partition(own) or own.stored_logs or (own.takes_any and own.other_logs)
    ):
        return _partition_node(own, shown)
    named = {str(Path(folder.path)): folder for folder in target.folders}
    top = str(Path(target.path))
    if set(by_parent) <= {top}:
        return _directory(own, target.path, shown, by_parent.get(top, []), shown)
    with_files = (
        path for path, folder in named.items() if folder.files and not _is_partition(folder)
    )
    inside = [
        _directory(
            named.get(path),
            path,
            name_text(path),
            by_parent.get(path, []),
            os.path.relpath(path, top),
        )
        for path in sorted({*by_parent, *with_files})
    ]
    if len(inside) == 1 and inside[0].path != top:
        inside[0].label = inside[0].name
        return inside[0]
    return DiskNode(NodeKind.TOP, shown, target.path, shown, inside)


def _is_partition(folder: Folder) -> bool:
    name = Path(folder.path).name
    return bool(folder.logs or folder.stored_logs) or (
        place_of(name)[0] is not None or mark_of(name) != ""
    )


def _directory(
    folder: Folder | None, path: str, name: str, partitions: list[Folder], label: str
) -> DiskNode:
    """A log directory: its topics, then its own files."""
    by_topic: dict[str, list[DiskNode]] = {}
    for inside in partitions:
        node = _partition_node(inside, Path(inside.path).name)
        topic = place_of(Path(inside.path).name)[0] or node.label
        by_topic.setdefault(topic, []).append(node)
    children = [
        nodes[0] if len(nodes) == 1 else DiskNode(NodeKind.TOPIC, topic, path, name, nodes)
        for topic, nodes in by_topic.items()
    ]
    children += _files(folder)
    return DiskNode(NodeKind.DIRECTORY, label, path, name, children)


def _partition_node(folder: Folder, label: str) -> DiskNode:
    files = _files(folder)
    return DiskNode(NodeKind.PARTITION, name_text(label), folder.path, folder.name, files)


def _files(folder: Folder | None) -> list[DiskNode]:
    if folder is None:
        return []
    inputs = [folder.input(name) for name in in_order(folder.readable)]
    logs_first = sorted(inputs, key=lambda file: not file.kind.holds_batches)
    return [file_node(file) for file in logs_first]


def file_node(file: Input, *, whole_name: bool = False) -> DiskNode:
    """The node of a file."""
    name = name_text(Path(file.path).name)
    label = name_text(file.name) if whole_name else _short(name)
    return DiskNode(NodeKind.FILE, label, file.path, file.name, file=file)


def _short(name: str) -> str:
    """A segment file's name without most of its leading zeros."""
    digits = name[:20]
    if len(name) > 20 and digits.isdigit():
        kept = digits.lstrip("0") or "0"
        return f"…{kept.rjust(SHORT_NAME, '0')}{name[20:]}"
    return name
