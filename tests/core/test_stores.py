"""Object stores: a server that speaks S3, as pyarrow and the jobs use it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.store_server import Bucket
from tools.kafka import ROOT

pa = pytest.importorskip("pyarrow")
pytest.importorskip("moto.server")

from kfmt_cli.arrow.columns import tables  # noqa: E402
from kfmt_cli.arrow.export import file_formats  # noqa: E402
from kfmt_cli.arrow.export.atomic_files import (  # noqa: E402
    list_file_names,
    open_atomic,
    read_json_file,
    write_json_file,
)
from kfmt_cli.arrow.export.file_groups import export_file_group  # noqa: E402
from kfmt_cli.arrow.export.lake_options import LakeOptions  # noqa: E402
from kfmt_cli.arrow.input_files import list_input_files  # noqa: E402
from kfmt_cli.core import stores  # noqa: E402
from kfmt_cli.core.file_systems import file_system_and_path  # noqa: E402
from kfmt_cli.disk.file_listing import iter_files  # noqa: E402
from kfmt_cli.errors import InputError, OutputError  # noqa: E402
from kfmt_cli.execution.file_split import SplitError  # noqa: E402
from kfmt_cli.execution.read_request import ReadRequest  # noqa: E402
from kfmt_cli.spark.partition_reader import read_input_partition  # noqa: E402
from kfmt_cli.spark.selections import plan_input_partitions  # noqa: E402
from kfmt_cli.spark.source_options import parse_request  # noqa: E402

SAVED_STORES = ROOT / "tests/kept/aiven-1.0.0"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class StoreError(Exception):
    """Raised while a file is read or written."""


def _fail_after(path: str, size: int) -> None:
    with open_atomic(path) as out:
        out.write(b"x" * size)
        raise StoreError


def read_rows(request: ReadRequest) -> list[dict[str, Any]]:
    return [
        row
        for split in plan_input_partitions(request)
        for batch in read_input_partition(request, split)
        for row in pa.Table.from_batches([batch]).to_pylist()
    ]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_bucket_is_read_as_a_directory_is(scheme: str, bucket: Bucket) -> None:
    path = bucket.file("data").replace("s3://", f"{scheme}://")
    request = replace(parse_request({"columns": "offset,key"}), paths=(path,), max_split_bytes=9000)
    expected = [
        (row["offset"], None if row["key"] is None else row["key"].encode())
        for row in kfmt("dump", ORDERS.parent, "--records", "--json").of("record")
    ]
    assert [(row["offset"], row["key"]) for row in read_rows(request)] == expected
    paths = [split.path for split in list_input_files(request)]
    assert all(file.startswith(f"{scheme}://") for file in paths)
    last = replace(parse_request({"columns": "offset", "last": "3"}), paths=(path,))
    assert [row["offset"] for row in read_rows(last)] == [1497, 1498, 1499]


def test_a_small_output_is_one_request(bucket: Bucket) -> None:
    write_json_file(bucket.file("out/job.json"), {"a": 1})
    assert bucket.requests_matching("job.json") == [f"PUT /{bucket.url[5:]}/out/job.json"]
    assert read_json_file(bucket.file("out/job.json")) == {"a": 1}
    assert list_file_names(bucket.file("out")) == {"job.json"}


def test_an_error_while_writing_leaves_no_file(bucket: Bucket) -> None:
    for size in (10, 20 << 20):
        with pytest.raises(StoreError):
            _fail_after(bucket.file("out/half.parquet"), size)
        assert list_file_names(bucket.file("out")) == set()
        assert bucket.requests_matching("half.parquet") == []
    with open_atomic(bucket.file("out/whole")) as out:
        out.write(b"x" * (20 << 20))
    (file,) = iter_files(bucket.file("out/whole"))
    assert file.size == 20 << 20


def test_a_task_that_fails_in_the_middle_of_a_file_leaves_nothing(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    original_function: Any = vars(tables)["iter_split_batches"]

    def fail_at_third_batch(*arguments: Any) -> Iterator[Any]:
        for i, batch in enumerate(original_function(*arguments)):
            if i == 2:
                raise StoreError
            yield batch

    request = replace(parse_request({"batchRows": "20"}), paths=(bucket.file("data"),))
    splits = list_input_files(request)[:1]
    to_path = bucket.file("out")
    monkeypatch.setattr(tables, "iter_split_batches", fail_at_third_batch)
    monkeypatch.setattr(file_formats, "MAX_ROW_GROUP_BYTES", 1)
    with pytest.raises(SplitError):
        export_file_group(request, splits, to_path, LakeOptions())
    assert bucket.requests_matching("(PUT|POST) .*out/") == []
    monkeypatch.setattr(tables, "iter_split_batches", original_function)
    result = export_file_group(request, splits, to_path, LakeOptions())
    assert result.exported_files[0].rows == 240
    system, path = file_system_and_path(f"{to_path}/{result.exported_files[0].name}")
    assert system.get_file_info(path).size > 1000


def test_a_missing_object_is_one_line_of_error(bucket: Bucket) -> None:
    with pytest.raises(InputError) as not_found:
        list(iter_files(bucket.file("nothing")))
    assert str(not_found.value) == f"{bucket.url}/nothing: not found"
    for url in ("s3://no-such-bucket-here/x", "abfs://container/x", "hdfs://namenode:8020/x"):
        with pytest.raises(InputError) as refused:
            list(iter_files(url))
        assert "\n" not in str(refused.value)
        assert str(refused.value).startswith(url.rpartition("/")[0])
    with pytest.raises(InputError, match="no file system installed for gopher://"):
        list(iter_files("gopher://host/x"))
    with pytest.raises(OutputError):
        write_json_file("s3://no-such-bucket-here/x", {})


def test_other_file_systems_are_those_of_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for file in ORDERS.parent.iterdir():
        memory.pipe(f"/box/orders-0/{file.name}", file.read_bytes())
    request = replace(parse_request({}), paths=("memory://box/orders-0",))
    assert len(read_rows(request)) == 1500


@pytest.mark.parametrize(
    ("entry_times", "modified_ns"),
    [
        ({"mtime": 1_700_000_000.5}, 1_700_000_000_500_000_000),
        ({"mtime": 1_700_000_000}, 1_700_000_000_000_000_000),
        ({"mtime": datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)}, 1_700_000_000 * 10**9),
        ({"modificationTime": 1_700_000_000_250}, 1_700_000_000_250_000_000),  # of WebHDFS
        *(({}, 0), ({"mtime": "yesterday"}, 0), ({"mtime": None}, 0)),
    ],
)
def test_files_of_fsspec_say_when_they_were_written_and_how_large_they_are(
    entry_times: dict[str, Any], modified_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/written/t-0/a.log", b"four")
    memory.pipe("/written/t-0/below/b.log", b"")
    original_ls = type(memory).ls

    def ls(self: Any, *arguments: Any, **options: Any) -> Any:
        return [{**entry, **entry_times} for entry in original_ls(self, *arguments, **options)]

    monkeypatch.setattr(type(memory), "ls", ls)
    files = list(stores.list_files("memory://written"))
    assert sorted((file.path, file.size, file.modified_ns) for file in files) == [
        ("memory://written/t-0/a.log", 4, modified_ns),
        ("memory://written/t-0/below/b.log", 0, modified_ns),
    ]
    assert list(stores.list_files("memory://written", recursive=False)) == []
    direct_files = stores.list_files("memory://written/t-0", recursive=False)
    assert [file.path for file in direct_files] == ["memory://written/t-0/a.log"]


def test_a_folder_of_fsspec_that_cannot_be_listed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/closed/a-0/x.log", b"1")
    memory.pipe("/closed/b-0/x.log", b"22")
    original_ls = type(memory).ls

    def ls(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        if "b-0" in path:
            raise PermissionError("not allowed")
        return original_ls(self, path, *arguments, **options)

    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(type(memory), "ls", ls)
    files_by_path = {file.path: file for file in stores.list_files("memory://closed")}
    assert sorted(files_by_path) == ["memory://closed/a-0/x.log", "memory://closed/b-0"]
    assert "not allowed" in (files_by_path["memory://closed/b-0"].error or "")
    with pytest.raises(InputError, match="not allowed"):
        list(stores.list_files("memory://closed/b-0"))


def test_what_a_file_system_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error may be of any class."""
    fsspec = pytest.importorskip("fsspec")

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("it is in safe mode\nat line 5")

    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    memory = type(fsspec.filesystem("memory"))
    monkeypatch.setattr(memory, "_open", refuse)
    with pytest.raises(OutputError) as write_error:
        write_json_file("memory://box/x.json", {})
    assert str(write_error.value) == "memory://box/x.json: cannot be written: it is in safe mode"
    monkeypatch.setattr(memory, "info", refuse)
    with pytest.raises(InputError) as read_error:
        list(iter_files("memory://box/x.json"))
    assert str(read_error.value) == "memory://box/x.json: it is in safe mode"


