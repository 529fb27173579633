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

from kfmt_cli.core.layout.wire_types import Buffer

MIB = 1 << 20


class CompressionError(ValueError):
    """Bytes that the codec cannot read."""


class DecompressionLimitError(CompressionError):
    """Decompression stopped at the limit."""


@dataclass(frozen=True, slots=True)
class DecompressionLimit:
    """The limit for the decompressed bytes of a batch: `max_ratio` times its compressed bytes, but
    at least `min_bytes` and at most `max_bytes`."""

    max_bytes: int = 1 << 30
    min_bytes: int = 64 * MIB
    max_ratio: int = 100

    @classmethod
    def from_option(cls, max_bytes: int | None) -> DecompressionLimit:
        """The limit that --max-decompressed sets, regardless of the ratio; the default for None."""
        return cls() if max_bytes is None else cls(max_bytes=max_bytes, min_bytes=max_bytes)

    def max_output_bytes(self, compressed_bytes: int) -> int:
        """The limit for a number of compressed bytes."""
        return min(self.max_bytes, max(self.min_bytes, self.max_ratio * compressed_bytes))


OUTPUT_CHUNK_BYTES = 8 << 20  # per chunk of a large output
MAX_UNCHUNKED_BYTES = 64 << 20  # of an output that is decompressed in one chunk
# lz4 and zstd decompressors are expensive to create, and threads must not share them.
_thread_cache = threading.local()


def decompress(codec: str, data: Buffer, max_output_bytes: int, magic: int = 2) -> bytes:
    """Decompress bytes; raises CompressionError, also for more than `max_output_bytes` bytes of
    output."""
    try:
        compressed = bytes(data)
        if codec == "lz4" and magic == 0:
            compressed = _fix_lz4_header_checksum(compressed)
        return DECOMPRESSORS[codec](compressed, max_output_bytes)
    except CompressionError:
        raise
    except Exception as error:  # each library has its own exceptions; some are RuntimeErrors
        raise CompressionError(f"{codec}: {_error_text(error)}") from error


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _limit_error(codec: str, max_output_bytes: int) -> DecompressionLimitError:
    return DecompressionLimitError(f"{codec}: output exceeds {max_output_bytes} bytes")


def _decompress_none(data: bytes, max_output_bytes: int) -> bytes:
    del max_output_bytes
    return data


def _decompress_gzip(data: bytes, max_output_bytes: int) -> bytes:
    """One or more members; trailing bytes that are not a gzip header are ignored."""
    chunks: list[bytes] = []
    remaining_bytes = max_output_bytes
    while True:
        decompressor = zlib.decompressobj(wbits=31)
        chunks.append(
            _decompress_gzip_member(decompressor, data, max_output_bytes, remaining_bytes)
        )
        remaining_bytes -= len(chunks[-1])
        if not decompressor.eof:
            raise CompressionError("gzip: the stream ends early")
        data = decompressor.unused_data
        if data[:2] != b"\x1f\x8b":
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _decompress_gzip_member(
    decompressor: Any, data: bytes, max_output_bytes: int, remaining_bytes: int
) -> bytes:
    """A member, in chunks if it is large: the library needs twice the memory of its output."""
    chunk_bytes = max(OUTPUT_CHUNK_BYTES, remaining_bytes // 16)
    first_chunk: bytes = decompressor.decompress(data, min(remaining_bytes + 1, chunk_bytes))
    if decompressor.eof or not decompressor.unconsumed_tail or len(first_chunk) > remaining_bytes:
        if len(first_chunk) > remaining_bytes:
            raise _limit_error("gzip", max_output_bytes)
        return first_chunk
    output = BytesIO()
    output.write(first_chunk)
    while not decompressor.eof and decompressor.unconsumed_tail:
        output.write(decompressor.decompress(decompressor.unconsumed_tail, chunk_bytes))
        if output.tell() > remaining_bytes:
            raise _limit_error("gzip", max_output_bytes)
    return output.getvalue()


XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_MAGIC_AS_LENGTH = 0x82534E41  # the magic's first bytes in place of a chunk length


def _decompress_snappy(data: bytes, max_output_bytes: int) -> bytes:
    """Xerial chunks (Kafka's own framing) or one raw block (other clients)."""
    if len(data) < 16 or data[:8] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_output_bytes)
    chunks: list[bytes] = []
    remaining_bytes = max_output_bytes
    position = 16
    while len(data) - position >= 4:
        (chunk_length,) = struct.unpack_from(">I", data, position)
        position += 4
        if chunk_length == _XERIAL_MAGIC_AS_LENGTH:  # concatenated streams
            position += 12
            continue
        if chunk_length > len(data) - position:
            raise CompressionError(
                f"snappy: chunk of {chunk_length} bytes, but only {len(data) - position} left"
            )
        chunks.append(
            _decompress_snappy_block(data[position : position + chunk_length], remaining_bytes)
        )
        remaining_bytes -= len(chunks[-1])
        position += chunk_length
    return b"".join(chunks)


def _decompress_snappy_block(block: bytes, max_output_bytes: int) -> bytes:
    import snappy

    from kfmt_cli.core.layout.varint import decode_uvarint

    declared_size, _ = decode_uvarint(block, 0, len(block), 32)
    if declared_size > max_output_bytes:
        raise _limit_error("snappy", max_output_bytes)
    uncompressed: bytes = snappy.uncompress(block)
    if len(uncompressed) != declared_size:
        raise CompressionError(
            f"snappy: {declared_size} bytes declared, {len(uncompressed)} decompressed"
        )
    return uncompressed


