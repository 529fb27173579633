"""Codecs: Kafka's framing and what other clients write, faults, and the limit."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import lz4.frame
import pytest
import snappy
import zstandard

from kfmt_cli.core.codecs.decompress import (
    XERIAL_MAGIC,
    CompressionError,
    DecompressionLimit,
    DecompressionLimitError,
    decompress,
    xxh32_short,
)
from kfmt_cli.formats.batch import CODECS
from tests.support.rebuild import batch_of, record
from tests.support.samples import kfmt
from tests.support.segments import write

PLAIN = b"".join(record(b"key-%d" % i, os.urandom(40) + b"value" * 40, i) for i in range(300))
N = 300
LIMIT = 64 << 20


def xerial(data: bytes, chunk: int = 32 << 10) -> bytes:
    out = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), chunk):
        block = snappy.compress(data[at : at + chunk])
        out += struct.pack(">i", len(block)) + block
    return out


def zstd_stream(data: bytes) -> bytes:
    """A frame that does not say its size, as Kafka writes it."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def lz4_frame(data: bytes, **options: object) -> bytes:
    done: bytes = lz4.frame.compress(
        data, **{"store_size": False, "block_linked": False, **options}
    )
    return done


VARIANTS = {
    "gzip": ("gzip", gzip.compress(PLAIN)),
    "gzip, two members": ("gzip", gzip.compress(PLAIN[:5000]) + gzip.compress(PLAIN[5000:])),
    "gzip, zeros after it": ("gzip", gzip.compress(PLAIN) + bytes(20)),
    "snappy, xerial": ("snappy", xerial(PLAIN)),
    "snappy, xerial in small chunks": ("snappy", xerial(PLAIN, 100)),
    "snappy, two xerial streams": ("snappy", xerial(PLAIN[:5000]) + xerial(PLAIN[5000:])),
    "snappy, a raw block": ("snappy", snappy.compress(PLAIN)),
    "lz4": ("lz4", lz4_frame(PLAIN)),
    "lz4 with its size": ("lz4", lz4_frame(PLAIN, store_size=True)),
    "lz4 with checksums": ("lz4", lz4_frame(PLAIN, content_checksum=True, block_checksum=True)),
    "lz4 in linked blocks": ("lz4", lz4_frame(PLAIN, block_linked=True)),
    "lz4, bytes after it": ("lz4", lz4_frame(PLAIN) + b"more"),
    **{f"lz4, block size {n}": ("lz4", lz4_frame(PLAIN, block_size=n)) for n in (4, 5, 6, 7)},
    "zstd": ("zstd", zstd_stream(PLAIN)),
    "zstd with its size": ("zstd", zstandard.ZstdCompressor().compress(PLAIN)),
    "zstd with a checksum": ("zstd", zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN)),
    "zstd, three frames": (
        "zstd",
        b"".join(map(zstd_stream, (PLAIN[:9], PLAIN[9:99], PLAIN[99:]))),
    ),
    "zstd, an empty frame first": ("zstd", zstd_stream(b"") + zstd_stream(PLAIN)),
    "zstd, one frame with its size, one without": (
        "zstd",
        zstandard.ZstdCompressor().compress(PLAIN[:5000]) + zstd_stream(PLAIN[5000:]),
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_framing_is_read(name: str, tmp_path: Path) -> None:
    codec, blob = VARIANTS[name]
    assert decompress(codec, blob, LIMIT) == PLAIN
    batch = batch_of(blob, CODECS.index(codec), N)
    done = kfmt("verify-crc", "--deep", write(tmp_path, batch), "--json")
    assert (done.code, done.codes) == (0, [])
    assert done.of("file")[0]["records"] == N


@pytest.mark.parametrize("name", VARIANTS)
def test_the_limit_is_exact(name: str) -> None:
    codec, blob = VARIANTS[name]
    assert decompress(codec, blob, len(PLAIN)) == PLAIN
    with pytest.raises(DecompressionLimitError):
        decompress(codec, blob, len(PLAIN) - 1)


# What stands after a stream may go, and what ends between two of its parts is whole.
MAY_END_EARLY = {
    *("gzip, two members", "gzip, zeros after it"),
    *("snappy, xerial in small chunks", "lz4, bytes after it"),
}


@pytest.mark.parametrize("name", [variant for variant in VARIANTS if variant not in MAY_END_EARLY])
def test_a_stream_that_ends_early_is_an_error(name: str) -> None:
    codec, blob = VARIANTS[name]
    for cut in (5, 100, len(blob) // 2):
        with pytest.raises(CompressionError):
            decompress(codec, blob[:-cut], LIMIT)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_garbage_is_an_error(codec: str) -> None:
    for data in (b"", b"\0", b"garbage", bytes(100), b"\xff" * 100):
        if codec == "snappy" and data[:1] == b"\0":
            continue  # a raw block of no bytes, with others after it, may be taken or refused
        with pytest.raises(CompressionError):
            decompress(codec, data, LIMIT)


def test_a_broken_frame_leaves_nothing_behind_for_the_next() -> None:
    with_size = lz4_frame(PLAIN, store_size=True)
    for broken in (with_size[:-100], b"garbage" * 9, with_size[:20] + b"\xff" * 50):
        with pytest.raises(CompressionError):
            decompress("lz4", broken, LIMIT)
        assert decompress("lz4", lz4_frame(PLAIN), LIMIT) == PLAIN


def test_the_wrong_header_checksum_of_magic_0_is_mended() -> None:
    """KAFKA-3160: taken over the frame's magic, too: 1a instead of 82."""
    right = lz4_frame(PLAIN, block_size=4)
    assert right[:7].hex() == "04224d18604082"
    wrong = right[:6] + b"\x1a" + right[7:]
    assert decompress("lz4", wrong, LIMIT, magic=0) == PLAIN
    with pytest.raises(CompressionError):
        decompress("lz4", wrong, LIMIT, magic=1)


# Magic, flags, block descriptor, then what the flags say: a size of 8 bytes, a dictionary of 4.
FLAGS = {0x60: 6, 0x68: 14, 0x61: 10, 0x69: 18}


@pytest.mark.parametrize("flags", FLAGS)
def test_a_header_of_magic_0_that_is_cut_short_is_said_to_be(flags: int) -> None:
    header = bytes.fromhex("04224d18") + bytes([flags, 0x40]) + bytes(12)
    at = FLAGS[flags]  # of the checksum
    for size in range(7, at + 1):
        with pytest.raises(CompressionError, match=r"^lz4: the frame ends inside its header$"):
            decompress("lz4", header[:size], LIMIT, magic=0)
    for data in (b"", header[:4], header[:6], b"\0" + header[1:]):
        with pytest.raises(CompressionError, match=r"^lz4: no frame header$"):
            decompress("lz4", data, LIMIT, magic=0)


@pytest.mark.parametrize("options", [{}, {"store_size": True}])
def test_the_checksum_of_magic_0_is_mended_wherever_it_is(options: dict[str, bool]) -> None:
    right = lz4_frame(PLAIN, **options)
    at = FLAGS[right[4] & 0x69]
    wrong = right[:at] + bytes([right[at] ^ 0xFF]) + right[at + 1 :]
    assert decompress("lz4", wrong, LIMIT, magic=0) == PLAIN


@pytest.mark.parametrize(
    ("given", "compressed", "most"),
    [
        *((None, 0, 64 << 20), (None, 1000, 64 << 20), (None, (64 << 20) // 100, 64 << 20)),
        *((None, 1 << 20, 100 << 20), (None, 1 << 24, 1 << 30), (None, 1 << 30, 1 << 30)),
        *((5000, 0, 5000), (5000, 1 << 20, 5000), (1 << 31, 10, 1 << 31)),
    ],
)
def test_the_limit_of_a_batch(given: int | None, compressed: int, most: int) -> None:
    """64 MiB, or 100 times what is compressed, up to 1 GiB; or what was asked for."""
    limit = DecompressionLimit.from_option(given)
    assert limit.max_output_bytes(compressed) == most


def test_xxh32_of_a_descriptor() -> None:
    assert xxh32_short(b"\x60\x40") >> 8 & 0xFF == 0x82
    assert xxh32_short(b"") == 0x02CC5D05
    # As the reference implementation gives them.
    assert xxh32_short(b"a") == 0x550D7456
    assert xxh32_short(b"abc") == 0x32D153FF


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_bomb_is_stopped(codec: str, tmp_path: Path) -> None:
    zeros = bytes(256 << 20)
    blob = {
        "gzip": lambda: gzip.compress(zeros),
        "lz4": lambda: lz4_frame(zeros),
        "zstd": lambda: zstd_stream(zeros),
    }[codec]()
    if len(blob) * DecompressionLimit().max_ratio < len(zeros):
        done = kfmt(
            "verify-crc",
            "--deep",
            write(tmp_path, batch_of(blob, CODECS.index(codec), 1)),
            "--json",
        )
        assert done.codes == ["decompression-limit"]
    with pytest.raises(DecompressionLimitError):
        decompress(codec, blob, 1 << 20)


def test_what_is_allowed() -> None:
    limit = DecompressionLimit()
    assert limit.max_output_bytes(10) == 64 << 20
    assert limit.max_output_bytes(1 << 20) == 100 << 20
    assert limit.max_output_bytes(1 << 30) == 1 << 30
    assert DecompressionLimit.from_option(5).max_output_bytes(1 << 20) == 5


def test_a_batch_may_decompress_to_more_than_the_ratio_when_asked(tmp_path: Path) -> None:
    big = record(b"k", bytes(80 << 20))
    file = write(tmp_path, batch_of(gzip.compress(big), 1, 1))
    assert kfmt("verify-crc", "--deep", file, "--json").codes == ["decompression-limit"]
    assert kfmt("verify-crc", "--deep", file, "--max-decompressed", "1G").code == 0
