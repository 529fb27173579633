"""Names of files and directories: offsets, partitions, marks, suffixes."""

from __future__ import annotations

import gzip
import os
import random
from contextlib import closing
from functools import partial
from io import BytesIO
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from kfmt_cli.core.compressed_files import compressed_suffix, decompressing_reader
from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.file_names import (
    directory_marker_suffix,
    file_topic_partition,
    format_skipped_directories,
    is_compressed_segment_name,
    parse_broker_topic_partition,
    parse_offset_name,
    parse_remote_topic_partition,
    parse_topic_partition,
    valid_directory_marker_suffix,
)
from kfmt_cli.errors import InputError
from tests.support.samples import kfmt

MAX_OFFSET = (1 << 63) - 1
ID = "8ZSr7H4PQ1mBdRkPqWBv3g"  # a topic id
HASH = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        *((f"{0:020}.log", 0), (f"{240:020}.index", 240), (f"{7:020}.log.deleted", 7)),
        *(("5.log", 5), ("+5.log", 5), ("-5.log", -5), (f"{MAX_OFFSET}.log", MAX_OFFSET)),
        *(
            (f"{MAX_OFFSET + 1}.log", None),
            (f"{-MAX_OFFSET - 1}.log", -MAX_OFFSET - 1),
            (f"{-MAX_OFFSET}.log", -MAX_OFFSET),
        ),
        *((f"{-MAX_OFFSET - 2}.log", None), (f"{0:021}.log", None), ("log", None), ("5", None)),
        *((".log", None), ("5a.log", None), ("--5.log", None), ("5-1.log", None)),
    ],
)
def test_the_offset_that_a_broker_reads_from_a_name(name: str, offset: int | None) -> None:
    assert parse_offset_name(name) == offset


@pytest.mark.parametrize(
    ("directory", "topic_partition", "parsed", "mark"),
    [
        ("orders-0", ("orders", 0), ("orders", 0), ""),
        ("a-b.c_d-12", ("a-b.c_d", 12), ("a-b.c_d", 12), ""),
        ("__consumer_offsets-49", ("__consumer_offsets", 49), ("__consumer_offsets", 49), ""),
        (f"orders-3-{ID}", ("orders", 3), None, ""),
        *(
            (f"orders-3.{HASH}-{mark}", ("orders", 3), ("orders", 3), mark)
            for mark in ("future", "delete", "stray")
        ),
        ("orders-3.short-delete", (None, None), ("orders", 3), "delete"),
        ("orders-3-delete", (None, None), None, ""),
        ("orders-+3", (None, None), ("orders", 3), ""),
        (f"orders-{(1 << 31) - 1}", ("orders", (1 << 31) - 1), ("orders", (1 << 31) - 1), ""),
        (f"orders-{1 << 31}", ("orders", 1 << 31), None, ""),
        *((name, (None, None), None, "") for name in ("orders", "orders-", "-0", "orders-x", "")),
    ],
)
def test_the_partition_in_the_name_of_a_directory(
    directory: str,
    topic_partition: tuple[str | None, int | None],
    parsed: tuple[str, int] | None,
    mark: str,
) -> None:
    assert parse_topic_partition(directory) == topic_partition
    assert (parse_broker_topic_partition(directory), valid_directory_marker_suffix(directory)) == (
        parsed,
        mark,
    )


def test_marks_of_directories() -> None:
    marks = [
        directory_marker_suffix(f"t-0.{HASH}-{mark}")
        for mark in ("future", "delete", "stray", "other")
    ]
    assert marks == ["future", "delete", "stray", ""]
    assert directory_marker_suffix("t-0") == directory_marker_suffix("t-0-delete") == ""
    single = [f"disk{os.sep}t-0.{HASH}-delete"]
    assert format_skipped_directories(single).startswith("1 directory marked -delete skipped; ")
    several = [*single, f"t-1.{HASH}-future", f"t-2.{HASH}-delete"]
    assert format_skipped_directories(several).startswith(
        "3 directories marked -delete or -future skipped; "
    )


REMOTE_LOG = f"remote/orders-{ID}/7/{240:020}-{ID}.log"


def test_the_partition_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_topic_partition(f"disk/orders-3/{0:020}.log") == ("orders", 3)
    assert (
        parse_remote_topic_partition(REMOTE_LOG)
        == file_topic_partition(REMOTE_LOG)
        == ("orders", 7)
    )
    assert parse_remote_topic_partition(REMOTE_LOG.replace("/7/", "/x/")) == (None, None)
    assert file_topic_partition(f"disk/other/{0:020}.log") == (None, None)
    directory = tmp_path / "orders-4"
    directory.mkdir()
    monkeypatch.chdir(directory)
    for name in ("a.log", "./a.log"):
        assert file_topic_partition(name) == ("orders", 4)
    (tmp_path / "link").symlink_to(directory)
    assert file_topic_partition(str(tmp_path / "link" / "a.log")) == ("orders", 4)


