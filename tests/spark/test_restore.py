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
OLD = [SAMPLES / "kafka-2.8.2", SAMPLES / "kafka-0.8.2.2"]
BOTH = ("--tables", "records,batches")
# Of `kfmt dump`: what a codec does not change.
OF_BATCHES = (
    *("base_offset", "last_offset", "magic", "partition_leader_epoch", "attributes"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"),
    *("records_count", "crc_valid"),
)
Row = tuple[Any, ...]


def records(top: Path) -> list[Row]:
    """The records below a directory, by partition and segment, without positions."""
    rows = dumped(top)
    return [(Path(row[0]).parts[-2:], *row[1:12]) for row in rows]


def batches(top: Path) -> list[Row]:
    rows = kfmt("dump", top, "--json").of("batch")
    rows = [row for row in rows if row["file"].endswith(".log")]
    return sorted(
        (Path(row["file"]).parts[-1], *(str(row[name]) for name in OF_BATCHES)) for row in rows
    )


def logs_of(top: Path) -> dict[str, bytes]:
    """The logs with records, by partition and name."""
    found = sorted(top.rglob("*.log"))
    return {"/".join(log.parts[-2:]): log.read_bytes() for log in found if log.stat().st_size}


def test_batches_are_as_they_were(job: Job, tmp_path: Path) -> None:
    job("export", BROKER, *BOTH, "--to", tmp_path / "table")
    done = job("restore", tmp_path / "table", "--to", tmp_path / "to")
    made = tmp_path / "to/log_dir"
    assert "16 partitions, 13 224 records, 1 012 batches" in done.out
    assert not (made / "__cluster_metadata-0").exists()
    shutil.copytree(BROKER, tmp_path / "in")
    shutil.rmtree(tmp_path / "in/__cluster_metadata-0")
    assert records(made) == records(tmp_path / "in")
    assert batches(made) == batches(tmp_path / "in")
    before, after = logs_of(tmp_path / "in"), logs_of(made)
    assert before.keys() == after.keys()
    plain = [name for name in before if name.startswith(("orders", "replicated", "codec-none"))]
    assert len(plain) > 10
    assert all(before[name] == after[name] for name in plain)
    for snapshot in BROKER.glob("txn-0/*.txnindex"):
        assert (made / "txn-0" / snapshot.name).read_bytes() == snapshot.read_bytes()
    assert "no damage" in kfmt("check", made).out
    assert kfmt("verify-crc", "--deep", made).code == 0
    assert kfmt("index-check", made).code == 0
    done = job("compare", BROKER / "orders-0", made / "orders-0", "--to", tmp_path / "same")
    assert "1 identical range, 0 explained" in done.out


@pytest.mark.parametrize("source", OLD, ids=lambda source: source.name)
def test_old_messages_are_as_they_were(job: Job, tmp_path: Path, source: Path) -> None:
    job("export", source, *BOTH, "--to", tmp_path / "table")
    job("restore", tmp_path / "table", "--to", tmp_path / "to")
    assert records(tmp_path / "to/log_dir") == records(source)
    before, after = logs_of(source), logs_of(tmp_path / "to/log_dir")
    plain = [name for name in before if "none" in name]
    assert plain
    assert all(before[name] == after[name] for name in plain)


def test_without_the_table_of_batches(job: Job, tmp_path: Path) -> None:
    for name in ("orders-0", "txn-0", "codec-zstd-0", "appendtime-0"):
        shutil.copytree(BROKER / name, tmp_path / "in" / name)
    job("export", tmp_path / "in", "--to", tmp_path / "table")
    codec = ("--compression", "lz4")
    done = job("restore", tmp_path / "table", "--to", tmp_path / "to", *codec)
    made = tmp_path / "to/log_dir"
    words = "4 partitions without a table of batches: codecs, leader epochs and empty batches are"
    assert words in done.out

    def plain(rows: list[Row]) -> list[Row]:  # segments are rolled as by a broker
        return sorted((row[0][0], *row[1:]) for row in rows)

    assert plain(records(made)) == plain(records(tmp_path / "in"))
    rows = kfmt("dump", made / "orders-0", "--json").of("batch")
    assert {row["attributes"]["compression"] for row in rows} == {"lz4"}
    counts = [row["records_count"] for row in kfmt("dump", ORDERS.parent, "--json").of("batch")]
    assert [row["records_count"] for row in rows] == counts
    assert "no damage" in kfmt("check", made).out


def test_a_second_run_writes_only_what_has_changed(job: Job, tmp_path: Path) -> None:
    source, table, to = tmp_path / "in", tmp_path / "table", tmp_path / "to"
    for name in ("orders-0", "txn-0"):
        shutil.copytree(BROKER / name, source / name)
    one_each = ("--one-file-per-partition", *BOTH)
    job("export", source, *one_each, "--to", table)
    first = job("restore", table, "--to", to).out
    written = {path: path.stat().st_mtime_ns for path in to.rglob("log_dir/**/*.log")}
    assert job("restore", table, "--to", to).out == first
    for file in table.glob("*/txn-*.parquet"):
        file.touch()
    assert job("restore", table, "--to", to).out == first
    changed = {path.parent.name for path, time in written.items() if path.stat().st_mtime_ns > time}
    assert changed == {"txn-0"}
    other = tmp_path / "other"
    (other / "_kfmt").mkdir(parents=True)
    (other / "log_dir/orders-0").mkdir(parents=True)
    shutil.copy(to / "_kfmt/job.json", other / "_kfmt")
    done = job("restore", table, "--to", other, code=3)
    assert "log_dir/orders-0: already exists, and kfmt has not restored it" in done.err
    assert (other / "log_dir/txn-0").exists()


def test_what_the_tables_lack_is_said(job: Job, tmp_path: Path) -> None:
    table = tmp_path / "table"
    more = ("--one-file-per-partition", "--max-split-bytes", "20000")
    job("export", ORDERS.parent, *BOTH, *more, "--to", table)
    files = sorted(table.glob("records/*.parquet"))
    lost = pq.read_table(files[2])["offset"].to_pylist()
    files[2].unlink()
    done = job("restore", table, "--to", tmp_path / "to", code=1)
    words = (
        f"orders-0: {len(lost)} records missing from the table of records, but counted in the "
        "table of batches"
    )
    assert words in done.out
    made = records(tmp_path / "to/log_dir")
    assert [row[1] for row in made] == [i for i in range(1500) if i not in lost]
    files[3].write_bytes(b"no Parquet")
    done = job("restore", table, "--to", tmp_path / "worse", code=3)
    assert f"{files[3]}: Parquet magic bytes not found" in done.err


def test_damaged_batches_are_left_out(job: Job, tmp_path: Path) -> None:
    damaged = SAMPLES.parent / "damaged_segments/flipped-bit-0"
    job("export", damaged, *BOTH, "--to", tmp_path / "table", code=1)
    done = job("restore", tmp_path / "table", "--to", tmp_path / "to", code=1)
    assert "flipped-bit-0: 1 damaged batch dropped" in done.out
    assert "no damage" in kfmt("check", tmp_path / "to/log_dir").out


def test_replicas_in_one_table_are_written_once(job: Job, tmp_path: Path) -> None:
    sources = [SAMPLES / f"kafka-3.9.1-broker{name}/replicated-0" for name in (1, 2)]
    job("export", *sources, *BOTH, "--to", tmp_path / "table")
    done = job("restore", tmp_path / "table", "--to", tmp_path / "to")
    assert "replicated-0: 4 000 records in more than one file, written once" in done.out
    assert logs_of(tmp_path / "to/log_dir") == logs_of(sources[0])


def test_no_table_and_no_partition(job: Job, tmp_path: Path) -> None:
    to = tmp_path / "to"
    done = job("restore", ORDERS.parent, "--to", to, code=2)
    assert "no table of records in Parquet files" in done.err
    job("export", ORDERS, "--to", tmp_path / "table")
    (file,) = (tmp_path / "table/records").glob("*.parquet")
    rows = pq.read_table(file)
    at = rows.schema.get_field_index("topic")
    names = [["../../out"] * len(rows)]
    pq.write_table(rows.set_column(at, rows.schema.field("topic"), names), file)
    done = job("restore", tmp_path / "table", "--to", to, code=3)
    assert f"{file}: '../../out': a topic name has 1 to 249 characters" in done.err
    assert not (tmp_path / "out-0").exists()
