"""convert-v0-to-v2: the same records in magic 2, and no partial output."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.temporary_locks import MIN_LEFTOVER_AGE_SECONDS
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.formats.legacy import MESSAGE_V1
from kfmt_cli.log import reader
from kfmt_cli.writers.build.batch_drafts import BatchBounds
from kfmt_cli.writers.convert import converter as convert
from kfmt_cli.writers.convert.converter import ConversionCounts, Converter
from kfmt_cli.writers.output import open_staging_directory
from kfmt_cli.writers.segment_writer import SegmentWriter
from tests.support.samples import UPGRADED, Row, environment, kfmt
from tests.support.segments import positions, write
from tests.support.waiting import wait_for
from tools.kafka import ROOT, SAMPLES

OLD = [SAMPLES / "kafka-0.8.2.2", SAMPLES / "kafka-2.8.2"]
PARTITIONS = sorted({log.parent for directory in OLD for log in directory.rglob("*.log")})
CONSUMED = ("offset", "key_size", "key", "value_size", "value")
# The name of a partition directory that a broker deletes.
PARTITION_TO_DELETE = re.compile(r"\S+-\d+\.[0-9a-f]{32}-delete")
V1 = SAMPLES / "kafka-2.8.2/v1-none-0"


def records(path: Path) -> list[Row]:
    return kfmt("dump", path, "--records", "--json").of("record")


def comparable(row: Row) -> tuple[object, ...]:
    """The fields that must be equal: magic 0 has no timestamp, which is -1 in magic 2."""
    has_no_timestamp = row["timestamp"] is None
    time = -1 if has_no_timestamp else row["timestamp"]
    kind = "CreateTime" if has_no_timestamp else row["timestamp_type"]
    return *(row[name] for name in CONSUMED), time, kind, row["headers"] or []


@pytest.mark.parametrize(
    "partition", PARTITIONS, ids=lambda item: f"{item.parent.name}-{item.name}"
)
def test_every_record_is_the_same(partition: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = kfmt("convert-v0-to-v2", partition, out, "--json")
    assert result.code == 0, result.err
    before, after = records(partition), records(out)
    assert [comparable(row) for row in after] == [comparable(row) for row in before]
    rows = [row for row in kfmt("dump", out, "--json").rows if row["type"] == "batch"]
    assert {row["magic"] for row in rows} <= {2}
    assert sum(row["messages"] for row in result.of("file")) == len(before)
    checked = kfmt("verify-crc", "--deep", "--strict", out)
    assert checked.code == 0
    assert kfmt("index-check", "--strict", out).code == 0
    names = {path.name for path in partition.iterdir()}
    copied = {path.name for path in out.iterdir()}
    deleted = {name for name in names if name.endswith(".deleted")}
    assert names - deleted <= copied | {name for name in names if name.endswith("index")}


def test_a_whole_log_directory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = kfmt("convert-v0-to-v2", OLD[1], out)
    assert result.code == 0
    assert "and verified" in result.out
    for name in ("meta.properties", "recovery-point-offset-checkpoint"):
        assert (out / name).read_bytes() == (OLD[1] / name).read_bytes()
    assert (out / "upgraded-0/leader-epoch-checkpoint").exists()
    assert not [path for path in out.rglob("*") if path.name.endswith((".deleted", ".kfmt"))]
    assert kfmt("verify-crc", out).code == 0


def test_files_that_are_not_a_partitions_end_nothing(tmp_path: Path) -> None:
    """A lock of a broker and a pipe are not copied; the files after them are."""
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(V1, source)
    (source / ".lock").write_bytes(b"")
    os.mkfifo(source / f"{0:020}.a-pipe")
    (source / "notes.txt").write_text("mine")
    result = kfmt("convert-v0-to-v2", source / ".", out, "--json")
    assert result.code == 0, result.err
    logs = sorted(path.name for path in V1.glob("*.log"))
    assert sorted(path.name for path in out.glob("*.log")) == logs
    assert [path for path in out.iterdir() if path.suffix in ("", ".a-pipe")] == []
    assert (out / "notes.txt").read_text() == "mine"


def test_batches_of_magic_2_pass_through_unchanged(tmp_path: Path) -> None:
    kfmt("convert-v0-to-v2", UPGRADED, tmp_path / "out")
    before, after = UPGRADED.read_bytes(), (tmp_path / "out" / UPGRADED.name).read_bytes()
    rows = kfmt("dump", UPGRADED, "--json").rows
    first = next(row["position"] for row in rows if row["magic"] == 2)
    assert all(row["magic"] == 2 for row in rows if row["position"] >= first)
    assert after.endswith(before[first:])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_another_codec(codec: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = kfmt("convert-v0-to-v2", V1, out, "--compression", codec, "--batch-bytes", "2000")
    assert result.code == 0
    batches = kfmt("dump", out, "--json").of("batch")
    assert {row["attributes"]["compression"] for row in batches} == {codec}
    assert len(batches) > 20
    assert [comparable(record) for record in records(out)] == [
        comparable(record) for record in records(V1)
    ]


def test_offsets_keep_their_gaps(tmp_path: Path) -> None:
    partition = SAMPLES / "kafka-2.8.2/v0-compacted-0"
    out = tmp_path / "out"
    assert kfmt("convert-v0-to-v2", partition, out).code == 0
    offsets = [row["offset"] for row in records(out)]
    assert offsets == [row["offset"] for row in records(partition)]
    assert offsets != list(range(offsets[0], offsets[0] + len(offsets)))


def damaged_copy(tmp_path: Path) -> Path:
    """A partition whose first segment has a flipped bit in its third message."""
    copy = tmp_path / "v1-none-0"
    shutil.copytree(V1, copy)
    log = copy / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[positions(bytes(data))[2] + 40] ^= 1
    log.write_bytes(data)
    return copy


def test_damage_is_refused_and_omitted_only_on_demand(tmp_path: Path) -> None:
    source, out = damaged_copy(tmp_path), tmp_path / "out"
    refused = kfmt("convert-v0-to-v2", source, out, "--json")
    assert (refused.code, refused.codes) == (1, ["crc-mismatch"])
    assert "--skip-damaged" in refused.err
    assert not out.exists()
    result = kfmt("convert-v0-to-v2", source, out, "--skip-damaged", "--json")
    assert (result.code, result.codes) == (1, ["crc-mismatch"])
    assert result.of("summary")[0]["left_out"] == 1
    offsets = [row["offset"] for row in records(out)]
    assert offsets == [row["offset"] for row in records(V1) if row["offset"] != 2]
    assert {path.name for path in tmp_path.iterdir()} == {"v1-none-0", "out"}


def message(offset: int, value: bytes, attributes: int = 0, *, is_corrupt: bool = False) -> bytes:
    """A message of magic 1. is_corrupt: with a wrong checksum."""
    values = {
        "offset": offset,
        "crc": 0,
        "magic": 1,
        "attributes": attributes,
        "timestamp": 1000,
        "key": None,
        "value": value,
    }
    body = MESSAGE_V1.encode_row(values)
    return body[:12] + struct.pack(">I", zlib.crc32(body[16:]) ^ is_corrupt) + body[16:]


def compressed(offset: int, *inner: bytes) -> bytes:
    """A wrapper of magic 1."""
    return message(offset, compress("gzip", b"".join(inner), 1), 1)


def test_a_message_inside_a_wrapper_with_a_wrong_checksum(tmp_path: Path) -> None:
    inner = (message(i, b"v%d" % i, is_corrupt=i == 1) for i in range(3))
    log = write(tmp_path / "in", compressed(2, *inner))
    assert kfmt("convert-v0-to-v2", log, tmp_path / "out").code == 1
    result = kfmt("convert-v0-to-v2", log, tmp_path / "out", "--skip-damaged", "--json")
    assert (result.code, result.codes) == (1, ["inner-crc-mismatch"])
    assert [row["offset"] for row in records(tmp_path / "out")] == [0, 2]


def test_a_compressed_message_inside_a_wrapper_is_no_record(tmp_path: Path) -> None:
    """Consumers get an error at it; its compressed bytes are nobody's value."""
    inner = (message(0, b"a"), compressed(1, message(0, b"deep")), message(2, b"c"))
    log = write(tmp_path / "in", compressed(2, *inner))
    assert [row["value"] for row in records(log)] == ["a", "c"]
    result = kfmt("convert-v0-to-v2", log, tmp_path / "out", "--skip-damaged", "--json")
    assert (result.code, result.codes) == (1, ["inner-set-malformed"])
    assert "offset 1 is itself compressed" in result.of("finding")[0]["message"]
    assert [row["offset"] for row in records(tmp_path / "out")] == [0, 2]


