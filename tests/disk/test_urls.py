"""Commands on URLs: the same output as for the uploaded directory."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, Done, kfmt, portable_lines
from tests.support.store_server import Bucket, new_bucket, server_environment
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("pyarrow")
pytest.importorskip("moto.server")

from kfmt_cli.core import file_systems, stored_source, stores
from kfmt_cli.disk import file_listing
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

BROKER = SAMPLES / "kafka-3.9.1-broker1"
TIERED = ROOT / "tests/kept/aiven-1.0.0"


def run_kfmt(*arguments: str | Path, cwd: Path) -> Done:
    """Run kfmt; it must not print its temporary directory, and leave no files in it."""
    temporary_directory = cwd / "placeholders"
    temporary_directory.mkdir(exist_ok=True)
    result = kfmt(*arguments, cwd=cwd, TMPDIR=str(temporary_directory), **server_environment())
    assert str(temporary_directory) not in result.out + result.err
    assert list(temporary_directory.iterdir()) == []
    return result


COMMANDS = [
    *(("check",), ("verify-crc", "--deep"), ("index-check",), ("stat",), ("txn",)),
    *(("dump",), ("dump", "--records"), ("cat", "--last", "5"), ("find", "--offset", "3")),
    *(("state",), ("compaction",), ("stat", "--sample", "20K")),
]


DIRECTORIES = ["damaged_segments", "sample_segments/kafka-3.9.1-broker1"]


@pytest.fixture(scope="module", params=DIRECTORIES)
def uploaded(
    request: pytest.FixtureRequest, server: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """A directory, and the URL of its copy."""
    del server
    bucket = new_bucket(tmp_path_factory.mktemp("uploaded"))
    return request.param, bucket.upload(ROOT / request.param, "uploaded")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_url_reads_like_the_uploaded_directory(
    command: tuple[str, ...], uploaded: tuple[str, str], tmp_path: Path
) -> None:
    name, *options = command
    directory, url = uploaded
    actual = run_kfmt(name, url, *options, "--json", cwd=tmp_path)
    expected = kfmt(name, ROOT / directory, *options, "--json")
    assert actual.code == expected.code
    assert portable_lines(actual.out) == portable_lines(
        expected.out.replace(str(ROOT / directory), url)
    )


def test_a_file_at_a_url_is_read_with_those_next_to_it(bucket: Bucket, tmp_path: Path) -> None:
    log = bucket.file(f"data/orders-0/{240:020}.log")
    for command in (["check"], ["index-check"], ["hex", "--position", "0"], ["dump"]):
        actual = run_kfmt(command[0], log, *command[1:], cwd=tmp_path)
        expected = kfmt(command[0], str(ORDERS.parent / f"{240:020}.log"), *command[1:])
        assert actual.code == expected.code == 0, actual.err
        assert len(actual.out.splitlines()) == len(expected.out.splitlines())
    result = run_kfmt("diff", bucket.file("data/orders-0"), ORDERS.parent, cwd=tmp_path)
    assert result.code == 0, result.out
    for command in (["salvage"], ["convert-v0-to-v2"]):
        result = run_kfmt(
            *command, bucket.file("data/orders-0"), f"{command[0]}-made", cwd=tmp_path
        )
        assert result.code in (0, 3), result.err
    result = run_kfmt("export", bucket.file("data"), "--to", "lake", cwd=tmp_path)
    assert result.code == 0, result.err
    assert "1 500 records, no damage" in result.out + result.err
    saved = tmp_path / "salvage-made" / f"{240:020}.log"
    assert saved.read_bytes() == (ORDERS.parent / f"{240:020}.log").read_bytes()


def test_only_requested_bytes_are_read(bucket: Bucket, tmp_path: Path) -> None:
    """A log of many windows: reading its start takes one request, reading all has no overlap."""
    large = tmp_path / "large-0"
    large.mkdir()
    data = ORDERS.read_bytes()
    (large / ORDERS.name).write_bytes(
        data * (20 * stored_source.READ_WINDOW_BYTES // len(data) // 4)
    )
    url = bucket.upload(large, "large-0")
    bucket.requests.clear()
    assert run_kfmt("dump", f"{url}/{ORDERS.name}", "--limit", "1", cwd=tmp_path).code == 0
    assert len(bucket.requests_matching("^GET .*log")) == 1
    bucket.requests.clear()
    run_kfmt("verify-crc", f"{url}/{ORDERS.name}", cwd=tmp_path)
    assert 5 <= len(bucket.requests_matching("^GET .*log")) <= 9
    bucket.requests.clear()
    run_kfmt("verify-crc", bucket.file("data"), cwd=tmp_path)
    assert len(bucket.requests_matching("^GET .*log")) == 7


def test_archives_are_read_from_a_store(bucket: Bucket, tmp_path: Path) -> None:
    directory = tmp_path / "packed"
    directory.mkdir()
    with tarfile.open(directory / "broker.tar.gz", "w:gz") as tar:
        tar.add(ORDERS.parent, "orders-0")
    (directory / f"{ORDERS.name}.gz").write_bytes(gzip.compress(ORDERS.read_bytes()))
    url = bucket.upload(directory, "packed")
    result = run_kfmt("verify-crc", f"{url}/broker.tar.gz", "--json", cwd=tmp_path)
    assert (result.code, len(result.of("file"))) == (0, 7)
    assert result.of("file")[0]["file"] == f"{url}/broker.tar.gz/orders-0/{ORDERS.name}"
    result = run_kfmt("cat", f"{url}/{ORDERS.name}.gz", "-f", "%o\\n", cwd=tmp_path)
    assert result.out.split() == [str(i) for i in range(240)]


def test_a_tiered_bucket_is_read_in_its_store(bucket: Bucket, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    key = str(TIERED / "encrypted/test-key.pkcs8.der")
    records = kfmt("dump", BROKER / "txn-0", "--records", "--json").of("record")
    values = {row["offset"]: row["value"] for row in records}
    for name in ("plain", "zstd", "encrypted"):
        url = bucket.upload(TIERED / name / "tiered", f"{name}/some/prefix")
        options = ("--rsm-private-key", key) if name == "encrypted" else ()
        result = run_kfmt("dump", url, "--records", "--json", *options, cwd=tmp_path)
        assert result.code == 0, result.err
        rows = [row for row in result.of("record") if row["topic"] == "txn"]
        assert len(rows) > 100
        assert all(values[row["offset"]] == row["value"] for row in rows)
        assert rows[0]["file"].startswith(url)


@pytest.mark.parametrize("subdirectory", ["tiered", ""])
def test_a_tiered_partition_has_a_url_of_its_own(
    subdirectory: str, bucket: Bucket, tmp_path: Path
) -> None:
    """kfmt shows and accepts this URL, which the bucket does not have."""
    bucket.upload(TIERED / "plain", "one")
    url = bucket.file("one/tiered" if subdirectory else "one")
    (file,) = {row["file"] for row in run_kfmt("dump", url, "--json", cwd=tmp_path).of("batch")} - {
        f"{url}/txn-0/{357:020}.log"
    }
    assert file == f"{url}/txn-0/{0:020}.log"
    actual = run_kfmt("hex", file, "--position", "0", cwd=tmp_path)
    expected = kfmt("hex", BROKER / f"txn-0/{0:020}.log", "--position", "0")
    assert actual.out.splitlines()[1:] == expected.out.splitlines()[1:]
    assert "2 segments" in run_kfmt("verify-crc", f"{url}/txn-0", cwd=tmp_path).out
    for path in (f"{url}/txn-1", f"{url}/txn-0/{1:020}.log", f"{url}/more/txn-0"):
        result = run_kfmt("verify-crc", path, cwd=tmp_path)
        assert (result.code, "No such file or directory" in result.err) == (3, True)


def test_nothing_is_written_to_a_url_but_exports(bucket: Bucket, tmp_path: Path) -> None:
    source, target = bucket.file("data/orders-0"), bucket.file("made")
    for command in ("salvage", "convert-v0-to-v2", "rebuild-index"):
        result = run_kfmt(command, source, target, cwd=tmp_path)
        assert result.code == 2
        assert f"{target}: can only write to local directories" in result.err
    result = run_kfmt("rebuild-index", "--in-place", source, cwd=tmp_path)
    assert result.code == 2
    assert "at a URL cannot be changed" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["placeholders"]
    for code in (0, 2):
        result = run_kfmt("export", source, "--to", target, cwd=tmp_path)
        assert result.code == code, result.err
    assert "not empty" in result.err
    assert run_kfmt("export", ORDERS.parent, "--to", bucket.file("more"), cwd=tmp_path).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["placeholders"]
    for exported in (target, bucket.file("more")):
        names = [file.path.removeprefix(exported) for file in file_listing.iter_files(exported)]
        assert "/_kfmt/manifest.json" in names
        assert sum(name.startswith("/records/orders-0-") for name in names) == 1


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("{}/nothing", 3, "{}/nothing: No such file or directory"),
        ("s3://no-such-bucket-here/x", 3, "no-such-bucket-here does not exist"),
        ("gopher://host/x", 3, "no file system installed for gopher://"),
        ("{}/a/../b", 3, '".." has no meaning in the URL of a store'),
    ],
)
def test_a_missing_object_is_one_line(
    path: str, code: int, message: str, bucket: Bucket, tmp_path: Path
) -> None:
    result = run_kfmt("dump", path.format(bucket.url), cwd=tmp_path)
    assert (result.code, result.out) == (code, "")
    assert message.format(bucket.url) in result.err
    assert result.err.count("\n") == 1


def test_a_server_that_does_not_answer_is_one_line(bucket: Bucket, tmp_path: Path) -> None:
    environment: dict[str, Any] = {**server_environment(), "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    result = kfmt("dump", bucket.file("data"), cwd=tmp_path, apart=True, **environment)
    assert (result.code, result.out, result.err.count("\n")) == (3, "", 1)
    assert f"kfmt: {bucket.url}/data: " in result.err


class Unsteady:
    """A file whose connection fails that many times."""

    def __init__(self, losses: int) -> None:
        self.losses = losses

    def read_at(self, n: int, position: int) -> bytes:
        if self.losses:
            self.losses -= 1
            raise OSError("connection reset")
        return ORDERS.read_bytes()[position : position + n]


def test_a_lost_connection_is_retried_and_then_reported(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    source: Any = stored_source.StoredSource(bucket.file(f"data/orders-0/{ORDERS.name}"))
    source._file = Unsteady(2)
    assert source.read_block(100, 50, 1) == ORDERS.read_bytes()[100:150]
    source._file = Unsteady(3)
    with pytest.raises(InputError, match=r"0\.log byte 0: cannot be read: connection reset"):
        source.read_block(0, 50, 1)


def test_after_a_lost_connection_the_bytes_are_right(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for reads at another position, or the same one, of the same source."""
    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(stored_source, "MIN_REQUEST_BYTES", 1000)
    data = ORDERS.read_bytes()
    source: Any = stored_source.StoredSource(bucket.file(f"data/orders-0/{ORDERS.name}"))
    assert source.read_block(0, 1000, 1) == data[:1000]
    source._file = Unsteady(len(stores.RETRY_PAUSES_SECONDS) + 1)
    with pytest.raises(InputError, match="byte 20000: cannot be read: connection reset"):
        source.read_block(20_000, 50, 1)
    assert source.read_block(20_000, 50, 1) == data[20_000:20_050]
    failed_read: Future[bytes] = Future()
    failed_read.set_exception(InputError("it was lost while it was read ahead"))
    source._prefetched_window = 21_000, failed_read
    with pytest.raises(InputError, match="read ahead"):
        source.read_block(20_500, 1000, 1)
    assert source.read_block(20_500, 1000, 1) == data[20_500:21_500]


