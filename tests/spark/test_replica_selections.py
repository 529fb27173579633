"""Selections that depend on a partition's logs count each record once, whatever replica has it."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.execution.test_replica_splits import Replica
from tests.support.samples import TXN, kfmt
from tests.support.segments import positions

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.selections import plan_input_partitions
from kfmt_cli.spark.source_options import parse_request

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
N_OFFSETS = 200


@pytest.fixture
def brokers(tmp_path: Path) -> list[Path]:
    """The best replica is damaged at offsets 140–179, which a lagging one has."""
    paths = [tmp_path / "b1", tmp_path / "b2"]
    first, second = (
        [(base, 0) for base in range(0, 100, 20)],
        [(base, 0) for base in range(100, 200, 20)],
    )
    Replica(paths[0] / "orders-0", {0: first, 100: second}, {140, 160}).write(ID)
    Replica(paths[1] / "orders-0", {0: [*first, *second[:-1]]}).write(ID)
    return paths


def spark_offsets(paths: list[Path], **options: str) -> Counter[int]:
    request = parse_request({"columns": "offset", "parallelism": "2", **options})
    request = replace(request, paths=tuple(map(str, paths)))
    rows: Counter[int] = Counter()
    for input_partition in plan_input_partitions(request):
        for batch in read_input_partition(request, input_partition):
            rows.update(batch["offset"].to_pylist())
    return rows


def last_offsets(n_records: int) -> Counter[int]:
    return Counter(range(N_OFFSETS - n_records, N_OFFSETS))


@pytest.mark.parametrize("split_bytes", ["2000", "1000000"])
@pytest.mark.parametrize("n_records", [10, 50, 70, 150, 300])
def test_the_last_records_of_a_partition_on_spark(
    n_records: int, split_bytes: str, brokers: list[Path]
) -> None:
    rows = spark_offsets(brokers, last=str(n_records), maxSplitBytes=split_bytes)
    assert rows == last_offsets(min(n_records, N_OFFSETS))
    rows = spark_offsets(brokers, last=str(n_records), maxSplitBytes=split_bytes, lastOffset="159")
    assert rows == Counter(range(max(160 - n_records, 0), 160))


@pytest.mark.parametrize("n_records", [10, 50, 70])
def test_the_last_records_in_an_export(n_records: int, brokers: list[Path], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    kfmt("export", *brokers, "--last", str(n_records), "--to", tmp_path / "to")
    offsets = [
        offset
        for file in (tmp_path / "to/records").rglob("*.parquet")
        for offset in pq.ParquetFile(file).read(["offset"])["offset"].to_pylist()
    ]
    assert Counter(offsets) == last_offsets(n_records)


@pytest.mark.parametrize("n_records", [10, 50, 70])
def test_the_last_records_that_find_and_stat_read(n_records: int, brokers: list[Path]) -> None:
    rows = kfmt("find", *brokers, "--key", "~.*", "--last", str(n_records), "--json").of("found")
    assert len({row["offset"] for row in rows}) == len(rows) == n_records
    rows = kfmt("stat", *brokers, "--last", str(n_records), "--json").of("stat")
    assert sum(row["records"] for row in rows) == n_records


def test_a_damaged_transaction_is_read_from_a_replica_that_lags(tmp_path: Path) -> None:
    """The transaction is open at the end of that replica, and was committed in the other one."""
    expected = spark_offsets([TXN.parent], isolation="read_committed")
    first_log = TXN.parent / f"{0:020}.log"
    transaction = next(
        row
        for row in kfmt("txn", TXN.parent, "--json").of("transaction")
        if row["outcome"] == "committed" and row["first_offset"] > 100
    )
    start_by_offset = {
        int.from_bytes(first_log.read_bytes()[start : start + 8], "big"): start
        for start in positions(first_log.read_bytes())[:-1]
    }
    best, lagging = tmp_path / "b1/txn-0", tmp_path / "b2/txn-0"
    shutil.copytree(TXN.parent, best)
    lagging.mkdir(parents=True)
    shutil.copy(TXN.parent / "partition.metadata", lagging)
    data = bytearray(first_log.read_bytes())
    (lagging / first_log.name).write_bytes(data[: start_by_offset[transaction["marker_offset"]]])
    data[start_by_offset[transaction["first_offset"]] + 40] ^= 1  # the checksum no longer matches
    (best / first_log.name).write_bytes(data)
    assert transaction["first_offset"] in expected
    brokers = [tmp_path / "b1", tmp_path / "b2"]
    for split_bytes in ("2000", "1000000"):
        rows = spark_offsets(brokers, isolation="read_committed", maxSplitBytes=split_bytes)
        assert rows == expected
    export = kfmt("export", *brokers, "--isolation", "read_committed", "--to", tmp_path / "to")
    assert f"{expected.total()} records" in export.err
