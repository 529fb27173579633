"""Records read for checks without rows: the findings are the same as with them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.log.offset_range import OffsetRange
from kfmt_cli.checks.registry import create_log_checks
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.source import BytesSource
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.log.block import Block, split_runs
from kfmt_cli.log.decoding import read_lazy_records, read_records
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.records import LazyRecordColumns, RecordColumns
from kfmt_cli.rows.log_tables import READ_COLUMN_INDEX
from tests.support.rebuild import with_crc
from tests.support.samples import ORDERS, TXN, UPGRADED

LIMIT = DecompressionLimit()
ReadRecords = Callable[[Block, DecompressionLimit], RecordColumns]
# Offsets, timestamps and their deltas, up to values that overflow.
EXTREME_VALUES = (-(1 << 63), -(1 << 62) - 1, -1, 0, 1, 5, 1 << 61, (1 << 62) + 1, (1 << 63) - 1)
DELTAS = (-(1 << 31), -1, 0, 1, 2, 3, (1 << 31) - 1)


def random_batch(rng: random.Random) -> bytes:
    """A batch of a few records with a valid checksum; many are malformed in some way."""
    n = rng.randrange(6)
    records = b"".join(
        RECORD.encode_row(
            {
                "attributes": 0,
                "timestamp_delta": rng.choice(EXTREME_VALUES) if rng.random() < 0.2 else i,
                "offset_delta": rng.choice(DELTAS) if rng.random() < 0.2 else i,
                "key": None,
                "value": b"v",
                "headers": [{"key": b"k", "value": b""}] * rng.choice([0, 0, 1, 1500]),
            }
        )
        for i in range(n)
    )
    times = [rng.choice(EXTREME_VALUES) if rng.random() < 0.2 else 1000 for _ in range(2)]
    if rng.random() < 0.5:
        times[1] = 1000 + max(n - 1, 0)
    base = rng.choice(EXTREME_VALUES) if rng.random() < 0.2 else 7
    count = rng.choice([n, n, n, n + 1, 0])
    body = struct.pack(">HiqqqhiI", 0, max(n - 1, 0), *times, -1, -1, -1, count & 0xFFFFFFFF)
    tail = b"\1" * (rng.random() < 0.1)
    size = 9 + len(body) + len(records) + len(tail)
    return with_crc(struct.pack(">qiibI", base, size, 0, 2, 0) + body + records + tail)


def check_records(data: bytes, read: ReadRecords) -> tuple[list[Finding], OffsetRange, int]:
    """The findings of the record checks, the offset range and the number of records."""
    checks, offset_range, n = create_log_checks(Scope.RECORDS, 0), OffsetRange(), 0
    findings: list[Finding] = []
    for block in LogReader(BytesSource(data, "x.log"), 0).iter_blocks():
        for run in split_runs(block):
            records = read(run, LIMIT)
            findings += records.findings
            findings += [finding for check in checks for finding in check.check_block(run, records)]
            offset_range.add_batches(run, records)
            n += len(records)
    return findings, offset_range, n


@pytest.mark.parametrize("seed", range(300))
def test_checks_find_the_same_without_rows(seed: int) -> None:
    rng = random.Random(seed)
    data = b"".join(random_batch(rng) for _ in range(rng.randrange(1, 5)))
    assert check_records(data, read_lazy_records) == check_records(data, read_records)


def test_each_batch_may_rise_or_not() -> None:
    """The batches above are of both kinds, and some have findings of each code."""
    codes: set[str] = set()
    n_lazy = 0
    for seed in range(300):
        rng = random.Random(seed)
        data = b"".join(random_batch(rng) for _ in range(rng.randrange(1, 5)))
        codes |= {finding.code.name for finding in check_records(data, read_lazy_records)[0]}
        for block in LogReader(BytesSource(data, "x.log"), 0).iter_blocks():
            n_lazy += isinstance(read_lazy_records(block, LIMIT), LazyRecordColumns)
    assert 50 < n_lazy < 250
    assert codes == {
        *("record-offsets-backwards", "record-offset-out-of-batch", "max-timestamp-mismatch"),
        *("records-count-mismatch", "record-malformed"),
    }


@pytest.mark.parametrize("log", [ORDERS, TXN, UPGRADED])
def test_rows_are_read_on_demand(log: Path) -> None:
    for block in LogReader(BytesSource(log.read_bytes(), "x.log"), 0).iter_blocks():
        for run in split_runs(block):
            lazy, full = read_lazy_records(run, LIMIT), read_records(run, LIMIT)
            assert equal(lazy.row_ends, full.row_ends)
            assert equal(lazy.record_ranges.data, full.record_ranges.data)
            for name in READ_COLUMN_INDEX:
                assert equal(lazy.rows[name], full.rows[name])
            assert lazy.data == full.data


def equal(left: IntArray, right: IntArray) -> bool:
    return bool((left == right).all())
