"""What missing offsets excuse: a hole of one offset is a hole, and no hole excuses nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.checks.test_history import batch
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import int32, with_bytes, write


def one(offset: int) -> bytes:
    return batch_of(record(None, b"v"), 0, 1, offset)


def spread(offset: int, last_delta: int) -> bytes:
    """A batch of two records whose last offset is so much above its first."""
    data = batch_of(record(None, b"v") + record(None, b"v", last_delta), 0, 2, offset)
    return with_crc(with_bytes(data, 23, int32(last_delta)))


WITH_ALL = {
    "one batch": spread(0, 1),
    "two batches": one(0) + one(1),
    "three batches": one(0) + spread(1, 1) + one(3),
}
WITH_HOLES = {
    "in a batch": spread(0, 2),
    "a large one in a batch": spread(0, 900),
    "in the second batch": one(0) + spread(1, 2),
    "between batches": one(0) + one(2),
    "between later batches": one(0) + one(1) + one(3),
}


@pytest.mark.parametrize("what", [*WITH_ALL, *WITH_HOLES])
@pytest.mark.parametrize("command", ["verify-crc", "verify-crc --deep"])
def test_a_segment_is_missing_only_where_no_other_offset_is(
    what: str, command: str, tmp_path: Path
) -> None:
    write(tmp_path / "t-0", {**WITH_ALL, **WITH_HOLES}[what])
    write(tmp_path / "t-0", one(5000), f"{5000:020}.log")
    found = kfmt(*command.split(), tmp_path / "t-0", "--json").codes
    assert found == (["segments-gap"] if what in WITH_ALL else [])


def test_each_missing_offset_between_segments_is_said(tmp_path: Path) -> None:
    for second, found in ((1, [2]), (2, [1, 3])):
        for base in (0, second, 5000):
            write(tmp_path / f"{second}", one(base), f"{base:020}.log")
        done = kfmt("verify-crc", tmp_path / f"{second}", "--json")
        assert done.codes == ["segments-gap"] * len(found)
        assert [finding["offset"] for finding in done.of("finding")] == found


ENTRY = struct.Struct(">qhiqiqiq")  # of a snapshot: see PRODUCER_SNAPSHOT


def snapshot(last_sequence: int, last_offset: int) -> bytes:
    """A snapshot that knows producer 7."""
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
    folder = tmp_path / "t-0"
    data = b"".join(batch(offset, 10 + offset) for offset in offsets)
    write(folder, data)
    end = offsets[-1] + 1
    (folder / f"{end:020}.snapshot").write_bytes(snapshot(10 + offsets[-1], offsets[-1]))
    codes = kfmt("check", folder, "--json").codes
    assert [code for code in codes if code.startswith("snapshot")] == []
    (folder / f"{end:020}.snapshot").write_bytes(snapshot(11 + offsets[-1], offsets[-1]))
    codes = kfmt("check", folder, "--json").codes
    said = ["snapshot-contradicted"] if is_compared else []
    assert [code for code in codes if code.startswith("snapshot")] == said
