"""A real broker serves, and a real consumer reads, the logs that `pipeline restore` writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop.test_writers import expected_records
from tests.support.spark_job import Job
from tools import broker, kafka
from tools.kafka import SAMPLES

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.brokers,
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
BROKER = SAMPLES / "kafka-3.9.1-broker1"
NAMES = (
    *("orders-0", "txn-0", "compacted-0", "appendtime-0", "weird-times-0", "big-records-0"),
    *("codec-gzip-0", "codec-lz4-0", "codec-snappy-0", "codec-zstd-0", "dotted.name_with-dash-0"),
)


@pytest.mark.parametrize("tables", ["records,batches", "records"])
def test_a_broker_serves_what_was_restored(job: Job, tmp_path: Path, tables: str) -> None:
    job("export", BROKER, "--tables", tables, "--to", tmp_path / "table")
    job("restore", tmp_path / "table", "--to", tmp_path / "to")
    originals = [BROKER / name for name in NAMES]
    restored = [tmp_path / "to/log_dir" / name for name in NAMES]
    for recover in (True, False):
        served = broker.consume_all(restored, recover=recover)
        for original, records in zip(originals, served, strict=True):
            assert records == expected_records(original), (original.name, recover)
    partitions = [tmp_path / "to/log_dir/txn-0", BROKER / "txn-0"]
    committed, expected = broker.consume_all(partitions, False, "read_committed")
    assert committed == expected
    assert len(committed) < len(expected_records(BROKER / "txn-0"))
