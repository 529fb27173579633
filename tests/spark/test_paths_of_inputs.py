"""The path that an input belongs to, the files that a path names, and errors that stop a run."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.lake_runs import export, file_rows, manifest, without_spark
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS
from tests.support.segments import write

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from kfmt_cli.arrow.columns.tables import iter_split_rows
from kfmt_cli.arrow.export.exported_rows import (
    PartitionFile,
    PartitionRowRange,
    find_exported_files,
)
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.core.urls import is_path_or_subpath
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import KfmtError, UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.spark.copy_pairing import _find_copy_index, require_single_directory
from kfmt_cli.spark.pair_comparison import CopyPair, CopyToCompare
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming.partition_directories import group_partitions


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        *(("/a/kafka/t-0", "/a/kafka", True), ("/a/kafka-2/t-0", "/a/kafka", False)),
        *(("/a", "/", True), ("/a/x", "/a/x", True), ("s3://b/k/t", "s3://b/k/", True)),
    ],
)
def test_a_path_is_below_whole_names(path: str, root: str, expected: bool) -> None:
    assert is_path_or_subpath(path, root) == expected


def test_a_copy_in_an_earlier_path_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if its name begins like that of another, and if paths are relative."""
    for name in ("kafka", "kafka-2"):
        write(tmp_path / name / "t-0", ORDERS.read_bytes())
    monkeypatch.chdir(tmp_path)
    for paths in (("kafka", "kafka-2"), ("kafka-2", "kafka"), (str(tmp_path / "kafka-2"), "kafka")):
        request = replace(parse_request({}), paths=paths)
        files = list_input_files(request)
        [partition] = group_partitions(files, lambda _: None, paths).values()
        first = Path(partition.directories[0].path)
        assert first.parent == tmp_path / Path(paths[0]).name


def test_the_root_may_be_compared() -> None:
    log = FileSplit("/t-0/0.log", LOG_KIND, 0, 1, 0, 0, 1)
    assert _find_copy_index(log, ["/", "/no/such/copy"]) == 0
    assert _find_copy_index(log, ["/", "/t-0"]) == 1


def test_a_copy_is_not_compared_with_a_part_of_itself(tmp_path: Path) -> None:
    """All of its files belong to the other copy, which begins below it."""
    inner = tmp_path / "kafka/t-0"
    write(inner, ORDERS.read_bytes())
    request = replace(parse_request({}), paths=(str(tmp_path),), reads_all_replicas=True)
    files = list_input_files(request)
    for paths in ((tmp_path, inner), (inner, tmp_path)):
        with pytest.raises(UsageError, match=f"{tmp_path}: all of its files are in {inner}"):
            require_single_directory(map(str, paths), files)
    write(tmp_path / "other/t-0", ORDERS.read_bytes())
    require_single_directory((str(tmp_path), str(inner)), list_input_files(request))


def test_files_of_tables_have_a_cost() -> None:
    """So that the partitions of two exports are compared in several tasks."""
    rows = PartitionRowRange("t", 0, 10, 0, 9)
    copy = CopyToCompare(table_files=[PartitionFile("/x/0.parquet", 1 << 20, 0, rows)])
    assert CopyPair("t", 0, copy, copy).n_bytes == 2 << 20


@pytest.mark.parametrize("name", ["notes.txt", f"{0:020}.log.deleted", f"{0:020}.log.swap"])
def test_the_only_file_of_a_directory_is_not_given_by_name(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    shutil.copy(ORDERS, directory / name)
    request = replace(parse_request({}), table="records")
    files = list_input_files(replace(request, paths=(str(directory),)))
    assert not [file for file in files if not file.read_error]
    explicit = list_input_files(replace(request, paths=(str(directory / name),)))
    assert [file.path for file in explicit] == [str(directory / name)]


def test_long_values_of_csv_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an input whose log now begins later, the first rows stay."""
    without_spark(monkeypatch)
    logs, to = tmp_path / "logs", tmp_path / "to"
    value = record(b"k", b"x" * 200_000)
    batches = [batch_of(value, 0, 1, offset) for offset in range(3)]
    log = write(logs / "t-0", b"".join(batches))
    export(to, logs, format_="csv")
    log.rename(log.with_name(f"{1:020}.log"))
    (logs / "t-0" / f"{1:020}.log").write_bytes(b"".join(batches[1:]))
    export(to, logs, format_="csv")
    assert file_rows(to) == Counter({(None, 0, offset): 1 for offset in range(3)})


def test_an_unreadable_topic_id_does_not_stop_the_other_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    logs, to = tmp_path / "logs", tmp_path / "to"
    for partition in (0, 1):
        write(logs / f"t-{partition}", ORDERS.read_bytes())
    export(to, logs, one_file_per_partition=True)
    for partition in (0, 1):
        log = logs / f"t-{partition}/{0:020}.log"
        log.write_bytes(log.read_bytes() + (ORDERS.parent / f"{240:020}.log").read_bytes())
    (logs / "t-0/partition.metadata").mkdir()
    export(to, logs, one_file_per_partition=True)
    ends = {row["partition"]: row["last_offset"] for row in manifest(to)["inputs"]}
    assert ends[1] == 479


def test_an_error_names_the_log_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    for partition in range(3):
        write(tmp_path / f"logs/t-{partition}", ORDERS.read_bytes())
    original = iter_split_rows

    def failing(table: str, reader: object, split: object, decoder: object) -> object:
        if "t-2" in split.path:  # type: ignore[attr-defined]
            raise MemoryError("no memory")
        return original(table, reader, split, decoder)  # type: ignore[arg-type]

    monkeypatch.setattr("kfmt_cli.arrow.export.file_formats.iter_split_rows", failing)
    with pytest.raises(KfmtError, match="t-2"):
        export(tmp_path / "to", tmp_path / "logs", format_="json")


@pytest.mark.parametrize("table_format", [None, "delta", "iceberg"])
def test_replaced_files_of_a_table_are_not_compared(
    table_format: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta and Iceberg keep them for readers of earlier versions."""
    if table_format is not None:
        pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[table_format])
    without_spark(monkeypatch)
    logs, to = tmp_path / "logs", tmp_path / "to"
    log = write(logs / "t-0", ORDERS.read_bytes())
    export(to, logs, table=table_format)
    log.write_bytes(log.read_bytes() + (ORDERS.parent / f"{240:020}.log").read_bytes())
    export(to, logs, table=table_format)
    outputs = {str(to / row["file"]) for row in manifest(to)["outputs"]}
    for path in (to, to / "records", f"{to}/"):
        assert {file.path for file in find_exported_files(str(path)) or ()} == outputs
    # Another writer has rewritten the table.
    (output,) = outputs
    Path(output).rename(to / "records/rewritten.parquet")
    rewritten = {file.path for file in find_exported_files(str(to)) or ()}
    assert str(to / "records/rewritten.parquet") in rewritten


def test_a_directory_may_be_named_like_a_file_of_a_table(tmp_path: Path) -> None:
    """As Spark writes it, with files of its own."""
    directory = tmp_path / "records.parquet"
    files = ("part-0.parquet", "_SUCCESS", ".part-0.parquet.crc", "_delta_log/1.checkpoint.parquet")
    for name in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"")
    for path in (directory, directory / "part-0.parquet"):
        found = find_exported_files(str(path)) or ()
        assert [file.path for file in found] == [str(directory / "part-0.parquet")]
