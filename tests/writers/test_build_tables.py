"""`kfmt build` of an export: the segments that it was made from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt
from tools.kafka import SAMPLES

pytest.importorskip("pyarrow.parquet")

BROKER = SAMPLES / "kafka-3.9.1-broker1"
BOTH = ("--tables", "records,batches")
IN_ONE = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence")


def export(to: Path, *paths: Path, code: int = 0, tables: bool = True) -> Path:
    more = BOTH if tables else ()
    assert kfmt("export", *paths, "--to", to, *more).code == code
    return to


def logs_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}


def records(folder: Path) -> list[tuple[object, ...]]:
    rows = kfmt("dump", folder, "--records", "--json").of("record")
    return [tuple(str(row[name]) for name in IN_ONE) for row in rows]


def test_an_exported_partition_is_built_as_it_was(tmp_path: Path) -> None:
    table = export(tmp_path / "table", ORDERS.parent)
    done = kfmt("build", table, tmp_path / "made")
    assert (done.code, done.err) == (0, "")
    assert "7 segments" in done.out
    assert done.out.endswith("1 500 records\n")
    assert logs_of(tmp_path / "made") == logs_of(ORDERS.parent)
    assert kfmt("index-check", tmp_path / "made").code == 0


def test_several_partitions_and_another_topic(tmp_path: Path) -> None:
    table = export(tmp_path / "table", *(BROKER / name for name in ("orders-0", "txn-0")))
    made = tmp_path / "made"
    assert kfmt("build", table, made).code == 0
    assert {path.name for path in made.iterdir()} == {"orders-0", "txn-0"}
    before = {path.name: path.read_bytes() for path in (BROKER / "txn-0").glob("*.txnindex")}
    after = {path.name: path.read_bytes() for path in (made / "txn-0").glob("*.txnindex")}
    assert {name for name, data in before.items() if data} == after.keys()
    assert all(before[name] == data for name, data in after.items())
    done = kfmt("build", table, tmp_path / "other", "--topic", "copy")
    assert "records of several topics" in done.err
    one = export(tmp_path / "one", ORDERS.parent)
    assert kfmt("build", one, tmp_path / "other", "--topic", "copy").code == 0
    assert logs_of(tmp_path / "other/copy-0") == logs_of(ORDERS.parent)


def test_one_file_of_records_with_another_codec_and_size(tmp_path: Path) -> None:
    table = export(tmp_path / "table", ORDERS.parent, tables=False)
    (file,) = (table / "records").glob("*.parquet")
    sized = ("--compression", "lz4", "--segment-bytes", "10000")
    assert kfmt("build", file, tmp_path / "made", *sized).code == 0
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
    found = {(row["attributes"]["control"], row["attributes"]["compression"]) for row in rows}
    assert found == {(False, "zstd"), (True, "none")}
    assert records(tmp_path / "made") == records(BROKER / "txn-0")


def test_what_the_tables_lack_is_a_finding(tmp_path: Path) -> None:
    more = ("--one-file-per-partition", "--target-file-bytes", "1M")
    for name in ("orders-0", "txn-0"):
        assert kfmt("export", BROKER / name, *BOTH, *more, "--to", tmp_path / name).code == 0
    for file in (tmp_path / "txn-0/batches").iterdir():
        shutil.copy(file, tmp_path / "orders-0/batches")
    done = kfmt("build", tmp_path / "orders-0", tmp_path / "made")
    assert done.code == 0  # of txn-0 there are no records at all
    assert logs_of(tmp_path / "made") == logs_of(ORDERS.parent)
    (batches,) = (tmp_path / "txn-0/batches").glob("*.parquet")
    from pyarrow import parquet as pq

    (file,) = (tmp_path / "txn-0/records").glob("*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows.slice(0, len(rows) - 5), file)
    done = kfmt("build", tmp_path / "txn-0", tmp_path / "less")
    assert done.code == 1
    assert (
        "txn-0: 5 records missing from the table of records, but counted in the table of batches"
        in done.err
    )
    pq.write_table(pq.read_table(batches).slice(3), batches)
    done = kfmt("build", tmp_path / "txn-0", tmp_path / "none")
    assert done.code == 3
    assert "txn-0: offset 0 is in none of the exported batches" in done.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("option", [("--producer-id", "7"), ("--batch-records", "2")])
def test_options_for_batches_do_not_apply(tmp_path: Path, option: tuple[str, str]) -> None:
    table = export(tmp_path / "table", ORDERS.parent)
    done = kfmt("build", table, tmp_path / "made", *option)
    assert done.code == 2
    assert "--compression is the only batch option that applies to Parquet" in done.err


def test_a_directory_without_tables(tmp_path: Path) -> None:
    done = kfmt("build", ORDERS.parent, tmp_path / "made")
    assert done.code == 2
    assert "no table of records in Parquet files" in done.err


def test_a_directory_that_is_no_partition_gets_a_topic(tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    for log in ORDERS.parent.glob("*.log"):
        shutil.copy(log, tmp_path / "copied")
    assert kfmt("export", tmp_path / "copied", "--to", tmp_path / "table").code == 0
    done = kfmt("build", tmp_path / "table", tmp_path / "to")
    assert done.code == 3
    assert "'': a topic name has 1 to 249 characters" in done.err
    assert kfmt("build", tmp_path / "table", tmp_path / "to", "--topic", "foo").code == 0
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["foo-0"]
    one, two = (
        kfmt("cat", path, "-f", "%o %k %s\\n").out for path in (ORDERS.parent, tmp_path / "to")
    )
    assert one == two
