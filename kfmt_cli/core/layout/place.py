"""Where a byte is: in a file, or in a block decompressed from one."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.errors import KfmtError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the bytes of a buffer come from."""

    name: str
    """The file, as the user gave it."""
    base: int = 0
    """The position in the file of the buffer's byte 0."""
    decompressed: bool = False
    """Whether the buffer was decompressed from the bytes at `base` instead."""

    def byte(self, at: int) -> str:
        """Text for byte `at` of the buffer."""
        if self.decompressed:
            return f"byte {at} of the data decompressed from byte {self.base}"
        return f"byte {self.base + at}"


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of an origin and the path of structures to it."""

    origin: Origin
    at: int
    path: tuple[str, ...] = ()

    @property
    def position(self) -> int:
        """The byte in the file; for a decompressed block, where its compressed bytes begin."""
        return self.origin.base + (0 if self.origin.decompressed else self.at)

    def __str__(self) -> str:
        where = f"{self.origin.name} {self.origin.byte(self.at)}"
        return f"{where}, {' › '.join(self.path)}" if self.path else where


class DecodeError(KfmtError):
    """Bytes that do not match their Layout.

    reason: what is wrong, as text. place: where. status: the kernel's name for the same fault
    (a key of `kernel.STATUSES`).
    """

    def __init__(self, reason: str, place: Place, status: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.reason = reason
        self.place = place
        self.status = status
