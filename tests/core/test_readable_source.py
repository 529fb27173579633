"""Around bytes that are lost, everything else is read."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.core.filled_source import FILLER_BYTE, FilledSource, UnreadableRanges
from kfmt_cli.core.source import MIN_PREFETCH_BYTES, BytesSource, FileSource, SourceWindow
from kfmt_cli.errors import InputError, UnreadableBytesError

UNIT = 16
DATA = bytes(range(200))


class FailingSource(BytesSource):
    """Units of it are lost: a read up to one is short, and one that begins in one fails."""

    loss_unit_bytes = UNIT

    def __init__(self, lost: frozenset[int]) -> None:
        super().__init__(DATA, "file")
        self._lost = lost

    def read_block(self, position: int, length: int, least: int) -> bytes:
        end = min(position + length, len(DATA))
        lost = [n * UNIT for n in self._lost if position < (n + 1) * UNIT and n * UNIT < end]
        end = min([end, *lost])
        if lost and end < position + max(least, 1):
            raise UnreadableBytesError("lost", max(end, position))
        return DATA[position:end]


units = st.frozensets(st.integers(0, len(DATA) // UNIT))
reads = st.tuples(st.integers(0, 220), st.integers(1, 220), st.integers(0, 220))


@given(units, st.lists(reads, max_size=9))
def test_each_byte_is_its_own_or_filler(lost: frozenset[int], asked: list[tuple[int, ...]]) -> None:
    expected = b"".join(
        FILLER_BYTE * len(DATA[at : at + UNIT]) if at // UNIT in lost else DATA[at : at + UNIT]
        for at in range(0, len(DATA), UNIT)
    )
    known = UnreadableRanges()
    for position, length, more in asked:
        least = min(length, more)
        found = FilledSource(FailingSource(lost), known).read_block(position, length, least)
        assert found == expected[position : position + len(found)]
        assert len(found) >= min(max(least, 1), max(0, len(DATA) - position))
        assert len(found) <= length
    assert {each.start // UNIT for each in known.ranges} <= lost
    assert known.ranges == sorted(known.ranges, key=lambda each: each.start)


def test_other_errors_are_not_filled() -> None:
    class Gone(BytesSource):
        def read_block(self, position: int, length: int, min_length: int) -> bytes:
            raise InputError(f"file byte {position}: not {length} bytes, nor {min_length}")

    with pytest.raises(InputError, match=r"^file byte 0: not 1 bytes, nor 1$"):
        FilledSource(Gone(DATA, "file"), UnreadableRanges()).read_block(0, 1, 1)


def test_a_window_loses_what_its_source_loses_together() -> None:
    assert SourceWindow(FailingSource(frozenset()), 10).loss_unit_bytes == UNIT


def test_a_read_ahead_that_failed_is_not_kept(tmp_path: Path) -> None:
    """The next read of the block asks the disk again."""
    path = tmp_path / "file"
    path.write_bytes(DATA * (MIN_PREFETCH_BYTES // len(DATA) + 1))
    source = FileSource(os.open(path, os.O_RDONLY), "file")
    failing: Future[bytes] = Future()
    failing.set_exception(OSError(errno.EIO, "Input/output error"))
    source._prefetched = 0, 10, failing
    with pytest.raises(UnreadableBytesError):
        source.read_block(0, 10, 10)
    assert source.read_block(0, 10, 10) == DATA[:10]
    source.close()
