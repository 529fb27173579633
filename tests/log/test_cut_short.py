"""Batches cut short by a few bytes: what follows them is undamaged, and is read."""

from __future__ import annotations

import gzip
import json
import random
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions, write

KEY = b"key"


def message(magic: int, key: bytes | None, value: bytes, attributes: int = 0) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", 1_700_000_000_000) if magic else b""
    body += struct.pack(">i", -1 if key is None else len(key)) + (key or b"")
    body += struct.pack(">i", len(value)) + value
    return struct.pack(">I", zlib.crc32(body)) + body


def entry(offset: int, data: bytes) -> bytes:
    return struct.pack(">qi", offset, len(data)) + data


def wrapper(magic: int, first: int, size: int, rng: random.Random) -> bytes:
    """A compressed set of five messages."""
    inner = b"".join(
        entry(i if magic else first + i, message(magic, KEY, rng.randbytes(size))) for i in range(5)
    )
    return entry(first + 4, message(magic, None, gzip.compress(inner), 1))


def offsets(log: bytes, directory: Path) -> set[int]:
    """The base offsets of the batches that are read."""
    lines = kfmt("dump", "--json", write(directory, log)).out.splitlines()
    rows = map(json.loads, lines)
    return {row["base_offset"] for row in rows if row["type"] == "batch"}


@pytest.mark.parametrize("tail_name", ["nothing", "zeros", "junk", "half a wrapper", "a wrapper"])
@pytest.mark.parametrize("gap", [0, 7])
@pytest.mark.parametrize("n_missing", [1, 2, 3, 9, 30])
@pytest.mark.parametrize("magic", [0, 1])
def test_one_message_behind_a_wrapper_cut_short(
    magic: int, n_missing: int, gap: int, tail_name: str, tmp_path: Path
) -> None:
    """gap: offsets that compaction removed before it."""
    for size in (0, 50, 1000):
        rng = random.Random(size)
        uncompressed = entry(10 + gap, message(magic, KEY, rng.randbytes(size)))
        last_wrapper = wrapper(magic, 11 + gap, 100, rng)
        tails = {"nothing": b"", "zeros": bytes(300), "junk": rng.randbytes(500)}
        tail = {
            **tails,
            "half a wrapper": last_wrapper[: len(last_wrapper) // 2],
            "a wrapper": last_wrapper,
        }[tail_name]
        damaged = wrapper(magic, 5, 100, rng)[:-n_missing]
        log = wrapper(magic, 0, 100, rng) + damaged + uncompressed + tail
        assert 10 + gap in offsets(log, tmp_path)
        result = kfmt("salvage", tmp_path / "00000000000000000000.log", tmp_path / f"made-{size}")
        assert result.code in (0, 1), result.err
        lines = kfmt("cat", "--json", tmp_path / f"made-{size}").out.splitlines()
        assert 10 + gap in {json.loads(line).get("offset") for line in lines}


def zero_ended() -> tuple[list[bytes], int]:
    """The batches of the sample, and the index of one that ends with a zero: no headers."""
    data = ORDERS.read_bytes()
    batches = [data[a:b] for a, b in pairwise(positions(data))]
    return batches, next(i for i, batch in enumerate(batches) if i and not batch[-1])


def test_a_batch_that_lacks_its_last_zero_hides_no_other(tmp_path: Path) -> None:
    batches, damaged_index = zero_ended()
    log = b"".join(
        [*batches[:damaged_index], batches[damaged_index][:-1], *batches[damaged_index + 1 :]]
    )
    assert offsets(log, tmp_path) == offsets(ORDERS.read_bytes(), tmp_path / "whole")


def test_a_batch_that_lacks_up_to_seven_zeros_hides_no_other(tmp_path: Path) -> None:
    """Its last record has a value of zeros, without headers."""
    result = kfmt("build", "-", tmp_path / "zeros-0", stdin=_line(bytes(40)).encode())
    assert result.code == 0, result.err
    (log,) = (tmp_path / "zeros-0").glob("*.log")
    first = log.read_bytes()
    second = bytearray(first)
    second[7] = 1  # the offset, which no checksum covers
    for n_missing in range(1, 8):
        read_offsets = offsets(first[:-n_missing] + bytes(second), tmp_path / str(n_missing))
        assert read_offsets == {0, 1}
    assert offsets(first[:-8] + bytes(second), tmp_path / "8") == {1}


def _line(value: bytes) -> str:
    row = {"type": "record", "offset": 0, "timestamp": 0, "key": None}
    return json.dumps({**row, "value": value.decode()}) + "\n"


def test_a_pipe_with_a_batch_cut_short_is_read_the_same() -> None:
    batches, damaged_index = zero_ended()
    log = b"".join(
        [*batches[:damaged_index], batches[damaged_index][:-1], *batches[damaged_index + 1 :]]
    )
    assert kfmt("verify-crc", "-", stdin=log).code == 1
    output = kfmt("dump", "--json", "-", stdin=log).out
    assert [json.loads(line)["type"] for line in output.splitlines()].count("batch") == len(batches)


CORPUS = Path(__file__).parent.parent / "corpus/lost"


@pytest.mark.parametrize(
    "directory", sorted(CORPUS.iterdir()), ids=lambda directory: directory.name
)
def test_what_was_once_lost_in_a_damaged_log_is_read(directory: Path) -> None:
    """Logs of `tools/fuzz_damage.py`, and the positions and sizes of their undamaged batches."""
    (log,) = directory.glob("*.log")
    undamaged = json.loads((directory / "undamaged.json").read_text())
    lines = kfmt("dump", "--json", log).out.splitlines()
    rows = [json.loads(line) for line in lines]
    undamaged_rows = [[row["position"], row["size"]] for row in rows if row.get("crc_valid")]
    assert undamaged_rows == undamaged
