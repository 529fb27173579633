"""The dirty range of a log: where it begins and ends, and what forces a cleaning."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kfmt_cli.broker.log_cleaner import CleanerSegment, compute_dirty_range
from kfmt_cli.broker.log_reading.offset_map import OffsetMap
from tests.support.samples import kfmt
from tools.kafka import SAMPLES

# Four segments of different sizes; their records have the times 1000, 2000, 3000 and 4000.
SEGMENTS = [
    CleanerSegment(base, 1 << i, 1000 * (i + 1), 1000 * (i + 1) - 500)
    for i, base in enumerate((0, 10, 20, 30))
]
DEFAULTS: dict[str, Any] = {
    "checkpoint_offset": None,
    "log_start_offset": 0,
    "log_end_offset": 40,
    "last_stable_offset": 40,
    "min_compaction_lag_ms": 0,
    "max_compaction_lag_ms": 10**9,
    "now_ms": 10_000,
}
ACTIVE = "the active segment"
YOUNG = "records newer than min.compaction.lag.ms"


@pytest.mark.parametrize(
    ("changes", "first", "end", "reason", "clean", "dirty"),
    [
        ({}, 0, 30, ACTIVE, 0, 7),
        ({"checkpoint_offset": 10}, 10, 30, ACTIVE, 1, 6),
        (
            {"checkpoint_offset": 15},
            15,
            30,
            ACTIVE,
            3,
            6,
        ),  # within a segment, all of which is dirty
        ({"checkpoint_offset": 30}, 30, 30, ACTIVE, 7, 0),
        ({"checkpoint_offset": 40}, 40, 30, ACTIVE, 15, 0),
        ({"checkpoint_offset": 41}, 0, 30, ACTIVE, 0, 7),  # after the end: not of this log
        ({"checkpoint_offset": 5, "log_start_offset": 10}, 10, 30, ACTIVE, 1, 6),
        ({"checkpoint_offset": 10, "log_start_offset": 10}, 10, 30, ACTIVE, 1, 6),
        ({"last_stable_offset": 30}, 0, 30, ACTIVE, 0, 7),
        ({"last_stable_offset": 29}, 0, 20, "the last stable offset", 0, 3),
        ({"last_stable_offset": 20}, 0, 20, "the last stable offset", 0, 3),
        ({"last_stable_offset": 5}, 0, 0, "the last stable offset", 0, 0),
        ({"min_compaction_lag_ms": 6999}, 0, 30, ACTIVE, 0, 7),
        ({"min_compaction_lag_ms": 7000}, 0, 30, ACTIVE, 0, 7),  # as old as it must be
        ({"min_compaction_lag_ms": 7001}, 0, 20, YOUNG, 0, 3),
        ({"min_compaction_lag_ms": 9001}, 0, 0, YOUNG, 0, 0),
        ({"min_compaction_lag_ms": 9001, "checkpoint_offset": 20}, 20, 20, YOUNG, 3, 0),
        (
            {"min_compaction_lag_ms": 8001, "last_stable_offset": 5},
            0,
            0,
            "the last stable offset",
            0,
            0,
        ),
    ],
)
def test_the_dirty_range(
    changes: dict[str, Any], first: int, end: int, reason: str, clean: int, dirty: int
) -> None:
    dirty_range = compute_dirty_range(SEGMENTS, **DEFAULTS | changes)
    assert asdict(dirty_range) == {
        "first_dirty_offset": first,
        "first_uncleanable_offset": end,
        "uncleanable_reason": reason,
        "clean_bytes": clean,
        "dirty_bytes": dirty,
        "is_forced": False,
    }
    assert dirty_range.dirty_ratio == (dirty / (clean + dirty) if clean + dirty else 0.0)


@pytest.mark.parametrize(
    ("changes", "is_forced"),
    [
        # The first batch of the first dirty segment has the time 500, or 1500.
        *(
            ({"max_compaction_lag_ms": 9499}, True),
            ({"max_compaction_lag_ms": 9500}, False),
            ({"max_compaction_lag_ms": 0}, True),
        ),
        *(({"max_compaction_lag_ms": -1}, False), ({"max_compaction_lag_ms": 10_000}, False)),
        *(
            ({"max_compaction_lag_ms": 8499, "checkpoint_offset": 10}, True),
            ({"max_compaction_lag_ms": 8500, "checkpoint_offset": 10}, False),
        ),
        ({"max_compaction_lag_ms": 0, "checkpoint_offset": 30}, False),  # nothing is dirty
    ],
)
def test_records_older_than_the_longest_lag_force_a_cleaning(
    changes: dict[str, Any], is_forced: bool
) -> None:
    assert compute_dirty_range(SEGMENTS, **DEFAULTS | changes).is_forced is is_forced


def test_a_first_batch_without_a_time_forces_none() -> None:
    for first in (None, 0, -1):
        segments = [CleanerSegment(base, 1, 5, first) for base in (0, 10)]
        assert not compute_dirty_range(
            segments, **DEFAULTS | {"max_compaction_lag_ms": 0}
        ).is_forced
    segments = [CleanerSegment(base, 1, 5, 1) for base in (0, 10)]
    assert compute_dirty_range(segments, **DEFAULTS | {"max_compaction_lag_ms": 0}).is_forced


COUNTS = (
    *("records_kept", "records_removed", "replaced", "without_key", "of_aborted_transactions"),
    *("tombstones_kept", "markers_kept", "passes", "segments_before", "segments_after"),
)


@pytest.mark.parametrize(
    ("partition", "counts"),
    [
        ("orders-0", (111, 1389, 1183, 206, 0, 2, 0, 1, 7, 7)),
        ("txn-0", (209, 527, 342, 0, 185, 0, 90, 1, 3, 3)),
    ],
)
def test_what_a_cleaning_counts(partition: str, counts: tuple[int, ...]) -> None:
    """Every record is kept or removed, and for one reason."""
    directory = SAMPLES / "kafka-3.9.1-broker1" / partition
    (row,) = kfmt("compaction", directory, "--cleanup-policy", "compact", "--json").of("compaction")
    total = kfmt("stat", directory, "--json").of("stat")[0]["records"]
    assert row["records_kept"] + row["records_removed"] == total
    reasons = ("replaced", "without_key", "of_aborted_transactions")
    assert sum(row[name] for name in reasons) == row["records_removed"]
    for name, count in zip(COUNTS, counts, strict=True):
        assert row[name] == count, name


def test_a_cleaning_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    """Aborted transactions before it come from their index, not from their batches."""
    directory = tmp_path / "txn-0"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/txn-0", directory)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ntxn 0 357\n")
    (row,) = kfmt("compaction", directory, "--cleanup-policy", "compact", "--json").of("compaction")
    assert (row["first_dirty_offset"], row["first_uncleanable_offset"]) == (357, 635)
    assert row["records_kept"] + row["records_removed"] == 736
    assert row["clean_bytes"] == (directory / f"{0:020}.log").stat().st_size
    assert row["dirty_bytes"] == (directory / f"{357:020}.log").stat().st_size


def test_a_map_that_grows_keeps_the_latest_offset_of_each_key() -> None:
    n = 200_000
    keys = np.arange(1, n + 1, dtype=np.int64) * 7919
    grown, reserved = OffsetMap(), OffsetMap(expected_keys=2 * n)
    for map_ in (grown, reserved):
        assert map_.add_keys(keys, np.arange(n)) == n
        assert map_.add_keys(keys[::2].copy(), np.arange(n, n + n // 2)) == n // 2
        assert len(map_) == n
        expected = np.arange(n)
        expected[::2] = np.arange(n, n + n // 2)
        assert (map_.find_latest_offsets(keys) == expected).all()
        assert (map_.find_latest_offsets(-keys[:5]) == -1).all()


@pytest.mark.parametrize(("buffer", "capacity"), [(0, 0), (47, 0), (48, 1), (239, 8), (240, 9)])
def test_as_many_keys_fit_as_a_brokers_buffer_holds(buffer: int, capacity: int) -> None:
    """24 bytes each, of which nine in ten are used."""
    map_ = OffsetMap(buffer)
    assert map_.capacity == capacity
    keys = np.arange(1, 30, dtype=np.int64)
    assert map_.add_keys(keys, keys) == map_.capacity == len(map_)
