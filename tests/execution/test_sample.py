"""`stat --sample`: totals estimated from byte ranges, without a byte in the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, Row, kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
LOG_DATA = (BROKER / "replicated-0" / f"{0:020}.log").read_bytes()
REPETITIONS = 80


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """Two partitions: many small batches, and a few larger ones."""
    for name, data, times in (
        ("small-0", LOG_DATA, REPETITIONS),
        ("large-0", ORDERS.read_bytes(), 200),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(data * times)
    return tmp_path


def stat_rows(*arguments: str | Path) -> dict[str, Row]:
    """The rows, by topic."""
    result = kfmt("stat", *arguments, "--json")
    assert result.code == 0, result.err
    return {row["topic"]: row for row in result.of("stat")}


def test_totals_of_a_sample_are_near_to_the_exact_ones(log_directory: Path) -> None:
    exact_rows, sampled = stat_rows(log_directory), stat_rows(log_directory, "--sample", "8M")
    for topic, row in sampled.items():
        exact = exact_rows[topic]
        assert row["bytes"] == exact["bytes"]
        assert 0 < row["sampled_bytes"] < exact["bytes"]
        assert 0 <= row["sample_error"] < 0.05
        for name in ("records", "batches"):
            assert row[name] == pytest.approx(exact[name], rel=max(row["sample_error"], 0.01))
        assert row["codecs"].keys() == exact["codecs"].keys()
        assert exact["sampled_bytes"] is exact["sample_error"] is None
    again = stat_rows(log_directory, "--sample", "8M")
    assert again == sampled
    text = kfmt("stat", log_directory, "--sample", "8M").out
    assert ", bypassing the page cache; totals are extrapolated" in text
    assert "± (95%)" in text


def test_a_sample_of_everything_is_exact() -> None:
    exact_rows, sampled = stat_rows(BROKER), stat_rows(BROKER, "--sample", "1G")
    columns = ("bytes", "batches", "records", "codecs", "first_offset", "last_offset", "producers")
    for topic, row in sampled.items():
        assert [row[name] for name in columns] == [exact_rows[topic][name] for name in columns], (
            topic
        )
        assert row["sample_error"] == 0
        assert row["sampled_bytes"] == row["bytes"]


def test_totals_of_partitions_that_are_not_sampled_are_unknown(log_directory: Path) -> None:
    (log_directory / "tiny-0").mkdir()
    (log_directory / "tiny-0" / f"{0:020}.log").write_bytes(LOG_DATA[:3000])
    row = stat_rows(log_directory, "--sample", "256K")["tiny"]
    assert (row["bytes"], row["sampled_bytes"]) == (3000, 0)
    assert row["records"] is row["batches"] is row["sample_error"] is row["producers"] is None
    line = next(
        line
        for line in kfmt("stat", log_directory, "--sample", "256K").out.splitlines()
        if "tiny-0" in line
    )
    assert "–" in line


def test_damage_costs_no_more_than_its_slices(tmp_path: Path) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(LOG_DATA * 80 + b"\0" * (len(LOG_DATA) * 80) + LOG_DATA * 80)
    row = stat_rows(tmp_path, "--sample", "16M")["t"]
    exact = stat_rows(tmp_path)["t"]
    assert row["records"] == pytest.approx(exact["records"], rel=max(row["sample_error"], 0.02))
    assert row["sample_error"] < 0.2
    log.write_bytes(b"\0" * (1 << 22))
    assert stat_rows(tmp_path, "--sample", "1M")["t"]["records"] == 0


def test_space_that_was_never_written_is_not_sampled(tmp_path: Path) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(LOG_DATA * REPETITIONS)
    exact = stat_rows(tmp_path)["t"]
    os.truncate(log, 1 << 30)
    row = stat_rows(tmp_path, "--sample", "4M")["t"]
    assert row["records"] == pytest.approx(exact["records"], rel=0.05)
    assert row["sample_error"] < 0.05
    assert stat_rows(tmp_path, "--sample", "1G")["t"]["records"] == exact["records"]


def resident(path: Path) -> int:
    """Bytes of a file in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        with mmap.mmap(
            file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
        ) as mapping:
            pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
            start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(mapping)))
            assert libc.mincore(start, ctypes.c_size_t(size), pages) == 0
            return sum(page & 1 for page in pages) * mmap.PAGESIZE


def test_the_page_cache_stays_as_it_is(log_directory: Path) -> None:
    log = log_directory / "small-0" / f"{0:020}.log"
    with log.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident(log):
        pytest.skip("the files of this directory are in memory in any case")
    assert stat_rows(log_directory, "--sample", "8M")["small"]["records"]
    assert resident(log) == 0
    stat_rows(log_directory)
    assert resident(log) > 0


def test_what_a_sample_cannot_say() -> None:
    for options in (("--deep",), ("--key", "a"), ("--what-if", "zstd"), ("--last", "3")):
        result = kfmt("stat", ORDERS, "--sample", "1M", *options)
        assert result.code == 2
        assert "--sample reads batch headers only" in result.err
    assert kfmt("stat", "-", "--sample", "1M").code == 2