def test_tables_of_a_bucket_are_those_of_its_directory(bucket: Bucket) -> None:
    """Also tables that need several files."""
    url = bucket.upload(TXN.parent, "data/txn-0")
    for options in (
        {"table": "index_entries"},
        {"table": "batches"},
        {"table": "segments"},
        {"table": "findings", "deep": "true"},
        {"isolation": "read_committed"},
    ):
        request = parse_request(options)
        bucket_rows = read_rows(replace(request, paths=(url,)))
        local_rows = read_rows(replace(request, paths=(str(TXN.parent),)))
        assert [{**row, "file": ""} for row in bucket_rows] == [
            {**row, "file": ""} for row in local_rows
        ]
        assert bucket_rows or options["table"] == "findings"


@pytest.mark.parametrize("name", ["plain", "zstd", "encrypted"])
@pytest.mark.parametrize("location", ["local", "s3"])
def test_a_tiered_topic_is_read_as_a_local_one(name: str, location: str, bucket: Bucket) -> None:
    pytest.importorskip("cryptography")
    root = str(SAVED_STORES / name)
    options = {"rsmPrivateKey": str(SAVED_STORES / "encrypted/test-key.pkcs8.der")}
    if location == "s3":
        root = bucket.upload(SAVED_STORES / name, "tiered")
    request = parse_request({"columns": "topic,partition,offset,value,file", **options})
    rows = read_rows(replace(request, paths=(root,)))
    txn_rows = [row for row in rows if row["topic"] == "txn"]
    local_rows = read_rows(replace(parse_request({}), paths=(str(TXN.parent),)))
    values_by_offset = {row["offset"]: row["value"] for row in local_rows}
    base_offsets = {row["file"].rpartition("/")[2][:20] for row in txn_rows}
    assert base_offsets == {f"{0:020}", f"{357:020}"}
    assert [values_by_offset[row["offset"]] for row in txn_rows] == [
        row["value"] for row in txn_rows
    ]
    assert len(txn_rows) > 300
    batches = read_rows(replace(parse_request({"table": "batches", **options}), paths=(root,)))
    assert {row["topic"] for row in batches} >= {"txn"}
    last = replace(parse_request({"last": "2", "topics": "txn", **options}), paths=(root,))
    assert len(read_rows(last)) == 2
    without_key = replace(request, paths=(root,), private_key=None)
    if name == "encrypted":
        with pytest.raises(InputError, match="encrypted with key kfmt-test"):
            list_input_files(without_key)
    else:
        assert not any(file.read_error for file in list_input_files(without_key))


