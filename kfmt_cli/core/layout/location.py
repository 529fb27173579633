"""Where a byte is: in a file, or in a block decompressed from one."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.errors import KfmtError


@dataclass(frozen=True, slots=True)
class BufferOrigin:
    """Where the bytes of a buffer come from."""

    name: str
    """The file, as the user gave it."""
    file_position: int = 0
    """The position in the file of the buffer's byte 0."""
    is_decompressed: bool = False
    """Whether the buffer was decompressed from the bytes at `base` instead."""

    def describe_byte(self, position: int) -> str:
        """Text for byte `position` of the buffer."""
        if self.is_decompressed:
            return f"byte {position} of the data decompressed from byte {self.file_position}"
        return f"byte {self.file_position + position}"


@dataclass(frozen=True, slots=True)
class ByteLocation:
    """A byte of an origin and the path of structures to it."""

    origin: BufferOrigin
    buffer_position: int
    path: tuple[str, ...] = ()

    @property
    def position(self) -> int:
        """The byte in the file; for a decompressed block, where its compressed bytes begin."""
        return self.origin.file_position + (
            0 if self.origin.is_decompressed else self.buffer_position
        )

    def __str__(self) -> str:
        text = f"{self.origin.name} {self.origin.describe_byte(self.buffer_position)}"
        return f"{text}, {' › '.join(self.path)}" if self.path else text


class DecodeError(KfmtError):
    """Bytes that do not match their Layout.

    reason: what is wrong, as text. location: where. status: the kernel's name for the same fault
    (a key of `kernel.STATUSES`).
    """

    def __init__(self, reason: str, location: ByteLocation, status: str) -> None:
        super().__init__(f"{location}: {reason}")
        self.reason = reason
        self.location = location
        self.status = status
