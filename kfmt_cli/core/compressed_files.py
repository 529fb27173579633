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


class _FrameDecompressor(Protocol):
    """Decompresses one of the frames (gzip: members) that a file has one after another."""

    @property
    def eof(self) -> bool:
        """Whether its end has been read."""

    @property
    def unused_data(self) -> bytes | None:
        """Bytes read after its end; empty or None without any."""

    def decompress(self, data: bytes, /) -> bytes:
        """Decompress the next bytes; returns the output that they complete."""


_FrameFactory = Callable[[], _FrameDecompressor]


def _gzip_frame_type() -> tuple[_FrameFactory, type[Exception]]:
    return partial(zlib.decompressobj, _GZIP_WBITS), zlib.error


def _zstd_frame_type() -> tuple[_FrameFactory, type[Exception]]:
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


def _lz4_frame_type() -> tuple[_FrameFactory, type[Exception]]:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor, RuntimeError


_FRAME_TYPE_BY_SUFFIX = {".gz": _gzip_frame_type, ".zst": _zstd_frame_type, ".lz4": _lz4_frame_type}
COMPRESSED_SUFFIXES = tuple(_FRAME_TYPE_BY_SUFFIX)


def compressed_suffix(path: str) -> str:
    """The suffix of a file compressed as a whole; empty for any other file."""
    suffix = path[path.rfind(".") :]
    return suffix if suffix in _FRAME_TYPE_BY_SUFFIX else ""


def decompressing_reader(file: BinaryIO, suffix: str, name: str) -> ReadFunction:
    """A function that reads decompressed bytes.

    If the file is truncated or damaged, it returns the bytes before that place, then raises
    InputError.
    """
    create_frame, error_type = _FRAME_TYPE_BY_SUFFIX[suffix]()
    padding = b"\0" if suffix == ".gz" else b""  # gzip allows zeros after a member
    frame, unread_input = create_frame(), b""
    frame_start = read_end = 0  # positions in the compressed file
    damage_error: Exception | None = None

    def read_until_damage(last_read_length: int) -> bytes:
        """Decompress the frame again up to the last read, then that read byte by byte; returns
        the output of the latter before the damage."""
        file.seek(frame_start)
        frame, remaining = create_frame(), read_end - last_read_length - frame_start
        while remaining and (compressed := file.read(min(remaining, MAX_READ_BYTES))):
            frame.decompress(compressed)
            remaining -= len(compressed)
        output = bytearray()
        with suppress(error_type):
            for byte in file.read(last_read_length):
                output += frame.decompress(bytes((byte,)))
        return bytes(output)

    def read_chunk(size: int) -> bytes:
        nonlocal frame, unread_input, frame_start, read_end, damage_error
        while compressed := unread_input or file.read(min(size, MAX_READ_BYTES)):
            if not unread_input:
                read_end += len(compressed)
            unread_input = b""
            if frame.eof:
                compressed = compressed.lstrip(padding)
                if not compressed:
                    continue
                frame, frame_start = create_frame(), read_end - len(compressed)
            try:
                chunk = frame.decompress(compressed)
            except error_type as error:
                damage_error = error
                return read_until_damage(len(compressed))
            unread_input = frame.unused_data or b""
            if chunk:
                return chunk
        if not frame.eof:
            raise EOFError("the file ends inside a frame")
        return b""

    def read(size: int) -> bytes:
        try:
            chunk = b"" if damage_error else read_chunk(size)
            if damage_error and not chunk:
                raise damage_error
            return chunk
        except (OSError, EOFError, error_type) as error:
            raise InputError(f"{name}: cannot be decompressed: {error}") from error

    return read