def test_an_object_that_vanishes_is_named(bucket: Bucket) -> None:
    from kfmt_cli.disk.input_paths import resolve_path
    from kfmt_cli.disk.path_resolution import mount_and_resolve_path

    MOUNTS.clear()  # other tests of this process may have added mounts
    url = bucket.file(f"data/orders-0/{ORDERS.name}")
    try:
        file = resolve_path(mount_and_resolve_path(url)).file
        system, path = file_systems.file_system_and_path(url)
        system.delete_file(path)
        from kfmt_cli.disk.file_access import open_source

        assert file is not None
        with pytest.raises(InputError) as raised:
            open_source(file.path, file.name)
        assert str(raised.value) == f"{url}: No such file or directory"
        assert (raised.value.is_missing, raised.value.file) == (True, file.path)
    finally:
        MOUNTS.clear()


def test_windows_of_a_source_have_the_bytes_of_the_file(bucket: Bucket) -> None:
    """For any byte ranges in any order."""
    data = io.BytesIO(os.urandom(3 * stored_source.READ_WINDOW_BYTES + 12345)).getvalue()
    system, path = file_systems.file_system_and_path(bucket.file("blob"))
    with system.open_output_stream(path) as stream:
        stream.write(data)
    source = stored_source.StoredSource(bucket.file("blob"))
    ranges = [(0, 100), (50, 1000), (300_000, 10), (299_000, 2 << 20), (2 << 20, 3 << 20)]
    ranges += [(4 << 20, 9 << 20), (len(data) - 5, 100), (len(data), 5), (0, len(data)), (7, 7)]
    for position, length in ranges:
        assert source.read_block(position, length, 1) == data[position : position + length], (
            position,
            length,
        )
    source.close()


