"""Rows of a table belong to partitions, not to paths: disks that fail, partitions that move."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest

from tests.support.lake_runs import Row, export, file_rows, manifest_rows, without_spark
from tests.support.samples import ORDERS
from tests.support.segments import positions

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

DATA = ORDERS.read_bytes()
BATCH = DATA[: positions(DATA)[1]]
N_RECORDS = 20  # of a batch
TOPIC_ID = (ORDERS.parent / "partition.metadata").read_text().split()[-1]


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


def write_log(directory: Path, base_offset: int, n_batches: int, epoch: int = 0) -> None:
    """Write a segment, and the topic id."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(ORDERS.parent / "partition.metadata", directory)
    batches = (
        struct.pack(">q", base_offset + i * N_RECORDS)
        + BATCH[8:12]
        + struct.pack(">i", epoch)
        + BATCH[16:]
        for i in range(n_batches)
    )
    (directory / f"{base_offset:020}.log").write_bytes(b"".join(batches))


def rows(*ranges: tuple[int, int]) -> Counter[Row]:
    return Counter((TOPIC_ID, 0, offset) for first, end in ranges for offset in range(first, end))


def break_disk(directory: Path) -> None:
    """Replace a directory by a link to nowhere, which cannot be listed."""
    directory.rename(directory.with_name(f"{directory.name}.away"))
    directory.symlink_to("nowhere")


def test_a_replica_replaces_the_rows_of_a_disk_that_failed(tmp_path: Path) -> None:
    to, brokers = tmp_path / "to", (tmp_path / "b1", tmp_path / "b2")
    write_log(brokers[0] / "d1/orders-0", 0, 4)
    write_log(brokers[1] / "d1/other-0", 0, 1)
    shutil.copy(brokers[0] / "d1/orders-0/partition.metadata", brokers[1] / "d1/other-0")
    export(to, *brokers, topics="orders")
    write_log(brokers[1] / "d1/orders-0", 0, 3)  # it lags
    break_disk(brokers[0] / "d1")
    summary = export(to, *brokers, topics="orders")
    assert summary.unreadable_inputs
    assert manifest_rows(to) == file_rows(to) == rows((0, 80))


def test_sync_removes_nothing_of_a_partition_that_was_not_read(tmp_path: Path) -> None:
    """It moved to another disk, where a segment cannot be read."""
    to, disks = tmp_path / "to", (tmp_path / "d1", tmp_path / "d2")
    write_log(disks[0] / "orders-0", 0, 2)
    write_log(disks[0] / "orders-0", 40, 2)
    disks[1].mkdir()
    (disks[1] / "meta.properties").touch()
    export(to, *disks)
    shutil.move(disks[0] / "orders-0", disks[1] / "orders-0")
    (disks[0] / "meta.properties").touch()
    break_disk(disks[1] / f"orders-0/{40:020}.log")
    for mode in ("append", "sync", "replace"):
        assert export(to, *disks, mode=mode).unreadable_inputs
        assert manifest_rows(to) == file_rows(to) == rows((0, 80)), mode
    (disks[1] / f"orders-0/{40:020}.log").unlink()
    (disks[1] / f"orders-0/{40:020}.log.away").rename(disks[1] / f"orders-0/{40:020}.log")
    export(to, *disks, mode="sync")
    assert manifest_rows(to) == file_rows(to) == rows((0, 80))


def test_rows_between_segments_that_were_read_stay(tmp_path: Path) -> None:
    """The segment that has them cannot be read: no cleaner has removed them."""
    to, directory = tmp_path / "to", tmp_path / "in/orders-0"
    for base_offset in (0, 40, 80):
        write_log(directory, base_offset, 2)
    export(to, tmp_path / "in")
    break_disk(directory / f"{40:020}.log")
    for mode in ("append", "sync"):
        assert export(to, tmp_path / "in", mode=mode).unreadable_inputs
        assert manifest_rows(to) == file_rows(to) == rows((0, 120)), mode


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_rows_of_a_branch_that_is_no_longer_there_are_removed(format_: str, tmp_path: Path) -> None:
    """An unclean leader truncated the log in segment 0; later segments are deleted."""
    to, directory = tmp_path / "to", tmp_path / "in/orders-0"
    for base_offset in (0, 40, 80):
        write_log(directory, base_offset, 2)
    export(to, tmp_path / "in", format_=format_)
    for base_offset in (40, 80):
        (directory / f"{base_offset:020}.log").unlink()
    write_log(directory, 0, 1)
    summary = export(to, tmp_path / "in", format_=format_)
    assert sum(file_rows(to).values()) == N_RECORDS
    assert "100 rows removed, as their logs were truncated before them" in summary.lines
    write_log(directory, 20, 2, epoch=1)
    export(to, tmp_path / "in", format_=format_)
    assert sum(file_rows(to).values()) == 3 * N_RECORDS
    assert manifest_rows(to) == file_rows(to)


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
@pytest.mark.parametrize("mode", ["append", "sync", "replace"])
def test_truncated_rows_of_an_input_that_is_read_again_are_counted(
    mode: str, format_: str, tmp_path: Path
) -> None:
    to, logs = tmp_path / "to", (tmp_path / "in/orders-0", tmp_path / "in/other-0")
    for directory in logs:
        write_log(directory, 0, 2)
    write_log(logs[0], 40, 3)
    tables = {"tables": "records,batches", "mode": mode, "format_": format_}
    export(to, tmp_path / "in", **tables)
    write_log(logs[0], 40, 1)
    summary = export(to, tmp_path / "in", **tables)
    # 40 records and their 2 batches.
    assert "42 rows removed, as their logs were truncated before them" in summary.lines
    assert sum(file_rows(to).values()) == 5 * N_RECORDS
    write_log(logs[0], 40, 4, epoch=1)
    summary = export(to, tmp_path / "in", **tables)
    assert not any("truncated" in line for line in summary.lines)  # replaced


