"""Exports for a lake: few files, typed columns, and a manifest that accounts for every record."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kfmt_cli.arrow.export.lake_options import (
    DEFAULT_LAKE_OPTIONS,
    TableFilesWriter,
    parse_lake_options,
)
from tests.support import in_process
from tests.support.lake_runs import export, without_spark
from tests.support.samples import ORDERS, TXN, environment, kfmt
from tests.support.segments import DAMAGES, positions
from tests.support.spark_rows import dumped, exported
from tools.kafka import SAMPLES

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

BROKER = SAMPLES / "kafka-3.9.1-broker1"
DAMAGE_NAMES = ("a flipped bit", "the largest length", "an unknown magic", "garbage put in")


@pytest.fixture
def many_logs(tmp_path: Path) -> Path:
    """Thirty partitions of ten topics with small segments, one topic with a number as its name."""
    root = tmp_path / "logs"
    for index in range(30):
        topic = "2024" if index % 10 == 0 else f"topic{index % 10}"
        directory = root / f"{topic}-{index // 10}"
        directory.mkdir(parents=True)
        for log in sorted(ORDERS.parent.glob("*.log"))[:3]:
            shutil.copy(log, directory)
    return root


def run(source: Path, to: Path, *options: str) -> list[Path]:
    """Export, and return the files."""
    result = kfmt("export", source, "--to", to, *options)
    assert result.code == 0, result.err
    return sorted(to.rglob("*.parquet"))


def test_many_small_partitions_share_a_file(many_logs: Path, tmp_path: Path) -> None:
    (file,) = run(many_logs, tmp_path / "lake", "--jobs", "1")
    table = pq.read_table(file)
    assert table.num_rows == 30 * 720
    assert table.schema.field("topic").type == pa.string()
    assert exported(tmp_path / "lake") == dumped(many_logs)
    partitions = list(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True))
    assert partitions == sorted(partitions)
    separate_files = run(many_logs, tmp_path / "apart", "--one-file-per-partition")
    assert len(separate_files) == 30
    assert exported(tmp_path / "apart") == dumped(many_logs)


def test_large_inputs_make_files_of_the_size_that_was_asked_for(
    many_logs: Path, tmp_path: Path
) -> None:
    files = run(many_logs, tmp_path / "lake", "--target-file-bytes", "300K", "--jobs", "1")
    assert 8 <= len(files) <= 40
    assert exported(tmp_path / "lake") == dumped(many_logs)


@pytest.mark.parametrize("partition_by", ["topic", "topic,date"])
def test_directories_do_not_change_what_the_columns_are(
    partition_by: str, many_logs: Path, tmp_path: Path
) -> None:
    to = tmp_path / "lake"
    files = run(many_logs, to, "--partition-by", partition_by)
    assert {path.relative_to(to).parts[1] for path in files} == {
        "by_topic=2024",
        *(f"by_topic=topic{i}" for i in range(1, 10)),
    }
    if "date" in partition_by:
        assert {path.parent.name for path in files} == {"by_date=2023-11-14"}
    table = pq.read_table(to / "records", partitioning="hive")
    assert table.schema.field("topic").type == pa.string()
    assert "2024" in table["topic"].unique().to_pylist()
    assert exported(to) == dumped(many_logs)
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql(
        "SELECT typeof(any_value(topic)), count(*) FROM read_parquet($1) WHERE topic = '2024'",
        params=[f"{to}/records/**/*.parquet"],
    ).fetchall()
    assert rows == [("VARCHAR", 3 * 720)]


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_lines_of_several_logs_share_a_file(format_: str, many_logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "lake"
    result = kfmt("export", many_logs, "--to", to, "--format", format_, "--jobs", "1")
    assert result.code == 0, result.err
    (file,) = (path for path in to.rglob("records/*"))
    lines = file.read_text().splitlines()
    if format_ == "json":
        rows = [row for row in map(json.loads, lines) if row["type"] == "record"]
        assert len({(row["topic"], row["partition"], row["offset"]) for row in rows}) == 30 * 720
    else:
        assert len(lines) == 1 + 30 * 720
    refused = kfmt(
        "export", many_logs, "--to", tmp_path / "x", "--format", format_, "--schema", "kafka"
    )
    assert refused.code == 2
    assert "apply only to Parquet files" in refused.err


def test_the_manifest_accounts_for_every_record(many_logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "lake"
    run(many_logs, to, "--target-file-bytes", "300K", "--tables", "records,batches")
    manifest = json.loads((to / "_kfmt/manifest.json").read_text())
    assert {row["file"] for row in manifest["inputs"]} == {
        str(log) for log in many_logs.rglob("*.log")
    }
    rows = {output["file"]: output for output in manifest["outputs"]}
    assert {str(path.relative_to(to)) for path in to.rglob("*.parquet")} == set(rows)
    for name, output in rows.items():
        assert pq.ParquetFile(to / name).metadata.num_rows == output["rows"]
        assert (to / name).stat().st_size == output["bytes"]
    for table in ("records", "batches"):
        n_written = sum(output["rows"] for output in rows.values() if output["table"] == table)
        assert n_written == sum(row["rows"][table] for row in manifest["inputs"])
    rows_by_base_offset = {int(Path(row["file"]).stem): row for row in manifest["inputs"]}
    assert (rows_by_base_offset[240]["first_offset"], rows_by_base_offset[240]["last_offset"]) == (
        240,
        479,
    )
    assert all(set(row["outputs"]) <= set(rows) for row in manifest["inputs"])


@pytest.mark.parametrize("tables", ["records", "batches", "records,batches"])
def test_damage_is_said_of_the_log_that_has_it(
    tables: str, many_logs: Path, tmp_path: Path
) -> None:
    """In each of the groups of small logs that are read together."""
    logs = sorted(many_logs.rglob("*.log"))
    damaged = dict(zip(DAMAGE_NAMES, (logs[i] for i in (1, 4, -3, -2)), strict=True))
    for name, log in damaged.items():
        data = log.read_bytes()
        log.write_bytes(DAMAGES[name][0](data, *positions(data)[3:5]))
    result = kfmt("export", many_logs, "--to", tmp_path / "lake", "--tables", tables, "--jobs", "1")
    assert result.code == 1
    reported = [line.split()[0] for line in result.out.splitlines() if "1 error" in line]
    assert reported == [str(log) for log in damaged.values()]
    findings = kfmt("verify-crc", many_logs, "--json").of("finding")
    assert [row["file"] for row in findings] == reported
    for row in findings:
        location = f"{row['file']} byte {row['position']:,}".replace(",", " ")
        assert f"  {location}: {row['message']}\n" in result.err
    manifest = json.loads((tmp_path / "lake/_kfmt/manifest.json").read_text())
    assert len(manifest["inputs"]) == len(logs)
    for row in manifest["inputs"]:
        assert row["first_offset"] == int(Path(row["file"]).stem)


def test_an_empty_input_makes_no_file(tmp_path: Path) -> None:
    assert run(BROKER / "empty-0", tmp_path / "lake") == []


def test_files_are_made_for_a_lake(tmp_path: Path) -> None:
    """zstd, deltas, statistics, a page index and ids of fields."""
    (file,) = run(ORDERS.parent, tmp_path / "lake", "--jobs", "1")
    parquet_file = pq.ParquetFile(file)
    group = parquet_file.metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    for name in ("offset", "timestamp", "position"):
        assert "DELTA_BINARY_PACKED" in columns[name].encodings
        assert columns[name].compression == "ZSTD"
        assert columns[name].has_offset_index
        assert columns[name].statistics.min is not None
    ids = {
        field.name: (field.metadata or {}).get(b"PARQUET:field_id")
        for field in parquet_file.schema_arrow
    }
    assert all(ids.values())
    assert len(set(ids.values())) == len(ids)


def test_the_schema_of_spark_is_exact(tmp_path: Path) -> None:
    files = run(TXN.parent, tmp_path / "lake", "--schema", "kafka", "--jobs", "1")
    table = pq.read_table(files[0])
    expected = [
        *(("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string())),
        *(("partition", pa.int32()), ("offset", pa.int64())),
        *(("timestamp", pa.timestamp("us", "UTC")), ("timestampType", pa.int32())),
    ]
    assert [(field.name, field.type) for field in table.schema] == expected
    text = kfmt("cat", TXN.parent, "--isolation", "read_uncommitted", "-f", "%o\\n").out
    offsets = [int(line) for line in text.split()]
    assert table["offset"].to_pylist() == offsets
    assert set(table["timestampType"].to_pylist()) == {0}
    manifest = json.loads((tmp_path / "lake/_kfmt/manifest.json").read_text())
    assert sum(row["rows"]["records"] for row in manifest["inputs"]) == len(offsets)
    appended = run(BROKER / "appendtime-0", tmp_path / "appended", "--schema", "kafka-headers")
    rows = pq.read_table(appended[0])
    assert set(rows["timestampType"].to_pylist()) == {1}
    assert rows.schema.names[-1] == "headers"
    old = SAMPLES / "kafka-0.8.2.2"
    rows = pq.read_table(run(old, tmp_path / "old", "--schema", "kafka", "--jobs", "1")[0])
    assert set(rows["timestampType"].to_pylist()) == {-1}
    assert set(rows["timestamp"].cast(pa.int64()).to_pylist()) == {-1000}


@pytest.mark.parametrize("topic", ["__consumer_offsets", ".hidden", "_", "..."])
def test_no_file_is_hidden_from_those_who_read_a_directory(topic: str, tmp_path: Path) -> None:
    """Spark, Hive and Trino leave out files whose names begin with _ or a dot."""
    shutil.copytree(ORDERS.parent, tmp_path / f"logs/{topic}-0")
    for partition_by in ("none", "topic"):
        for file in run(tmp_path / "logs", tmp_path / partition_by, "--partition-by", partition_by):
            for name in file.relative_to(tmp_path / partition_by).parts:
                assert name[0] not in "_.", name
        assert exported(tmp_path / partition_by) == dumped(tmp_path / "logs")


def iceberg(files: list[Path], tmp_path: Path) -> Any:
    """A table of Iceberg with these files, as its library reads them."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    pytest.importorskip("sqlalchemy")
    catalog = catalogs.load_catalog(
        "local", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)
    )
    catalog.create_namespace("kafka")
    table = catalog.create_table("kafka.records", pq.read_schema(files[0]))
    table.add_files([str(file) for file in files])
    return table.scan(row_filter="offset >= 1400", selected_fields=("topic", "offset")).to_arrow()


