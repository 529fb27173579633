"""`stat --sample`: what slices say of all, without a byte in the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, Row, kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
PIECE = (BROKER / "replicated-0" / f"{0:020}.log").read_bytes()
TIMES = 80


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two partitions: many small batches, and a few larger ones."""
    for name, piece, times in (("small-0", PIECE, TIMES), ("large-0", ORDERS.read_bytes(), 200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(piece * times)
    return tmp_path


def numbers(*arguments: str | Path) -> dict[str, Row]:
    """The rows, by topic."""
    done = kfmt("stat", *arguments, "--json")
    assert done.code == 0, done.err
    return {row["topic"]: row for row in done.of("stat")}


def test_what_slices_say_is_near_to_what_is_there(folder: Path) -> None:
    everything, sampled = numbers(folder), numbers(folder, "--sample", "8M")
    for topic, row in sampled.items():
        exact = everything[topic]
        assert row["bytes"] == exact["bytes"]
        assert 0 < row["sampled_bytes"] < exact["bytes"]
        assert 0 <= row["sample_error"] < 0.05
        for name in ("records", "batches"):
            assert row[name] == pytest.approx(exact[name], rel=max(row["sample_error"], 0.01))
        assert row["codecs"].keys() == exact["codecs"].keys()
        assert exact["sampled_bytes"] is exact["sample_error"] is None
    again = numbers(folder, "--sample", "8M")
    assert again == sampled
    shown = kfmt("stat", folder, "--sample", "8M").out
    assert ", bypassing the page cache; totals are extrapolated" in shown
    assert "± (95%)" in shown


def test_a_sample_of_everything_is_exact() -> None:
    everything, sampled = numbers(BROKER), numbers(BROKER, "--sample", "1G")
    same = ("bytes", "batches", "records", "codecs", "first_offset", "last_offset", "producers")
    for topic, row in sampled.items():
        assert [row[name] for name in same] == [everything[topic][name] for name in same], topic
        assert row["sample_error"] == 0
        assert row["sampled_bytes"] == row["bytes"]


def test_what_no_slice_lies_in_is_not_known(folder: Path) -> None:
    (folder / "tiny-0").mkdir()
    (folder / "tiny-0" / f"{0:020}.log").write_bytes(PIECE[:3000])
    row = numbers(folder, "--sample", "256K")["tiny"]
    assert (row["bytes"], row["sampled_bytes"]) == (3000, 0)
    assert row["records"] is row["batches"] is row["sample_error"] is row["producers"] is None
    line = next(
        line
        for line in kfmt("stat", folder, "--sample", "256K").out.splitlines()
        if "tiny-0" in line
    )
    assert "–" in line


def test_damage_costs_no_more_than_its_slices(tmp_path: Path) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(PIECE * 80 + b"\0" * (len(PIECE) * 80) + PIECE * 80)
    row = numbers(tmp_path, "--sample", "16M")["t"]
    exact = numbers(tmp_path)["t"]
    assert row["records"] == pytest.approx(exact["records"], rel=max(row["sample_error"], 0.02))
    assert row["sample_error"] < 0.2
    log.write_bytes(b"\0" * (1 << 22))
    assert numbers(tmp_path, "--sample", "1M")["t"]["records"] == 0


def test_space_that_was_never_written_is_not_sampled(tmp_path: Path) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(PIECE * TIMES)
    exact = numbers(tmp_path)["t"]
    os.truncate(log, 1 << 30)
    row = numbers(tmp_path, "--sample", "4M")["t"]
    assert row["records"] == pytest.approx(exact["records"], rel=0.05)
    assert row["sample_error"] < 0.05
    assert numbers(tmp_path, "--sample", "1G")["t"]["records"] == exact["records"]


def resident(path: Path) -> int:
    """Bytes of a file in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        with mmap.mmap(
            file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
        ) as at:
            pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
            start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(at)))
            assert libc.mincore(start, ctypes.c_size_t(size), pages) == 0
            return sum(page & 1 for page in pages) * mmap.PAGESIZE


def test_the_page_cache_stays_as_it_is(folder: Path) -> None:
    log = folder / "small-0" / f"{0:020}.log"
    with log.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident(log):
        pytest.skip("the files of this directory are in memory in any case")
    assert numbers(folder, "--sample", "8M")["small"]["records"]
    assert resident(log) == 0
    numbers(folder)
    assert resident(log) > 0


def test_what_a_sample_cannot_say() -> None:
    for options in (("--deep",), ("--key", "a"), ("--what-if", "zstd"), ("--last", "3")):
        done = kfmt("stat", ORDERS, "--sample", "1M", *options)
        assert done.code == 2
        assert "--sample reads batch headers only" in done.err
    assert kfmt("stat", "-", "--sample", "1M").code == 2