@pytest.mark.parametrize(
    ("name", "is_segment", "suffix"),
    [
        *((f"{0:020}.log.gz", True, ".gz"), (f"{5:020}.timeindex.zst", True, ".zst")),
        *((f"{0:020}.snapshot.lz4", True, ".lz4"), (f"{0:020}.log", False, "")),
        *((f"{0:019}.log.gz", False, ".gz"), ("disk.tar.gz", False, ".gz"), ("x.xz", False, "")),
        *((f"{0:020}.log.gz.x", False, ""), (f"x{0:020}.log.gz", False, ".gz"), ("gz", False, "")),
    ],
)
def test_names_of_compressed_segments_are_recognised(
    name: str, is_segment: bool, suffix: str
) -> None:
    assert (is_compressed_segment_name(name), compressed_suffix(name)) == (is_segment, suffix)


DATA = bytes(range(256)) * 3000
COMPRESSED = {
    ".gz": gzip.compress(DATA),
    ".zst": zstandard.ZstdCompressor().compress(DATA[:1000])
    + zstandard.ZstdCompressor().compress(DATA[1000:]),
    ".lz4": lz4.frame.compress(DATA),
}


def decompress(data: bytes, suffix: str, size: int) -> bytes:
    read_chunk = decompressing_reader(BytesIO(data), suffix, "the file")
    decompressed = b""
    while chunk := read_chunk(size):
        decompressed += chunk
    return decompressed


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("size", [100, 1 << 20])
def test_compressed_files_are_read_in_chunks(suffix: str, size: int) -> None:
    assert decompress(COMPRESSED[suffix], suffix, size) == DATA


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_compressed_file_that_is_cut_or_broken_is_an_error(suffix: str) -> None:
    data = COMPRESSED[suffix]
    for broken in (data[:-20], data[:30], b"not compressed at all" * 9):
        with pytest.raises(InputError, match=r"^the file: cannot be decompressed: "):
            decompress(broken, suffix, 1 << 16)


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".lz4"])
def test_what_can_be_decompressed_before_a_cut_is_read(suffix: str) -> None:
    data = random.Random(1).randbytes(1 << 19)  # does not compress
    compress = {".gz": gzip.compress, ".lz4": lz4.frame.compress, ".zst": zstandard.compress}[
        suffix
    ]
    read_chunk = decompressing_reader(BytesIO(compress(data)[: 1 << 18]), suffix, "the file")
    chunks: list[bytes] = []
    with pytest.raises(InputError, match=r"^the file: cannot be decompressed: "):
        chunks.extend(iter(partial(read_chunk, 1 << 20), b""))
    decompressed = b"".join(chunks)
    assert data.startswith(decompressed)
    whole_blocks = {".gz": 200_000, ".zst": 131_071, ".lz4": 196_607}[suffix]
    assert len(decompressed) > whole_blocks


def test_a_gzip_file_may_end_in_zeros() -> None:
    assert decompress(COMPRESSED[".gz"] * 2 + bytes(5000), ".gz", 100) == DATA * 2
    with pytest.raises(InputError, match=r"^the file: cannot be decompressed: "):
        decompress(COMPRESSED[".gz"] + bytes(5000) + b"x", ".gz", 100)


def test_a_packed_file_is_read_at_the_rate_that_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(COMPRESSED[".gz"])
    read_sizes: list[int] = []
    with (
        READ_THROTTLE.report_reads_to(read_sizes.append),
        closing(open_source(str(path))) as source,
    ):
        assert source.read_block(0, len(DATA), len(DATA)) == DATA
    assert sum(read_sizes) == len(COMPRESSED[".gz"])


def test_a_directory_next_to_a_brokers_files_is_taken_for_a_partition(tmp_path: Path) -> None:
    """As a broker does; other directories of a tree have no findings."""
    disk = tmp_path / "disks" / "one"
    for directory in (disk / "notes", disk / "orders-0", tmp_path / "disks" / "mine"):
        directory.mkdir(parents=True)
        (directory / "readme.txt").write_text("x")
    (disk / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    findings = kfmt("check", tmp_path, "--json").of("finding")
    assert [Path(row["file"]).name for row in findings if "director" in row["code"]] == ["notes"]