def wrapper(tmp_path: Path, magic: str, offsets: Iterable[int], size: int = 1) -> bytes:
    """One compressed wrapper with these offsets; random values keep its size close to theirs."""
    out = tmp_path / "wrapper"
    rng = random.Random(size)
    lines = [
        {"offset": offset, "value": rng.randbytes(size).hex(), "value_encoding": "hex"}
        for offset in offsets
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    options = ("--magic", magic, "--compression", "gzip", "--batch-bytes", "1G", "--force")
    result = kfmt("build", "-", out, *options, "--base-offset", "0", stdin=data)
    assert result.code == 0, result.err
    return (out / f"{0:020}.log").read_bytes()


@pytest.mark.parametrize("magic", ["0", "1"])
def test_wrappers_that_overlap_are_damage(magic: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    wrappers = (wrapper(tmp_path, magic, offsets) for offsets in ((5, 6), (3, 4, 5), (9,)))
    (source / f"{0:020}.log").write_bytes(b"".join(wrappers))
    checked = kfmt("verify-crc", "--deep", source, "--json")
    assert checked.code == 1
    assert "offsets-backwards" in checked.codes
    assert kfmt("convert-v0-to-v2", source, tmp_path / "out").code == 1
    assert not (tmp_path / "out").exists()
    result = kfmt("convert-v0-to-v2", source, tmp_path / "out", "--skip-damaged")
    assert result.code == 1
    assert [row["offset"] for row in records(tmp_path / "out")] == [5, 6, 9]
    assert kfmt("index-check", tmp_path / "out", "--strict").code == 0


def convert_and_verify(source: Path, out: Path) -> ConversionCounts:
    """The counts of one converted log, which is written and read back."""
    name = f"{0:020}.log"
    converter = Converter(None, BatchBounds(), DecompressionLimit.from_option(None), 2)
    with open_staging_directory(str(out)) as staging:
        writer = SegmentWriter(staging, name, 0)
        counts = converter.convert_log(
            classify_file(str(source / name), name), writer, lambda _: None
        )
        writer.close()
    new = classify_file(str(out / name), name)
    assert converter.convert_log(new, None, lambda _: None).digest == counts.digest
    assert kfmt("verify-crc", "--deep", "--strict", out).code == 0
    return counts


@pytest.mark.parametrize("magic", ["0", "1", "2", "mixed"])
def test_offsets_that_overlap_are_omitted_wherever_a_block_ends(
    magic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    offsets = [(0, 1, 2, 3), (2, 3, 4), (4, 5), (5,), (5, 6), (1,), (7, 8)]
    magics = "0121201" if magic == "mixed" else magic * len(offsets)
    wrappers = [wrapper(tmp_path, *entry, size=50) for entry in zip(magics, offsets, strict=True)]
    (source / f"{0:020}.log").write_bytes(b"".join(wrappers))
    results = []
    for block_bytes in (1 << 16, 1, 300, 700):
        monkeypatch.setattr(reader, "FIRST_BLOCK_BYTES", block_bytes)
        monkeypatch.setattr(reader, "MAX_BLOCK_BYTES", block_bytes)
        for chunk_bytes in (1 << 18, 1, 700):
            monkeypatch.setattr(convert, "MAX_DECOMPRESSED_CHUNK_BYTES", chunk_bytes)
            counts = convert_and_verify(source, tmp_path / f"out-{block_bytes}-{chunk_bytes}")
            findings = {(finding.position, finding.code.name) for finding in counts.findings}
            results.append((counts.messages, counts.digest, counts.left_out, findings))
            converted_offsets = [
                record["offset"]
                for record in records(tmp_path / f"out-{block_bytes}-{chunk_bytes}")
            ]
            assert converted_offsets == sorted(set(converted_offsets))
            assert {0, 1, 2, 3, 7, 8} <= set(converted_offsets)
            if magic in "01":
                assert converted_offsets == [*range(9)]
    assert all(entry == results[0] for entry in results)
    assert results[0][3]


@pytest.mark.parametrize("magic", ["0", "1"])
def test_wrappers_that_overlap_at_the_first_border_of_blocks(magic: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    wrappers = [
        wrapper(tmp_path, magic, range(6), 10_000),
        wrapper(tmp_path, magic, range(3, 9), 10_001),
    ]
    assert len(wrappers[0]) < reader.FIRST_BLOCK_BYTES < sum(map(len, wrappers))
    (source / f"{0:020}.log").write_bytes(b"".join(wrappers))
    result = kfmt("convert-v0-to-v2", source, tmp_path / "out", "--json")
    assert result.code == 1
    assert "record-offsets-backwards" in result.codes
    assert not (tmp_path / "out").exists()
    result = kfmt("convert-v0-to-v2", source, tmp_path / "out", "--skip-damaged")
    assert result.code == 1
    assert [row["offset"] for row in records(tmp_path / "out")] == list(range(9))
    assert kfmt("verify-crc", "--deep", "--strict", tmp_path / "out").code == 0
    assert kfmt("index-check", "--strict", tmp_path / "out").code == 0


@pytest.mark.parametrize("magic", ["0", "1"])
def test_a_log_in_which_no_message_can_be_read(magic: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    damaged = bytearray(wrapper(tmp_path, magic, range(5, 9)))
    damaged[-20] ^= 1
    for name, data in (
        ("bad", damaged),
        ("both", bytes(damaged) + wrapper(tmp_path, magic, range(9, 11))),
    ):
        (source / f"{0:020}.log").write_bytes(data)
        result = kfmt("convert-v0-to-v2", source, tmp_path / name, "--json")
        assert result.code == 1
        assert "crc-mismatch" in result.codes
        result = kfmt("convert-v0-to-v2", source, tmp_path / name, "--skip-damaged")
        assert result.code == 1
        offsets = [row["offset"] for row in records(tmp_path / name)] if name == "both" else []
        assert offsets == ([9, 10] if name == "both" else [])


def test_an_existing_target_is_refused(tmp_path: Path) -> None:
    for target in (tmp_path / "there", tmp_path / "file"):
        if target.name == "file":
            target.write_text("mine")
        else:
            target.mkdir()
        result = kfmt("convert-v0-to-v2", V1, target)
        assert result.code == 2
        assert "DST must not exist" in result.err
    assert (tmp_path / "file").read_text() == "mine"
    nested = kfmt("convert-v0-to-v2", tmp_path, tmp_path / "inside")
    assert nested.code == 2


def test_a_source_without_logs_and_one_in_the_middle_of_a_swap(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert kfmt("convert-v0-to-v2", tmp_path / "empty", tmp_path / "out").code == 3
    assert kfmt("convert-v0-to-v2", tmp_path / "none", tmp_path / "out").code == 3
    swap = tmp_path / "swap"
    shutil.copytree(V1, swap)
    (swap / "00000000000000000000.log").rename(swap / "00000000000000000000.log.swap")
    result = kfmt("convert-v0-to-v2", swap, tmp_path / "out")
    assert result.code == 3
    assert "start a broker once" in result.err
    assert not (tmp_path / "out").exists()


def test_the_source_is_never_changed(tmp_path: Path) -> None:
    copy = tmp_path / "source"
    shutil.copytree(V1, copy)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in copy.iterdir()}
    for path in copy.iterdir():
        path.chmod(0o444)
    copy.chmod(0o555)
    try:
        assert kfmt("convert-v0-to-v2", copy, tmp_path / "out").code == 0
        assert kfmt("rebuild-index", copy, tmp_path / "indexes").code == 0
        assert kfmt("index-check", copy).code == 0
    finally:
        copy.chmod(0o755)
    assert {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in copy.iterdir()
    } == before


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from kfmt_cli.__main__ import main
sys.argv = ["kfmt", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    "command",
    [
        ["convert-v0-to-v2", str(V1)],
        ["build", str(ROOT / "tests/golden"), "--segment-bytes", "1M"],
    ],
    ids=["convert", "build"],
)
def test_a_disk_that_is_full_leaves_nothing(command: list[str], tmp_path: Path) -> None:
    if command[0] == "build":
        lines = tmp_path / "lines.jsonl"
        lines.write_bytes(b'{"value":"%s"}\n' % (b"x" * 1000) * 100)
        command = ["build", str(lines)]
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, *command, str(tmp_path / "out")],
        capture_output=True,
        env=environment(),
        check=False,
        timeout=60,
    )
    assert result.returncode == 3, result.stderr
    assert b"cannot be written: File too large" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"lines.jsonl"}


def test_too_little_free_space_is_reported_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfmt_cli.errors import OutputError
    from kfmt_cli.writers.output import SPARE_BYTES, require_free_space

    usage, n_free = shutil.disk_usage(tmp_path), 1000 + SPARE_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=n_free))
    require_free_space(str(tmp_path / "a/b"), 1000)
    message = f"needs about {n_free + 1} bytes, but only {n_free} are free"
    with pytest.raises(OutputError, match=message):
        require_free_space(str(tmp_path / "a/b"), 1001)


