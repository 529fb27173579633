"""Where a byte is: in a file, or in a block that was decompressed out of one."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.errors import KfmtError


@dataclass(frozen=True, slots=True)
class Origin:
    """What the bytes of a buffer are."""

    name: str
    """The file, as the user gave it."""
    base: int = 0
    """The file's byte that is byte 0 of the buffer."""
    decompressed: bool = False
    """The buffer came out of the compressed bytes at `base` instead."""

    def byte(self, at: int) -> str:
        """The words for byte `at` of the buffer."""
        if self.decompressed:
            return f"byte {at} of what byte {self.base} decompresses to"
        return f"byte {self.base + at}"


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of an origin and the path of structures that led there."""

    origin: Origin
    at: int
    path: tuple[str, ...] = ()

    @property
    def position(self) -> int:
        """The byte in the file; of a decompressed block, where its compressed bytes begin."""
        return self.origin.base + (0 if self.origin.decompressed else self.at)

    def __str__(self) -> str:
        where = f"{self.origin.name} {self.origin.byte(self.at)}"
        return f"{where}, {' › '.join(self.path)}" if self.path else where


class DecodeError(KfmtError):
    """Bytes that are not what their Layout says.

    reason: what is wrong, in words. place: where. status: the kernel's word for the same fault
    (a key of `kernel.STATUSES`).
    """

    def __init__(self, reason: str, place: Place, status: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.reason = reason
        self.place = place
        self.status = status
