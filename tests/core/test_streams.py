"""Logs from pipes, compressed as a whole, and as digits."""

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

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".lz4": lz4.frame.compress,
}


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("log", [ORDERS, UPGRADED], ids=lambda path: path.parent.name)
def test_a_log_that_is_compressed_as_a_whole_is_read(
    suffix: str, log: Path, tmp_path: Path
) -> None:
    packed = tmp_path / f"{log.name}{suffix}"
    packed.write_bytes(PACKERS[suffix](log.read_bytes()))
    here = [{**row, **NOWHERE} for row in kfmt("dump", packed, "--records", "--json").rows]
    there = [{**row, **NOWHERE} for row in kfmt("dump", log, "--records", "--json").rows]
    drop = ("decoded_key", "decoded_value")
    assert [{k: v for k, v in row.items() if k not in drop} for row in here] == there
    assert kfmt("verify-crc", packed, "--deep").code == 0
    assert kfmt("cat", packed, "-f", "%o\\n").out == kfmt("cat", log, "-f", "%o\\n").out
    assert kfmt("check", packed, "--json").of("summary")[0]["records"] == len(there) - sum(
        row["type"] == "batch" for row in there
    )
    found = kfmt("find", packed, "--offset", "33", "--json").of("found")
    assert [row["offset"] for row in found] == [33]


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_compressed_file_that_is_cut_is_an_input_that_cannot_be_read(
    suffix: str, tmp_path: Path
) -> None:
    packed = tmp_path / f"{ORDERS.name}{suffix}"
    data = PACKERS[suffix](ORDERS.read_bytes() * 40)
    packed.write_bytes(data[: len(data) // 2])
    done = kfmt("dump", packed, "--json")
    assert done.code in (1, 3)
    assert str(packed) in done.err or done.of("finding")


@pytest.mark.parametrize("suffix", PACKERS)
def test_what_is_compressed_under_another_name_is_named(suffix: str, tmp_path: Path) -> None:
    data = PACKERS[suffix](ORDERS.read_bytes())
    name = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}[suffix]
    (tmp_path / ORDERS.name).write_bytes(data)
    for done in (kfmt("dump", tmp_path / ORDERS.name), kfmt("dump", "-", stdin=data)):
        assert done.code == 3
        assert f": {name}; " in done.err
        assert "| kfmt dump -" in done.err


def test_a_pipe_is_a_log_where_one_pass_is_enough() -> None:
    data = ORDERS.read_bytes()
    for command in ("dump", "verify-crc", "cat", "stat", "hex"):
        done = kfmt(command, "-", stdin=data)
        assert done.code == 0, done.err
        assert done.out
    for name, *options in (
        ["cat", "--last", "3"],
        ["cat", "--isolation", "read_committed"],
        ["check"],
    ):
        done = kfmt(name, *options, "-", stdin=data)
        assert done.code == 2
        assert "cannot read standard input" in done.err


def test_what_needs_two_passes_refuses_a_pipe_with_a_name(tmp_path: Path) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    for command in (("cat", "--last", "1"), ("cat", "--isolation", "read_committed")):
        done = kfmt(*command, pipe)
        assert done.code == 3
        assert "a pipe can be read only once" in done.err


def test_commands_that_cannot_read_compressed_logs_say_so(tmp_path: Path) -> None:
    packed = tmp_path / f"{ORDERS.name}.gz"
    packed.write_bytes(gzip.compress(ORDERS.read_bytes()))
    for command in (("index-check", packed), ("convert-v0-to-v2", packed, tmp_path / "to")):
        done = kfmt(*command)
        assert done.code == 3
        assert "the file itself is compressed" in done.err


def test_a_stream_that_breaks_off_is_an_input_that_cannot_be_read() -> None:
    stream, far_end = os.openpty()
    tty.setraw(far_end)
    batch = ORDERS.read_bytes()[:2575]
    os.write(far_end, batch)
    os.close(far_end)  # after what was written, reading fails
    command = [sys.executable, "-m", "kfmt_cli", "dump", "-", "--json"]
    done = subprocess.run(
        command, stdin=stream, capture_output=True, cwd=ROOT, env=environment(), check=False
    )
    os.close(stream)
    assert (done.returncode, done.stderr) == (3, b"kfmt: -: cannot be read: Input/output error\n")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (row["type"], row["base_offset"], row["size"]) == ("batch", 0, len(batch))


def test_zeros_that_are_compressed_take_little_memory(tmp_path: Path) -> None:
    packed = tmp_path / f"{ORDERS.name}.zst"
    packed.write_bytes(zstandard.compress(ORDERS.read_bytes() + bytes(600 << 20)))
    assert peak_megabytes("cat", packed) < 400


def test_hex_takes_digits() -> None:
    batch = ORDERS.read_bytes()[:2575]
    shown = kfmt("hex", "-", "--json", stdin=batch).of("field")
    assert shown[0]["file"] == "-"
    for given, stdin in (
        (f"hex:{batch.hex()}", b""),
        ("-", batch.hex(" ").encode()),
    ):
        rows = kfmt("hex", given, "--json", stdin=stdin).of("field")
        assert [row["hex"] for row in rows] == [row["hex"] for row in shown]
    assert kfmt("hex", "hex:abc").code == 3
    cut = kfmt("hex", "-", "--json", stdin=batch[:400])
    assert "base_offset" in [row["path"] for row in cut.of("field")]
