"""Batches with a finding from which consumers still receive all that they contain.

Observed of brokers of 3.9.1 and 4.4.0: all records before and after the marker are delivered.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rebuild import batch_of, control_batch, record, with_crc
from tests.support.samples import kfmt

COMMIT_KEY, MARKER = b"\0\0\0\1", b"\0\0\0\0\0\0"
LEADER_CHANGE_KEY = b"\0\0\0\2"


def wrong_max_timestamp(batch: bytes) -> bytes:
    """A batch with a max timestamp that no record has."""
    return with_crc(batch[:35] + (1005).to_bytes(8, "big") + batch[43:])


def write_log(partition: Path, *batches: bytes) -> Path:
    """Write a partition without indexes, which a start rebuilds."""
    partition.mkdir(exist_ok=True)
    (partition / f"{0:020}.log").write_bytes(b"".join(batches))
    return partition


def two_records(base_offset: int, delta: int = 1) -> bytes:
    """A batch of two records; the second one's offset is `delta` above the first's."""
    records = record(b"a", b"1") + record(b"b", b"2", delta)
    batch = batch_of(records, 0, 2, base_offset)
    return with_crc(batch[:23] + delta.to_bytes(4, "big") + batch[27:])


@pytest.mark.parametrize(
    "batch",
    [
        control_batch(COMMIT_KEY, MARKER, 2),
        with_crc(batch_of(b"", 0, 0, 2)),
        wrong_max_timestamp(control_batch(COMMIT_KEY, MARKER, 2)),
        wrong_max_timestamp(two_records(2)),
        wrong_max_timestamp(two_records(2, delta=7)),
    ],
    ids=["marker", "empty", "damaged-marker", "records", "compacted"],
)
def test_no_offset_is_unreachable_next_to_a_finding(batch: bytes, tmp_path: Path) -> None:
    partition = write_log(
        tmp_path / "t-0", two_records(0), batch, wrong_max_timestamp(two_records(20))
    )
    result = kfmt("check", "--json", partition)
    assert "max-timestamp-mismatch" in result.codes
    assert [row["unreachable_offsets"] for row in result.of("broker_start")] == [[], []]


def test_skipped_records_are_not_said_to_cause_an_error(tmp_path: Path) -> None:
    records = record(b"a", b"1") + record(b"b", b"2")
    batch = batch_of(records, 0, 2, 4)
    partition = write_log(tmp_path / "t-0", with_crc(batch[:23] + bytes(4) + batch[27:]))
    result = kfmt("check", "--json", partition)
    assert {"records-count-mismatch", "record-offsets-backwards"} <= set(result.codes)
    text = kfmt("check", partition).out
    assert "those whose offsets a consumer has already passed are silently skipped" in text
    assert "Nothing in this partition is lost" not in text
    assert "Consumers can seek to the next batch" not in text


def test_kraft_control_records_of_an_ordinary_topic_are_kept(tmp_path: Path) -> None:
    batches = [two_records(0), control_batch(LEADER_CHANGE_KEY, b"junk", 2), two_records(3)]
    partition = write_log(tmp_path / "t-0", *batches)
    result = kfmt("check", "--json", partition)
    assert "payload-malformed" not in result.codes
    assert [row["unreachable_offsets"] for row in result.of("broker_start")] == [[], []]
    assert kfmt("salvage", partition, tmp_path / "out").code == 0
    assert (tmp_path / "out" / f"{0:020}.log").read_bytes() == b"".join(batches)
    metadata = write_log(tmp_path / "__cluster_metadata-0", *batches)
    assert "payload-malformed" in kfmt("check", "--json", metadata).codes


def test_a_log_that_was_not_rolled_keeps_its_name(tmp_path: Path) -> None:
    partition = write_log(tmp_path / "t-0", two_records(0), two_records(1 << 31))
    text = kfmt("check", partition).out
    assert "do not rename it" in text
    renamed = write_log(tmp_path / "u-0", two_records(1 << 31))
    assert "Rename it and its indexes back" in kfmt("check", renamed).out
