"""A broker that compacts a log between the plan of a trigger and its tasks: each offset once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.samples import ORDERS
from tests.support.segments import positions
from tests.support.sleeping import while_asleep

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.disk.file_listing import LocalEntries, scan_directory
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.split_reader import UnreadableInputError
from kfmt_cli.spark.input_partition import KfmtInputPartition
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming.follower import StreamFollower

LOGS = sorted(ORDERS.parent.glob("*.log"))[:4]  # 240 records in 12 batches each
REMAINING = [offset for offset in range(960) if offset >= 480 or offset // 20 % 3 == 0]
"""The offsets that the cleaner retains."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "logs/orders-0"
    path.mkdir(parents=True)
    for log in LOGS:
        (path / log.name).write_bytes(log.read_bytes())
    return path


def clean(directory: Path) -> None:
    """Merge the first two segments, with every third batch, as the cleaner does."""
    batches = []
    for index, log in enumerate(LOGS[:2]):
        data = log.read_bytes()
        ends = [*positions(data), len(data)]
        batches += [data[ends[i] : ends[i + 1]] for i in range(12) if (12 * index + i) % 3 == 0]
    swap = directory / f"{LOGS[0].name}.swap"
    swap.write_bytes(b"".join(batches))
    for log in LOGS[:2]:
        (directory / log.name).rename(directory / f"{log.name}.deleted")
    swap.rename(directory / LOGS[0].name)


def plan_split(source: StreamFollower) -> KfmtInputPartition:
    (split,) = source.plan_input_partitions({}, source.latest_positions({}))
    return split


def follower(directory: Path) -> StreamFollower:
    return StreamFollower(replace(parse_request({}), paths=(str(directory.parent),)))


@pytest.mark.parametrize("n_read", range(4))
def test_each_offset_is_read_once(n_read: int, directory: Path) -> None:
    """The log is cleaned before the first split is read, or after some splits."""
    source = follower(directory)
    split, actual = plan_split(source), list[int]()
    for i, batch in enumerate(read_input_partition(source.request, split)):
        actual += batch.column("offset").to_pylist()
        if i == n_read - 1:
            assert len(actual) == 240 * n_read
            clean(directory)
    if not n_read:
        clean(directory)
        actual = [
            offset
            for batch in read_input_partition(source.request, split)
            for offset in batch.column("offset").to_pylist()
        ]
    assert set(Counter(actual).values()) == {1}
    assert set(REMAINING) <= set(actual)


def test_a_log_that_is_read_in_parts_is_not_read_after_cleaning(directory: Path) -> None:
    source = follower(directory)
    split = plan_split(source)
    halves = FileSplits(
        file_split.with_byte_range(0, file_split.file_size // 2) for file_split in split.splits
    )
    clean(directory)
    with pytest.raises(UnreadableInputError, match="was cleaned while it was read in parts"):
        list(read_input_partition(source.request, replace(split, splits=halves)))


def test_what_is_deleted_is_an_error(directory: Path) -> None:
    source = follower(directory)
    split = plan_split(source)
    (directory / LOGS[0].name).unlink()
    with pytest.raises(UnreadableInputError, match=r"000\.log: No such file or directory"):
        list(read_input_partition(source.request, split))


@pytest.mark.parametrize("reads", ["task", "plan"])
def test_a_swap_under_way_is_waited_for(
    reads: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old segments are deleted, and the new one does not have its name yet."""
    source = follower(directory)
    split = plan_split(source)
    clean(directory)
    swap = directory / f"{LOGS[0].name}.swap"
    (directory / LOGS[0].name).rename(swap)
    renamed: list[Path] = []
    while_asleep(monkeypatch, lambda: renamed.append(swap.rename(directory / LOGS[0].name)))
    if reads == "plan":
        split = plan_split(follower(directory))
    rows = read_input_partition(source.request, split)
    assert [offset for batch in rows for offset in batch.column("offset").to_pylist()] == REMAINING
    assert len(renamed) == 1


def test_a_listing_that_misses_a_renamed_segment_is_read_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new segment is renamed while the directory is read: the listing has neither name."""
    clean(directory)
    listed_paths = list[str]()

    def list_directory(path: str) -> LocalEntries:
        entries = scan_directory(path)
        if path == str(directory):
            listed_paths.append(path)
            if len(listed_paths) == 1:
                entries.files = [
                    file for file in entries.files if not file.path.endswith(LOGS[0].name)
                ]
                (directory / LOGS[0].name).rename(directory / "between")
                (directory / "between").rename(directory / LOGS[0].name)
        return entries

    monkeypatch.setattr("kfmt_cli.spark.streaming.stream_listing.scan_directory", list_directory)
    source = follower(directory)
    rows = read_input_partition(source.request, plan_split(source))
    assert [offset for batch in rows for offset in batch.column("offset").to_pylist()] == REMAINING
