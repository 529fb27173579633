"""What the logs of a partition tell of their producers, within a log and from one to the next."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import with_bytes, write

PRODUCER_AT = 43  # its id, its epoch and the base sequence
LARGEST = (1 << 31) - 1  # sequence; 0 follows


def batch(offset: int, sequence: int) -> bytes:
    """A batch of producer 7 with one record."""
    data = batch_of(record(b"k", b"v"), 0, 1, offset)
    return with_crc(with_bytes(data, PRODUCER_AT, struct.pack(">qhi", 7, 0, sequence)))


def of_producers(folder: Path) -> list[str]:
    """What check finds about sequences."""
    codes = kfmt("check", folder, "--json").codes
    return [code.removeprefix("producer-sequence-") for code in codes if "producer" in code]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        *((10, 0, ["repeated"]), (10, 9, ["repeated"]), (10, 10, ["repeated"])),
        *((10, 11, []), (10, 12, ["gap"]), (10, 500, ["gap"])),
        *((LARGEST, LARGEST, ["repeated"]), (LARGEST, 0, []), (LARGEST, 1, ["gap"])),
    ],
)
def test_only_missing_offsets_excuse_a_sequence_and_never_one_that_is_repeated(
    before: int, after: int, found: list[str], tmp_path: Path
) -> None:
    """Compaction takes batches away; it writes none again."""
    compacted = [code for code in found if code == "repeated"]
    # The offset of the second batch, after that of the first, 20.
    for offset, expected in ((21, found), (22, compacted), (900, compacted)):
        one, other = batch(20, before), batch(offset, after)
        together, apart = (tmp_path / f"{name}-{offset}" for name in ("together", "apart"))
        write(together, one + other, f"{20:020}.log")
        write(apart, one, f"{20:020}.log")
        write(apart, other, f"{offset:020}.log")
        assert [of_producers(together), of_producers(apart)] == [expected, expected], offset


def test_segments_that_overlap_excuse_no_gap_of_a_sequence(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0, 10) + batch(1, 11), f"{0:020}.log")
    write(tmp_path / "t-0", batch(1, 20), f"{1:020}.log")
    assert of_producers(tmp_path / "t-0") == ["gap"]
