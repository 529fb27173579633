"""A stream follows a real broker that writes, rolls, deletes and cleans meanwhile."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools import kafka, live

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming.follower import StreamFollower
from kfmt_cli.spark.streaming.segment_ends import TriggerBudget

pytestmark = [
    pytest.mark.interop,
    pytest.mark.clusters,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
RECORDS = 60_000
PARTITIONS = 3


def rows(source: StreamFollower, start: Any, end: Any) -> list[tuple[int, int]]:
    """Partition and offset of each record of a trigger."""
    return [
        pair
        for split in source.plan_input_partitions(start, end)
        for batch in read_input_partition(source.request, split)
        for pair in zip(
            batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True
        )
    ]


def test_every_record_of_a_running_broker_is_read_once(tmp_path: Path) -> None:
    """Small segments, so that the broker rolls a hundred times. One trigger in five runs twice, as
    after a process that dies before it commits."""
    data = tmp_path / "data"
    live.format_storage(kafka.VERSION, data, tmp_path)
    with live.live(kafka.VERSION, data, tmp_path) as broker:
        broker.command(
            "org.apache.kafka.tools.TopicCommand",
            *("--create", "--topic", "orders", "--partitions", str(PARTITIONS)),
            *("--config", "segment.bytes=100000"),
        )
        request = replace(
            parse_request({"columns": "partition,offset,value", "topics": "orders"}),
            paths=(str(data),),
        )
        source = StreamFollower(request)
        checkpoint, pairs, triggers = "{}", list[tuple[int, int]](), 0
        with broker.running(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "orders", "--num-records", str(RECORDS), "--record-size", "100"),
            *("--throughput", "12000", "--producer-props", f"bootstrap.servers={broker.address}"),
            bootstrap=False,
        ) as producer:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                is_over = producer.poll() is not None
                start = json.loads(checkpoint)
                target = source.latest_positions(start, TriggerBudget(400_000))
                if target == start and is_over:
                    break
                trigger_rows = rows(source, start, target)
                if triggers % 5 == 4:
                    source = StreamFollower(request)
                    assert rows(source, start, target) == trigger_rows
                pairs += trigger_rows
                checkpoint, triggers = json.dumps(target), triggers + 1
        assert len(list(data.glob("orders-*/*.log"))) > 30
    assert triggers > 10
    offsets_by_partition = {
        n: [offset for partition, offset in pairs if partition == n] for n in range(PARTITIONS)
    }
    assert sum(map(len, offsets_by_partition.values())) == RECORDS
    for offsets in offsets_by_partition.values():
        assert offsets == list(range(len(offsets)))
