"""Files compressed as a whole, recognised by their suffixes and read as streams."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

from kfmt_cli.errors import InputError

WHOLLY_PACKED = "the file itself is compressed; decompress it first"
Read = Callable[[int], bytes]
AT_ONCE = 1 << 10  # bytes of zstd input, which may expand to much more


def _gzip(file: BinaryIO) -> Read:
    return gzip.GzipFile(fileobj=file).read


def _zstd(file: BinaryIO) -> Read:
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()

    def read(size: int) -> bytes:
        nonlocal frame
        while True:
            packed = frame.unused_data or file.read(min(size, AT_ONCE))
            if frame.eof:  # another frame may follow
                if not packed:
                    return b""
                frame = zstandard.ZstdDecompressor().decompressobj()
            elif not packed:
                raise EOFError("the file ends inside a frame")
            try:
                piece = frame.decompress(packed)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            if piece:
                return piece

    return read


def _lz4(file: BinaryIO) -> Read:
    import lz4.frame

    return cast(Read, lz4.frame.LZ4FrameFile(file).read)


_OPENERS: dict[str, Callable[[BinaryIO], Read]] = {".gz": _gzip, ".zst": _zstd, ".lz4": _lz4}


def packed_suffix(path: str) -> str:
    """The suffix of a file compressed as a whole; empty for any other file."""
    suffix = path[path.rfind(".") :]
    return suffix if suffix in _OPENERS else ""


def reader(file: BinaryIO, suffix: str, name: str) -> Read:
    """A function that reads decompressed bytes; it raises InputError if they are damaged."""
    read_on = _OPENERS[suffix](file)

    def read(size: int) -> bytes:
        try:
            return read_on(size)
        except (OSError, EOFError, RuntimeError, zlib.error) as error:
            raise InputError(f"{name}: cannot be decompressed: {error}") from error

    return read
