"""Records read for checks: without rows, and found the same as with them."""

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
Read = Callable[[Block, DecompressionLimit], RecordColumns]
# Offsets and timestamps, and their deltas, as far as they may wrap around.
WIDE = (-(1 << 63), -(1 << 62) - 1, -1, 0, 1, 5, 1 << 61, (1 << 62) + 1, (1 << 63) - 1)
DELTAS = (-(1 << 31), -1, 0, 1, 2, 3, (1 << 31) - 1)


def some_batch(rng: random.Random) -> bytes:
    """A batch of a few records with a valid checksum; many are wrong in some way."""
    n = rng.randrange(6)
    records = b"".join(
        RECORD.write(
            {
                "attributes": 0,
                "timestamp_delta": rng.choice(WIDE) if rng.random() < 0.2 else i,
                "offset_delta": rng.choice(DELTAS) if rng.random() < 0.2 else i,
                "key": None,
                "value": b"v",
                "headers": [{"key": b"k", "value": b""}] * rng.choice([0, 0, 1, 1500]),
            }
        )
        for i in range(n)
    )
    times = [rng.choice(WIDE) if rng.random() < 0.2 else 1000 for _ in range(2)]
    if rng.random() < 0.5:
        times[1] = 1000 + max(n - 1, 0)
    base = rng.choice(WIDE) if rng.random() < 0.2 else 7
    count = rng.choice([n, n, n, n + 1, 0])
    body = struct.pack(">HiqqqhiI", 0, max(n - 1, 0), *times, -1, -1, -1, count & 0xFFFFFFFF)
    tail = b"\1" * (rng.random() < 0.1)
    size = 9 + len(body) + len(records) + len(tail)
    return with_crc(struct.pack(">qiibI", base, size, 0, 2, 0) + body + records + tail)


def found(data: bytes, read: Read) -> tuple[list[Finding], OffsetRange, int]:
    """What the checks of records find, the extent and the number of records."""
    checks, extent, n = create_log_checks(Scope.RECORDS, 0), OffsetRange(), 0
    findings: list[Finding] = []
    for block in LogReader(BytesSource(data, "x.log"), 0).iter_blocks():
        for run in split_runs(block):
            records = read(run, LIMIT)
            findings += records.findings
            findings += [finding for check in checks for finding in check.check_block(run, records)]
            extent.add_batches(run, records)
            n += len(records)
    return findings, extent, n


@pytest.mark.parametrize("seed", range(300))
def test_checks_find_the_same_without_rows(seed: int) -> None:
    rng = random.Random(seed)
    data = b"".join(some_batch(rng) for _ in range(rng.randrange(1, 5)))
    assert found(data, read_lazy_records) == found(data, read_records)


def test_each_batch_may_rise_or_not() -> None:
    """The cases above are of both kinds, and some have findings of each code."""
    codes: set[str] = set()
    spanned = 0
    for seed in range(300):
        rng = random.Random(seed)
        data = b"".join(some_batch(rng) for _ in range(rng.randrange(1, 5)))
        codes |= {finding.code.name for finding in found(data, read_lazy_records)[0]}
        for block in LogReader(BytesSource(data, "x.log"), 0).iter_blocks():
            spanned += isinstance(read_lazy_records(block, LIMIT), LazyRecordColumns)
    assert 50 < spanned < 250
    assert codes == {
        *("record-offsets-backwards", "record-offset-out-of-batch", "max-timestamp-mismatch"),
        *("records-count-mismatch", "record-malformed"),
    }


@pytest.mark.parametrize("log", [ORDERS, TXN, UPGRADED])
def test_rows_are_read_when_somebody_asks(log: Path) -> None:
    for block in LogReader(BytesSource(log.read_bytes(), "x.log"), 0).iter_blocks():
        for run in split_runs(block):
            lazy, known = read_lazy_records(run, LIMIT), read_records(run, LIMIT)
            assert equal(lazy.row_ends, known.row_ends)
            assert equal(lazy.ranges.data, known.ranges.data)
            for name in READ_COLUMN_INDEX:
                assert equal(lazy.rows[name], known.rows[name])
            assert lazy.data == known.data


def equal(one: IntArray, other: IntArray) -> bool:
    return bool((one == other).all())
