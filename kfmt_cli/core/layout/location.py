"""Where a byte is: in a file, or in a block decompressed from one."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.errors import KfmtError


@dataclass(frozen=True, slots=True)
class BufferOrigin:
    """The source of a buffer's bytes."""

    file_path: str
    """The path of the file as the user wrote it."""
    file_position: int = 0
    """The position in the file of the buffer's byte 0, or of the compressed bytes."""
    is_decompressed: bool = False
    """Whether the buffer was decompressed from the bytes at `file_position`."""

    def describe_byte(self, position: int) -> str:
        """Text for byte `position` of the buffer."""
        if self.is_decompressed:
            return f"byte {position} of the data decompressed from byte {self.file_position}"
        return f"byte {self.file_position + position}"


@dataclass(frozen=True, slots=True)
class ByteLocation:
    """A byte of a buffer, and the names of the structures that contain it."""

    origin: BufferOrigin
    buffer_position: int
    structure_names: tuple[str, ...] = ()

    @property
    def file_position(self) -> int:
        """The byte in the file; for a decompressed block, where its compressed bytes begin."""
        return self.origin.file_position + (
            0 if self.origin.is_decompressed else self.buffer_position
        )

    def __str__(self) -> str:
        text = f"{self.origin.file_path} {self.origin.describe_byte(self.buffer_position)}"
        return f"{text}, {' › '.join(self.structure_names)}" if self.structure_names else text


class DecodeError(KfmtError):
    """Bytes that do not match their Layout.

    reason: a description of the error. location: the byte. status: the kernel's name for the same
    error (a key of `kernel.STATUSES`).
    """

    def __init__(self, reason: str, location: ByteLocation, status: str) -> None:
        super().__init__(f"{location}: {reason}")
        self.reason = reason
        self.location = location
        self.status = status
