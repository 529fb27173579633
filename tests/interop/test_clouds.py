"""Azure and Google: servers that speak their protocols, as `core/file_systems.py` finds them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("obstore")

import pyarrow.parquet as pq

from tests.support.cloud_stores import ACCOUNT, KEY, TOP, CloudServer, azurite, fake_gcs
from tests.support.samples import ORDERS, anywhere, kfmt
from tools.kafka import SAMPLES

pytestmark = [pytest.mark.interop, pytest.mark.servers]
BROKER = SAMPLES / "kafka-3.9.1-broker1"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is uploaded, about as old as what is there."""
    made = tmp_path_factory.mktemp("local") / "broker"
    shutil.copytree(BROKER, made, copy_function=shutil.copyfile)
    return made


@pytest.fixture(scope="module")
def azure(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudServer]:
    with azurite(tmp_path_factory.mktemp("azure")) as server:
        server.put(local)
        yield server


@pytest.fixture(scope="module")
def google(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudServer]:
    with fake_gcs(tmp_path_factory.mktemp("google")) as server:
        server.put(local)
        yield server


@pytest.fixture(params=["azure", "google"])
def cloud(request: pytest.FixtureRequest) -> CloudServer:
    found: CloudServer = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    "command", ["check", "verify-crc --deep", "index-check", "dump --records", "stat", "txn"]
)
def test_commands_say_what_they_say_of_local_files(
    command: str, cloud: CloudServer, local: Path
) -> None:
    url = f"{cloud.url}/{local.name}"
    ours = kfmt(*command.split(), url, "--json", **cloud.env)
    theirs = kfmt(*command.split(), local, "--json")
    assert ours.code == theirs.code, ours.err
    assert anywhere(ours.out) == anywhere(theirs.out.replace(str(local), url))


def test_each_small_object_is_one_request(cloud: CloudServer, local: Path) -> None:
    before = cloud.asked()
    done = kfmt("check", f"{cloud.url}/{local.name}", **cloud.env)
    assert done.code == 0, done.err
    asked = {
        request: n
        for request, n in (cloud.asked() - before).items()
        if request.partition("?")[0].rpartition("/")[2].startswith("0000")
    }
    assert len(asked) > 50
    assert {(request.split()[0], n) for request, n in asked.items()} == {("GET", 1)}


def test_an_export_goes_there_and_is_read_from_there(
    cloud: CloudServer, local: Path, tmp_path: Path
) -> None:
    to = f"{cloud.url}/lake"
    done = kfmt("export", f"{cloud.url}/{local.name}", "--to", to, **cloud.env)
    assert done.code == 0, done.err
    assert kfmt("export", local, "--to", tmp_path / "lake").code == 0
    names = sorted(path.name for path in (tmp_path / "lake/records").rglob("*.parquet"))
    n_rows = sum(
        pq.read_metadata(path).num_rows for path in (tmp_path / "lake/records").rglob("*.parquet")
    )
    from pyarrow import fs

    there = cloud.files.get_file_info(fs.FileSelector(f"{TOP}/lake/records", recursive=True))
    files = [info.path for info in there if info.type is fs.FileType.File]
    assert len(files) == len(names)
    assert sum(pq.read_metadata(path, filesystem=cloud.files).num_rows for path in files) == n_rows
    again = kfmt("export", local, "--to", to, **cloud.env)
    assert again.code == 2
    assert f"{to}: not empty" in again.err


def test_a_data_source_reads_them(
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
    "top",
    [
        *(f"abfs://{TOP}", f"abfss://{TOP}", f"az://{TOP}"),
        f"abfss://{TOP}@{ACCOUNT}.dfs.core.windows.net",
        f"abfs://{ACCOUNT}.blob.core.windows.net/{TOP}",
    ],
)
def test_every_way_to_write_a_url_of_azure(top: str, azure: CloudServer, local: Path) -> None:
    url = f"{top}/{local.name}/orders-0"
    done = kfmt("verify-crc", url, "--json", **azure.env)
    assert done.code == 0, done.err
    files = [row["file"] for row in done.of("file")]
    assert f"{url}/{ORDERS.name}" in files
    assert len(files) == 7
    alone = kfmt("cat", f"{url}/{ORDERS.name}", "-f", "%o\\n", **azure.env)
    assert alone.out.split() == [str(i) for i in range(240)]


def test_credentials_of_azure(azure: CloudServer, local: Path) -> None:
    url = f"{azure.url}/{local.name}/orders-0"
    connection = azure.env["AZURE_STORAGE_CONNECTION_STRING"]
    place = connection.replace(f"AccountKey={KEY};", "")
    apart = {"AZURE_STORAGE_CONNECTION_STRING": place, "AZURE_STORAGE_ACCOUNT": ACCOUNT}
    assert kfmt("verify-crc", url, **apart, AZURE_STORAGE_KEY=KEY).code == 0
    wrong = kfmt("verify-crc", url, **apart, AZURE_STORAGE_KEY="d3Jvbmc=")
    assert wrong.code == 3
    assert wrong.err.count("\n") == 1
    assert wrong.err.startswith(f"kfmt: {url}: ")
    nobody = kfmt("verify-crc", url)
    assert nobody.code == 3
    assert "use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net, or set " in nobody.err
    assert nobody.err.count("\n") == 1


def test_what_is_not_there_is_one_line(cloud: CloudServer) -> None:
    for name in (f"{TOP}/nothing", "no-such-place-here/x"):
        done = kfmt("verify-crc", f"{cloud.scheme}://{name}", **cloud.env)
        assert done.code == 3, done.out
        assert done.err.count("\n") == 1, done.err
        assert done.err.startswith(f"kfmt: {cloud.scheme}://")
