"""Small objects of a bucket take one request each; other objects are left to pyarrow."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.samples import ORDERS, kfmt
from tests.support.store_server import Bucket, server_environment

pytest.importorskip("pyarrow")
pytest.importorskip("moto.server")
pytest.importorskip("obstore")

from kfmt_cli.core import small_objects
from kfmt_cli.core.file_systems import file_system_and_path
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.small_objects import SMALL_OBJECT_BYTES, fetch_object
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.disk import object_stores
from kfmt_cli.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ORDERS_DATA = ORDERS.read_bytes()


@pytest.fixture(autouse=True)
def _no_cached_client() -> Iterator[None]:
    small_objects._object_store_client.cache_clear()
    yield
    small_objects._object_store_client.cache_clear()


def write_object(bucket: Bucket, name: str, data: bytes) -> str:
    system, path = file_system_and_path(bucket.file(name))
    with system.open_output_stream(path, compression=None) as out:
        out.write(data)
    return bucket.file(name)


def count_object_requests(bucket: Bucket) -> Counter[str]:
    """The requests for each object, HEAD included, listings excluded."""
    return Counter(request for request in bucket.requests_matching(r"/data/orders-0/[^?]+$"))


@pytest.mark.parametrize(
    "command",
    [
        *("verify-crc", "verify-crc --deep", "dump", "dump --records", "check", "index-check"),
        *("stat", "cat", "retention", "txn", "find --offset 700", "export --to lake"),
    ],
)
def test_a_command_asks_once_for_each_object(command: str, bucket: Bucket, tmp_path: Path) -> None:
    bucket.requests.clear()
    result = kfmt(*command.split(), bucket.file("data"), cwd=tmp_path, **server_environment())
    assert result.code == 0, result.err
    counts = count_object_requests(bucket)
    assert {(request.split()[0], n) for request, n in counts.items()} == {("GET", 1)}
    assert len(bucket.requests) == len(counts) + 2  # a stat and a listing


def test_small_objects_are_kept_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []
    times = [0.0, 9.9, 10.1, 10.2, 19.0]

    def fetch(url: str, max_bytes: int) -> bytes | None:
        urls.append(url)
        return None if max_bytes < 0 else b"%d" % len(urls)

    monkeypatch.setattr(object_stores, "fetch_object", fetch)
    cache = object_stores.RecentObjectCache()
    with monkeypatch.context() as patched:
        patched.setattr("kfmt_cli.disk.object_stores.time.monotonic", lambda: times.pop(0))
        contents = [cache.fetch_or_reuse_object("s3://b/a", 9) for _ in range(4)]
    assert (contents, urls, times) == ([b"1", b"1", b"2", b"2"], ["s3://b/a"] * 2, [])
    assert cache.fetch_or_reuse_object("s3://b/none", -1) is None
    for i in range(object_stores.MAX_CACHED_OBJECTS + 5):
        cache.fetch_or_reuse_object(f"s3://b/{i}", 9)
    assert len(cache.time_and_bytes_by_url) == object_stores.MAX_CACHED_OBJECTS
    assert next(iter(cache.time_and_bytes_by_url)) == "s3://b/5"


def test_an_object_that_is_fetched_again_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(object_stores, "fetch_object", lambda *_: b"content")
    monkeypatch.setattr(object_stores, "time", SimpleNamespace(monotonic=lambda: now[0]))
    cache = object_stores.RecentObjectCache()
    for url in ("s3://b/first", "s3://b/second"):
        cache.fetch_or_reuse_object(url, 9)
    now[0] += object_stores.CACHE_SECONDS
    cache.fetch_or_reuse_object("s3://b/first", 9)
    assert list(cache.time_and_bytes_by_url) == ["s3://b/second", "s3://b/first"]


def test_a_dry_run_says_how_many_requests_that_are(bucket: Bucket, tmp_path: Path) -> None:
    options = ("--to", tmp_path / "lake", "--dry-run")
    result = kfmt("export", bucket.file("data"), *options, **server_environment())
    assert "would read 7 files, " in result.out + result.err
    assert " bytes, in about 7 object store requests\n" in result.out + result.err


def test_a_task_on_spark_asks_once_for_each_object(bucket: Bucket) -> None:
    pytest.importorskip("pyspark")
    from kfmt_cli.spark.partition_reader import read_input_partition
    from kfmt_cli.spark.selections import plan_input_partitions
    from kfmt_cli.spark.source_options import parse_request

    for table in ("records", "batches", "segments", "findings", "index_entries"):
        bucket.requests.clear()
        request = replace(parse_request({"table": table}), paths=(bucket.file("data"),))
        rows = [
            len(batch)
            for split in plan_input_partitions(request)
            for batch in read_input_partition(request, split)
        ]
        assert bool(rows) == (table != "findings")
        kinds = {(request.split()[0], n) for request, n in count_object_requests(bucket).items()}
        assert kinds == {("GET", 1)}, table


@pytest.mark.parametrize("name", ["a b+c%20.log", "ü/=&?#.log", "~!@$()*'\",;:.log"])
def test_any_name_is_fetched_or_left_to_pyarrow(name: str, bucket: Bucket) -> None:
    url = write_object(bucket, name, b"some bytes")
    assert fetch_object(url) in (b"some bytes", None)
    source = StoredSource(url, 10)
    assert (source.size, source.read_block(5, 9, 1)) == (10, b"bytes")
    source.close()


def test_a_name_is_no_path_to_be_made_shorter(bucket: Bucket) -> None:
    write_object(bucket, "x/y.log", b"another object")
    for name in ("x//y.log", "x/./y.log", "x/z/../y.log", "/x/y.log", "x/y.log/"):
        assert fetch_object(bucket.file(name)) is None, name


def test_an_object_is_as_it_is_now_and_not_as_it_was_listed(bucket: Bucket) -> None:
    data = os.urandom(SMALL_OBJECT_BYTES + 1)
    for content in (b"", b"longer than before", data):
        source = StoredSource(write_object(bucket, "changed.log", content), 3)
        assert source.size == len(content)
        assert source.read_block(0, len(content), 1) == content
        source.close()
    bucket.requests.clear()
    with pytest.raises(InputError, match=r"gone\.log: No such file or directory") as raised:
        StoredSource(bucket.file("gone.log"), 3)
    assert raised.value.is_missing


@pytest.mark.parametrize("missing", ["obstore.store", "obstore"])
def test_without_obstore_pyarrow_reads_them(
    missing: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    url = bucket.file(f"data/orders-0/{ORDERS.name}")
    bucket.requests.clear()
    source = StoredSource(url, len(ORDERS_DATA))
    assert source.read_block(0, len(ORDERS_DATA), 1) == ORDERS_DATA
    source.close()
    assert [request.split()[0] for request in bucket.requests] == ["HEAD", "GET"]


def test_settings_that_only_obstore_reads_are_left_to_pyarrow(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint unknown to pyarrow; a machine without credentials."""
    del server
    options = FieldDict(endpoint_override="", access_key=None, scheme="https")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    assert small_objects.s3_settings("us-east-1", options) is None
    monkeypatch.delenv("AWS_ENDPOINT")
    assert small_objects.s3_settings("us-east-1", options) == {"region": "us-east-1"}
    url_credentials = {"access_key": "a", "secret_key": "b", "session_token": ""}
    settings = small_objects.s3_settings("us-east-1", FieldDict(options, **url_credentials))
    assert settings is not None
    assert (settings["access_key_id"], settings["secret_access_key"]) == ("a", "b")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(small_objects, "_has_aws_profiles", lambda: False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert small_objects.s3_settings("us-east-1", options) is None


def test_a_bucket_that_refuses_is_not_asked_for_ever(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore

    def refuse(*_: object) -> None:
        bucket.requests.append("asked")
        raise PermissionError

    monkeypatch.setattr(obstore, "get", refuse)
    bucket.requests.clear()
    for _ in range(5):
        source = StoredSource(bucket.file(f"data/orders-0/{ORDERS.name}"), 10)
        assert source.size == len(ORDERS_DATA)
        source.close()
    assert bucket.requests.count("asked") == small_objects.MAX_FAILURES


@pytest.mark.parametrize("has_boto3", [True, False])
def test_credentials_of_a_profile_are_those_of_boto3(
    has_boto3: bool, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = tmp_path / "credentials"
    profiles.write_text("[default]\naws_access_key_id = other\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    if not has_boto3:
        monkeypatch.delitem(sys.modules, "obstore.auth.boto3", raising=False)
        monkeypatch.setitem(sys.modules, "boto3", None)
    bucket.requests.clear()
    content = fetch_object(bucket.file(f"data/orders-0/{ORDERS.name}"))
    assert content == (ORDERS_DATA if has_boto3 else None)
    assert len(bucket.requests) == has_boto3
