"""A buffer and the structures in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.codecs.checksum_mistakes import (
    SHORT_NAMES,
    ChecksummedBytes,
    describe_stored_checksum,
)
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


def set_checksum_meaning(
    node: FieldNode, target: ChecksummedBytes, computed_checksum: int, end_byte: int
) -> None:
    """Show on its node whether a checksum matches the computed one; if not, which checksum it is.
    end_byte: the position after the checksummed bytes."""
    first_byte = target.first_byte + target.start
    label = f"{SHORT_NAMES[target.polynomial]} of bytes {first_byte:x}..{end_byte - 1:x}"
    assert isinstance(node.value, int)
    node.is_invalid = node.value != computed_checksum
    if not node.is_invalid:
        node.meaning = f"✓ {label}"
        return
    node.meaning = f"✗ {label} is {computed_checksum:08x}"
    if stored_text := describe_stored_checksum(node.value, target, "{:x}".format):
        node.meaning += f"; {stored_text}"
