"""Tiered storage in a bucket: the process that lists a manifest requests it, once."""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.store_server import Bucket
from tools.kafka import ROOT

pytest.importorskip("pyarrow")
pytest.importorskip("moto.server")
pytest.importorskip("obstore")
pytest.importorskip("pyspark")

from kfmt_cli.arrow import tiered_logs
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.core import small_objects
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.selections import plan_input_partitions
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming.follower import StreamFollower

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

AIVEN = ROOT / "tests/kept/aiven-1.0.0"
KEY = {"rsmPrivateKey": str(AIVEN / "encrypted/test-key.pkcs8.der")}


@pytest.fixture(autouse=True)
def _forget_stores(server: str) -> None:
    del server
    small_objects._object_store_client.cache_clear()


def count_requests(bucket: Bucket, end: str = "rsm-manifest") -> Counter[str]:
    """The number of requests for each object with this end, by method and name."""
    return Counter(bucket.requests_matching(rf"\.{end}($|\?)"))


def count_manifests(name: str) -> int:
    return len(list((AIVEN / name).rglob("*.rsm-manifest")))


def request_for(url: str, **options: str) -> ReadRequest:
    return replace(parse_request({**options, **KEY}), paths=(url,))


@pytest.mark.parametrize("name", ["plain", "zstd", "encrypted"])
def test_the_chunks_of_a_segment_are_few_bytes_of_a_plan(name: str) -> None:
    pytest.importorskip("cryptography")
    limit = {"plain": 40, "zstd": 100, "encrypted": 550}[name]
    for file_split in list_input_files(request_for(str(AIVEN / name))):
        assert 0 < len(file_split.encoded_chunking) < limit


@pytest.mark.parametrize("name", ["plain", "zstd", "encrypted"])
def test_only_the_listing_asks_for_manifests(name: str, bucket: Bucket) -> None:
    pytest.importorskip("cryptography")
    request = request_for(bucket.upload(AIVEN / name / "tiered", "tiered"), maxSplitBytes="20000")
    bucket.requests.clear()
    splits = [pickle.dumps(split) for split in plan_input_partitions(request)]
    assert len(splits) > 1
    listing_requests = count_requests(bucket)
    assert set(listing_requests.values()) == {1}
    assert {method[:4] for method in listing_requests} == {"GET "}
    assert len(listing_requests) == count_manifests(name)
    rows = sum(
        batch.num_rows
        for split in splits
        for batch in read_input_partition(request, pickle.loads(split))  # noqa: S301 (made above)
    )
    assert rows > 600
    assert count_requests(bucket) == listing_requests
    assert not [head for head in count_requests(bucket, "log") if head.startswith("HEAD")]


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="java not found")
def test_the_tasks_of_a_job_do_not_ask_for_manifests(
    bucket: Bucket, spark: Any, tmp_path: Path
) -> None:
    from kfmt_cli.spark.jobs import verify
    from kfmt_cli.spark.jobs.context import JobContext

    request = request_for(bucket.upload(AIVEN / "zstd/tiered", "tiered"))
    bucket.requests.clear()
    context = JobContext(spark, request, str(tmp_path / "out"), "parquet", lambda _: None)
    assert verify.run_job(context).counts["damaged"] == 0
    requests = count_requests(bucket)
    assert set(requests.values()) == {1}
    assert len(requests) == count_manifests("zstd")


@pytest.mark.parametrize("options", [KEY, {}])
def test_a_stream_asks_for_new_manifests_only(
    options: dict[str, str], bucket: Bucket, tmp_path: Path
) -> None:
    """Also if a segment cannot be read, which is tried again in each trigger."""
    pytest.importorskip("cryptography")
    shutil.copytree(AIVEN / "zstd/tiered", tmp_path / "first")
    (new_manifest,) = (tmp_path / "first").glob("txn-*/0/*357-*.rsm-manifest")
    new_manifest.rename(tmp_path / new_manifest.name)
    bucket.upload(tmp_path / "first", "all/zstd")
    bucket.upload(AIVEN / "encrypted/tiered", "all/encrypted")
    request = parse_request({**options, "ignoreUnreadable": "true"})
    source = StreamFollower(replace(request, paths=(bucket.file("all"),)), fails_on_data_loss=False)
    bucket.requests.clear()
    end = source.latest_positions({})
    source.plan_input_partitions({}, end)
    assert set(count_requests(bucket).values()) == {1}
    bucket.requests.clear()
    for _ in range(3):
        assert source.latest_positions(end) == end
    assert not count_requests(bucket)
    (tmp_path / "more").mkdir()
    new_manifest = (tmp_path / new_manifest.name).rename(tmp_path / "more" / new_manifest.name)
    directory = next((AIVEN / "zstd/tiered").glob("txn-*")).name
    bucket.upload(new_manifest.parent, f"all/zstd/{directory}/0")
    bucket.requests.clear()
    assert source.latest_positions(end) != end
    assert sorted(count_requests(bucket).values()) == [1]


def test_a_changed_manifest_is_asked_for_again(bucket: Bucket, tmp_path: Path) -> None:
    shutil.copytree(AIVEN / "plain/tiered", tmp_path / "tiered")
    url = bucket.upload(tmp_path / "tiered", "tiered")
    source = StreamFollower(request_for(url, topics="txn"))
    source.latest_positions({})
    (path,) = (tmp_path / "tiered").glob("txn-*/0/0*0-*.rsm-manifest")
    path.write_text(path.read_text().replace('"topic":"txn"', '"topic":"other"'))
    bucket.upload(tmp_path / "tiered", "tiered")
    bucket.requests.clear()
    splits = source.plan_input_partitions({}, source.latest_positions({}))
    assert [file_split.base_offset for split in splits for file_split in split.splits] == [357]
    assert any(path.name in request for request in count_requests(bucket))


def test_a_manifest_that_is_too_long_for_a_plan_is_read_by_tasks(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_for(bucket.upload(AIVEN / "zstd/tiered", "tiered"))
    rows = [
        batch.num_rows
        for split in plan_input_partitions(request)
        for batch in read_input_partition(request, split)
    ]
    monkeypatch.setattr(tiered_logs, "MAX_CHUNKING_BYTES", 10)
    bucket.requests.clear()
    splits = plan_input_partitions(request)
    assert not any(file_split.encoded_chunking for split in splits for file_split in split.splits)
    n_listing_requests = count_requests(bucket).total()
    assert [
        batch.num_rows for split in splits for batch in read_input_partition(request, split)
    ] == rows
    assert count_requests(bucket).total() > n_listing_requests == count_manifests("zstd")
