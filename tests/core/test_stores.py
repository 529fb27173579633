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
from kfmt_cli.core.file_systems import file_system_at  # noqa: E402
from kfmt_cli.disk.file_listing import iter_files  # noqa: E402
from kfmt_cli.errors import InputError, OutputError  # noqa: E402
from kfmt_cli.execution.file_split import SplitError  # noqa: E402
from kfmt_cli.execution.read_request import ReadRequest  # noqa: E402
from kfmt_cli.spark.partition_reader import read_input_partition  # noqa: E402
from kfmt_cli.spark.selections import plan_input_partitions  # noqa: E402
from kfmt_cli.spark.source_options import parse_request  # noqa: E402

KEPT = ROOT / "tests/kept/aiven-1.0.0"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class StoreError(Exception):
    """Raised in the middle of some work."""


def _fail_after(path: str, size: int) -> None:
    with open_atomic(path) as out:
        out.write(b"x" * size)
        raise StoreError


def rows_of(request: ReadRequest) -> list[dict[str, Any]]:
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
    assert [(row["offset"], row["key"]) for row in rows_of(request)] == expected
    files = [piece.path for piece in list_input_files(request)]
    assert all(file.startswith(f"{scheme}://") for file in files)
    last = replace(parse_request({"columns": "offset", "last": "3"}), paths=(path,))
    assert [row["offset"] for row in rows_of(last)] == [1497, 1498, 1499]


def test_a_small_output_is_one_request(bucket: Bucket) -> None:
    write_json_file(bucket.file("out/job.json"), {"a": 1})
    assert bucket.requests_matching("job.json") == [f"PUT /{bucket.url[5:]}/out/job.json"]
    assert read_json_file(bucket.file("out/job.json")) == {"a": 1}
    assert list_file_names(bucket.file("out")) == {"job.json"}


def test_what_is_raised_meanwhile_leaves_nothing(bucket: Bucket) -> None:
    for size in (10, 20 << 20):
        with pytest.raises(StoreError):
            _fail_after(bucket.file("out/half.parquet"), size)
        assert list_file_names(bucket.file("out")) == set()
        assert bucket.requests_matching("half.parquet") == []
    with open_atomic(bucket.file("out/whole")) as out:
        out.write(b"x" * (20 << 20))
    (found,) = iter_files(bucket.file("out/whole"))
    assert found.size == 20 << 20


