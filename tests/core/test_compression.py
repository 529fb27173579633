"""Codecs: framing of Kafka and of other clients, invalid data, and the limit."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import lz4.frame
import pytest
import snappy
import zstandard

from kfmt_cli.core.codecs.compress import COMPRESSION_LEVELS, compress
from kfmt_cli.core.codecs.decompress import (
    XERIAL_MAGIC,
    CompressionError,
    DecompressionLimit,
    DecompressionLimitError,
    compute_short_xxh32,
    decompress,
)
from kfmt_cli.formats.batch import CODECS
from tests.support.rebuild import batch_of, record
from tests.support.samples import kfmt
from tests.support.segments import write

_RANDOM = random.Random(7)
UNCOMPRESSED = b"".join(
    record(b"key-%d" % i, _RANDOM.randbytes(40) + b"value" * 40, i) for i in range(300)
)
N_RECORDS = 300
LIMIT = 64 << 20


def xerial(data: bytes, chunk: int = 32 << 10) -> bytes:
    stream = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
    for position in range(0, len(data), chunk):
        block = snappy.compress(data[position : position + chunk])
        stream += struct.pack(">i", len(block)) + block
    return stream


def zstd_stream(data: bytes) -> bytes:
    """A frame without its size, as Kafka writes it."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def lz4_frame(data: bytes, **options: object) -> bytes:
    frame: bytes = lz4.frame.compress(
        data, **{"store_size": False, "block_linked": False, **options}
    )
    return frame