def delta(files: list[Path], tmp_path: Path) -> Any:
    """The same of Delta: files are registered where they are."""
    del tmp_path
    deltalake = pytest.importorskip("deltalake")
    transaction = pytest.importorskip("deltalake.transaction")
    directory = files[0].parent
    table = deltalake.DeltaTable.create(str(directory), schema=pq.read_schema(files[0]))
    actions = [
        transaction.AddAction(
            path=file.name,
            size=file.stat().st_size,
            partition_values={},
            modification_time=int(file.stat().st_mtime * 1000),
            data_change=True,
            stats=json.dumps({"numRecords": pq.ParquetFile(file).metadata.num_rows}),
        )
        for file in files
    ]
    table.create_write_transaction(actions, mode="append", schema=table.schema(), partition_by=[])
    rows = deltalake.DeltaTable(str(directory)).to_pyarrow_table()
    return rows.filter(pa.compute.greater_equal(rows["offset"], 1400)).select(["topic", "offset"])


@pytest.mark.parametrize("add_files", [iceberg, delta])
def test_lakes_take_the_files_as_they_are(
    add_files: Callable[[list[Path], Path], Any], tmp_path: Path
) -> None:
    files = run(ORDERS.parent, tmp_path / "lake", "--target-file-bytes", "40K", "--jobs", "1")
    assert len(files) > 2
    times = {file: file.stat().st_mtime_ns for file in files}
    rows = add_files(files, tmp_path)
    assert sorted(rows["offset"].to_pylist()) == list(range(1400, 1500))
    assert {file: file.stat().st_mtime_ns for file in files} == times


