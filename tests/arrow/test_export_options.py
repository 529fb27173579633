"""`kfmt export` with combined options: no row is missing, doubled, or under another name."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.samples import ORDERS, kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"


def exported(to: Path, *arguments: str | Path) -> int:
    """Export, and return the number of rows in Parquet files of records."""
    result = kfmt("export", *arguments, "--to", to)
    assert result.code == 0, result.err
    return sum(pq.read_metadata(file).num_rows for file in to.glob("records/**/*.parquet"))


def export_text(to: Path, table: str, *arguments: str | Path) -> str:
    result = kfmt("export", *arguments, "--to", to)
    assert result.code == 0, result.err
    return "".join(file.read_text() for file in sorted(to.glob(f"{table}/*")))


def test_copies_of_a_partition_have_a_selection_each(tmp_path: Path) -> None:
    copies = [BROKER / "txn-0", SAMPLES / "kafka-3.9.1-live/txn-0"]
    for i, options in enumerate((("--isolation", "read_committed"), ("--last", "3"))):
        separate = [
            exported(tmp_path / f"{i}-{n}", copy, *options) for n, copy in enumerate(copies)
        ]
        assert exported(tmp_path / f"{i}", *copies, *options, "--all-replicas") == sum(separate)


def test_force_replaces_an_earlier_export(tmp_path: Path) -> None:
    source, to = tmp_path / "orders-0", tmp_path / "out"
    shutil.copytree(ORDERS.parent, source)
    assert exported(to, source) == 1500
    assert exported(to, source, "--force", "--partition-by", "topic") == 1500
    (source / ORDERS.name).touch()
    assert exported(to, source, "--force") == 1500
    assert exported(to, source, "--force", "--tables", "batches") == 0
    manifest = json.loads((to / "_kfmt/manifest.json").read_text())
    files = {str(file.relative_to(to)) for file in to.rglob("*.parquet")}
    assert files == {output["file"] for output in manifest["outputs"]}


def test_force_removes_nothing_that_an_export_has_not_written(tmp_path: Path) -> None:
    to, outside = tmp_path / "out", tmp_path / "kept.parquet"
    outside.write_bytes(b"")
    exported(to, ORDERS.parent)
    (to / "records/mine.parquet").write_bytes(b"")
    manifest = to / "_kfmt/manifest.json"
    outputs = [{"file": name} for name in ("records/../../kept.parquet", "../kept.parquet", 5)]
    manifest.write_text(json.dumps({"outputs": [*outputs, None]}))
    kfmt("export", ORDERS, "--to", to, "--force")
    assert outside.exists()
    assert (to / "records/mine.parquet").exists()


@pytest.mark.parametrize("file_format", ["parquet", "json", "csv"])
def test_batches_are_selected_in_every_format(file_format: str, tmp_path: Path) -> None:
    options = ("--tables", "batches", "--from-offset", "1400", "--to-offset", "1419")
    result = kfmt("export", ORDERS.parent, "--to", tmp_path, "--format", file_format, *options)
    assert "1 batch" in result.out.splitlines()[-1]


def test_internal_topics_are_decoded_in_text(tmp_path: Path) -> None:
    offsets = BROKER / "__consumer_offsets-1"
    dumped = kfmt("dump", offsets, "--records", "--json").of("record")
    lines = export_text(tmp_path / "json", "records", offsets, "--format", "json").splitlines()
    rows = [row for row in map(json.loads, lines) if row["type"] == "record"]
    columns = ("decoded_key", "decoded_value")
    assert [[row[name] for name in columns] for row in rows] == [
        [row[name] for name in columns] for row in dumped
    ]


def test_csv_has_a_heading_for_each_cell(tmp_path: Path) -> None:
    paths = (BROKER / "__consumer_offsets-1", ORDERS)
    text = export_text(tmp_path / "both", "records", *paths, "--format", "csv", "--to-offset", "5")
    rows = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in rows}) == 1
    assert "decoded_value" in rows[0]
    records_text = export_text(tmp_path / "plain", "records", ORDERS, "--format", "csv")
    assert records_text == kfmt("dump", ORDERS, "--records", "--format", "csv").out


def test_columns_are_those_of_records_in_snapshots(tmp_path: Path) -> None:
    exported(tmp_path, BROKER / "__cluster_metadata-0", "--columns", "offset,key")
    tables = sorted(tmp_path.glob("*/*.parquet"))
    assert [file.parent.name for file in tables] == ["records", "snapshot_records"]
    assert all(pq.read_schema(file).names == ["offset", "key"] for file in tables)


@pytest.mark.parametrize("columns", ["offset,key", "offset,offset", "topic,partition,file"])
def test_columns_are_those_of_records(columns: str, tmp_path: Path) -> None:
    options = ("--tables", "records,batches", "--columns", columns)
    assert exported(tmp_path, ORDERS, *options) == 240
    (records,) = tmp_path.glob("records/*.parquet")
    (batches,) = tmp_path.glob("batches/*.parquet")
    assert pq.read_schema(records).names == list(dict.fromkeys(columns.split(",")))
    assert "last_offset" in pq.read_schema(batches).names
