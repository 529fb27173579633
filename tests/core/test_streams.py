"""Logs from pipes, compressed log files, and hex digits as input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tty
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from tests.log.test_odd_logs import peak_megabytes
from tests.support.samples import NOWHERE, ORDERS, UPGRADED, environment, kfmt
from tools.kafka import ROOT

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".lz4": lz4.frame.compress,
}


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("log", [ORDERS, UPGRADED], ids=lambda path: path.parent.name)
def test_a_log_that_is_compressed_as_a_whole_is_read(
    suffix: str, log: Path, tmp_path: Path
) -> None:
    compressed = tmp_path / f"{log.name}{suffix}"
    compressed.write_bytes(COMPRESSORS[suffix](log.read_bytes()))
    rows = [{**row, **NOWHERE} for row in kfmt("dump", compressed, "--records", "--json").rows]
    expected = [{**row, **NOWHERE} for row in kfmt("dump", log, "--records", "--json").rows]
    decoded_columns = ("decoded_key", "decoded_value")
    assert [
        {name: value for name, value in row.items() if name not in decoded_columns} for row in rows
    ] == expected
    assert kfmt("verify-crc", compressed, "--deep").code == 0
    assert kfmt("cat", compressed, "-f", "%o\\n").out == kfmt("cat", log, "-f", "%o\\n").out
    assert kfmt("check", compressed, "--json").of("summary")[0]["records"] == len(expected) - sum(
        row["type"] == "batch" for row in expected
    )
    matches = kfmt("find", compressed, "--offset", "33", "--json").of("found")
    assert [row["offset"] for row in matches] == [33]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_compressed_file_that_is_cut_is_an_input_that_cannot_be_read(
    suffix: str, tmp_path: Path
) -> None:
    compressed = tmp_path / f"{ORDERS.name}{suffix}"
    data = COMPRESSORS[suffix](ORDERS.read_bytes() * 40)
    compressed.write_bytes(data[: len(data) // 2])
    result = kfmt("dump", compressed, "--json")
    assert result.code in (1, 3)
    assert str(compressed) in result.err or result.of("finding")


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_compressed_log_without_a_suffix_is_reported(suffix: str, tmp_path: Path) -> None:
    data = COMPRESSORS[suffix](ORDERS.read_bytes())
    codec = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}[suffix]
    (tmp_path / ORDERS.name).write_bytes(data)
    for result in (kfmt("dump", tmp_path / ORDERS.name), kfmt("dump", "-", stdin=data)):
        assert result.code == 3
        assert f": {codec}; " in result.err
        assert "| kfmt dump -" in result.err


def test_a_pipe_is_a_log_where_one_pass_is_enough() -> None:
    data = ORDERS.read_bytes()
    for command in ("dump", "verify-crc", "cat", "stat", "hex"):
        result = kfmt(command, "-", stdin=data)
        assert result.code == 0, result.err
        assert result.out
    for command_name, *options in (
        ["cat", "--last", "3"],
        ["cat", "--isolation", "read_committed"],
        ["check"],
    ):
        result = kfmt(command_name, *options, "-", stdin=data)
        assert result.code == 2
        assert "cannot read standard input" in result.err


def test_commands_with_two_passes_refuse_a_named_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    for command in (("cat", "--last", "1"), ("cat", "--isolation", "read_committed")):
        result = kfmt(*command, pipe)
        assert result.code == 3
        assert "a pipe can be read only once" in result.err


def test_commands_that_cannot_read_compressed_logs_say_so(tmp_path: Path) -> None:
    compressed = tmp_path / f"{ORDERS.name}.gz"
    compressed.write_bytes(gzip.compress(ORDERS.read_bytes()))
    for command in (("index-check", compressed), ("convert-v0-to-v2", compressed, tmp_path / "to")):
        result = kfmt(*command)
        assert result.code == 3
        assert "the file itself is compressed" in result.err


def test_a_stream_that_breaks_off_is_an_input_that_cannot_be_read() -> None:
    stream, writer = os.openpty()
    tty.setraw(writer)
    batch = ORDERS.read_bytes()[:2575]
    os.write(writer, batch)
    os.close(writer)  # reading fails after the written bytes
    command = [sys.executable, "-m", "kfmt_cli", "dump", "-", "--json"]
    result = subprocess.run(
        command, stdin=stream, capture_output=True, cwd=ROOT, env=environment(), check=False
    )
    os.close(stream)
    assert (result.returncode, result.stderr) == (
        3,
        b"kfmt: -: cannot be read: Input/output error\n",
    )
    (row,) = map(json.loads, result.stdout.splitlines())
    assert (row["type"], row["base_offset"], row["size"]) == ("batch", 0, len(batch))


def test_zeros_that_are_compressed_take_little_memory(tmp_path: Path) -> None:
    compressed = tmp_path / f"{ORDERS.name}.zst"
    compressed.write_bytes(zstandard.compress(ORDERS.read_bytes() + bytes(600 << 20)))
    assert peak_megabytes("cat", compressed) < 400


def test_hex_takes_digits() -> None:
    batch = ORDERS.read_bytes()[:2575]
    expected = kfmt("hex", "-", "--json", stdin=batch).of("field")
    assert expected[0]["file"] == "-"
    for argument, stdin in (
        (f"hex:{batch.hex()}", b""),
        ("-", batch.hex(" ").encode()),
    ):
        rows = kfmt("hex", argument, "--json", stdin=stdin).of("field")
        assert [row["hex"] for row in rows] == [row["hex"] for row in expected]
    assert kfmt("hex", "hex:abc").code == 3
    truncated = kfmt("hex", "-", "--json", stdin=batch[:400])
    assert "base_offset" in [row["path"] for row in truncated.of("field")]
