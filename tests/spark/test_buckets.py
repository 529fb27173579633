"""Jobs and sessions whose data is in a bucket."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.samples import ORDERS
from tests.support.store_server import Bucket

pa = pytest.importorskip("pyarrow")
pytest.importorskip("moto.server")
pytest.importorskip("pyspark")

from kfmt_cli.arrow.export.atomic_files import read_json_file, write_json_file  # noqa: E402
from kfmt_cli.core import small_objects  # noqa: E402
from kfmt_cli.core.file_systems import file_system_and_path  # noqa: E402
from kfmt_cli.errors import UsageError  # noqa: E402
from kfmt_cli.execution.read_request import ReadRequest  # noqa: E402
from kfmt_cli.spark.lake import lease  # noqa: E402
from kfmt_cli.spark.lake.lease import hold_lease  # noqa: E402
from tests.support.lake_runs import export, manifest, without_spark  # noqa: E402

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_a_job_from_a_bucket_into_a_bucket(bucket: Bucket, spark: Any) -> None:
    from kfmt_cli.spark.jobs import export_job
    from kfmt_cli.spark.jobs.context import JobContext

    to = bucket.file("lake")
    request = ReadRequest(paths=(bucket.file("data"),))
    for _ in range(2):
        summary = export_job.run_job(JobContext(spark, request, to, "parquet", lambda _: None))
        assert (summary.counts["records"], summary.n_errors) == (1500, 0)
    system, path = file_system_and_path(f"{to}/records")
    rows = pa.parquet.read_table(path, filesystem=system, partitioning="hive").to_pylist()
    offsets = sorted(row["offset"] for row in rows)
    assert offsets == list(range(1500))


def test_a_session_says_where_its_stores_are(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfmt_cli.spark.worker import find_store_variables, prepare_driver_environment

    def session(settings: dict[str, str]) -> Any:
        """A session on a cluster."""
        hadoop_settings = {f"spark.hadoop.fs.{name}": value for name, value in settings.items()}
        context = SimpleNamespace(master="spark://host:7077")
        return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(getAll=hadoop_settings))

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the driver alone")
    settings = {"s3a.access.key": "a", "s3a.secret.key": "b", "s3a.endpoint": "store:9000"}
    assert find_store_variables(session(settings)) == {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ENDPOINT_URL": "https://store:9000",
    }
    azure = {f"azure.account.key.{name}.dfs.core.windows.net": f"{name}==" for name in "cd"}
    assert find_store_variables(session(azure)) == {"KFMT_AZURE_KEYS": "c=c==;d=d=="}
    assert find_store_variables(session({})) == {}
    assert (
        dict(prepare_driver_environment(spark).store_variables)["AWS_ACCESS_KEY_ID"]
        == "of the driver alone"
    )


def test_workers_get_the_credentials_of_a_url(
    bucket: Bucket, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfmt_cli.core.credentials import CREDENTIALS
    from kfmt_cli.core.file_systems import _open_file_system
    from kfmt_cli.spark import register
    from kfmt_cli.spark.jobs import export_job
    from kfmt_cli.spark.jobs.context import JobContext
    from kfmt_cli.spark.source_options import parse_request

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    _open_file_system.cache_clear()
    url = f"{bucket.url}/data".replace("://", "://PLANTED:wJalrXUtnFEMI@")
    register(spark)
    rows = spark.read.format("kfmt").load(url)
    assert {row.file.partition("/data")[0] for row in rows.select("file").collect()} == {bucket.url}
    request = parse_request({"path": url})
    summary = export_job.run_job(
        JobContext(spark, request, str(tmp_path), "parquet", lambda _: None)
    )
    assert (summary.counts["records"], summary.n_errors) == (1500, 0)
    CREDENTIALS.credentials_by_host.clear()
    _open_file_system.cache_clear()


def read_object(path: str) -> dict[str, Any]:
    """The JSON value of an object; {} if there is none."""
    return read_json_file(path) or {}


def test_a_table_in_a_bucket_has_a_history(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a deleted segment stay next to those of one that grew; one job runs at a time."""
    without_spark(monkeypatch)
    shutil.copytree(ORDERS.parent, tmp_path / "in/orders-0")
    first, last = (tmp_path / f"in/orders-0/{base:020}.log" for base in (0, 1440))
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    to = bucket.file("table")
    export(to, tmp_path / "in")
    last.write_bytes(data)
    first.unlink()
    export(to, tmp_path / "in")

    def offsets() -> list[int]:
        system, path = file_system_and_path(f"{to}/records")
        rows = pa.parquet.read_table(path, filesystem=system).column("offset")
        return sorted(rows.to_pylist())

    assert offsets() == list(range(1500))
    assert sum(row["rows"] for row in manifest(to)["outputs"]) == 1500
    export(to, tmp_path / "in", mode="sync")
    assert offsets() == list(range(240, 1500))
    with (
        hold_lease(to, "export"),
        pytest.raises(UsageError, match="in use by"),
        hold_lease(to, "verify"),
    ):
        pass
    small_objects._object_store_client.cache_clear()
    assert read_json_file(f"{to}/_kfmt/lease.json") is None
    with hold_lease(to, "export"):
        assert read_object(f"{to}/_kfmt/lease.json")["job"] == "export"


def test_a_lease_that_another_job_took_over_is_lost(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.05)
    to = bucket.file("table")
    path = f"{to}/_kfmt/lease.json"
    with hold_lease(to, "export") as export_lease:
        write_json_file(path, {**read_object(path), "owner": "another", "beat": 0})
        assert export_lease.lost_event.wait(10)
        with hold_lease(to, "stats"):  # no heartbeat
            assert read_object(path)["job"] == "stats"
    assert read_json_file(path) is None


@pytest.mark.parametrize("missing", ["obstore.store", "obstore"])
def test_a_lease_needs_no_conditional_writes(
    missing: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(lease, "REREAD_DELAY_SECONDS", 0.01)
    small_objects._object_store_client.cache_clear()
    to = bucket.file("table")
    with (
        hold_lease(to, "export"),
        pytest.raises(UsageError, match="in use by"),
        hold_lease(to, "verify"),
    ):
        pass
    small_objects._object_store_client.cache_clear()
    assert read_json_file(f"{to}/_kfmt/lease.json") is None
