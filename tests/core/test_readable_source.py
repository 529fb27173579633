"""Everything around unreadable bytes is read."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.core.filled_source import FILLER_BYTE, FilledSource, UnreadableRanges
from kfmt_cli.core.source import MIN_PREFETCH_FILE_BYTES, BytesSource, FileSource, TruncatedSource
from kfmt_cli.errors import InputError, UnreadableBytesError

UNIT_BYTES = 16
DATA = bytes(range(200))


class FailingSource(BytesSource):
    """Some units are unreadable: a read stops before one and fails inside one."""

    unreadable_block_bytes = UNIT_BYTES

    def __init__(self, lost_units: frozenset[int]) -> None:
        super().__init__(DATA, "file")
        self._lost_units = lost_units

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        end = min(position + length, len(DATA))
        lost_positions = [
            unit * UNIT_BYTES
            for unit in self._lost_units
            if position < (unit + 1) * UNIT_BYTES and unit * UNIT_BYTES < end
        ]
        end = min([end, *lost_positions])
        if lost_positions and end < position + max(min_length, 1):
            raise UnreadableBytesError("lost", max(end, position))
        return DATA[position:end]


unit_sets = st.frozensets(st.integers(0, len(DATA) // UNIT_BYTES))
read_ranges = st.tuples(st.integers(0, 220), st.integers(1, 220), st.integers(0, 220))


@given(unit_sets, st.lists(read_ranges, max_size=9))
def test_each_byte_is_read_or_filled(
    lost_units: frozenset[int], ranges: list[tuple[int, ...]]
) -> None:
    expected = b"".join(
        FILLER_BYTE * len(DATA[start : start + UNIT_BYTES])
        if start // UNIT_BYTES in lost_units
        else DATA[start : start + UNIT_BYTES]
        for start in range(0, len(DATA), UNIT_BYTES)
    )
    unreadable = UnreadableRanges()
    for position, length, limit in ranges:
        min_length = min(length, limit)
        data = FilledSource(FailingSource(lost_units), unreadable).read_block(
            position, length, min_length
        )
        assert data == expected[position : position + len(data)]
        assert len(data) >= min(max(min_length, 1), max(0, len(DATA) - position))
        assert len(data) <= length
    assert {interval.start // UNIT_BYTES for interval in unreadable.ranges} <= lost_units
    assert unreadable.ranges == sorted(unreadable.ranges, key=lambda interval: interval.start)


def test_other_errors_are_not_filled() -> None:
    class MissingSource(BytesSource):
        def read_block(self, position: int, length: int, min_length: int) -> bytes:
            raise InputError(f"file byte {position}: not {length} bytes, nor {min_length}")

    with pytest.raises(InputError, match=r"^file byte 0: not 1 bytes, nor 1$"):
        FilledSource(MissingSource(DATA, "file"), UnreadableRanges()).read_block(0, 1, 1)


def test_a_window_has_the_loss_unit_of_its_source() -> None:
    assert TruncatedSource(FailingSource(frozenset()), 10).unreadable_block_bytes == UNIT_BYTES


def test_a_read_ahead_that_failed_is_not_kept(tmp_path: Path) -> None:
    """The next read of the block goes to the disk."""
    path = tmp_path / "file"
    path.write_bytes(DATA * (MIN_PREFETCH_FILE_BYTES // len(DATA) + 1))
    source = FileSource(os.open(path, os.O_RDONLY), "file")
    failing: Future[bytes] = Future()
    failing.set_exception(OSError(errno.EIO, "Input/output error"))
    source._prefetched_block = 0, 10, failing
    with pytest.raises(UnreadableBytesError):
        source.read_block(0, 10, 10)
    assert source.read_block(0, 10, 10) == DATA[:10]
    source.close()
