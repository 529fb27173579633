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

AIVEN = ROOT / "tests/kept/aiven-1.0.0"
LOGS = sorted(ORDERS.parent.glob("*.log"))
METADATA = ORDERS.parent / "partition.metadata"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "logs/orders-0"
    directory.mkdir(parents=True)
    return directory


def follower(directory: Path, **options: str) -> StreamFollower:
    return StreamFollower(replace(parse_request(options), paths=(str(directory.parent),)))


def offsets(source: StreamFollower, start: Any, end: Any) -> list[int]:
    """The offsets that a trigger delivers."""
    return [
        offset
        for split in source.plan_input_partitions(start, end)
        for batch in read_input_partition(source.request, split)
        for offset in batch.column("offset").to_pylist()
    ]


def test_a_log_that_grows_by_bytes_gives_each_record_once(partition: Path) -> None:
    """Only complete batches count, also those that the index does not have."""
    data, log, source = LOGS[0].read_bytes(), partition / LOGS[0].name, follower(partition)
    start: dict[str, Any] = {}
    actual: list[int] = []
    ends = positions(data)
    for size in (0, 100, ends[1] - 1, ends[1], ends[3] + 7, ends[7], len(data)):
        log.write_bytes(data[:size])
        end = source.latest_positions(start)
        actual += offsets(source, start, end)
        assert actual == list(range(20 * sum(position <= size for position in ends[1:])))
        assert source.latest_positions(end) == end
        start = end
    assert actual == list(range(240))


def test_rolled_and_deleted_segments(partition: Path) -> None:
    source = follower(partition)
    start: dict[str, Any] = {}
    actual: list[int] = []
    for i, log in enumerate(LOGS):
        shutil.copy(log, partition)
        if i > 2:
            (partition / LOGS[i - 3].name).unlink()
        end = source.latest_positions(start)
        actual += offsets(source, start, end)
        start = end
    assert actual == list(range(1500))


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
    """Batches before the position were removed: its byte has no meaning any more."""
    data = LOGS[0].read_bytes()
    ends = positions(data)
    (partition / LOGS[0].name).write_bytes(data[: ends[6]])
    source = follower(partition)
    end = source.latest_positions({})
    cleaned = data[ends[2] : ends[4]] + data[ends[7] :]
    (partition / LOGS[0].name).write_bytes(cleaned)
    shutil.copy(LOGS[1], partition)
    remaining = offsets(source, end, source.latest_positions(end))
    assert remaining == list(range(140, 480))


@pytest.mark.parametrize("limit", [1, 4000, 70_000])
def test_a_limit_of_bytes_cuts_between_batches(limit: int, partition: Path) -> None:
    for log in LOGS[:3]:
        shutil.copy(log, partition)
    shutil.copytree(TXN.parent, partition.parent / "txn-0")
    source = follower(partition)
    start: dict[str, Any] = {}
    actual: list[int] = []
    sizes: list[int] = []
    while (end := source.latest_positions(start, TriggerBudget(limit))) != start:
        trigger_offsets = offsets(source, start, end)
        actual += trigger_offsets
        sizes.append(len(trigger_offsets))
        start = end
        assert len(sizes) < 400
    records = kfmt("dump", partition.parent, "--records", "--json").of("record")
    assert sorted(actual) == sorted(row["offset"] for row in records)
    assert len(sizes) > {1: 100, 4000: 20, 70_000: 2}[limit]


def test_damage_does_not_stop_a_stream(partition: Path) -> None:
    data = bytearray(LOGS[0].read_bytes())
    position = positions(bytes(data))[4]
    data[position + 8 : position + 12] = b"\xff\xff\xff\xff"
    (partition / LOGS[0].name).write_bytes(bytes(data))
    source = follower(partition)
    end = source.latest_positions({})
    actual = offsets(source, {}, end)
    shutil.copy(LOGS[1], partition)
    for limit in (1 << 62, 10):
        next_end = source.latest_positions(end, TriggerBudget(limit))
        if next_end != end:
            actual += offsets(source, end, next_end)
            end = next_end
    actual += offsets(source, end, source.latest_positions(end))
    assert actual == list(range(480))  # the checksum shows where the batch ends


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
    shutil.copytree(AIVEN / "zstd/tiered", tmp_path / "bucket")
    source = follower(tmp_path / "bucket/x", topics="txn")
    records = kfmt("dump", tmp_path / "bucket", "--records", "--json").of("record")
    end = source.latest_positions({})
    actual = offsets(source, {}, end)
    assert actual == [row["offset"] for row in records if row["topic"] == "txn"]
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
    first_end = source.latest_positions({}, TriggerBudget(remaining_offsets=1))
    assert offsets(source, {}, first_end) == list(range(20))
    assert source.latest_positions({}, TriggerBudget(remaining_offsets=39)) == first_end


def test_an_empty_disk_does_not_stop_the_others(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shutil.copy(LOGS[0], partition)
    paths = (str(tmp_path / "empty"), str(partition.parent))
    reader = KfmtStreamReader(
        replace(parse_request({}), paths=paths), DriverEnvironment(None), StreamOptions()
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert offsets(reader.stream_follower, start, end) == list(range(240))
    shutil.copytree(TXN.parent, tmp_path / "empty/txn-0")
    assert len(offsets(reader.stream_follower, end, reader.latestOffset(end))) == 736


def test_a_path_that_does_not_exist_is_an_error_at_the_start(tmp_path: Path) -> None:
    for options in (StreamOptions(), StreamOptions(fails_on_data_loss=False)):
        request = replace(parse_request({}), paths=(str(tmp_path), str(tmp_path / "nowhere")))
        with pytest.raises(InputError, match="nowhere: No such file"):
            KfmtStreamReader(request, DriverEnvironment(None), options).initialOffset()


def test_a_tiered_topic_and_its_local_log_are_one(tmp_path: Path) -> None:
    """A stream that has read the tiered log continues in the local one."""
    shutil.copytree(AIVEN / "zstd/tiered", tmp_path / "bucket")
    source = follower(tmp_path / "bucket/x", topics="txn")
    start = source.latest_positions({})
    tiered_offsets = offsets(source, {}, start)
    (key,) = start
    local = tmp_path / "disk/txn-0"
    local.mkdir(parents=True)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {key.rpartition('@')[2]}\n")
    for base in (357, 635):
        shutil.copy(TXN.parent / f"{base:020}.log", local)
    paths = (str(tmp_path / "bucket"), str(tmp_path / "disk"))
    combined = StreamFollower(replace(source.request, paths=paths))
    end = combined.latest_positions(start)
    assert end.keys() == start.keys()
    expected = [
        row["offset"] for row in kfmt("dump", TXN.parent, "--records", "--json").of("record")
    ]
    assert tiered_offsets + offsets(combined, start, end) == expected
    assert offsets(combined, {}, combined.latest_positions({})) == expected


@pytest.mark.spark
def test_a_query_that_is_restarted_has_every_record_once(
    partition: Path, tmp_path: Path, spark: Any
) -> None:
    """Segments arrive between its runs, which end by AvailableNow; a limit divides one run."""
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
    """The offsets in the output of a query, after it has read all data."""
    paths_option = json.dumps(list(map(str, paths)))
    reader = spark.readStream.format("kfmt").option("columns", "offset")
    stream = reader.option("paths", paths_option).load()
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
    """And continues when it can be listed again, with each record once."""
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
