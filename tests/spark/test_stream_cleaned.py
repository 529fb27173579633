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
LEFT = [offset for offset in range(960) if offset >= 480 or offset // 20 % 3 == 0]
"""The offsets that the cleaner leaves."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "logs/orders-0"
    made.mkdir(parents=True)
    for log in LOGS:
        (made / log.name).write_bytes(log.read_bytes())
    return made


def clean(folder: Path) -> None:
    """Merge the first two segments, with every third batch, as the cleaner does."""
    kept = []
    for number, log in enumerate(LOGS[:2]):
        data = log.read_bytes()
        ends = [*positions(data), len(data)]
        kept += [data[ends[i] : ends[i + 1]] for i in range(12) if (12 * number + i) % 3 == 0]
    swap = folder / f"{LOGS[0].name}.swap"
    swap.write_bytes(b"".join(kept))
    for log in LOGS[:2]:
        (folder / log.name).rename(folder / f"{log.name}.deleted")
    swap.rename(folder / LOGS[0].name)


def split_of(source: StreamFollower) -> KfmtInputPartition:
    (split,) = source.input_partitions({}, source.latest_positions({}))
    return split


def follower(folder: Path) -> StreamFollower:
    return StreamFollower(replace(parse_request({}), paths=(str(folder.parent),)))


@pytest.mark.parametrize("n_read", range(4))
def test_each_offset_is_read_once(n_read: int, folder: Path) -> None:
    """The log is cleaned before the first piece is read, or after some."""
    source = follower(folder)
    split, found = split_of(source), list[int]()
    for i, batch in enumerate(read_input_partition(source.request, split)):
        found += batch.column("offset").to_pylist()
        if i == n_read - 1:
            assert len(found) == 240 * n_read
            clean(folder)
    if not n_read:
        clean(folder)
        found = [
            offset
            for batch in read_input_partition(source.request, split)
            for offset in batch.column("offset").to_pylist()
        ]
    assert set(Counter(found).values()) == {1}
    assert set(LEFT) <= set(found)


def test_a_log_that_is_read_in_parts_is_not_read_after_cleaning(folder: Path) -> None:
    source = follower(folder)
    split = split_of(source)
    parts = FileSplits(piece.with_byte_range(0, piece.size // 2) for piece in split.splits)
    clean(folder)
    with pytest.raises(UnreadableInputError, match="was cleaned while it was read in parts"):
        list(read_input_partition(source.request, replace(split, splits=parts)))


def test_what_is_deleted_is_an_error(folder: Path) -> None:
    source = follower(folder)
    split = split_of(source)
    (folder / LOGS[0].name).unlink()
    with pytest.raises(UnreadableInputError, match=r"000\.log: No such file or directory"):
        list(read_input_partition(source.request, split))


@pytest.mark.parametrize("reads", ["task", "plan"])
def test_a_swap_under_way_is_waited_for(
    reads: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old segments have gone, and the new one has not its name yet."""
    source = follower(folder)
    split = split_of(source)
    clean(folder)
    swap = folder / f"{LOGS[0].name}.swap"
    (folder / LOGS[0].name).rename(swap)
    renamed: list[Path] = []
    while_asleep(monkeypatch, lambda: renamed.append(swap.rename(folder / LOGS[0].name)))
    if reads == "plan":
        split = split_of(follower(folder))
    rows = read_input_partition(source.request, split)
    assert [offset for batch in rows for offset in batch.column("offset").to_pylist()] == LEFT
    assert len(renamed) == 1


def test_a_listing_that_misses_a_renamed_segment_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new segment is renamed while the directory is read, so that neither name is seen."""
    clean(folder)
    times = list[str]()

    def read(path: str) -> LocalEntries:
        found = scan_directory(path)
        if path == str(folder):
            times.append(path)
            if len(times) == 1:
                found.files = [file for file in found.files if not file.path.endswith(LOGS[0].name)]
                (folder / LOGS[0].name).rename(folder / "between")
                (folder / "between").rename(folder / LOGS[0].name)
        return found

    monkeypatch.setattr("kfmt_cli.spark.streaming.stream_listing.scan_directory", read)
    source = follower(folder)
    rows = read_input_partition(source.request, split_of(source))
    assert [offset for batch in rows for offset in batch.column("offset").to_pylist()] == LEFT