@pytest.mark.parametrize("packaging", ["archive", "packed", "tiered"])
def test_archives_compressed_logs_and_buckets_at_a_url_are_read(
    packaging: str, bucket: Bucket, tmp_path: Path
) -> None:
    source = BROKER
    if packaging == "archive":
        with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
            tar.add(BROKER, "b")
        (tmp_path / "put").mkdir()
        (tmp_path / "b.tar.gz").rename(tmp_path / "put/b.tar.gz")
        url = f"{bucket.upload(tmp_path / 'put', 'archive')}/b.tar.gz"
    elif packaging == "packed":
        shutil.copytree(BROKER, tmp_path / "packed")
        for log in (tmp_path / "packed").rglob("*/*.log"):
            log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
            log.unlink()
        url = bucket.upload(tmp_path / "packed", "packed")
    else:
        source = TIERED / "plain"
        url = bucket.upload(source, "tiered")
    for command in ("check", "rebuild-index"):
        outputs = [str(tmp_path / f"{packaging}-{i}") for i in (0, 1)]
        actual = run_kfmt(
            command, url, *(outputs[:1] if command == "rebuild-index" else []), cwd=tmp_path
        )
        expected = kfmt(command, source, *(outputs[1:] if command == "rebuild-index" else []))
        assert actual.code == expected.code, actual.err
        assert "s3:/" not in (actual.out + actual.err).replace("s3://", "")
    pytest.importorskip("pyarrow")
    result = run_kfmt("export", url, "--to", "lake", "--format", "csv", cwd=tmp_path)
    expected_export = kfmt("export", source, "--to", tmp_path / "whole", "--format", "csv")
    assert result.code == expected_export.code, result.err
    rows = [
        sum(len(file.read_text().splitlines()) - 1 for file in (tmp_path / name).rglob("*.csv"))
        for name in ("lake", "whole")
    ]
    assert rows[0] == rows[1] > 500