def test_the_manifest_says_which_topic_it_is(tmp_path: Path) -> None:
    """Also if the directory's name contains the plug-in's prefix."""
    (directory,) = (SAVED_STORES / "zstd/tiered").glob("txn-*")
    shutil.copytree(directory, tmp_path / "bucket/a/b" / f"pre.{directory.name}")
    request = parse_request({"columns": "topic,partition", "topics": "txn"})
    rows = read_rows(replace(request, paths=(str(tmp_path / "bucket"),)))
    assert {(row["topic"], row["partition"]) for row in rows} == {("txn", 0)}
    assert (
        list_input_files(replace(request, paths=(str(tmp_path),), topics=frozenset(["other"])))
        == []
    )
    result = kfmt("cat", tmp_path / "bucket", "-f", "%t %p\n")
    assert set(result.out.splitlines()) == {"txn 0"}


def test_local_and_tiered_parts_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "txn-0").mkdir()
    for file in TXN.parent.glob(f"{357:020}.*"):
        shutil.copy(file, tmp_path / "txn-0")
    paths = str(SAVED_STORES / "plain"), str(tmp_path / "txn-0")
    rows = read_rows(replace(parse_request({"columns": "offset", "topics": "txn"}), paths=paths))
    offsets = [row["offset"] for row in rows]
    assert len(offsets) == len(set(offsets)) > 500
