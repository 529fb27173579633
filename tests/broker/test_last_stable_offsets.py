"""The last stable offset before and after a predicted start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.broker.test_transaction_evidence import PARTITIONS, copy_partition, markers
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions, with_bytes

LOG = "00000000000000000000.log"


def starts(partition: Path) -> dict[str, dict[str, Any]]:
    rows = kfmt("check", partition, "--json").of("broker_start")
    return {row["after"]: row for row in rows}


def offsets(row: dict[str, Any]) -> tuple[int, int]:
    return row["last_stable_offset_before"], row["last_stable_offset"]


def test_an_undamaged_partition_stops_where_it_did(tmp_path: Path) -> None:
    for source, expected in zip(PARTITIONS, (736, 730, 630), strict=True):
        partition = copy_partition(
            source, tmp_path / source.parent.name / "txn-0", with_other_files=True
        )
        for row in starts(partition).values():
            assert offsets(row) == (expected, expected)


def test_a_start_that_cuts_a_marker_off_hides_what_its_transaction_wrote(tmp_path: Path) -> None:
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=True)
    data = (partition / LOG).read_bytes()
    (partition / LOG).write_bytes(with_bytes(data, markers(data)[0] + 69, b"\x07"))
    rows = starts(partition)
    assert offsets(rows["crash"]) == (736, 0)
    assert rows["crash"]["log_end_offset"] == 18
    assert offsets(rows["clean-shutdown"]) == (736, 736)
    text = kfmt("check", partition).out
    assert "read_committed consumers stop at offset 0: offsets 0–17 are hidden" in text


def test_a_start_counts_the_records_that_it_hides(tmp_path: Path) -> None:
    """A start after a crash keeps 18 records up to the first marker, and none of their transactions
    has ended there: of these, consumers received 12 before, as the first one was aborted."""
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=True)
    data = (partition / LOG).read_bytes()
    (partition / LOG).write_bytes(with_bytes(data, markers(data)[0] + 69, b"\x07"))
    rows = starts(partition)
    assert rows["crash"]["hidden_records"] == 12
    assert rows["crash"]["lost_records"] == 736 - 91 - 18
    assert rows["clean-shutdown"]["hidden_records"] == rows["clean-shutdown"]["lost_records"] == 0


def test_offsets_in_gaps_are_no_records(tmp_path: Path) -> None:
    """The last batch of a log begins two billion offsets after the one before."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    data = ORDERS.read_bytes()
    *_, previous, last = [start for start in positions(data) if start < len(data)]
    end = data[last:]
    far = (2_000_000_000).to_bytes(8, "big") + end[8:]
    damaged = with_bytes(data[:last], previous + 30, b"\xff\xff")
    (partition / LOG).write_bytes(damaged + far)
    for row in starts(partition).values():
        n_offsets = sum(last - first + 1 for first, last in row["lost_offsets"])
        assert n_offsets > 1_900_000_000
        assert row["lost_records"] == 20
    text = kfmt("check", partition).out
    assert "20 records at risk among them" in text