def test_a_task_that_fails_in_the_middle_of_a_file_leaves_nothing(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = vars(tables)["iter_split_batches"]

    def fails(*arguments: Any) -> Iterator[Any]:
        for i, batch in enumerate(made(*arguments)):
            if i == 2:
                raise StoreError
            yield batch

    request = replace(parse_request({"batchRows": "20"}), paths=(bucket.file("data"),))
    pieces = list_input_files(request)[:1]
    to = bucket.file("out")
    monkeypatch.setattr(tables, "iter_split_batches", fails)
    monkeypatch.setattr(file_formats, "MAX_ROW_GROUP_BYTES", 1)
    with pytest.raises(SplitError):
        export_file_group(request, pieces, to, LakeOptions())
    assert bucket.requests_matching("(PUT|POST) .*out/") == []
    monkeypatch.setattr(tables, "iter_split_batches", made)
    done = export_file_group(request, pieces, to, LakeOptions())
    assert done.files[0].rows == 240
    system, below = file_system_at(f"{to}/{done.files[0].name}")
    assert system.get_file_info(below).size > 1000


def test_what_is_not_there_is_one_line(bucket: Bucket) -> None:
    with pytest.raises(InputError) as missing:
        list(iter_files(bucket.file("nothing")))
    assert str(missing.value) == f"{bucket.url}/nothing: not found"
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
    assert len(rows_of(request)) == 1500


@pytest.mark.parametrize(
    ("told", "modified"),
    [
        ({"mtime": 1_700_000_000.5}, 1_700_000_000_500_000_000),
        ({"mtime": 1_700_000_000}, 1_700_000_000_000_000_000),
        ({"mtime": datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)}, 1_700_000_000 * 10**9),
        ({"modificationTime": 1_700_000_000_250}, 1_700_000_000_250_000_000),  # of WebHDFS
        *(({}, 0), ({"mtime": "yesterday"}, 0), ({"mtime": None}, 0)),
    ],
)
def test_files_of_fsspec_say_when_they_were_written_and_how_large_they_are(
    told: dict[str, Any], modified: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/written/t-0/a.log", b"four")
    memory.pipe("/written/t-0/below/b.log", b"")
    real = type(memory).ls

    def ls(self: Any, *arguments: Any, **options: Any) -> Any:
        return [{**entry, **told} for entry in real(self, *arguments, **options)]

    monkeypatch.setattr(type(memory), "ls", ls)
    found = list(stores.list_files("memory://written"))
    assert sorted((file.path, file.size, file.modified_ns) for file in found) == [
        ("memory://written/t-0/a.log", 4, modified),
        ("memory://written/t-0/below/b.log", 0, modified),
    ]
    assert list(stores.list_files("memory://written", recursive=False)) == []
    near = stores.list_files("memory://written/t-0", recursive=False)
    assert [file.path for file in near] == ["memory://written/t-0/a.log"]


def test_a_folder_of_fsspec_that_cannot_be_listed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/closed/a-0/x.log", b"1")
    memory.pipe("/closed/b-0/x.log", b"22")
    real = type(memory).ls

    def ls(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        if "b-0" in path:
            raise PermissionError("not allowed")
        return real(self, path, *arguments, **options)

    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(type(memory), "ls", ls)
    found = {file.path: file for file in stores.list_files("memory://closed")}
    assert sorted(found) == ["memory://closed/a-0/x.log", "memory://closed/b-0"]
    assert "not allowed" in (found["memory://closed/b-0"].error or "")
    with pytest.raises(InputError, match="not allowed"):
        list(stores.list_files("memory://closed/b-0"))


def test_what_a_file_system_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kind of error it raises."""
    fsspec = pytest.importorskip("fsspec")

    def refuses(*_: Any, **__: Any) -> Any:
        raise RuntimeError("it is in safe mode\nat line 5")

    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    memory = type(fsspec.filesystem("memory"))
    monkeypatch.setattr(memory, "_open", refuses)
    with pytest.raises(OutputError) as unwritten:
        write_json_file("memory://box/x.json", {})
    assert str(unwritten.value) == "memory://box/x.json: cannot be written: it is in safe mode"
    monkeypatch.setattr(memory, "info", refuses)
    with pytest.raises(InputError) as unread:
        list(iter_files("memory://box/x.json"))
    assert str(unread.value) == "memory://box/x.json: it is in safe mode"


def test_tables_of_a_bucket_are_those_of_its_directory(bucket: Bucket) -> None:
    """Also those that need several files of it."""
    url = bucket.upload(TXN.parent, "data/txn-0")
    for options in (
        {"table": "index_entries"},
        {"table": "batches"},
        {"table": "segments"},
        {"table": "findings", "deep": "true"},
        {"isolation": "read_committed"},
    ):
        request = parse_request(options)
        ours = rows_of(replace(request, paths=(url,)))
        theirs = rows_of(replace(request, paths=(str(TXN.parent),)))
        assert [{**row, "file": ""} for row in ours] == [{**row, "file": ""} for row in theirs]
        assert ours or options["table"] == "findings"


@pytest.mark.parametrize("name", ["plain", "zstd", "encrypted"])
@pytest.mark.parametrize("where", ["local", "s3"])
def test_a_tiered_topic_is_read_as_a_local_one(name: str, where: str, bucket: Bucket) -> None:
    pytest.importorskip("cryptography")
    top = str(KEPT / name)
    options = {"rsmPrivateKey": str(KEPT / "encrypted/test-key.pkcs8.der")}
    if where == "s3":
        top = bucket.upload(KEPT / name, "tiered")
    request = parse_request({"columns": "topic,partition,offset,value,file", **options})
    rows = rows_of(replace(request, paths=(top,)))
    txn = [row for row in rows if row["topic"] == "txn"]
    theirs = rows_of(replace(parse_request({}), paths=(str(TXN.parent),)))
    known = {row["offset"]: row["value"] for row in theirs}
    ends = {row["file"].rpartition("/")[2][:20] for row in txn}
    assert ends == {f"{0:020}", f"{357:020}"}
    assert [known[row["offset"]] for row in txn] == [row["value"] for row in txn]
    assert len(txn) > 300
    batches = rows_of(replace(parse_request({"table": "batches", **options}), paths=(top,)))
    assert {row["topic"] for row in batches} >= {"txn"}
    last = replace(parse_request({"last": "2", "topics": "txn", **options}), paths=(top,))
    assert len(rows_of(last)) == 2
    without = replace(request, paths=(top,), private_key=None)
    if name == "encrypted":
        with pytest.raises(InputError, match="encrypted with key kfmt-test"):
            list_input_files(without)
    else:
        assert not any(file.read_error for file in list_input_files(without))


def test_the_manifest_says_which_topic_it_is(tmp_path: Path) -> None:
    """Also where a prefix of the plug-in's is a part of the directory's name."""
    (folder,) = (KEPT / "zstd/tiered").glob("txn-*")
    shutil.copytree(folder, tmp_path / "bucket/a/b" / f"pre.{folder.name}")
    request = parse_request({"columns": "topic,partition", "topics": "txn"})
    rows = rows_of(replace(request, paths=(str(tmp_path / "bucket"),)))
    assert {(row["topic"], row["partition"]) for row in rows} == {("txn", 0)}
    assert (
        list_input_files(replace(request, paths=(str(tmp_path),), topics=frozenset(["other"])))
        == []
    )
    done = kfmt("cat", tmp_path / "bucket", "-f", "%t %p\n")
    assert set(done.out.splitlines()) == {"txn 0"}


def test_local_and_tiered_parts_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "txn-0").mkdir()
    for file in TXN.parent.glob(f"{357:020}.*"):
        shutil.copy(file, tmp_path / "txn-0")
    paths = str(KEPT / "plain"), str(tmp_path / "txn-0")
    rows = rows_of(replace(parse_request({"columns": "offset", "topics": "txn"}), paths=paths))
    offsets = [row["offset"] for row in rows]
    assert len(offsets) == len(set(offsets)) > 500
