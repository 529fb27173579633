"""Files compressed as a whole, recognised by their suffixes and read as streams."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import BinaryIO, Protocol

from kfmt_cli.errors import InputError

COMPRESSED_FILE_MESSAGE = "the file itself is compressed; decompress it first"
ReadFunction = Callable[[int], bytes]
MAX_READ_BYTES = 1 << 10  # compressed bytes, which may expand to much more
_GZIP_WBITS = 16 + zlib.MAX_WBITS  # a header and a checksum around the data


class _Decompressor(Protocol):
    """Decompresses one of the frames (gzip: members) that a file has one after another."""

    @property
    def eof(self) -> bool:
        """Whether its end has been read."""

    @property
    def unused_data(self) -> bytes | None:
        """Bytes read after its end; empty or None without any."""

    def decompress(self, data: bytes, /) -> bytes:
        """Decompress the next bytes; returns the output that they complete."""


_DecompressorFactory = Callable[[], _Decompressor]


def _gzip_factory_and_error() -> tuple[_DecompressorFactory, type[Exception]]:
    return partial(zlib.decompressobj, _GZIP_WBITS), zlib.error


def _zstd_factory_and_error() -> tuple[_DecompressorFactory, type[Exception]]:
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


def _lz4_factory_and_error() -> tuple[_DecompressorFactory, type[Exception]]:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor, RuntimeError


_GET_FACTORY_BY_SUFFIX = {
    ".gz": _gzip_factory_and_error,
    ".zst": _zstd_factory_and_error,
    ".lz4": _lz4_factory_and_error,
}
COMPRESSED_SUFFIXES = tuple(_GET_FACTORY_BY_SUFFIX)


def compressed_suffix(path: str) -> str:
    """The suffix of a file compressed as a whole; empty for any other file."""
    suffix = path[path.rfind(".") :]
    return suffix if suffix in _GET_FACTORY_BY_SUFFIX else ""


def decompressing_reader(file: BinaryIO, suffix: str, display_path: str) -> ReadFunction:
    """A function that reads decompressed bytes.

    If the file is truncated or damaged, it returns the bytes before that place, then raises
    InputError.
    """
    create_decompressor, error_type = _GET_FACTORY_BY_SUFFIX[suffix]()
    padding = b"\0" if suffix == ".gz" else b""  # gzip allows zeros after a member
    decompressor, unread_compressed = create_decompressor(), b""
    frame_start = read_end = 0  # positions in the compressed file
    damage_error: Exception | None = None

    def decompress_until_damage(last_read_length: int) -> bytes:
        """Decompress the frame again up to the last read, then that read byte by byte; returns
        the output of the latter before the damage."""
        file.seek(frame_start)
        decompressor = create_decompressor()
        remaining_bytes = read_end - last_read_length - frame_start
        while remaining_bytes and (compressed := file.read(min(remaining_bytes, MAX_READ_BYTES))):
            decompressor.decompress(compressed)
            remaining_bytes -= len(compressed)
        output = bytearray()
        with suppress(error_type):
            for byte in file.read(last_read_length):
                output += decompressor.decompress(bytes((byte,)))
        return bytes(output)

    def decompress_chunk(max_bytes: int) -> bytes:
        nonlocal decompressor, unread_compressed, frame_start, read_end, damage_error
        while compressed := unread_compressed or file.read(min(max_bytes, MAX_READ_BYTES)):
            if not unread_compressed:
                read_end += len(compressed)
            unread_compressed = b""
            if decompressor.eof:
                compressed = compressed.lstrip(padding)
                if not compressed:
                    continue
                decompressor, frame_start = create_decompressor(), read_end - len(compressed)
            try:
                chunk = decompressor.decompress(compressed)
            except error_type as error:
                damage_error = error
                return decompress_until_damage(len(compressed))
            unread_compressed = decompressor.unused_data or b""
            if chunk:
                return chunk
        if not decompressor.eof:
            raise EOFError("the file ends inside a frame")
        return b""

    def read(max_bytes: int) -> bytes:
        try:
            chunk = b"" if damage_error else decompress_chunk(max_bytes)
            if damage_error and not chunk:
                raise damage_error
            return chunk
        except (OSError, EOFError, error_type) as error:
            raise InputError(f"{display_path}: cannot be decompressed: {error}") from error

    return read
