"""What no broker writes but a file may contain, and unusual names and paths."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard

from kfmt_cli.log.records import MAX_BLOCK_RECORDS
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import ORDERS, environment, kfmt
from tests.support.segments import NAME, int32, with_bytes, write
from tools.kafka import ROOT


def test_a_compressed_batch_that_holds_nothing_is_no_clean_batch(tmp_path: Path) -> None:
    file = write(tmp_path, batch_of(gzip.compress(b""), 1, 5))
    result = kfmt("verify-crc", "--deep", file, "--json")
    assert (result.code, result.codes) == (1, ["records-count-mismatch"])


def test_counts_and_deltas_that_cannot_be_are_seen_without_looking_inside(tmp_path: Path) -> None:
    batch = batch_of(record(b"k", b"v"), 0, 1)
    for position, value, code in (
        (57, -1, "records-count-mismatch"),
        (57, 2, "records-count-mismatch"),
        (23, -1, "offsets-backwards"),
    ):
        file = write(tmp_path, with_crc(with_bytes(batch, position, int32(value))))
        result = kfmt("verify-crc", file, "--json")
        assert (result.code, result.codes) == (1, [code])
        assert result.of("file")[0]["records"] in (0, 1)


def nested() -> tuple[bytes, bytes, bytes]:
    """A batch, one whose value contains two batches with other offsets, and a third."""
    inner = batch_of(record(b"x", b"y"), 0, 1, 7) + batch_of(record(b"x", b"y"), 0, 1, 8)
    return (
        batch_of(record(b"a", b"b"), 0, 1, 0),
        batch_of(record(b"k", inner), 0, 1, 1),
        batch_of(record(b"c", b"d"), 0, 1, 2),
    )


@pytest.mark.parametrize("length", [10, 100, 1000, (1 << 31) - 1])
def test_batches_inside_a_record_stay_inside_when_its_length_is_wrong(
    length: int, tmp_path: Path
) -> None:
    first, outer, last = nested()
    file = write(tmp_path, first + with_bytes(outer, 8, int32(length)) + last)
    result = kfmt("dump", "--records", file, "--json")
    assert [row["offset"] for row in result.of("record")] == [0, 1, 2]
    assert len(result.codes) == 1
    assert result.codes[0].startswith("batch-length-too")


def test_batches_inside_a_record_stay_inside_when_its_magic_is_wrong(tmp_path: Path) -> None:
    first, outer, last = nested()
    file = write(tmp_path, first + with_bytes(outer, 16, b"\x09") + last)
    result = kfmt("dump", "--records", file, "--json")
    assert [row["offset"] for row in result.of("record")] == [0, 2]
    assert result.codes == ["magic-unknown"]
    assert result.of("finding")[0]["found"] == 9


def test_batches_inside_a_record_stay_inside_when_its_checksum_is_wrong(tmp_path: Path) -> None:
    first, outer, last = nested()
    file = write(tmp_path, first + with_bytes(outer, 17, b"\0\0\0\7") + last)
    result = kfmt("dump", "--records", file, "--json")
    assert [row["offset"] for row in result.of("record")] == [0, 1, 2]
    assert result.codes == ["crc-mismatch"]


# A process counts the memory of its parent as its own, so a small process must start it.
LAUNCHER = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
assert process.returncode in (0, 1), process.returncode
print(usage.ru_maxrss)
"""


def peak_megabytes(*arguments: str | Path) -> float:
    """The peak memory of a run of kfmt."""
    command = [sys.executable, "-m", "kfmt_cli", *map(str, arguments)]
    result = subprocess.run(
        [sys.executable, "-c", LAUNCHER, *command],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        check=True,
    )
    return int(result.stdout) / 1024


def test_thousands_of_findings_take_no_memory(tmp_path: Path) -> None:
    invalid = with_bytes(batch_of(record(b"k", b"v"), 0, 1), 17, b"\0\0\0\1")
    file = write(tmp_path, invalid * 3000)
    for arguments in (["--json"], ["--records", "--json"], ["--format", "csv"], ["--records"]):
        assert peak_megabytes("dump", file, *arguments) < 150


def test_millions_of_records_out_of_a_few_bytes_take_bounded_memory(tmp_path: Path) -> None:
    n = MAX_BLOCK_RECORDS + 1_000_000
    blob = zstandard.ZstdCompressor().compress(record(b"", b"") * n)
    assert len(blob) < 10_000
    file = write(tmp_path, batch_of(blob, 4, n))
    assert peak_megabytes("verify-crc", "--deep", file) < 400
    codes = {"records-limit", "record-offsets-backwards"}
    assert set(kfmt("verify-crc", "--deep", file, "--json").codes) == codes


