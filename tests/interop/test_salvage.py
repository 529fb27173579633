"""A real broker accepts and serves the logs that `kfmt salvage` writes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.broker.test_coordinator_evidence import log_directory
from tests.broker.test_transaction_evidence import markers
from tests.interop.test_writers import expected_records, needs_kafka
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import DAMAGES, positions, write
from tests.writers.test_salvage import BROKER, damaged_partition, salvaged
from tools import broker


def copy_without_last_marker(directory: Path) -> None:
    """Copy the logs of txn-0 without its last transaction marker, as after a crash."""
    shutil.copytree(BROKER / "txn-0", directory, ignore=shutil.ignore_patterns("*.[!l]*"))
    log = max(path for path in directory.glob("*.log") if path.stat().st_size)
    (*_, last) = (row for row in kfmt("dump", log, "--json").of("batch"))
    assert last["attributes"]["control"]
    data = log.read_bytes()
    log.write_bytes(data[: last["position"] + 40])


def test_a_transaction_that_lost_its_end_is_reported(tmp_path: Path) -> None:
    copy_without_last_marker(tmp_path / "txn-0")
    result = kfmt("salvage", tmp_path / "txn-0", tmp_path / "out")
    assert "1 open transaction at the end" in result.err
    assert "open transaction" not in kfmt("salvage", BROKER / "txn-0", tmp_path / "whole").err


@pytest.mark.interop
@needs_kafka
def test_read_committed_consumers_wait_at_a_transaction_that_lost_its_end(tmp_path: Path) -> None:
    copy_without_last_marker(tmp_path / "txn-0")
    result = kfmt("salvage", tmp_path / "txn-0", tmp_path / "out")
    (offset,) = re.findall(r"stop at offset (\d+);", result.err)
    for recover in (True, False):
        (committed,) = broker.consume_all([tmp_path / "out"], recover, "read_committed")
        (everything,) = broker.consume_all([tmp_path / "out"], recover)
        assert committed
        assert max(message.offset for message in committed) < int(offset)
        assert max(message.offset for message in everything) >= int(offset)


@pytest.mark.brokers
@pytest.mark.interop
@needs_kafka
def test_a_broker_takes_what_was_salvaged_and_serves_all_of_it(tmp_path: Path) -> None:
    remaining_offsets = damaged_partition(tmp_path / "orders-0")
    sources = [tmp_path / "orders-0"]
    data = ORDERS.read_bytes()
    for name in ("a flipped bit", "the largest length", "garbage put in", "zeros over the header"):
        start, end = positions(data)[5:7]
        sources.append(write(tmp_path / f"{name}-0", DAMAGES[name][0](data, start, end)).parent)
    outputs = [tmp_path / "out" / source.name for source in sources]
    for source, output in zip(sources, outputs, strict=True):
        salvaged(source, output)
    split = tmp_path / "split"
    assert kfmt("salvage", sources[0], split, "--records").code == 1
    (records,) = broker.consume_all([split], recover=True)
    assert records == expected_records(split)
    assert len(records) > len(remaining_offsets)
    for recover in (True, False):
        served = broker.consume_all(outputs, recover=recover)
        assert [message.offset for message in served[0]] == remaining_offsets
        for partition, records in zip(outputs, served, strict=True):
            assert records == expected_records(partition), (partition.name, recover)
    rows = kfmt("dump", ORDERS, "--records", "--json").of("record")
    for records in served[1:]:
        offsets = [record.offset for record in records]
        lost_offsets = range(100, 120) if len(offsets) < len(rows) else ()
        assert offsets == [row["offset"] for row in rows if row["offset"] not in lost_offsets]


@pytest.mark.interop
@needs_kafka
def test_consumers_read_what_the_coordinator_decided(tmp_path: Path) -> None:
    """Markers are lost, and no file next to the logs shows how their transactions ended."""
    broker_2 = BROKER.parent / "kafka-3.9.1-broker2"
    coordinator_logs = BROKER / "__transaction_state-0", broker_2 / "__transaction_state-1"
    log = log_directory(tmp_path, BROKER / "txn-0", *coordinator_logs)
    data = log.read_bytes()
    for start in markers(data)[2:80:6]:
        data = data[:start] + bytes(78) + data[start + 78 :]
    log.write_bytes(data)
    result = kfmt("salvage", tmp_path, tmp_path.parent / f"{tmp_path.name}-out")
    assert "hides" not in result.err
    partitions = [tmp_path.parent / f"{tmp_path.name}-out/txn-0", BROKER / "txn-0"]
    committed, expected = broker.consume_all(partitions, True, "read_committed")
    assert [message.offset for message in committed] == [message.offset for message in expected]
