"""A buffer and the structures in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.layout.tree import Node


@dataclass(frozen=True, slots=True)
class AnatomyPart:
    """A buffer and the structures in it, in order."""

    title: str
    data: bytes
    position: int
    """The position in the file of the buffer's byte 0; for a decompressed buffer, where its
    compressed bytes begin."""
    nodes: Iterator[Node]
    codec: str = ""
    """The codec of a decompressed buffer, empty for bytes of the file."""


def show_checksum(node: Node, covered: str, computed: int) -> None:
    """Show on its node whether a checksum matches the computed one."""
    node.is_bad = node.value != computed
    node.meaning = f"✗ {covered} is {computed:08x}" if node.is_bad else f"✓ {covered}"