def test_checks_keep_no_row_of_records_whose_offsets_rise(tmp_path: Path) -> None:
    n, first = MAX_BLOCK_RECORDS + 1_000_000, 1 << 20  # each delta is a varint of 4 bytes
    rows = np.tile(np.frombuffer(record(b"", b"", first), np.uint8), (n, 1))
    zigzag = 2 * (first + np.arange(n))
    for i, continuation_bit in enumerate((0x80, 0x80, 0x80, 0)):
        rows[:, 3 + i] = (zigzag >> 7 * i) & 0x7F | continuation_bit
    batch = batch_of(zstandard.ZstdCompressor().compress(rows.tobytes()), 4, n)
    file = write(tmp_path, with_crc(with_bytes(batch, 23, int32(first + n - 1))))
    assert peak_megabytes("verify-crc", "--deep", file) < 150
    checked = kfmt("verify-crc", "--deep", file, "--json")
    assert (checked.codes, checked.of("file")[0]["records"]) == ([], n)


def test_highly_compressed_batches_are_taken_a_few_at_a_time(tmp_path: Path) -> None:
    uncompressed = b"".join(record(b"key", b"v" * 1000, i) for i in range(4000))
    batch = batch_of(zstandard.ZstdCompressor().compress(uncompressed), 4, 4000)
    file = write(tmp_path, b"".join(with_bytes(batch, 6, bytes([i, 0])) for i in range(60)))
    result = kfmt("verify-crc", "--deep", file, "--json")
    assert result.of("file")[0]["records"] == 240_000
    assert peak_megabytes("verify-crc", "--deep", file) < 200
    assert peak_megabytes("dump", "--records", "--json", file) < 200


def test_a_name_that_is_no_utf_8_is_shown_with_its_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad\xff.log")
    (tmp_path / name).write_bytes(ORDERS.read_bytes())
    for command in ("dump", "verify-crc"):
        result = kfmt(command, tmp_path, "--json")
        assert result.code == 0
        assert result.rows[0]["file"] == f"{tmp_path}/bad\\xff.log"
        assert kfmt(command, tmp_path).code == 0


def test_pipes_inside_a_directory_are_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a-0", ORDERS.read_bytes())
    (tmp_path / "b-0").mkdir()
    os.mkfifo(tmp_path / "b-0" / NAME)
    result = kfmt("verify-crc", tmp_path, "--json")
    assert [row["file"] for row in result.of("file")] == [str(tmp_path / "a-0" / NAME)]


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to("gone")
    result = kfmt("verify-crc", tmp_path)
    assert result.code == 3
    assert result.err == f"kfmt: {tmp_path / NAME}: No such file or directory\n"


def test_closed_streams_are_reported_or_ignored() -> None:
    command = f"{sys.executable} -m kfmt_cli dump {ORDERS}"
    for closing, code in ((">&-", 3), ("2>&-", 0)):
        result = subprocess.run(
            ["bash", "-c", f"{command} {closing}"],
            capture_output=True,
            cwd=ROOT,
            env=environment(),
            check=False,
        )
        assert result.returncode == code
        assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("megabytes", [17, 65])
def test_a_batch_of_many_megabytes_is_read_and_its_damage_found(
    megabytes: int, tmp_path: Path
) -> None:
    value = b"abcdefgh" * (megabytes << 17)
    first, large = batch_of(record(b"a", b"b"), 0, 1), batch_of(record(b"k", value), 0, 1, 1)
    data = first + large + batch_of(record(b"c", b"d"), 0, 1, 2)
    result = kfmt("dump", write(tmp_path, data), "--json")
    assert (result.code, result.codes) == (0, [])
    assert [(row["base_offset"], row["position"], row["size"]) for row in result.of("batch")] == [
        (0, 0, len(first)),
        (1, len(first), len(large)),
        (2, len(first) + len(large), len(first)),
    ]
    file = write(tmp_path, with_bytes(data, len(first) + len(large) - 100, b"zzzz"))
    result = kfmt("verify-crc", file, "--json")
    assert [row["position"] for row in result.of("finding")] == [len(first)]


def test_devices_are_refused() -> None:
    assert kfmt("dump", "/dev/zero").code == 3


def test_an_inverted_range_is_refused() -> None:
    assert kfmt("dump", ORDERS, "--from-offset", "9", "--to-offset", "5").code == 2
