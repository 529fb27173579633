"""Which batches get an entry in the indexes."""

from __future__ import annotations

import numpy as np
import pytest

from kfmt_cli.broker.log_recovery import IndexBuilder
from kfmt_cli.checks.index.entry_rules import ORDER_RULES
from kfmt_cli.disk.kinds.fixed_size_rows import TIME_INDEX_KIND
from kfmt_cli.formats.index import TIME_INDEX_ENTRY
from kfmt_cli.rows.log_tables import EntryTable


@pytest.mark.parametrize(
    ("positions", "n_entries"),
    [([0, 4096], 0), ([0, 4097], 1), ([0, 4096, 8193], 1), ([0, 4097, 8193], 1)],
)
def test_an_entry_needs_more_than_the_interval(positions: list[int], n_entries: int) -> None:
    builder = IndexBuilder(0, index_interval_bytes=4096)
    offsets = np.arange(len(positions))
    builder.add_batches(np.array(positions), offsets, offsets + 1000)
    assert builder.n_offset_entries == n_entries


@pytest.mark.parametrize("previous", [-1, 0, 5])
def test_the_largest_timestamp_there_is_gets_its_entry(previous: int) -> None:
    builder = IndexBuilder(0, index_interval_bytes=100)
    largest = 2**63 - 1
    times = np.array([previous, largest, 7])
    assert builder.count_fitting_batches(np.array([0, 200, 400]), times, 1000) == 3
    builder.add_batches(np.array([0, 200, 400]), np.array([0, 1, 2]), times)
    entries = np.frombuffer(builder.encode_time_index(), TIME_INDEX_ENTRY.dtype)
    assert entries.tolist() == [(largest, 1)]


def test_entries_far_apart_are_in_order() -> None:
    times = np.array([-2, 2**63 - 1, -(2**63)])
    table = EntryTable.zeros(3)
    table.timestamp, table.offset = times, np.arange(3)
    assert ORDER_RULES[TIME_INDEX_KIND].is_broken(table).tolist() == [False, True]
