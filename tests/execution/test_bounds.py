"""Bounds of offsets and of time select the batches with records in the bounds, and no others."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.log.block import Block, split_runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.selection import Selection
from tests.support.rebuild import batch_of, record
from tests.support.samples import UPGRADED, every_log, kfmt, sample_name
from tests.support.segments import positions, with_bytes, write
from tools.kafka import SAMPLES

LIMIT = DecompressionLimit()
MAGIC_0 = SAMPLES / "kafka-2.8.2/v0-none-0/00000000000000000000.log"
WRAPPERS_0 = SAMPLES / "kafka-2.8.2/v0-gzip-0/00000000000000000000.log"
LOGS = [log for log in every_log() if 0 < log.stat().st_size < 200_000]


def read_blocks(file: Path) -> Iterator[Block]:
    source = open_source(str(file))
    try:
        yield from LogReader(source).iter_blocks()
    finally:
        source.close()


def decode_runs(file: Path) -> Iterator[tuple[Block, RecordColumns]]:
    for block in read_blocks(file):
        for run in split_runs(block):
            yield run, read_records(run, LIMIT)


def select_rows(file: Path, selection: Selection) -> tuple[list[int], list[int]]:
    """The positions of the selected batches, and the offsets of the selected records."""
    batch_positions: list[int] = []
    offsets: list[int] = []
    for block in read_blocks(file):
        for run in split_runs(selection.select_batches(block)):
            selected_run, records = selection.select_records(run, read_records(run, LIMIT))
            assert len(records.row_ends) == len(selected_run.batches)
            batch_positions += selected_run.batches["position"].tolist()
            offsets += records.rows["offset"].tolist()
    return batch_positions, offsets


def test_wrappers_that_hold_no_wanted_offset_are_not_shown() -> None:
    bounds = ("--from-offset", "150", "--to-offset", "155")
    rows = kfmt("dump", UPGRADED, *bounds, "--json").rows
    assert [(row["base_offset"], row["last_offset"]) for row in rows] == [(150, 159)]
    result = kfmt("dump", UPGRADED, "--records", *bounds, "--json")
    assert [row["position"] for row in result.of("batch")] == [rows[0]["position"]]
    assert [row["offset"] for row in result.of("record")] == list(range(150, 156))


@pytest.mark.parametrize("file", LOGS, ids=sample_name)
def test_what_is_selected_is_what_can_hold_a_wanted_offset(file: Path) -> None:
    offset_ranges: list[tuple[int, int, int]] = []
    all_offsets: list[int] = []
    for run, records in decode_runs(file):
        rows = run.batches
        assert (rows["has_base_offset"] == 1).all()
        columns = (rows[name].tolist() for name in ("position", "base_offset", "last_offset"))
        offset_ranges += zip(*columns, strict=True)
        all_offsets += records.rows["offset"].tolist()
    low, high = min(all_offsets), max(all_offsets)
    middle = (low + high) // 2
    for first, last in (
        *((low, low), (high, high), (middle, middle), (middle - 3, middle + 4)),
        *((None, middle), (middle, None), (low - 9, low - 1), (high + 1, None)),
    ):
        selection = Selection(first, last)
        minimum, maximum = (-1 if first is None else first), (1 << 62 if last is None else last)
        expected = [
            position
            for position, begin, end in offset_ranges
            if begin <= maximum and end >= minimum
        ]
        offsets = [offset for offset in all_offsets if minimum <= offset <= maximum]
        assert select_rows(file, selection) == (expected, offsets)
        actual = [
            position
            for block in read_blocks(file)
            for position in selection.select_batches(block, LIMIT).batches["position"].tolist()
        ]
        assert actual == expected


@pytest.mark.parametrize("file", LOGS, ids=sample_name)
def test_rows_in_a_time_are_those_that_have_one_in_it(file: Path) -> None:
    rows: list[tuple[int, int]] = []
    n_records = 0
    for _, records in decode_runs(file):
        table = records.rows
        n_records += len(table)
        timed = (table["has_timestamp"] == 1) & (table["timestamp"] != -1)
        columns = (table[name][timed].tolist() for name in ("offset", "timestamp"))
        rows += zip(*columns, strict=True)
    times = sorted(time for _, time in rows) or [1_700_000_000_000]
    for first, last in (
        *((None, times[-1]), (times[0], None), (times[0], times[0])),
        *((times[len(times) // 2], times[-1] - 1), (None, times[0] - 1), (None, 1 << 62)),
    ):
        minimum = -(1 << 62) if first is None else first
        maximum = 1 << 62 if last is None else last
        expected = [offset for offset, time in rows if minimum <= time <= maximum]
        assert select_rows(file, Selection(None, None, first, last))[1] == expected
    assert len(select_rows(file, Selection())[1]) == n_records


@pytest.mark.parametrize("file", [MAGIC_0, WRAPPERS_0], ids=sample_name)
@pytest.mark.parametrize("bounds", [(0, None), (None, 1 << 60), (-(1 << 60), 1 << 60)])
def test_magic_0_is_outside_of_any_time(file: Path, bounds: tuple[int | None, int | None]) -> None:
    assert select_rows(file, Selection(None, None, *bounds)) == ([], [])


def test_a_batch_without_timestamps_is_outside_of_any_time(tmp_path: Path) -> None:
    batch = batch_of(record(b"k", b"v"), 0, 1)
    untimed = with_bytes(batch, 27, struct.pack(">qq", -1, -1))
    file = write(tmp_path, untimed)
    assert select_rows(file, Selection(None, None, None, 5000)) == ([], [])
    assert select_rows(file, Selection(0, 0)) == ([0], [0])


def test_offsets_and_times_together() -> None:
    log = SAMPLES / "kafka-3.9.1-broker1/orders-0/00000000000000000000.log"
    times = np.concatenate([records.rows["timestamp"] for _, records in decode_runs(log)]).tolist()
    middle = sorted(times[50:100])[25]
    _, offsets = select_rows(log, Selection(50, 99, None, middle))
    assert offsets == [offset for offset in range(50, 100) if times[offset] <= middle]


def test_a_wrapper_that_cannot_be_decompressed_may_hold_anything(tmp_path: Path) -> None:
    data = WRAPPERS_0.read_bytes()
    starts = positions(data)
    magic = data.index(b"\x1f\x8b", starts[5])
    file = write(tmp_path, with_bytes(data, magic, b"no"))
    result = kfmt("dump", file, "--to-offset", "0", "--json")
    assert [row["position"] for row in result.of("batch")] == [starts[0], starts[5]]
    assert result.of("batch")[1]["base_offset"] is None


def test_overlapping_wrappers_are_both_shown(tmp_path: Path) -> None:
    """kfmt reads each wrapper itself: the previous one does not determine where it begins."""
    data = (SAMPLES / "kafka-2.8.2/v1-gzip-0/00000000000000000000.log").read_bytes()
    starts = positions(data)
    offset = struct.unpack_from(">q", data, starts[3])[0]
    previous_offset = struct.unpack_from(">q", data, starts[2])[0]
    file = write(tmp_path, with_bytes(data, starts[3], struct.pack(">q", offset - 3)))
    bounds = ("--from-offset", str(previous_offset), "--to-offset", str(previous_offset), "--json")
    for options in ([], ["--records"]):
        result = kfmt("dump", file, *options, *bounds)
        assert [row["position"] for row in result.of("batch")] == [starts[2], starts[3]]


def test_no_bound_selects_everything_and_is_false() -> None:
    assert not Selection()
    assert all((Selection(0), Selection(None, 0), Selection(first_time=0), Selection(last_time=0)))
    block = next(read_blocks(UPGRADED))
    assert Selection().select_batches(block, LIMIT) is block


def test_compressed_records_are_selected_after_they_were_inflated(tmp_path: Path) -> None:
    compressed = [gzip.compress(record(b"k", b"v" * 3000)) for _ in range(5)]
    file = write(tmp_path, b"".join(batch_of(data, 1, 1, i) for i, data in enumerate(compressed)))
    result = kfmt("dump", "--records", file, "--from-offset", "2", "--to-offset", "3", "--json")
    assert [row["offset"] for row in result.of("record")] == [2, 3]
    assert [row["base_offset"] for row in result.of("batch")] == [2, 3]