def test_a_path_in_an_archive_at_a_url(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "put").mkdir()
    with tarfile.open(tmp_path / "put/b.tar.gz", "w:gz") as tar:
        tar.add(BROKER, "b")
    url = f"{bucket.upload(tmp_path / 'put', 'within')}/b.tar.gz/b/orders-0"
    for command in ("stat", "check", "verify-crc", "dump"):
        for subpath in ("", f"/{0:020}.log"):
            actual = run_kfmt(command, url + subpath, "--json", cwd=tmp_path)
            expected = kfmt(command, f"{BROKER}/orders-0{subpath}", "--json")
            assert actual.code == expected.code == 0, actual.err
            assert actual.out.count("\n") == expected.out.count("\n") > 0
    directory_url = bucket.upload(BROKER / "orders-0", "named.tar/orders-0")
    bucket.requests.clear()
    assert run_kfmt("verify-crc", directory_url, cwd=tmp_path).code == 0
    assert bucket.requests
    # No request above the partition.
    assert all("orders-0" in request for request in bucket.requests)
    missing = run_kfmt("check", f"{url}-none", cwd=tmp_path)
    assert (missing.code, missing.err) == (3, f"kfmt: {url}-none: No such file or directory\n")


def test_findings_are_located_at_urls(bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.upload(ROOT / "damaged_segments/flipped-bit-0", "damaged/flipped-bit-0")
    log_url = f"{url}/{ORDERS.name}"
    sarif = json.loads(run_kfmt("check", url, "--format", "sarif", cwd=tmp_path).out)
    locations = [result["locations"][0] for result in sarif["runs"][0]["results"]]
    artifacts = [location["physicalLocation"]["artifactLocation"] for location in locations]
    assert {"uri": log_url} in artifacts
    assert all(artifact["uri"].startswith(url) for artifact in artifacts)
    assert f' file="{log_url}"' in run_kfmt("check", url, "--format", "junit", cwd=tmp_path).out
    annotations = run_kfmt("check", url, "--format", "github", cwd=tmp_path).out
    assert f"::error title=crc-mismatch::{log_url}: " in annotations
    assert "file=" not in annotations  # GitHub shows files of the repository


def test_a_name_that_no_file_can_have_hides_no_other_object(bucket: Bucket, tmp_path: Path) -> None:
    """obstore ends its listing at any of these names."""
    boto3 = pytest.importorskip("boto3")
    names = ("orders-0//x.log", "orders-0/./x.log", "orders-0/../x.log")
    for name in (*names, "orders-0/control\x01", "orders-0/directory/"):
        boto3.client("s3").put_object(Bucket=bucket.url[5:], Key=f"data/{name}", Body=b"")
    result = run_kfmt("verify-crc", bucket.file("data"), "--json", cwd=tmp_path)
    assert len(result.of("file")) == 7
    assert result.code == 3
    assert sorted(result.err.splitlines()) == sorted(
        f"kfmt: {bucket.file('data')}/{name}: not a valid file name" for name in names
    )