LZ4_MAGIC = b"\x04\x22\x4d\x18"


def _decompress_lz4(data: bytes, max_output_bytes: int) -> bytes:
    """One frame, with any declared sizes and checksums; bytes after it are ignored."""
    import lz4.frame

    decompressor = _thread_cache.__dict__.pop("lz4", None)
    if decompressor is None:
        decompressor = lz4.frame.LZ4FrameDecompressor()
    else:
        decompressor.reset()
    # LZ4 expands at most 255 times, so most batches need no limit, which would cost time.
    needs_limit = len(data) * 255 > min(max_output_bytes, MAX_UNCHUNKED_BYTES)
    output = (
        _decompress_lz4_chunks(decompressor, data, max_output_bytes)
        if needs_limit
        else decompressor.decompress(data)
    )
    if len(output) > max_output_bytes:
        raise _limit_error("lz4", max_output_bytes)
    if not decompressor.eof:
        raise CompressionError("lz4: the frame ends early")
    # Only after a complete frame: `reset` does not clear what is left of a declared size.
    _thread_cache.lz4 = decompressor
    return output


def _decompress_lz4_chunks(decompressor: Any, data: bytes, max_output_bytes: int) -> bytes:
    """The output of a frame, which may exceed the limit by at most one chunk."""
    chunk_bytes = max(OUTPUT_CHUNK_BYTES, max_output_bytes // 16)
    first_chunk: bytes = decompressor.decompress(
        data, max_length=min(max_output_bytes + 1, chunk_bytes)
    )
    if decompressor.eof or decompressor.needs_input:
        return first_chunk
    output = BytesIO()
    output.write(first_chunk)
    while (
        output.tell() <= max_output_bytes and not decompressor.eof and not decompressor.needs_input
    ):
        output.write(decompressor.decompress(b"", max_length=chunk_bytes))
    return output.getvalue()


def _fix_lz4_header_checksum(data: bytes) -> bytes:
    """Fix the header checksum of magic 0, which also covers the frame's magic (KAFKA-3160)."""
    if data[:4] != LZ4_MAGIC or len(data) < 7:
        raise CompressionError("lz4: no frame header")
    checksum_position = 6 + (8 if data[4] & 0x08 else 0) + (4 if data[4] & 0x01 else 0)
    if len(data) <= checksum_position:
        raise CompressionError("lz4: the frame ends inside its header")
    return (
        data[:checksum_position]
        + bytes([compute_short_xxh32(data[4:checksum_position]) >> 8 & 0xFF])
        + data[checksum_position + 1 :]
    )


def compute_short_xxh32(data: bytes) -> int:
    """The xxHash32 with seed 0 of fewer than 16 bytes, such as an LZ4 frame descriptor."""
    prime_1 = 0x9E3779B1
    prime_2 = 0x85EBCA77
    prime_3 = 0xC2B2AE3D
    prime_4 = 0x27D4EB2F
    prime_5 = 0x165667B1
    mask = 0xFFFFFFFF
    hash_value = prime_5 + len(data)
    n_words = len(data) // 4
    for i in range(n_words):
        (word,) = struct.unpack_from("<I", data, 4 * i)
        hash_value = (hash_value + word * prime_3) & mask
        hash_value = ((hash_value << 17 | hash_value >> 15) & mask) * prime_4 & mask
    for byte in data[4 * n_words :]:
        hash_value = (hash_value + byte * prime_5) & mask
        hash_value = ((hash_value << 11 | hash_value >> 21) & mask) * prime_1 & mask
    hash_value = (hash_value ^ hash_value >> 15) * prime_2 & mask
    hash_value = (hash_value ^ hash_value >> 13) * prime_3 & mask
    return hash_value ^ hash_value >> 16


# Input bytes per call: a block of at most 128 KiB takes at least 4 bytes, so the output of one
# call is at most `DecompressionLimit.min_bytes`.
ZSTD_INPUT_CHUNK_BYTES = 2048


def _decompress_zstd(data: bytes, max_output_bytes: int) -> bytes:
    """One or more frames, without relying on their content size."""
    import zstandard

    try:
        decompressor = _thread_cache.zstd
    except AttributeError:
        decompressor = _thread_cache.zstd = zstandard.ZstdDecompressor()
    chunks: list[bytes] = []
    remaining_bytes = max_output_bytes
    position = 0
    while position < len(data) or not chunks:
        frame_decompressor = decompressor.decompressobj()
        while not frame_decompressor.eof:
            if position >= len(data):
                raise CompressionError("zstd: the frame ends early")
            chunk: bytes = frame_decompressor.decompress(
                data[position : position + ZSTD_INPUT_CHUNK_BYTES]
            )
            position += ZSTD_INPUT_CHUNK_BYTES
            chunks.append(chunk)
            remaining_bytes -= len(chunk)
            if remaining_bytes < 0:
                raise _limit_error("zstd", max_output_bytes)
        position = min(position, len(data)) - len(frame_decompressor.unused_data)
    return b"".join(chunks)


DECOMPRESSORS: dict[str, Callable[[bytes, int], bytes]] = {
    "none": _decompress_none,
    "gzip": _decompress_gzip,
    "snappy": _decompress_snappy,
    "lz4": _decompress_lz4,
    "zstd": _decompress_zstd,
}
