"""What missing offsets excuse: a hole of one offset is a hole, and no hole excuses nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.checks.test_history import batch
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import int32, with_bytes, write


def one_record_batch(offset: int) -> bytes:
    return batch_of(record(None, b"v"), 0, 1, offset)


def two_record_batch(offset: int, last_delta: int) -> bytes:
    """A batch of two records whose last offset exceeds the first by a delta."""
    data = batch_of(record(None, b"v") + record(None, b"v", last_delta), 0, 2, offset)
    return with_crc(with_bytes(data, 23, int32(last_delta)))


WITHOUT_HOLES = {
    "one batch": two_record_batch(0, 1),
    "two batches": one_record_batch(0) + one_record_batch(1),
    "three batches": one_record_batch(0) + two_record_batch(1, 1) + one_record_batch(3),
}
WITH_HOLES = {
    "in a batch": two_record_batch(0, 2),
    "a large one in a batch": two_record_batch(0, 900),
    "in the second batch": one_record_batch(0) + two_record_batch(1, 2),
    "between batches": one_record_batch(0) + one_record_batch(2),
    "between later batches": one_record_batch(0) + one_record_batch(1) + one_record_batch(3),
}


@pytest.mark.parametrize("case", [*WITHOUT_HOLES, *WITH_HOLES])
@pytest.mark.parametrize("command", ["verify-crc", "verify-crc --deep"])
def test_a_segment_is_missing_only_where_no_other_offset_is(
    case: str, command: str, tmp_path: Path
) -> None:
    write(tmp_path / "t-0", {**WITHOUT_HOLES, **WITH_HOLES}[case])
    write(tmp_path / "t-0", one_record_batch(5000), f"{5000:020}.log")
    codes = kfmt(*command.split(), tmp_path / "t-0", "--json").codes
    assert codes == (["segments-gap"] if case in WITHOUT_HOLES else [])


def test_each_missing_offset_between_segments_is_reported(tmp_path: Path) -> None:
    for second, offsets in ((1, [2]), (2, [1, 3])):
        for base in (0, second, 5000):
            write(tmp_path / f"{second}", one_record_batch(base), f"{base:020}.log")
        result = kfmt("verify-crc", tmp_path / f"{second}", "--json")
        assert result.codes == ["segments-gap"] * len(offsets)
        assert [finding["offset"] for finding in result.of("finding")] == offsets


ENTRY = struct.Struct(">qhiqiqiq")  # of a snapshot: see PRODUCER_SNAPSHOT


def snapshot(last_sequence: int, last_offset: int) -> bytes:
    """A snapshot with an entry of producer 7."""
    from crc32c import crc32c

    entries = struct.pack(">i", 1)
    entries += ENTRY.pack(7, 0, last_sequence, last_offset, 0, 0, -1, -1)
    return struct.pack(">hI", 1, crc32c(entries)) + entries


@pytest.mark.parametrize(
    ("offsets", "is_compared"),
    [((0, 1, 2), True), ((0, 1, 3), False), ((0, 2, 3), False), ((0, 1, 9), False)],
)
def test_a_snapshot_is_compared_with_a_log_without_holes(
    offsets: tuple[int, ...], is_compared: bool, tmp_path: Path
) -> None:
    directory = tmp_path / "t-0"
    data = b"".join(batch(offset, 10 + offset) for offset in offsets)
    write(directory, data)
    end = offsets[-1] + 1
    (directory / f"{end:020}.snapshot").write_bytes(snapshot(10 + offsets[-1], offsets[-1]))
    codes = kfmt("check", directory, "--json").codes
    assert [code for code in codes if code.startswith("snapshot")] == []
    (directory / f"{end:020}.snapshot").write_bytes(snapshot(11 + offsets[-1], offsets[-1]))
    codes = kfmt("check", directory, "--json").codes
    expected = ["snapshot-contradicted"] if is_compared else []
    assert [code for code in codes if code.startswith("snapshot")] == expected