def test_a_process_that_is_asked_to_stop_cleans_up(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    os.mkfifo(lines)
    process = subprocess.Popen(
        [sys.executable, "-m", "kfmt_cli", "build", lines, tmp_path / "out"],
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    with lines.open("wb") as out:
        out.write(b'{"value":"x"}\n')
        out.flush()
        wait_for(lambda: any(path != lines for path in tmp_path.iterdir()))
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert {path.name for path in tmp_path.iterdir()} == {"lines"}


def many_messages(n: int) -> bytes:
    """The messages of a log, repeated n times at consecutive offsets."""
    data = (V1 / "00000000000000000000.log").read_bytes()
    starts = positions(data)
    messages = [data[start + 8 : end] for start, end in pairwise(starts)]
    offsets = range(n * len(messages))
    return b"".join(struct.pack(">q", i) + messages[i % len(messages)] for i in offsets)


def is_written(
    directory: Path, unfinished: Callable[[], set[str]], previous: set[str], n_bytes: int
) -> bool:
    """Whether there is a new unfinished directory with at least n_bytes in it."""
    names = unfinished() - previous
    files = [path for name in names for path in (directory / name).rglob("*") if path.is_file()]
    return bool(names) and sum(path.stat().st_size for path in files) >= n_bytes


def test_a_killed_process_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "00000000000000000000.log").write_bytes(many_messages(1500))
    target = tmp_path / "out"

    def unfinished() -> set[str]:
        return {path.name for path in tmp_path.iterdir()} - {"source"}

    for n_bytes in (0, 1, 1 << 20, 16 << 20):  # of the log that it writes
        process = subprocess.Popen(
            [sys.executable, "-m", "kfmt_cli", "convert-v0-to-v2", source, target],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        wait_for(partial(is_written, tmp_path, unfinished, unfinished(), n_bytes))
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not target.exists()
        leftovers = unfinished()
        assert all(PARTITION_TO_DELETE.fullmatch(name) for name in leftovers)
        # A broker loads such a directory before it deletes it: it may contain no file that counts.
        for name in leftovers:
            files = {path.name for path in (tmp_path / name).iterdir()}
            assert files <= {"in-use", "files"}
    # A new directory may belong to another run that has not locked it yet.
    time.sleep(MIN_LEFTOVER_AGE_SECONDS + 0.1)
    result = kfmt("convert-v0-to-v2", V1, tmp_path / "out")
    assert result.code == 0
    for name in leftovers:
        assert f"{tmp_path / name}: leftover of an interrupted run, removed" in result.err
    assert {path.name for path in tmp_path.iterdir()} == {"source", "out"}
    assert [path.name for path in source.iterdir()] == ["00000000000000000000.log"]