VARIANTS = {
    "gzip": ("gzip", gzip.compress(UNCOMPRESSED)),
    "gzip, two members": (
        "gzip",
        gzip.compress(UNCOMPRESSED[:5000]) + gzip.compress(UNCOMPRESSED[5000:]),
    ),
    "gzip, zeros after it": ("gzip", gzip.compress(UNCOMPRESSED) + bytes(20)),
    "snappy, xerial": ("snappy", xerial(UNCOMPRESSED)),
    "snappy, xerial in small chunks": ("snappy", xerial(UNCOMPRESSED, 100)),
    "snappy, two xerial streams": (
        "snappy",
        xerial(UNCOMPRESSED[:5000]) + xerial(UNCOMPRESSED[5000:]),
    ),
    "snappy, a raw block": ("snappy", snappy.compress(UNCOMPRESSED)),
    "lz4": ("lz4", lz4_frame(UNCOMPRESSED)),
    "lz4 with its size": ("lz4", lz4_frame(UNCOMPRESSED, store_size=True)),
    "lz4 with checksums": (
        "lz4",
        lz4_frame(UNCOMPRESSED, content_checksum=True, block_checksum=True),
    ),
    "lz4 in linked blocks": ("lz4", lz4_frame(UNCOMPRESSED, block_linked=True)),
    "lz4, bytes after it": ("lz4", lz4_frame(UNCOMPRESSED) + b"more"),
    **{
        f"lz4, block size {n}": ("lz4", lz4_frame(UNCOMPRESSED, block_size=n)) for n in (4, 5, 6, 7)
    },
    "zstd": ("zstd", zstd_stream(UNCOMPRESSED)),
    "zstd with its size": ("zstd", zstandard.ZstdCompressor().compress(UNCOMPRESSED)),
    "zstd with a checksum": (
        "zstd",
        zstandard.ZstdCompressor(write_checksum=True).compress(UNCOMPRESSED),
    ),
    "zstd, three frames": (
        "zstd",
        b"".join(map(zstd_stream, (UNCOMPRESSED[:9], UNCOMPRESSED[9:99], UNCOMPRESSED[99:]))),
    ),
    "zstd, an empty frame first": ("zstd", zstd_stream(b"") + zstd_stream(UNCOMPRESSED)),
    "zstd, one frame with its size, one without": (
        "zstd",
        zstandard.ZstdCompressor().compress(UNCOMPRESSED[:5000]) + zstd_stream(UNCOMPRESSED[5000:]),
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_framing_is_read(name: str, tmp_path: Path) -> None:
    codec, compressed_data = VARIANTS[name]
    assert decompress(codec, compressed_data, LIMIT) == UNCOMPRESSED
    batch = batch_of(compressed_data, CODECS.index(codec), N_RECORDS)
    result = kfmt("verify-crc", "--deep", write(tmp_path, batch), "--json")
    assert (result.code, result.codes) == (0, [])
    assert result.of("file")[0]["records"] == N_RECORDS


@pytest.mark.parametrize("name", VARIANTS)
def test_the_limit_is_exact(name: str) -> None:
    codec, compressed_data = VARIANTS[name]
    assert decompress(codec, compressed_data, len(UNCOMPRESSED)) == UNCOMPRESSED
    with pytest.raises(DecompressionLimitError):
        decompress(codec, compressed_data, len(UNCOMPRESSED) - 1)


# Trailing bytes may be missing, and a stream may end between two of its blocks.
VALID_IF_TRUNCATED = {
    *("gzip, two members", "gzip, zeros after it"),
    *("snappy, xerial in small chunks", "lz4, bytes after it"),
}


@pytest.mark.parametrize(
    "name", [variant for variant in VARIANTS if variant not in VALID_IF_TRUNCATED]
)
def test_a_stream_that_ends_early_is_an_error(name: str) -> None:
    codec, compressed_data = VARIANTS[name]
    for n_removed in (5, 100, len(compressed_data) // 2):
        with pytest.raises(CompressionError):
            decompress(codec, compressed_data[:-n_removed], LIMIT)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_garbage_is_an_error(codec: str) -> None:
    for data in (b"", b"\0", b"garbage", bytes(100), b"\xff" * 100):
        if codec == "snappy" and data[:1] == b"\0":
            continue  # a raw block of no bytes, with others after it, may be accepted or refused
        with pytest.raises(CompressionError):
            decompress(codec, data, LIMIT)


def test_lz4_searches_longer_from_level_3() -> None:
    default, *by_level = (
        compress("lz4", UNCOMPRESSED, level=level) for level in (None, *COMPRESSION_LEVELS["lz4"])
    )
    assert by_level[0] == by_level[1] == default
    assert all(len(compressed_data) < len(default) for compressed_data in by_level[2:])


@pytest.mark.parametrize("codec", COMPRESSION_LEVELS)
def test_levels_can_be_read(codec: str) -> None:
    for level in COMPRESSION_LEVELS[codec][::5]:
        compressed_data = compress(codec, UNCOMPRESSED, level=level)
        assert decompress(codec, compressed_data, LIMIT) == UNCOMPRESSED


def test_a_broken_frame_leaves_nothing_behind_for_the_next() -> None:
    with_size = lz4_frame(UNCOMPRESSED, store_size=True)
    for broken in (with_size[:-100], b"garbage" * 9, with_size[:20] + b"\xff" * 50):
        with pytest.raises(CompressionError):
            decompress("lz4", broken, LIMIT)
        assert decompress("lz4", lz4_frame(UNCOMPRESSED), LIMIT) == UNCOMPRESSED


def test_the_wrong_header_checksum_of_magic_0_is_mended() -> None:
    """KAFKA-3160: computed over the frame's magic, too: 1a instead of 82."""
    valid = lz4_frame(UNCOMPRESSED, block_size=4)
    assert valid[:7].hex() == "04224d18604082"
    invalid = valid[:6] + b"\x1a" + valid[7:]
    assert decompress("lz4", invalid, LIMIT, magic=0) == UNCOMPRESSED
    with pytest.raises(CompressionError):
        decompress("lz4", invalid, LIMIT, magic=1)


# Magic, flags, block descriptor, then the optional fields: a size of 8 bytes, a dictionary of 4.
FLAGS = {0x60: 6, 0x68: 14, 0x61: 10, 0x69: 18}


@pytest.mark.parametrize("flags", FLAGS)
def test_a_header_of_magic_0_that_is_cut_short_is_said_to_be(flags: int) -> None:
    header = bytes.fromhex("04224d18") + bytes([flags, 0x40]) + bytes(12)
    checksum_position = FLAGS[flags]
    for size in range(7, checksum_position + 1):
        with pytest.raises(CompressionError, match=r"^lz4: the frame ends inside its header$"):
            decompress("lz4", header[:size], LIMIT, magic=0)
    for data in (b"", header[:4], header[:6], b"\0" + header[1:]):
        with pytest.raises(CompressionError, match=r"^lz4: no frame header$"):
            decompress("lz4", data, LIMIT, magic=0)


@pytest.mark.parametrize("options", [{}, {"store_size": True}])
def test_the_checksum_of_magic_0_is_mended_wherever_it_is(options: dict[str, bool]) -> None:
    valid = lz4_frame(UNCOMPRESSED, **options)
    checksum_position = FLAGS[valid[4] & 0x69]
    invalid = (
        valid[:checksum_position]
        + bytes([valid[checksum_position] ^ 0xFF])
        + valid[checksum_position + 1 :]
    )
    assert decompress("lz4", invalid, LIMIT, magic=0) == UNCOMPRESSED


@pytest.mark.parametrize(
    ("option", "compressed_bytes", "max_output_bytes"),
    [
        *((None, 0, 64 << 20), (None, 1000, 64 << 20), (None, (64 << 20) // 100, 64 << 20)),
        *((None, 1 << 20, 100 << 20), (None, 1 << 24, 1 << 30), (None, 1 << 30, 1 << 30)),
        *((5000, 0, 5000), (5000, 1 << 20, 5000), (1 << 31, 10, 1 << 31)),
    ],
)
def test_the_limit_of_a_batch(
    option: int | None, compressed_bytes: int, max_output_bytes: int
) -> None:
    """64 MiB, or 100 times the compressed size, up to 1 GiB; or the option's value."""
    limit = DecompressionLimit.from_option(option)
    assert limit.max_output_bytes(compressed_bytes) == max_output_bytes


def test_xxh32_of_a_descriptor() -> None:
    assert compute_short_xxh32(b"\x60\x40") >> 8 & 0xFF == 0x82
    assert compute_short_xxh32(b"") == 0x02CC5D05
    # From the reference implementation.
    assert compute_short_xxh32(b"a") == 0x550D7456
    assert compute_short_xxh32(b"abc") == 0x32D153FF


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_bomb_is_stopped(codec: str, tmp_path: Path) -> None:
    zeros = bytes(256 << 20)
    compressed_data = {
        "gzip": lambda: gzip.compress(zeros),
        "lz4": lambda: lz4_frame(zeros),
        "zstd": lambda: zstd_stream(zeros),
    }[codec]()
    if len(compressed_data) * DecompressionLimit().max_ratio < len(zeros):
        result = kfmt(
            "verify-crc",
            "--deep",
            write(tmp_path, batch_of(compressed_data, CODECS.index(codec), 1)),
            "--json",
        )
        assert result.codes == ["decompression-limit"]
    with pytest.raises(DecompressionLimitError):
        decompress(codec, compressed_data, 1 << 20)


def test_the_default_limit_depends_on_the_compressed_size() -> None:
    limit = DecompressionLimit()
    assert limit.max_output_bytes(10) == 64 << 20
    assert limit.max_output_bytes(1 << 20) == 100 << 20
    assert limit.max_output_bytes(1 << 30) == 1 << 30
    assert DecompressionLimit.from_option(5).max_output_bytes(1 << 20) == 5


def test_a_batch_may_decompress_to_more_than_the_ratio_when_asked(tmp_path: Path) -> None:
    data = record(b"k", bytes(80 << 20))
    file = write(tmp_path, batch_of(gzip.compress(data), 1, 1))
    assert kfmt("verify-crc", "--deep", file, "--json").codes == ["decompression-limit"]
    assert kfmt("verify-crc", "--deep", file, "--max-decompressed", "1G").code == 0
