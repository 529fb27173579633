"""`kfmt build` of an export: the segments that it was made from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt
from tools.kafka import SAMPLES

pytest.importorskip("pyarrow.parquet")

BROKER = SAMPLES / "kafka-3.9.1-broker1"
BOTH_TABLES = ("--tables", "records,batches")
RECORD_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence")


def export(destination: Path, *paths: Path, code: int = 0, tables: bool = True) -> Path:
    options = BOTH_TABLES if tables else ()
    assert kfmt("export", *paths, "--to", destination, *options).code == code
    return destination


def read_logs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def records(directory: Path) -> list[tuple[object, ...]]:
    rows = kfmt("dump", directory, "--records", "--json").of("record")
    return [tuple(str(row[name]) for name in RECORD_COLUMNS) for row in rows]


def test_an_exported_partition_is_built_as_it_was(tmp_path: Path) -> None:
    table = export(tmp_path / "table", ORDERS.parent)
    result = kfmt("build", table, tmp_path / "made")
    assert (result.code, result.err) == (0, "")
    assert "7 segments" in result.out
    assert result.out.splitlines()[-1] == "1 500 records"
    assert read_logs(tmp_path / "made") == read_logs(ORDERS.parent)
    assert kfmt("index-check", tmp_path / "made").code == 0


def test_several_partitions_and_another_topic(tmp_path: Path) -> None:
    table = export(tmp_path / "table", *(BROKER / name for name in ("orders-0", "txn-0")))
    output = tmp_path / "made"
    result = kfmt("build", table, output)
    assert result.code == 0
    n_records = [len(records(BROKER / name)) for name in ("orders-0", "txn-0")]
    assert result.out.splitlines()[-1] == f"{sum(n_records):,} records".replace(",", " ")
    assert {path.name for path in output.iterdir()} == {"orders-0", "txn-0"}
    original = {path.name: path.read_bytes() for path in (BROKER / "txn-0").glob("*.txnindex")}
    built = {path.name: path.read_bytes() for path in (output / "txn-0").glob("*.txnindex")}
    assert {name for name, data in original.items() if data} == built.keys()
    assert all(original[name] == data for name, data in built.items())
    result = kfmt("build", table, tmp_path / "other", "--as", "copy")
    assert "records of several topics" in result.err
    single = export(tmp_path / "one", ORDERS.parent)
    assert kfmt("build", single, tmp_path / "other", "--as", "copy").code == 0
    assert read_logs(tmp_path / "other/copy-0") == read_logs(ORDERS.parent)


def test_one_file_of_records_with_another_codec_and_size(tmp_path: Path) -> None:
    table = export(tmp_path / "table", ORDERS.parent, tables=False)
    (file,) = (table / "records").glob("*.parquet")
    options = ("--compression", "lz4", "--segment-bytes", "10000")
    assert kfmt("build", file, tmp_path / "made", *options).code == 0
    sizes = [log.stat().st_size for log in (tmp_path / "made").glob("*.log")]
    assert len(sizes) > 4
    assert max(sizes) <= 10000
    rows = kfmt("dump", tmp_path / "made", "--json").of("batch")
    assert {row["attributes"]["compression"] for row in rows} == {"lz4"}
    assert records(tmp_path / "made") == records(ORDERS.parent)


def test_a_codec_for_described_batches(tmp_path: Path) -> None:
    table = export(tmp_path / "table", BROKER / "txn-0")
    assert kfmt("build", table, tmp_path / "made", "--compression", "zstd").code == 0
    rows = kfmt("dump", tmp_path / "made", "--json").of("batch")
    codecs = {(row["attributes"]["control"], row["attributes"]["compression"]) for row in rows}
    assert codecs == {(False, "zstd"), (True, "none")}
    assert records(tmp_path / "made") == records(BROKER / "txn-0")


def test_records_missing_from_the_tables_are_a_finding(tmp_path: Path) -> None:
    options = ("--one-file-per-partition", "--target-file-bytes", "1M")
    for name in ("orders-0", "txn-0"):
        assert (
            kfmt("export", BROKER / name, *BOTH_TABLES, *options, "--to", tmp_path / name).code == 0
        )
    for file in (tmp_path / "txn-0/batches").iterdir():
        shutil.copy(file, tmp_path / "orders-0/batches")
    result = kfmt("build", tmp_path / "orders-0", tmp_path / "made")
    assert result.code == 0  # the export has no records of txn-0
    assert read_logs(tmp_path / "made") == read_logs(ORDERS.parent)
    (batches,) = (tmp_path / "txn-0/batches").glob("*.parquet")
    from pyarrow import parquet as pq

    (file,) = (tmp_path / "txn-0/records").glob("*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows.slice(0, len(rows) - 5), file)
    result = kfmt("build", tmp_path / "txn-0", tmp_path / "less")
    assert result.code == 1
    assert (
        "txn-0: 5 records missing from the table of records, but counted in the table of batches"
        in result.err
    )
    pq.write_table(pq.read_table(batches).slice(3), batches)
    result = kfmt("build", tmp_path / "txn-0", tmp_path / "none")
    assert result.code == 3
    assert "txn-0: offset 0 is in none of the exported batches" in result.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("option", [("--producer-id", "7"), ("--batch-records", "2")])
def test_options_for_batches_do_not_apply(tmp_path: Path, option: tuple[str, str]) -> None:
    table = export(tmp_path / "table", ORDERS.parent)
    result = kfmt("build", table, tmp_path / "made", *option)
    assert result.code == 2
    assert "--compression is the only batch option that applies to Parquet" in result.err


def test_a_directory_without_tables(tmp_path: Path) -> None:
    result = kfmt("build", ORDERS.parent, tmp_path / "made")
    assert result.code == 2
    assert "no table of records in Parquet files" in result.err


def test_a_directory_that_is_no_partition_gets_a_topic(tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    for log in ORDERS.parent.glob("*.log"):
        shutil.copy(log, tmp_path / "copied")
    assert kfmt("export", tmp_path / "copied", "--to", tmp_path / "table").code == 0
    result = kfmt("build", tmp_path / "table", tmp_path / "to")
    assert result.code == 3
    assert "'': a topic name has 1 to 249 characters" in result.err
    assert kfmt("build", tmp_path / "table", tmp_path / "to", "--as", "foo").code == 0
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["foo-0"]
    original, rebuilt = (
        kfmt("cat", path, "-f", "%o %k %s\\n").out for path in (ORDERS.parent, tmp_path / "to")
    )
    assert original == rebuilt
