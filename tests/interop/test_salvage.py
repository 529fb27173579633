"""What `kfmt salvage` writes is taken and served by a real broker."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.interop.test_writers import consumed, needs_kafka
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import DAMAGES, positions, with_bytes, write
from tests.writers.test_salvage import BROKER, damaged_partition, salvaged
from tools import broker


def without_last_marker(folder: Path) -> None:
    """txn-0 whose last marker is damaged."""
    shutil.copytree(BROKER / "txn-0", folder)
    log = max(path for path in folder.glob("*.log") if path.stat().st_size)
    (*_, last) = (row for row in kfmt("dump", log, "--json").of("batch"))
    assert last["attributes"]["control"]
    data = log.read_bytes()
    log.write_bytes(with_bytes(data, last["position"] + 70, b"\x77"))


def test_a_transaction_that_lost_its_end_is_said(tmp_path: Path) -> None:
    without_last_marker(tmp_path / "txn-0")
    done = kfmt("salvage", tmp_path / "txn-0", tmp_path / "out")
    assert "1 open transaction at the end" in done.err
    assert "open transaction" not in kfmt("salvage", BROKER / "txn-0", tmp_path / "whole").err


@pytest.mark.interop
@needs_kafka
def test_read_committed_consumers_wait_at_a_transaction_that_lost_its_end(tmp_path: Path) -> None:
    without_last_marker(tmp_path / "txn-0")
    done = kfmt("salvage", tmp_path / "txn-0", tmp_path / "out")
    (offset,) = re.findall(r"stop at offset (\d+);", done.err)
    for recover in (True, False):
        (committed,) = broker.consume_all([tmp_path / "out"], recover, "read_committed")
        (everything,) = broker.consume_all([tmp_path / "out"], recover)
        assert committed
        assert max(consumed.offset for consumed in committed) < int(offset)
        assert max(consumed.offset for consumed in everything) >= int(offset)


@pytest.mark.brokers
@pytest.mark.interop
@needs_kafka
def test_a_broker_takes_what_was_salvaged_and_serves_all_of_it(tmp_path: Path) -> None:
    stay = damaged_partition(tmp_path / "orders-0")
    sources = [tmp_path / "orders-0"]
    data = ORDERS.read_bytes()
    for name in ("a flipped bit", "the largest length", "garbage put in", "zeros over the header"):
        at, end = positions(data)[5:7]
        sources.append(write(tmp_path / f"{name}-0", DAMAGES[name][0](data, at, end)).parent)
    written = [tmp_path / "out" / source.name for source in sources]
    for source, to in zip(sources, written, strict=True):
        salvaged(source, to)
    split = tmp_path / "split"
    assert kfmt("salvage", sources[0], split, "--records").code == 1
    (records,) = broker.consume_all([split], recover=True)
    assert records == consumed(split)
    assert len(records) > len(stay)
    for recover in (True, False):
        served = broker.consume_all(written, recover=recover)
        assert [consumed.offset for consumed in served[0]] == stay
        for partition, records in zip(written, served, strict=True):
            assert records == consumed(partition), (partition.name, recover)
    whole = kfmt("dump", ORDERS, "--records", "--json").of("record")
    for records in served[1:]:
        found = [record.offset for record in records]
        lost = range(100, 120) if len(found) < len(whole) else ()
        assert found == [row["offset"] for row in whole if row["offset"] not in lost]