def test_a_dry_run_does_nothing(many_logs: Path, tmp_path: Path) -> None:
    result = kfmt("export", many_logs, "--to", tmp_path / "lake", "--dry-run")
    assert result.code == 0
    assert "would read 90 files, " in result.out + result.err
    assert "dry run: nothing was read or written" in result.out + result.err
    assert not (tmp_path / "lake").exists()


# Values that follow a schema.


def test_values_are_decoded_into_a_column(tmp_path: Path) -> None:
    result = kfmt(
        "export", BROKER / "orders-0", "--to", tmp_path / "made", "--value-format", "json"
    )
    assert result.code == 0
    rows = pq.read_table(tmp_path / "made/records").to_pylist()
    dump = kfmt("dump", BROKER / "orders-0", "--records", "--value-format", "json", "--json")
    expected = {row["offset"]: row.get("decoded_value") for row in dump.of("record")}
    assert len(rows) == len(expected) == 1500
    for row in rows:
        decoded = row["decoded_value"]
        assert (None if decoded is None else json.loads(decoded)) == expected[row["offset"]]


def test_values_of_a_registry_are_decoded(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/7.avsc").write_text(json.dumps(schema))
    lines = []
    for order_id in range(3):
        payload = io.BytesIO(b"\0\0\0\0\7")
        payload.seek(5)
        fastavro.schemaless_writer(payload, schema, {"id": order_id})
        value = base64.b64encode(payload.getvalue()).decode()
        lines.append({"key": None, "value": value, "value_encoding": "base64"})
    lines.append({"key": None, "value": "no frame"})
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert kfmt("build", tmp_path / "in.jsonl", tmp_path / "logs/orders-0").code == 0
    arguments = (tmp_path / "logs", "--decode", "--schemas", tmp_path / "schemas")
    assert kfmt("export", *arguments, "--to", tmp_path / "made").code == 0
    decoded = pq.read_table(tmp_path / "made/records").column("decoded_value").to_pylist()
    assert [json.loads(text)["value"] for text in decoded[:3]] == [{"id": n} for n in range(3)]
    assert "cannot be decoded" in json.loads(decoded[3])["note"]
    result = kfmt("export", tmp_path / "logs", "--decode", "--to", tmp_path / "more")
    assert (result.code, len(result.err.splitlines())) == (2, 1)


def test_both_exports_have_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KRaft snapshots are a table of their own; no offset of a log is there twice."""
    pytest.importorskip("pyspark")
    without_spark(monkeypatch)
    broker = SAMPLES / "kafka-3.9.1-broker1"
    run(broker, tmp_path / "a")
    export(tmp_path / "b", broker)
    for table in ("records", "snapshot_records"):
        a, b = (
            pa.concat_tables(
                pq.ParquetFile(path).read() for path in sorted((tmp_path / to / table).glob("*"))
            )
            for to in ("a", "b")
        )
        assert a.num_rows == b.num_rows > 0
        keys = [("file", "ascending"), ("batch_position", "ascending"), ("offset", "ascending")]
        assert a.sort_by(keys).equals(b.sort_by(keys))
    rows = pq.ParquetDataset(tmp_path / "a/records").read().select(["file", "offset"]).to_pylist()
    assert len({tuple(row.values()) for row in rows}) == len(rows) == 13_822


@pytest.mark.parametrize("cause", ["denied", "link"])
def test_an_input_that_cannot_be_read_is_exit_code_3(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "in/orders-0")
    log = tmp_path / f"in/orders-0/{480:020}.log"
    original_open = os.open

    def failing(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path) == str(log):
            raise PermissionError(13, "Permission denied")
        return original_open(path, *arguments, **options)

    if cause == "link":
        log.unlink()
        log.symlink_to("nowhere")
    else:
        monkeypatch.setattr(os, "open", failing)
    command = ["export", "in", "--to", "out", "--jobs", "1"]
    code, out, err = in_process.run(command, b"", tmp_path, environment())
    assert code == 3
    assert f"kfmt: in/orders-0/{480:020}.log: ".encode() in err
    assert str(tmp_path).encode() not in err
    assert b"0 of these damaged, 1 not read" in out


def test_times_that_no_calendar_has_are_null_beside_their_number(tmp_path: Path) -> None:
    """Year 0, year 10000, and nanoseconds as if they were milliseconds."""
    timestamps = [-62_167_219_200_000, 253_402_300_800_000, 1_700_000_000_000_000_000, 0]
    rows = [
        {"type": "record", "offset": offset, "timestamp": timestamp, "key": None, "value": "v"}
        for offset, timestamp in enumerate(timestamps)
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    result = kfmt("build", "-", tmp_path / "in/odd-0", stdin=lines.encode())
    assert result.code == 0, result.err
    (file,) = run(tmp_path / "in", tmp_path / "out")
    table = pq.ParquetFile(file).read(["timestamp", "timestamp_ms"])
    assert table["timestamp_ms"].to_pylist() == timestamps
    is_null = [True, True, True, False]
    assert [time is None for time in table["timestamp"].to_pylist()] == is_null
    for schema in ("kafka", "kafka-headers"):
        (file,) = run(tmp_path / "in", tmp_path / schema, "--schema", schema)
        times = pq.ParquetFile(file).read(["timestamp"])["timestamp"].to_pylist()
        assert [time is None for time in times] == is_null


def test_full_files_of_a_directory_are_numbered_in_turn(tmp_path: Path) -> None:
    options = parse_lake_options({**DEFAULT_LAKE_OPTIONS, "target_file_bytes": 4}, "csv")
    with TableFilesWriter(str(tmp_path), "records", options, "some", "csv") as files:
        for subdirectory in ("", "", "other/", ""):
            file = files.open_file(
                subdirectory, lambda out: mock.Mock(counts_bytes=True, write=out.write)
            )
            file.write_rows(b"0123", [(0, 1)])
    names = [output.name for output in files.finished_files]
    assert names == [f"records/{name}.csv" for name in ("some", "some-1", "other/some", "some-2")]
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*.csv")} == set(map(Path, names))
