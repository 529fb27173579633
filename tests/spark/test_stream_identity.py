"""Topics and logs that change between the planning of a trigger and its tasks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.moving import batch_bytes

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.execution.split_reader import UnreadableInputError
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming import follower as following
from kfmt_cli.spark.streaming.follower import DataLossError, StreamFollower

IDS = [format_uuid(number.to_bytes(16, "big")) for number in range(1, 4)]
Row = tuple[str, int, int]
"""Topic id, offset and leader epoch."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_PAUSES_SECONDS", (0.0, 0.0))


def write_log(directory: Path, topic_id: str, *batches: tuple[int, int], base: int = 0) -> None:
    """Write a segment. batches: offset and leader epoch."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    data = b"".join(batch_bytes(*batch) for batch in batches)
    (directory / f"{base:020}.log").write_bytes(data)


class Stream:
    """A query that reads a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.positions, self.rows = directory, dict[str, Any](), list[Row]()

    def follower(self, *, fails: bool) -> StreamFollower:
        columns = {"columns": "topic_id,offset,leader_epoch"}
        request = replace(parse_request(columns), paths=(str(self.directory),))
        return StreamFollower(request, fails)

    def trigger(self, *, fails: bool = True, change: Any = lambda: None) -> None:
        """A trigger; `change` happens before its tasks read."""
        source = self.follower(fails=fails)
        end = source.latest_positions(self.positions)
        input_partitions = source.plan_input_partitions(self.positions, end)
        change()
        rows: list[Row] = []
        for input_partition in input_partitions:
            for batch in read_input_partition(source.request, input_partition):
                names = ("topic_id", "offset", "leader_epoch")
                rows += zip(*(batch[name].to_pylist() for name in names), strict=True)
        self.rows += rows
        self.positions = end

    @property
    def batches(self) -> list[Row]:
        """The first rows of batches, in the order of reading."""
        return [row for row in self.rows if row[1] % 20 == 0]


def test_a_topic_that_is_recreated_before_a_task_reads(tmp_path: Path) -> None:
    stream, directory = Stream(tmp_path), tmp_path / "orders-0"
    write_log(directory, IDS[0], (0, 0), (20, 0))
    stream.trigger()

    def recreate() -> None:
        shutil.rmtree(directory)
        write_log(directory, IDS[1], (0, 0), (20, 0), (40, 0), (60, 0))

    write_log(directory, IDS[0], (0, 0), (20, 0), (40, 0))
    with pytest.raises(UnreadableInputError, match="its topic was recreated before it was read"):
        stream.trigger(change=recreate)
    with pytest.raises(DataLossError, match="was recreated"):
        stream.trigger()
    stream.trigger(fails=False)
    stream.trigger()
    new_rows = [(IDS[1], offset, 0) for offset in (0, 20, 40, 60)]
    assert stream.batches == [(IDS[0], 0, 0), (IDS[0], 20, 0), *new_rows]


def test_without_failing_nothing_of_a_recreated_topic_is_read_at_old_offsets(
    tmp_path: Path,
) -> None:
    stream, directory = Stream(tmp_path), tmp_path / "orders-0"
    write_log(directory, IDS[0], (0, 0), (20, 0))

    def recreate() -> None:
        shutil.rmtree(directory)
        write_log(directory, IDS[1], (0, 0), (20, 0), (40, 0))

    stream.trigger(fails=False, change=recreate)
    assert not stream.rows
    stream.trigger(fails=False)
    assert stream.batches == [(IDS[1], offset, 0) for offset in (0, 20, 40)]


@pytest.mark.parametrize("fails", [True, False])
def test_a_log_that_is_truncated_before_a_task_reads(fails: bool, tmp_path: Path) -> None:
    """The trigger ends where the other branch begins; the next one finds the loss."""
    stream, directory = Stream(tmp_path), tmp_path / "orders-0"
    write_log(directory, IDS[0], (0, 0), (20, 0), (40, 0), (60, 0))

    def truncate() -> None:
        write_log(directory, IDS[0], (0, 0), (20, 0), (40, 1), (60, 1), (80, 1))

    stream.trigger(fails=fails, change=truncate)
    assert stream.batches == [(IDS[0], 0, 0), (IDS[0], 20, 0)]
    if fails:
        with pytest.raises(DataLossError, match="was truncated"):
            stream.trigger()
    stream.trigger(fails=False)
    stream.trigger()
    new_rows = [(IDS[0], offset, 1) for offset in (40, 60, 80)]
    assert stream.batches == [(IDS[0], 0, 0), (IDS[0], 20, 0), *new_rows]


def test_a_deleted_topic_is_settled_by_one_run_that_does_not_fail(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    for name, topic_id in (("orders-0", IDS[0]), ("payments-0", IDS[1])):
        write_log(tmp_path / name, topic_id, (0, 0))
    stream.trigger()
    shutil.move(tmp_path / "orders-0", tmp_path.parent / "orders-0")
    with pytest.raises(DataLossError, match="its directory is missing"):
        stream.trigger()
    stream.trigger(fails=False)
    write_log(tmp_path / "payments-0", IDS[1], (0, 0), (20, 0))
    stream.trigger()
    assert [row[1] for row in stream.batches] == [0, 0, 20]
    # It continues where it was if it comes back, and is missed again if it goes again.
    shutil.move(tmp_path.parent / "orders-0", tmp_path / "orders-0")
    write_log(tmp_path / "orders-0", IDS[0], (0, 0), (20, 0))
    stream.trigger()
    assert [row[1] for row in stream.batches] == [0, 0, 20, 20]
    shutil.rmtree(tmp_path / "orders-0")
    with pytest.raises(DataLossError, match="its directory is missing"):
        stream.trigger()
