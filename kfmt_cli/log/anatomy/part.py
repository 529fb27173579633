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
    """The file's byte that is byte 0 of the buffer; of a decompressed one, where its compressed
    bytes begin."""
    nodes: Iterator[Node]
    codec: str = ""
    """What it was compressed with, empty for bytes of the file."""
