"""The streaming source: every record once, whatever the broker does to its files meanwhile."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import positions
from tools.kafka import ROOT

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import StreamOptions, parse_request
from kfmt_cli.spark.streaming.follower import StreamFollower
from kfmt_cli.spark.streaming.segment_ends import TriggerBudget
from kfmt_cli.spark.streaming.stream import KfmtStreamReader
from kfmt_cli.spark.worker import DriverEnvironment

KEPT = ROOT / "tests/kept/aiven-1.0.0"
LOGS = sorted(ORDERS.parent.glob("*.log"))
METADATA = ORDERS.parent / "partition.metadata"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    folder = tmp_path / "logs/orders-0"
    folder.mkdir(parents=True)
    return folder


def follower(folder: Path, **options: str) -> StreamFollower:
    return StreamFollower(replace(parse_request(options), paths=(str(folder.parent),)))


def offsets(source: StreamFollower, start: Any, end: Any) -> list[int]:
    """The offsets that a trigger gives."""
    return [
        offset
        for split in source.input_partitions(start, end)
        for batch in read_input_partition(source.request, split)
        for offset in batch.column("offset").to_pylist()
    ]


def test_a_log_that_grows_by_bytes_gives_each_record_once(partition: Path) -> None:
    """Only whole batches count, also where the index does not know of them."""
    data, log, source = LOGS[0].read_bytes(), partition / LOGS[0].name, follower(partition)
    start: dict[str, Any] = {}
    found: list[int] = []
    ends = positions(data)
    for size in (0, 100, ends[1] - 1, ends[1], ends[3] + 7, ends[7], len(data)):
        log.write_bytes(data[:size])
        end = source.latest_positions(start)
        found += offsets(source, start, end)
        assert found == list(range(20 * sum(at <= size for at in ends[1:])))
        assert source.latest_positions(end) == end
        start = end
    assert found == list(range(240))


def test_rolled_and_deleted_segments(partition: Path) -> None:
    source = follower(partition)
    start: dict[str, Any] = {}
    found: list[int] = []
    for i, log in enumerate(LOGS):
        shutil.copy(log, partition)
        if i > 2:
            (partition / LOGS[i - 3].name).unlink()
        end = source.latest_positions(start)
        found += offsets(source, start, end)
        start = end
    assert found == list(range(1500))


def test_a_trigger_is_planned_again_after_a_restart(partition: Path) -> None:
    """By another process, after the log has grown and rolled."""
    data = LOGS[0].read_bytes()
    (partition / LOGS[0].name).write_bytes(data[: positions(data)[5]])
    source = follower(partition)
    end = source.latest_positions({})
    first = offsets(source, {}, end)
    for log in LOGS[:3]:
        shutil.copy(log, partition)
    again = follower(partition)
    assert offsets(again, {}, end) == first == list(range(100))
    assert offsets(again, end, again.latest_positions(end)) == list(range(100, 720))


def test_a_cleaned_segment_is_read_by_its_offsets(partition: Path) -> None:
    """What is before the position has been removed: its byte means nothing any more."""
    data = LOGS[0].read_bytes()
    ends = positions(data)
    (partition / LOGS[0].name).write_bytes(data[: ends[6]])
    source = follower(partition)
    end = source.latest_positions({})
    cleaned = data[ends[2] : ends[4]] + data[ends[7] :]
    (partition / LOGS[0].name).write_bytes(cleaned)
    shutil.copy(LOGS[1], partition)
    rest = offsets(source, end, source.latest_positions(end))
    assert rest == list(range(140, 480))


@pytest.mark.parametrize("most", [1, 4000, 70_000])
def test_a_limit_of_bytes_cuts_between_batches(most: int, partition: Path) -> None:
    for log in LOGS[:3]:
        shutil.copy(log, partition)
    shutil.copytree(TXN.parent, partition.parent / "txn-0")
    source = follower(partition)
    start: dict[str, Any] = {}
    found: list[int] = []
    sizes: list[int] = []
    while (end := source.latest_positions(start, TriggerBudget(most))) != start:
        more = offsets(source, start, end)
        found += more
        sizes.append(len(more))
        start = end
        assert len(sizes) < 400
    theirs = kfmt("dump", partition.parent, "--records", "--json").of("record")
    assert sorted(found) == sorted(row["offset"] for row in theirs)
    assert len(sizes) > {1: 100, 4000: 20, 70_000: 2}[most]


def test_damage_does_not_stop_a_stream(partition: Path) -> None:
    data = bytearray(LOGS[0].read_bytes())
    at = positions(bytes(data))[4]
    data[at + 8 : at + 12] = b"\xff\xff\xff\xff"
    (partition / LOGS[0].name).write_bytes(bytes(data))
    source = follower(partition)
    end = source.latest_positions({})
    found = offsets(source, {}, end)
    shutil.copy(LOGS[1], partition)
    for most in (1 << 62, 10):
        later = source.latest_positions(end, TriggerBudget(most))
        if later != end:
            found += offsets(source, end, later)
            end = later
    found += offsets(source, end, source.latest_positions(end))
    assert found == list(range(480))  # the checksum says where the batch ends


def test_streams_of_other_tables_are_refused() -> None:
    for options in ({"table": "findings"}, {"last": "3"}, {"isolation": "read_committed"}):
        with pytest.raises(UsageError):
            KfmtStreamReader(parse_request(options), DriverEnvironment(None), StreamOptions())


def test_a_trigger_without_new_data_looks_at_nothing(partition: Path) -> None:
    for log in LOGS:
        shutil.copy(log, partition)
    source = follower(partition)
    start = source.latest_positions({})
    before = time.process_time()
    for _ in range(10):
        assert source.latest_positions(start) == start
    assert time.process_time() - before < 5  # it would not be, if logs were read again


def test_a_tiered_topic_can_be_followed(tmp_path: Path) -> None:
    shutil.copytree(KEPT / "zstd/tiered", tmp_path / "bucket")
    source = follower(tmp_path / "bucket/x", topics="txn")
    theirs = kfmt("dump", tmp_path / "bucket", "--records", "--json").of("record")
    end = source.latest_positions({})
    found = offsets(source, {}, end)
    assert found == [row["offset"] for row in theirs if row["topic"] == "txn"]
    assert source.latest_positions(end) == end


def test_a_limit_of_rows_cuts_between_batches(partition: Path) -> None:
    for log in LOGS[:3]:
        shutil.copy(log, partition)
    source = follower(partition)
    start: dict[str, Any] = {}
    sizes: list[int] = []
    while (end := source.latest_positions(start, TriggerBudget(remaining_offsets=50))) != start:
        sizes.append(len(offsets(source, start, end)))
        start = end
    assert sum(sizes) == 720
    assert set(sizes) == {40}  # two batches
    one = source.latest_positions({}, TriggerBudget(remaining_offsets=1))
    assert offsets(source, {}, one) == list(range(20))
    assert source.latest_positions({}, TriggerBudget(remaining_offsets=39)) == one


def test_an_empty_disk_does_not_stop_the_others(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shutil.copy(LOGS[0], partition)
    paths = (str(tmp_path / "empty"), str(partition.parent))
    reader = KfmtStreamReader(
        replace(parse_request({}), paths=paths), DriverEnvironment(None), StreamOptions()
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert offsets(reader.partition_follower, start, end) == list(range(240))
    shutil.copytree(TXN.parent, tmp_path / "empty/txn-0")
    assert len(offsets(reader.partition_follower, end, reader.latestOffset(end))) == 736


def test_a_path_that_does_not_exist_is_an_error_at_the_start(tmp_path: Path) -> None:
    for options in (StreamOptions(), StreamOptions(fails_on_data_loss=False)):
        request = replace(parse_request({}), paths=(str(tmp_path), str(tmp_path / "nowhere")))
        with pytest.raises(InputError, match="nowhere: No such file"):
            KfmtStreamReader(request, DriverEnvironment(None), options).initialOffset()


def test_a_tiered_topic_and_its_local_log_are_one(tmp_path: Path) -> None:
    """A stream that has read the tiered part goes on in the local one."""
    shutil.copytree(KEPT / "zstd/tiered", tmp_path / "bucket")
    source = follower(tmp_path / "bucket/x", topics="txn")
    start = source.latest_positions({})
    found = offsets(source, {}, start)
    (key,) = start
    local = tmp_path / "disk/txn-0"
    local.mkdir(parents=True)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {key.rpartition('@')[2]}\n")
    for base in (357, 635):
        shutil.copy(TXN.parent / f"{base:020}.log", local)
    paths = (str(tmp_path / "bucket"), str(tmp_path / "disk"))
    both = StreamFollower(replace(source.request, paths=paths))
    end = both.latest_positions(start)
    assert end.keys() == start.keys()
    whole = [row["offset"] for row in kfmt("dump", TXN.parent, "--records", "--json").of("record")]
    assert found + offsets(both, start, end) == whole
    assert offsets(both, {}, both.latest_positions({})) == whole


@pytest.mark.spark
def test_a_query_that_is_restarted_has_every_record_once(
    partition: Path, tmp_path: Path, spark: Any
) -> None:
    """Segments arrive between its runs, which end by AvailableNow; one run is cut by its limit."""
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    for i in (1, 3, 7):
        for log in LOGS[:i]:
            shutil.copy(log, partition)
        stream = (
            spark.readStream.format("kfmt")
            .option("columns", "topic,partition,offset")
            .option("maxBytesPerTrigger", "50000")
            .load(str(partition.parent))
        )
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
        rows = spark.read.parquet(str(out)).collect()
        n = {1: 240, 3: 720, 7: 1500}[i]
        assert sorted(row["offset"] for row in rows) == list(range(n))
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 0)}


def _run(spark: Any, tmp_path: Path, paths: list[Path]) -> list[int]:
    """The offsets in the output of a query, after a run until nothing is left."""
    given = json.dumps(list(map(str, paths)))
    reader = spark.readStream.format("kfmt").option("columns", "offset")
    stream = reader.option("paths", given).load()
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return sorted(row["offset"] for row in spark.read.parquet(str(tmp_path / "out")).collect())


@pytest.mark.spark
def test_a_query_goes_on_with_a_partition_that_moved(
    partition: Path, tmp_path: Path, spark: Any
) -> None:
    disks = [tmp_path / "logs", tmp_path / "other"]
    disks[1].mkdir()
    shutil.copy(METADATA, partition)
    for log in LOGS[:2]:
        shutil.copy(log, partition)
    assert _run(spark, tmp_path, disks) == list(range(480))
    partition.rename(disks[1] / partition.name)
    for log in LOGS[2:]:
        shutil.copy(log, disks[1] / partition.name)
    assert _run(spark, tmp_path, disks) == list(range(1500))


@pytest.mark.spark
def test_a_query_ends_if_a_disk_cannot_be_listed(
    partition: Path, tmp_path: Path, spark: Any
) -> None:
    """And goes on when it can be listed again, with each record once."""
    from pyspark.errors import StreamingQueryException

    disks = [tmp_path / "logs", tmp_path / "other"]
    shutil.copytree(TXN.parent, disks[1] / "txn-0")
    shutil.copy(LOGS[0], partition)
    before = _run(spark, tmp_path, disks)
    assert len(before) == 240 + 736
    disks[1].rename(tmp_path / "away")
    shutil.copy(LOGS[1], partition)
    with pytest.raises(StreamingQueryException, match=r"other: No such file.*failOnDataLoss"):
        _run(spark, tmp_path, disks)
    (tmp_path / "away").rename(disks[1])
    assert _run(spark, tmp_path, disks) == sorted([*before, *range(240, 480)])
