"""Compression with Kafka's framing: the inverse of `core/codecs/decompress.py`.

Source: `org.apache.kafka.common.compress`. The framing matches Kafka's byte for byte. The
payload depends on the library: gzip and snappy match Java's, which uses the same zlib and snappy
code; zstd matches if the versions are equal. LZ4 blocks differ: lz4-java selects other matches.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

from kfmt_cli.core.codecs.decompress import LZ4_MAGIC, XERIAL_MAGIC, compute_short_xxh32

XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, compatible version
XERIAL_BLOCK_BYTES = 32 << 10
LZ4_BLOCK_BYTES = 64 << 10
LZ4_DESCRIPTOR = b"\x60\x40"  # version 1, independent blocks, no checksums; blocks of 64 KiB
LZ4_END = bytes(4)
LZ4_UNCOMPRESSED_FLAG = 0x80000000
DEFAULT_ZSTD_LEVEL = 3  # the default of Kafka's codec
MIN_LZ4_HC_LEVEL = 3
# The levels that Kafka accepts.
COMPRESSION_LEVELS = {
    "gzip": range(-1, 10),
    "lz4": range(1, 18),
    "zstd": range(-7, 23),
}

_thread_cache = threading.local()


def compress(codec: str, data: bytes, magic: int = 2, level: int | None = None) -> bytes:
    """Compress data with Kafka's framing for a codec and a magic.

    level: None for the Kafka producer's default; snappy has no levels.
    """
    return COMPRESSORS[codec](data, magic, level)


def _compress_none(data: bytes, magic: int, level: int | None) -> bytes:
    del magic, level
    return data


def _compress_gzip(data: bytes, magic: int, level: int | None) -> bytes:
    """One member, with the header that Java 16 and later write."""
    del magic
    compressor = zlib.compressobj(-1 if level is None else level, wbits=31)
    compressed = compressor.compress(data) + compressor.flush()
    return compressed[:8] + b"\x00\xff" + compressed[10:]


def _compress_snappy(data: bytes, magic: int, level: int | None) -> bytes:
    """A Xerial stream: a header, then length-prefixed blocks."""
    del magic, level
    import snappy

    chunks = [XERIAL_HEADER]
    for position in range(0, len(data), XERIAL_BLOCK_BYTES):
        compressed_block = snappy.compress(data[position : position + XERIAL_BLOCK_BYTES])
        chunks += struct.pack(">i", len(compressed_block)), compressed_block
    return b"".join(chunks)


def _compress_lz4(data: bytes, magic: int, level: int | None) -> bytes:
    """A frame of independent blocks; for magic 0, its header checksum is wrong (KAFKA-3160)."""
    import lz4.block

    checksummed_header = LZ4_MAGIC + LZ4_DESCRIPTOR if magic == 0 else LZ4_DESCRIPTOR
    chunks = [
        LZ4_MAGIC,
        LZ4_DESCRIPTOR,
        bytes([compute_short_xxh32(checksummed_header) >> 8 & 0xFF]),
    ]
    for position in range(0, len(data), LZ4_BLOCK_BYTES):
        uncompressed_block = data[position : position + LZ4_BLOCK_BYTES]
        compressed_block = lz4.block.compress(
            uncompressed_block, store_size=False, **_lz4_level_arguments(level)
        )
        if len(compressed_block) >= len(uncompressed_block):
            chunks += (
                struct.pack("<I", len(uncompressed_block) | LZ4_UNCOMPRESSED_FLAG),
                uncompressed_block,
            )
        else:
            chunks += struct.pack("<I", len(compressed_block)), compressed_block
    chunks.append(LZ4_END)
    return b"".join(chunks)


def _lz4_level_arguments(level: int | None) -> dict[str, Any]:
    """The library's arguments for a level; from level 3, it searches longer."""
    if level is None or level < MIN_LZ4_HC_LEVEL:
        return {}
    return {"mode": "high_compression", "compression": level}


def _compress_zstd(data: bytes, magic: int, level: int | None) -> bytes:
    """A frame without content size or checksum, flushed before its end like Java's stream."""
    del magic
    import zstandard

    cached_level_and_compressor: tuple[int | None, Any] = getattr(
        _thread_cache, "zstd", (None, None)
    )
    effective_level = DEFAULT_ZSTD_LEVEL if level is None else level
    if cached_level_and_compressor[0] != effective_level:
        new_compressor = zstandard.ZstdCompressor(level=effective_level, write_content_size=False)
        cached_level_and_compressor = _thread_cache.zstd = effective_level, new_compressor
    compressor = cached_level_and_compressor[1]
    compression_stream = compressor.compressobj()
    chunks: list[bytes] = [
        compression_stream.compress(data),
        compression_stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
        compression_stream.flush(),
    ]
    return b"".join(chunks)


COMPRESSORS: dict[str, Callable[[bytes, int, int | None], bytes]] = {
    "none": _compress_none,
    "gzip": _compress_gzip,
    "snappy": _compress_snappy,
    "lz4": _compress_lz4,
    "zstd": _compress_zstd,
}
