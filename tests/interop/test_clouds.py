"""Azure and Google: servers that implement their protocols, read by `core/file_systems.py`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("obstore")

import pyarrow.parquet as pq

from tests.support.cloud_stores import ACCOUNT, CONTAINER, KEY, CloudServer, azurite, fake_gcs
from tests.support.samples import ORDERS, kfmt, portable_lines
from tools.kafka import SAMPLES

pytestmark = [pytest.mark.interop, pytest.mark.servers]
BROKER = SAMPLES / "kafka-3.9.1-broker1"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the uploaded files, about as old as the uploaded ones."""
    copy = tmp_path_factory.mktemp("local") / "broker"
    shutil.copytree(BROKER, copy, copy_function=shutil.copyfile)
    return copy


@pytest.fixture(scope="module")
def azure(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudServer]:
    with azurite(tmp_path_factory.mktemp("azure")) as server:
        server.upload(local)
        yield server


@pytest.fixture(scope="module")
def google(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudServer]:
    with fake_gcs(tmp_path_factory.mktemp("google")) as server:
        server.upload(local)
        yield server


@pytest.fixture(params=["azure", "google"])
def cloud(request: pytest.FixtureRequest) -> CloudServer:
    server: CloudServer = request.getfixturevalue(request.param)
    return server


@pytest.mark.parametrize(
    "command", ["check", "verify-crc --deep", "index-check", "dump --records", "stat", "txn"]
)
def test_commands_say_what_they_say_of_local_files(
    command: str, cloud: CloudServer, local: Path
) -> None:
    url = f"{cloud.url}/{local.name}"
    actual = kfmt(*command.split(), url, "--json", **cloud.env)
    expected = kfmt(*command.split(), local, "--json")
    assert actual.code == expected.code, actual.err
    assert portable_lines(actual.out) == portable_lines(expected.out.replace(str(local), url))


def test_each_small_object_is_one_request(cloud: CloudServer, local: Path) -> None:
    requests_before = cloud.object_requests()
    result = kfmt("check", f"{cloud.url}/{local.name}", **cloud.env)
    assert result.code == 0, result.err
    n_by_request = {
        request: n
        for request, n in (cloud.object_requests() - requests_before).items()
        if request.partition("?")[0].rpartition("/")[2].startswith("0000")
    }
    assert len(n_by_request) > 50
    assert {(request.split()[0], n) for request, n in n_by_request.items()} == {("GET", 1)}


def test_an_export_is_written_and_read_back(
    cloud: CloudServer, local: Path, tmp_path: Path
) -> None:
    target = f"{cloud.url}/lake"
    result = kfmt("export", f"{cloud.url}/{local.name}", "--to", target, **cloud.env)
    assert result.code == 0, result.err
    assert kfmt("export", local, "--to", tmp_path / "lake").code == 0
    names = sorted(path.name for path in (tmp_path / "lake/records").rglob("*.parquet"))
    n_rows = sum(
        pq.read_metadata(path).num_rows for path in (tmp_path / "lake/records").rglob("*.parquet")
    )
    from pyarrow import fs

    listing = cloud.files.get_file_info(
        fs.FileSelector(f"{CONTAINER}/lake/records", recursive=True)
    )
    files = [info.path for info in listing if info.type is fs.FileType.File]
    assert len(files) == len(names)
    assert sum(pq.read_metadata(path, filesystem=cloud.files).num_rows for path in files) == n_rows
    second_result = kfmt("export", local, "--to", target, **cloud.env)
    assert second_result.code == 2
    assert f"{target}: not empty" in second_result.err


def test_a_data_source_reads_a_cloud_store(
    cloud: CloudServer, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from dataclasses import replace

    from kfmt_cli.spark.partition_reader import read_input_partition
    from kfmt_cli.spark.selections import plan_input_partitions
    from kfmt_cli.spark.source_options import parse_request

    for name, value in cloud.env.items():
        monkeypatch.setenv(name, value)

    def n_rows(path: str) -> int:
        request = replace(parse_request({}), paths=(path,))
        return sum(
            len(rows)
            for split in plan_input_partitions(request)
            for rows in read_input_partition(request, split)
        )

    assert n_rows(f"{cloud.url}/{local.name}") == n_rows(str(local)) > 1000


@pytest.mark.parametrize(
    "base_url",
    [
        *(f"abfs://{CONTAINER}", f"abfss://{CONTAINER}", f"az://{CONTAINER}"),
        f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net",
        f"abfs://{ACCOUNT}.blob.core.windows.net/{CONTAINER}",
    ],
)
def test_every_way_to_write_a_url_of_azure(base_url: str, azure: CloudServer, local: Path) -> None:
    url = f"{base_url}/{local.name}/orders-0"
    result = kfmt("verify-crc", url, "--json", **azure.env)
    assert result.code == 0, result.err
    files = [row["file"] for row in result.of("file")]
    assert f"{url}/{ORDERS.name}" in files
    assert len(files) == 7
    object_result = kfmt("cat", f"{url}/{ORDERS.name}", "-f", "%o\\n", **azure.env)
    assert object_result.out.split() == [str(i) for i in range(240)]


def test_credentials_of_azure(azure: CloudServer, local: Path) -> None:
    url = f"{azure.url}/{local.name}/orders-0"
    connection = azure.env["AZURE_STORAGE_CONNECTION_STRING"]
    address = connection.replace(f"AccountKey={KEY};", "")
    environment = {"AZURE_STORAGE_CONNECTION_STRING": address, "AZURE_STORAGE_ACCOUNT": ACCOUNT}
    assert kfmt("verify-crc", url, **environment, AZURE_STORAGE_KEY=KEY).code == 0
    wrong_key_result = kfmt("verify-crc", url, **environment, AZURE_STORAGE_KEY="d3Jvbmc=")
    assert wrong_key_result.code == 3
    assert wrong_key_result.err.count("\n") == 1
    assert wrong_key_result.err.startswith(f"kfmt: {url}: ")
    no_account_result = kfmt("verify-crc", url)
    assert no_account_result.code == 3
    assert "use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net, or set " in no_account_result.err
    assert no_account_result.err.count("\n") == 1


def test_a_missing_object_is_one_line(cloud: CloudServer) -> None:
    for name in (f"{CONTAINER}/nothing", "no-such-place-here/x"):
        result = kfmt("verify-crc", f"{cloud.scheme}://{name}", **cloud.env)
        assert result.code == 3, result.out
        assert result.err.count("\n") == 1, result.err
        assert result.err.startswith(f"kfmt: {cloud.scheme}://")
