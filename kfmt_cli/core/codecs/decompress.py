"""Decompression with Kafka's framing and an output limit.

Source: `org.apache.kafka.common.compress`. Also reads the variants of other clients that Kafka's
reader accepts.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from kfmt_cli.core.layout.wire import Buffer

MIB = 1 << 20


class CompressionError(ValueError):
    """Bytes that the codec cannot read."""


class TooLargeError(CompressionError):
    """Decompression stopped at the limit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most bytes one batch may decompress to: `ratio` times its compressed bytes, but at least
    `always` and at most `most`."""

    most: int = 1 << 30
    always: int = 64 * MIB
    ratio: int = 100

    @classmethod
    def of_option(cls, most: int | None) -> Limit:
        """The limit that --max-decompressed sets, whatever the ratio; the default for None."""
        return cls() if most is None else cls(most=most, always=most)

    def of(self, compressed: int) -> int:
        """The limit for a number of compressed bytes."""
        return min(self.most, max(self.always, self.ratio * compressed))


PIECE = 8 << 20  # of the output of large batches
LARGE = 64 << 20  # the most output of a batch decompressed in one piece
# lz4 and zstd decompressors are costly to make, and threads must not share them.
_per_thread = threading.local()


def decompress(codec: str, data: Buffer, limit: int, magic: int = 2) -> bytes:
    """Decompress bytes; raises CompressionError, also for more than `limit` bytes of output."""
    try:
        packed = bytes(data)
        if codec == "lz4" and magic == 0:
            packed = _with_true_header_checksum(packed)
        return CODECS[codec](packed, limit)
    except CompressionError:
        raise
    except Exception as error:  # each library has exceptions of its own, some plain RuntimeErrors
        raise CompressionError(f"{codec}: {_words(error)}") from error


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _too_large(codec: str, limit: int) -> TooLargeError:
    return TooLargeError(f"{codec}: output exceeds {limit} bytes")


def _none(data: bytes, limit: int) -> bytes:
    del limit
    return data


def _gzip(data: bytes, limit: int) -> bytes:
    """One or more members; trailing bytes that are not a gzip header are ignored."""
    done: list[bytes] = []
    room = limit
    while True:
        member = zlib.decompressobj(wbits=31)
        done.append(_gzip_member(member, data, limit, room))
        room -= len(done[-1])
        if not member.eof:
            raise CompressionError("gzip: the stream ends early")
        data = member.unused_data
        if data[:2] != b"\x1f\x8b":
            return done[0] if len(done) == 1 else b"".join(done)


def _gzip_member(member: Any, data: bytes, limit: int, room: int) -> bytes:
    """A member, in pieces if it is large: the library takes twice the memory of its output."""
    piece = max(PIECE, room // 16)
    first: bytes = member.decompress(data, min(room + 1, piece))
    if member.eof or not member.unconsumed_tail or len(first) > room:
        if len(first) > room:
            raise _too_large("gzip", limit)
        return first
    out = BytesIO()
    out.write(first)
    while not member.eof and member.unconsumed_tail:
        out.write(member.decompress(member.unconsumed_tail, piece))
        if out.tell() > room:
            raise _too_large("gzip", limit)
    return out.getvalue()


XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_AGAIN = 0x82534E41  # the magic's first bytes in place of a chunk length


def _snappy(data: bytes, limit: int) -> bytes:
    """Xerial chunks (Kafka's own framing) or one raw block (other clients)."""
    if len(data) < 16 or data[:8] != XERIAL_MAGIC:
        return _snappy_block(data, limit)
    done: list[bytes] = []
    room = limit
    at = 16
    while len(data) - at >= 4:
        (length,) = struct.unpack_from(">I", data, at)
        at += 4
        if length == _XERIAL_AGAIN:  # concatenated streams
            at += 12
            continue
        if length > len(data) - at:
            raise CompressionError(
                f"snappy: chunk of {length} bytes, but only {len(data) - at} left"
            )
        done.append(_snappy_block(data[at : at + length], room))
        room -= len(done[-1])
        at += length
    return b"".join(done)


def _snappy_block(block: bytes, limit: int) -> bytes:
    import snappy

    from kfmt_cli.core.layout.varint import decode

    size, _ = decode(block, 0, len(block), 32)
    if size > limit:
        raise _too_large("snappy", limit)
    done: bytes = snappy.uncompress(block)
    if len(done) != size:
        raise CompressionError(f"snappy: {size} bytes declared, {len(done)} decompressed")
    return done


LZ4_MAGIC = b"\x04\x22\x4d\x18"


def _lz4(data: bytes, limit: int) -> bytes:
    """One frame, with any declared sizes and checksums; bytes after it are ignored."""
    import lz4.frame

    stream = _per_thread.__dict__.pop("lz4", None)
    if stream is None:
        stream = lz4.frame.LZ4FrameDecompressor()
    else:
        stream.reset()
    # LZ4 expands at most 255 times, so most batches need no limit, which would cost time.
    bounded = len(data) * 255 > min(limit, LARGE)
    done = _lz4_pieces(stream, data, limit) if bounded else stream.decompress(data)
    if len(done) > limit:
        raise _too_large("lz4", limit)
    if not stream.eof:
        raise CompressionError("lz4: the frame ends early")
    # Only after a complete frame: `reset` keeps the rest of a frame's declared size.
    _per_thread.lz4 = stream
    return done


def _lz4_pieces(stream: Any, data: bytes, limit: int) -> bytes:
    """The output of a frame, at most one piece above the limit."""
    piece = max(PIECE, limit // 16)
    first: bytes = stream.decompress(data, max_length=min(limit + 1, piece))
    if stream.eof or stream.needs_input:
        return first
    out = BytesIO()
    out.write(first)
    while out.tell() <= limit and not stream.eof and not stream.needs_input:
        out.write(stream.decompress(b"", max_length=piece))
    return out.getvalue()


def _with_true_header_checksum(data: bytes) -> bytes:
    """Fix the header checksum of magic 0, which also covers the frame's magic (KAFKA-3160)."""
    if data[:4] != LZ4_MAGIC or len(data) < 7:
        raise CompressionError("lz4: no frame header")
    end = 6 + (8 if data[4] & 0x08 else 0) + (4 if data[4] & 0x01 else 0)
    if len(data) <= end:
        raise CompressionError("lz4: the frame ends inside its header")
    return data[:end] + bytes([xxh32_short(data[4:end]) >> 8 & 0xFF]) + data[end + 1 :]


def xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, such as an LZ4 frame descriptor."""
    prime_1, prime_2, prime_3, prime_4, prime_5 = (
        0x9E3779B1,
        0x85EBCA77,
        0xC2B2AE3D,
        0x27D4EB2F,
        0x165667B1,
    )
    mask = 0xFFFFFFFF
    value = prime_5 + len(data)
    words = len(data) // 4
    for i in range(words):
        (word,) = struct.unpack_from("<I", data, 4 * i)
        value = (value + word * prime_3) & mask
        value = ((value << 17 | value >> 15) & mask) * prime_4 & mask
    for byte in data[4 * words :]:
        value = (value + byte * prime_5) & mask
        value = ((value << 11 | value >> 21) & mask) * prime_1 & mask
    value = (value ^ value >> 15) * prime_2 & mask
    value = (value ^ value >> 13) * prime_3 & mask
    return value ^ value >> 16


# Input bytes per call: a block of at most 128 KiB takes at least 4 bytes, so the output of one
# piece stays below `Limit.always`.
ZSTD_PIECE = 2048


def _zstd(data: bytes, limit: int) -> bytes:
    """One or more frames, without relying on their content size."""
    import zstandard

    try:
        context = _per_thread.zstd
    except AttributeError:
        context = _per_thread.zstd = zstandard.ZstdDecompressor()
    done: list[bytes] = []
    room = limit
    at = 0
    while at < len(data) or not done:
        frame = context.decompressobj()
        while not frame.eof:
            if at >= len(data):
                raise CompressionError("zstd: the frame ends early")
            piece: bytes = frame.decompress(data[at : at + ZSTD_PIECE])
            at += ZSTD_PIECE
            done.append(piece)
            room -= len(piece)
            if room < 0:
                raise _too_large("zstd", limit)
        at = min(at, len(data)) - len(frame.unused_data)
    return b"".join(done)


CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "none": _none,
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}
