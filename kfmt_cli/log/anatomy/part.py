"""A buffer and the structures in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.layout.tree import FieldNode


@dataclass(frozen=True, slots=True)
class AnatomyPart:
    """A buffer and the structures in it, in order."""

    title: str
    data: bytes
    position: int
    """The position in the file of the buffer's byte 0; for a decompressed buffer, where its
    compressed bytes begin."""
    nodes: Iterator[FieldNode]
    codec: str = ""
    """The codec of a decompressed buffer, empty for bytes of the file."""


def set_checksum_meaning(node: FieldNode, checksum_label: str, computed_checksum: int) -> None:
    """Show on its node whether a checksum matches the computed one."""
    node.is_invalid = node.value != computed_checksum
    node.meaning = (
        f"✗ {checksum_label} is {computed_checksum:08x}"
        if node.is_invalid
        else f"✓ {checksum_label}"
    )
