"""Files compressed as a whole, recognised by their suffixes and read as streams."""

from __future__ import annotations

import zlib
from collections.abc import Callable
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
    """A function that reads decompressed bytes, up to the end of a cut file, or to the KiB that is
    damaged; then it raises InputError."""
    begin, error_type = _OPENERS[suffix]()
    padding = b"\0" if suffix == ".gz" else b""  # gzip allows zeros after a member
    frame, rest = begin(), b""

    def more(size: int) -> bytes:
        nonlocal frame, rest
        while packed := rest or file.read(min(size, AT_ONCE)):
            rest = b""
            if frame.eof:
                packed = packed.lstrip(padding)
                if not packed:
                    continue
                frame = begin()
            piece = frame.decompress(packed)
            rest = frame.unused_data or b""
            if piece:
                return piece
        if not frame.eof:
            raise EOFError("the file ends inside a frame")
        return b""

    def read(size: int) -> bytes:
        try:
            return more(size)
        except (OSError, EOFError, error_type) as error:
            raise InputError(f"{name}: cannot be decompressed: {error}") from error

    return read
