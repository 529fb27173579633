"""`kfmt pipeline restore`: exported records become segments again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, kfmt
from tests.support.spark_job import Job
from tests.support.spark_rows import dumped
from tools.kafka import SAMPLES

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
]
BROKER = SAMPLES / "kafka-3.9.1-broker1"
OLD_BROKERS = [SAMPLES / "kafka-2.8.2", SAMPLES / "kafka-0.8.2.2"]
BOTH_TABLES = ("--tables", "records,batches")
# Of `kfmt dump`: fields that a codec does not change.
BATCH_FIELDS = (
    *("base_offset", "last_offset", "magic", "partition_leader_epoch", "attributes"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"),
    *("records_count", "crc_valid"),
)
Row = tuple[Any, ...]


def records(root: Path) -> list[Row]:
    """The records below a directory, by partition and segment, without positions."""
    rows = dumped(root)
    return [(Path(row[0]).parts[-2:], *row[1:12]) for row in rows]


def batches(root: Path) -> list[Row]:
    rows = kfmt("dump", root, "--json").of("batch")
    rows = [row for row in rows if row["file"].endswith(".log")]
    return sorted(
        (Path(row["file"]).parts[-1], *(str(row[name]) for name in BATCH_FIELDS)) for row in rows
    )


def log_contents(root: Path) -> dict[str, bytes]:
    """The logs with records, by partition and name."""
    logs = sorted(root.rglob("*.log"))
    return {"/".join(log.parts[-2:]): log.read_bytes() for log in logs if log.stat().st_size}


def test_batches_are_as_they_were(job: Job, tmp_path: Path) -> None:
    job("export", BROKER, *BOTH_TABLES, "--to", tmp_path / "table")
    result = job("restore", tmp_path / "table", "--to", tmp_path / "to")
    restored = tmp_path / "to/log_dir"
    assert "16 partitions, 13 224 records, 1 012 batches" in result.out
    assert not (restored / "__cluster_metadata-0").exists()
    shutil.copytree(BROKER, tmp_path / "in")
    shutil.rmtree(tmp_path / "in/__cluster_metadata-0")
    assert records(restored) == records(tmp_path / "in")
    assert batches(restored) == batches(tmp_path / "in")
    before, after = log_contents(tmp_path / "in"), log_contents(restored)
    assert before.keys() == after.keys()
    uncompressed = [
        name for name in before if name.startswith(("orders", "replicated", "codec-none"))
    ]
    assert len(uncompressed) > 10
    assert all(before[name] == after[name] for name in uncompressed)
    for index in BROKER.glob("txn-0/*.txnindex"):
        assert (restored / "txn-0" / index.name).read_bytes() == index.read_bytes()
    assert "no damage" in kfmt("check", restored).out
    assert kfmt("verify-crc", "--deep", restored).code == 0
    assert kfmt("index-check", restored).code == 0
    result = job("compare", BROKER / "orders-0", restored / "orders-0", "--to", tmp_path / "same")
    assert "1 identical range, 0 explained" in result.out


@pytest.mark.parametrize("source", OLD_BROKERS, ids=lambda source: source.name)
def test_old_messages_are_as_they_were(job: Job, tmp_path: Path, source: Path) -> None:
    job("export", source, *BOTH_TABLES, "--to", tmp_path / "table")
    job("restore", tmp_path / "table", "--to", tmp_path / "to")
    assert records(tmp_path / "to/log_dir") == records(source)
    before, after = log_contents(source), log_contents(tmp_path / "to/log_dir")
    uncompressed = [name for name in before if "none" in name]
    assert uncompressed
    assert all(before[name] == after[name] for name in uncompressed)


def test_without_the_table_of_batches(job: Job, tmp_path: Path) -> None:
    for name in ("orders-0", "txn-0", "codec-zstd-0", "appendtime-0"):
        shutil.copytree(BROKER / name, tmp_path / "in" / name)
    job("export", tmp_path / "in", "--to", tmp_path / "table")
    codec = ("--compression", "lz4")
    result = job("restore", tmp_path / "table", "--to", tmp_path / "to", *codec)
    restored = tmp_path / "to/log_dir"
    message = "4 partitions without a table of batches: codecs, leader epochs and empty batches are"
    assert message in result.out

    def sorted_rows(rows: list[Row]) -> list[Row]:  # segments are rolled as by a broker
        return sorted((row[0][0], *row[1:]) for row in rows)

    assert sorted_rows(records(restored)) == sorted_rows(records(tmp_path / "in"))
    rows = kfmt("dump", restored / "orders-0", "--json").of("batch")
    assert {row["attributes"]["compression"] for row in rows} == {"lz4"}
    counts = [row["records_count"] for row in kfmt("dump", ORDERS.parent, "--json").of("batch")]
    assert [row["records_count"] for row in rows] == counts
    assert "no damage" in kfmt("check", restored).out


def test_a_second_run_writes_only_what_has_changed(job: Job, tmp_path: Path) -> None:
    source, table, to = tmp_path / "in", tmp_path / "table", tmp_path / "to"
    for name in ("orders-0", "txn-0"):
        shutil.copytree(BROKER / name, source / name)
    options = ("--one-file-per-partition", *BOTH_TABLES)
    job("export", source, *options, "--to", table)
    first = job("restore", table, "--to", to).out
    times_before = {path: path.stat().st_mtime_ns for path in to.rglob("log_dir/**/*.log")}
    assert job("restore", table, "--to", to).out == first
    for file in table.glob("*/txn-*.parquet"):
        file.touch()
    assert job("restore", table, "--to", to).out == first
    changed = {
        path.parent.name for path, time in times_before.items() if path.stat().st_mtime_ns > time
    }
    assert changed == {"txn-0"}
    other = tmp_path / "other"
    (other / "_kfmt").mkdir(parents=True)
    (other / "log_dir/orders-0").mkdir(parents=True)
    shutil.copy(to / "_kfmt/job.json", other / "_kfmt")
    result = job("restore", table, "--to", other, code=3)
    assert "log_dir/orders-0: already exists, and kfmt has not restored it" in result.err
    assert (other / "log_dir/txn-0").exists()


def test_records_missing_from_a_table_are_reported(job: Job, tmp_path: Path) -> None:
    table = tmp_path / "table"
    options = ("--one-file-per-partition", "--max-split-bytes", "20000")
    job("export", ORDERS.parent, *BOTH_TABLES, *options, "--to", table)
    files = sorted(table.glob("records/*.parquet"))
    missing = pq.read_table(files[2])["offset"].to_pylist()
    files[2].unlink()
    result = job("restore", table, "--to", tmp_path / "to", code=1)
    message = (
        f"orders-0: {len(missing)} records missing from the table of records, but counted in the "
        "table of batches"
    )
    assert message in result.out
    restored = records(tmp_path / "to/log_dir")
    assert [row[1] for row in restored] == [i for i in range(1500) if i not in missing]
    files[3].write_bytes(b"no Parquet")
    result = job("restore", table, "--to", tmp_path / "worse", code=3)
    assert f"{files[3]}: Parquet magic bytes not found" in result.err


def test_damaged_batches_are_omitted(job: Job, tmp_path: Path) -> None:
    damaged = SAMPLES.parent / "damaged_segments/flipped-bit-0"
    job("export", damaged, *BOTH_TABLES, "--to", tmp_path / "table", code=1)
    result = job("restore", tmp_path / "table", "--to", tmp_path / "to", code=1)
    assert "flipped-bit-0: 1 damaged batch dropped" in result.out
    assert "no damage" in kfmt("check", tmp_path / "to/log_dir").out


def test_replicas_in_one_table_are_written_once(job: Job, tmp_path: Path) -> None:
    sources = [SAMPLES / f"kafka-3.9.1-broker{name}/replicated-0" for name in (1, 2)]
    job("export", *sources, *BOTH_TABLES, "--all-replicas", "--to", tmp_path / "table")
    result = job("restore", tmp_path / "table", "--to", tmp_path / "to")
    assert "replicated-0: 4 000 records in more than one file, written once" in result.out
    assert log_contents(tmp_path / "to/log_dir") == log_contents(sources[0])


def test_no_table_and_no_partition(job: Job, tmp_path: Path) -> None:
    to = tmp_path / "to"
    result = job("restore", ORDERS.parent, "--to", to, code=2)
    assert "no table of records in Parquet files" in result.err
    job("export", ORDERS, "--to", tmp_path / "table")
    (file,) = (tmp_path / "table/records").glob("*.parquet")
    rows = pq.read_table(file)
    index = rows.schema.get_field_index("topic")
    names = [["../../out"] * len(rows)]
    pq.write_table(rows.set_column(index, rows.schema.field("topic"), names), file)
    result = job("restore", tmp_path / "table", "--to", to, code=3)
    assert f"{file}: '../../out': a topic name has 1 to 249 characters" in result.err
    assert not (tmp_path / "out-0").exists()
