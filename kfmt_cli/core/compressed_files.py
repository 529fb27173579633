"""Files compressed as a whole, recognised by their suffixes and read as streams."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import BinaryIO, Protocol

from kfmt_cli.errors import InputError

WHOLLY_PACKED = "the file itself is compressed; decompress it first"
Read = Callable[[int], bytes]
AT_ONCE = 1 << 10  # compressed bytes, which may expand to much more
_GZIP = 16 + zlib.MAX_WBITS  # a header and a checksum around the data


class _Frame(Protocol):
    """Decompresses one of the frames (gzip: members) that a file has one after another."""

    @property
    def eof(self) -> bool:
        """Whether its end has been read."""

    @property
    def unused_data(self) -> bytes | None:
        """What was read after its end."""

    def decompress(self, data: bytes, /) -> bytes:
        """The bytes that more compressed bytes give."""


_Begin = Callable[[], _Frame]


def _gzip() -> tuple[_Begin, type[Exception]]:
    return partial(zlib.decompressobj, _GZIP), zlib.error


def _zstd() -> tuple[_Begin, type[Exception]]:
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


def _lz4() -> tuple[_Begin, type[Exception]]:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor, RuntimeError


_OPENERS = {".gz": _gzip, ".zst": _zstd, ".lz4": _lz4}
PACKED_SUFFIXES = tuple(_OPENERS)


def packed_suffix(path: str) -> str:
    """The suffix of a file compressed as a whole; empty for any other file."""
    suffix = path[path.rfind(".") :]
    return suffix if suffix in _OPENERS else ""


def reader(file: BinaryIO, suffix: str, name: str) -> Read:
    """A function that reads decompressed bytes, up to the end of a cut file, or to the byte that is
    damaged; then it raises InputError."""
    begin, error_type = _OPENERS[suffix]()
    padding = b"\0" if suffix == ".gz" else b""  # gzip allows zeros after a member
    frame, rest = begin(), b""
    start = end = 0  # of the frame, and of what was read
    damage: Exception | None = None

    def before_damage(length: int) -> bytes:
        """What the last bytes that were read give, one at a time, up to the damage."""
        file.seek(start)
        again, left = begin(), end - length - start
        while left and (packed := file.read(min(left, AT_ONCE))):
            again.decompress(packed)
            left -= len(packed)
        found = bytearray()
        with suppress(error_type):
            for byte in file.read(length):
                found += again.decompress(bytes((byte,)))
        return bytes(found)

    def more(size: int) -> bytes:
        nonlocal frame, rest, start, end, damage
        while packed := rest or file.read(min(size, AT_ONCE)):
            if not rest:
                end += len(packed)
            rest = b""
            if frame.eof:
                packed = packed.lstrip(padding)
                if not packed:
                    continue
                frame, start = begin(), end - len(packed)
            try:
                piece = frame.decompress(packed)
            except error_type as error:
                damage = error
                return before_damage(len(packed))
            rest = frame.unused_data or b""
            if piece:
                return piece
        if not frame.eof:
            raise EOFError("the file ends inside a frame")
        return b""

    def read(size: int) -> bytes:
        try:
            piece = b"" if damage else more(size)
            if damage and not piece:
                raise damage
            return piece
        except (OSError, EOFError, error_type) as error:
            raise InputError(f"{name}: cannot be decompressed: {error}") from error

    return read