def test_rows_of_damaged_batches_were_not_truncated(tmp_path: Path) -> None:
    to, log = tmp_path / "to", tmp_path / f"in/orders-0/{0:020}.log"
    write_log(log.parent, 0, 3)
    export(to, tmp_path / "in")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1  # the checksum of the last batch no longer matches
    log.write_bytes(data)
    summary = export(to, tmp_path / "in")
    assert summary.n_errors
    assert not any("truncated" in line for line in summary.lines)


def test_a_log_that_retention_emptied_was_not_truncated(tmp_path: Path) -> None:
    to, directory = tmp_path / "to", tmp_path / "in/orders-0"
    write_log(directory, 0, 2)
    export(to, tmp_path / "in")
    (directory / f"{0:020}.log").unlink()
    write_log(directory, 40, 0)
    summary = export(to, tmp_path / "in")
    assert manifest_rows(to) == rows((0, 40))
    assert not any("truncated" in line for line in summary.lines)


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_the_empty_log_of_a_new_disk_replaces_nothing(format_: str, tmp_path: Path) -> None:
    """A broker creates it under the name of the first segment, and fills it from the leader."""
    to, directory = tmp_path / "to", tmp_path / "in/orders-0"
    write_log(directory, 0, 2)
    write_log(directory, 40, 2)
    export(to, tmp_path / "in", format_=format_)
    (directory / f"{40:020}.log").unlink()
    write_log(directory, 0, 0)
    for _ in range(2):
        summary = export(to, tmp_path / "in", format_=format_)
        assert sum(file_rows(to).values()) == 4 * N_RECORDS
        assert any("80 records kept of 2 inputs" in line for line in summary.lines)
    write_log(directory, 0, 2)
    write_log(directory, 40, 3)
    export(to, tmp_path / "in", format_=format_)
    assert sum(file_rows(to).values()) == 5 * N_RECORDS
    (directory / f"{40:020}.log").unlink()
    write_log(directory, 0, 0)
    export(to, tmp_path / "in", format_=format_, mode="sync")
    assert not file_rows(to)


def test_a_replica_that_lags_truncates_nothing(tmp_path: Path) -> None:
    """The other one is gone: the table has what only that had, unless a later leader cut it."""
    to, disks = tmp_path / "to", (tmp_path / "d1", tmp_path / "d2")
    write_log(disks[0] / "orders-0", 0, 2)
    write_log(disks[1] / "orders-0", 0, 2)
    write_log(disks[1] / "orders-0", 40, 2)
    export(to, *disks)
    assert manifest_rows(to) == rows((0, 80))
    shutil.rmtree(disks[1] / "orders-0")
    (disks[1] / "meta.properties").touch()
    export(to, *disks)
    assert manifest_rows(to) == file_rows(to) == rows((0, 80))
    write_log(disks[0] / "orders-0", 40, 1, epoch=3)
    summary = export(to, *disks)
    assert manifest_rows(to) == file_rows(to) == rows((0, 60))
    assert "20 rows removed, as their logs were truncated before them" in summary.lines


def test_only_the_best_replica_stays_in_a_table_that_had_all(tmp_path: Path) -> None:
    to, disks = tmp_path / "to", (tmp_path / "d1", tmp_path / "d2")
    for disk in disks:
        write_log(disk / "orders-0", 0, 3)
    columns = {"columns": "topic_id,partition,offset"}
    export(to, *disks, request_options={"allReplicas": "true", **columns})
    assert manifest_rows(to).total() == 120
    export(to, *disks, request_options=columns)
    assert manifest_rows(to) == file_rows(to) == rows((0, 60))
