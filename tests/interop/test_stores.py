"""Object stores of other projects: kfmt reports the same about their files as about local ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_stores import CuttingProxy, RealStore, S3Proxy, WebHdfs, s3proxy, webhdfs
from tests.support.samples import ORDERS, Done, environment, kfmt
from tests.support.segments import positions, write
from tests.support.waiting import n_unread_bytes, wait_for
from tools import kafka
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")
pytest.importorskip("requests")

from kfmt_cli.core import file_systems, stored_source, stores
from kfmt_cli.disk import file_listing
from kfmt_cli.errors import InputError

pytestmark = [
    pytest.mark.interop,
    pytest.mark.servers,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
GUARDED = "secret-0"  # a partition that may not be listed
COPIED = ("kafka-3.9.1-broker1", "damaged_segments")
LARGE = 60 << 20
SLOW = 60.0  # seconds after which kfmt must have given up on a server that has ended


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of the uploaded files, about as old as the uploaded ones."""
    root = tmp_path_factory.mktemp("local")
    for directory in (SAMPLES / COPIED[0], ROOT / COPIED[1]):
        shutil.copytree(directory, root / directory.name, copy_function=shutil.copyfile)
    shutil.copytree(ORDERS.parent, root / "guarded" / GUARDED)
    shutil.copytree(ORDERS.parent, root / "guarded/orders-0")
    return root


@pytest.fixture(scope="module")
def s3(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as store:
        for name in COPIED:
            store.upload(local / name, "copies")
        yield store


@pytest.fixture(scope="module")
def hdfs(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHdfs]:
    directories = [local / name for name in (*COPIED, "guarded")]
    with webhdfs(tmp_path_factory.mktemp("hdfs"), *directories) as store:
        yield store


@pytest.fixture(params=["s3", "hdfs"])
def store(request: pytest.FixtureRequest) -> RealStore:
    selected_store: RealStore = request.getfixturevalue(request.param)
    return selected_store


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that has one log of many windows."""
    root = tmp_path_factory.mktemp("large")
    data = repeated_log(LARGE)
    assert len(data) >= LARGE
    write(root / "large-0", data)
    return root


@pytest.fixture(scope="module")
def large_url(s3: S3Proxy, large: Path) -> str:
    s3.upload(large, "large")
    return f"s3://large/{large.name}"


def repeated_log(min_bytes: int) -> bytes:
    """An undamaged log of at least that many bytes, which repeats the batches of a real one."""
    data, chunks, size, offset = ORDERS.read_bytes(), list[bytes](), 0, 0
    for start, end in cycle(pairwise(positions(data))):
        chunks += [offset.to_bytes(8, "big"), data[start + 8 : end]]
        offset += 1 + int.from_bytes(data[start + 23 : start + 27], "big")
        size += end - start
        if size >= min_bytes:
            break
    return b"".join(chunks)


def assert_one_line(result: Done, *messages: str) -> None:
    """Check that a run ends with exit code 3 and one line that contains these messages."""
    assert result.code == 3, result.err
    assert result.err.count("\n") == 1, result.err
    assert all(message in result.err for message in messages), result.err


def comparable_rows(result: Done, url: str, local: Path) -> list[dict[str, Any]]:
    """The rows of a run, with local paths, without those that differ: the disk usage of files,
    their modification times, and the next steps, which a store does not have."""
    rows = [json.loads(line.replace(url, str(local))) for line in result.out.splitlines()]
    for row in rows:
        if row.get("type") == "disk_usage":
            row |= {"disk_bytes": None, "freed_by": None}
    return [row for row in rows if row.get("type") != "next"]


@pytest.mark.parametrize("name", COPIED)
def test_what_is_uploaded_has_the_bytes_of_local_files(
    name: str, store: RealStore, local: Path
) -> None:
    files = [file for file in sorted((local / name).rglob("*")) if file.is_file()]
    assert len(files) >= 10
    for file in files:
        data = store.read(f"{store.url(local / name)}/{file.relative_to(local / name)}")
        assert data == file.read_bytes(), file


COMMANDS = [
    *(("dump",), ("dump", "--records"), ("verify-crc", "--deep"), ("check",), ("index-check",)),
    *(("stat",), ("cat", "--last", "5"), ("find", "--offset", "3"), ("txn",)),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", COPIED)
def test_commands_say_what_they_say_of_local_files(
    name: str, command: tuple[str, ...], store: RealStore, local: Path
) -> None:
    url = store.url(local / name)
    remote = kfmt(command[0], url, *command[1:], "--json", **store.env)
    expected = kfmt(command[0], local / name, *command[1:], "--json")
    assert remote.code == expected.code
    assert comparable_rows(remote, url, local / name) == comparable_rows(
        expected, url, local / name
    )
    assert expected.out


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_hex_shows_the_bytes_of_local_files(suffix: str, store: RealStore, local: Path) -> None:
    directory = local / COPIED[0]
    file = f"orders-0/{240:020}.{suffix}"
    remote = kfmt("hex", f"{store.url(directory)}/{file}", "--json", **store.env)
    expected = kfmt("hex", directory / file, "--json")
    assert (remote.code, expected.code) == (0, 0), remote.err
    assert remote.out.replace(store.url(directory), str(directory)) == expected.out
    assert expected.out


def test_an_export_has_the_rows_of_local_files(
    store: RealStore, local: Path, tmp_path: Path
) -> None:
    def lines(target: Path) -> list[str]:
        return sorted(
            line
            for file in (target / "records").rglob("*.jsonl")
            for line in file.read_text().splitlines()
        )

    directory, remote, expected = local / COPIED[0], tmp_path / "there", tmp_path / "here"
    url = store.url(directory)
    assert kfmt("export", url, "--to", remote, "--format", "json", **store.env).code == 0
    assert kfmt("export", directory, "--to", expected, "--format", "json").code == 0
    assert [line.replace(url, str(directory)) for line in lines(remote)] == lines(expected)
    assert len(lines(expected)) > 10_000


@pytest.fixture
def spark_there(store: RealStore, spark: Any) -> Iterator[Any]:
    """The session of all tests, with workers that find the store."""
    from kfmt_cli.spark import register

    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.env.items():
            patch.setenv(name, value)
        register(spark)
        yield spark
    register(spark)


@pytest.mark.spark
def test_spark_reads_the_rows_of_local_files(
    store: RealStore, local: Path, spark_there: Any
) -> None:
    directory, columns = local / COPIED[0], "topic,partition,offset,timestamp,key,value"

    def rows(path: str) -> list[Any]:
        frame = spark_there.read.format("kfmt").option("columns", columns).load(path)
        return sorted(map(tuple, frame.collect()), key=repr)

    expected = rows(str(directory))
    assert rows(store.url(directory)) == expected
    assert len(expected) > 10_000


@pytest.mark.spark
def test_a_job_verifies_stored_files(
    store: RealStore, local: Path, spark_there: Any, tmp_path: Path
) -> None:
    from pyarrow import parquet

    from kfmt_cli.execution.read_request import ReadRequest
    from kfmt_cli.spark.jobs import verify
    from kfmt_cli.spark.jobs.context import JobContext

    directory = local / COPIED[1]

    def verify_path(path: str, target: Path) -> tuple[dict[str, int], list[Any]]:
        context = JobContext(
            spark_there, ReadRequest(paths=(path,)), str(target), "parquet", lambda _: None
        )
        summary = verify.run_job(context)
        assert summary.unreadable_inputs == []
        return summary.counts, parquet.read_table(target / "findings").to_pylist()

    url = store.url(directory)
    counts, findings = verify_path(url, tmp_path / "there")
    expected_counts, expected_findings = verify_path(str(directory), tmp_path / "here")
    assert counts == expected_counts
    assert [
        json.loads(json.dumps(row).replace(url, str(directory))) for row in findings
    ] == expected_findings
    assert counts["errors"] == len(expected_findings) > 5


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_one_line(variable: str, s3: S3Proxy, local: Path) -> None:
    url = s3.url(local / COPIED[0])
    for path in (url, f"{url}/orders-0/{ORDERS.name}"):
        started = time.monotonic()
        result = kfmt("dump", path, **{**s3.env, variable: "wrong"})
        assert_one_line(result, f"kfmt: {path}: ", "ACCESS_DENIED")
        assert result.out == ""
        assert time.monotonic() - started < 7, "it was asked again"


def test_a_missing_object_is_one_line(store: RealStore, local: Path) -> None:
    url = store.url(local / "nothing")
    assert_one_line(kfmt("dump", url, **store.env), f"{url}: No such file or directory")
    if isinstance(store, S3Proxy):
        result = kfmt("dump", "s3://no-such-bucket/x", **store.env)
        assert_one_line(result, "s3://no-such-bucket/x: no-such-bucket does not exist")


MIN_BUFFERED_BYTES = 1 << 15  # half of the capacity of a pipe


class PausedRun:
    """A run of kfmt that has written its first bytes and waits until its pipe is read."""

    def __init__(self, store: RealStore, *arguments: str) -> None:
        command = [sys.executable, "-m", "kfmt_cli", *arguments]
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            env=environment(**store.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._first = os.read(self._process.stdout.fileno(), 1000)
        pipe = self._process.stdout.fileno()
        wait_for(lambda: n_unread_bytes(pipe) >= MIN_BUFFERED_BYTES)
        assert self._process.poll() is None, "it is done already"

    def end(self) -> Done:
        """Read the remaining output, until the run ends."""
        out, err = self._process.communicate(timeout=SLOW)
        assert b"Traceback" not in err, err.decode()
        return Done(self._process.returncode, (self._first + out).decode(), err.decode())


@pytest.mark.parametrize("command", [("cat",), ("dump", "--records")], ids=" ".join)
def test_an_object_that_vanishes_is_one_line_and_the_rest_is_read(
    command: tuple[str, ...], s3: S3Proxy, tmp_path: Path
) -> None:
    """The test deletes it after the listing, while kfmt prints earlier rows."""
    n, data = 40, repeated_log(300_000)
    for i in range(n):
        write(tmp_path / f"fleet/orders-{i}", data)
    bucket = f"vanishing-{command[0]}"
    s3.upload(tmp_path / "fleet", bucket)
    full_result = kfmt(*command, f"s3://{bucket}/fleet", "--json", **s3.env)
    assert full_result.code == 0, full_result.err
    run = PausedRun(s3, *command, f"s3://{bucket}/fleet", "--json")
    deleted_object = f"{bucket}/fleet/orders-{n - 1}/{ORDERS.name}"
    s3.files().delete_file(deleted_object)
    result = run.end()
    assert result.code == 0, result.err
    directory = f"s3://{bucket}/fleet/orders-{n - 1}"
    assert result.err == f"{directory}: no segment 0 (deleted while kfmt was reading)\n"
    expected_lines = [
        line for line in full_result.out.splitlines() if f'"partition":{n - 1},' not in line
    ]
    assert len(expected_lines) < len(full_result.out.splitlines())
    assert result.out.splitlines() == expected_lines


@contextmanager
def stopped(s3: S3Proxy, seconds: float) -> Iterator[None]:
    """Kill the server, and start it again after some seconds."""
    s3.kill()
    timer = threading.Timer(seconds, s3.start)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_server_that_ends_is_one_line(s3: S3Proxy, large_url: str, large: Path) -> None:
    """The line names the object and the byte; kfmt prints the rows before that byte."""
    run = PausedRun(s3, "dump", large_url, "--json")
    s3.kill()
    started = time.monotonic()
    try:
        result = run.end()
    finally:
        s3.start()
    assert time.monotonic() - started < SLOW
    assert_one_line(result, f"kfmt: {large_url}/large-0/{ORDERS.name} byte ", ": cannot be read: ")
    position = int(result.err.split(" byte ")[1].split(":")[0])
    expected_output = kfmt("dump", large, "--json").out.replace(str(large), large_url)
    assert expected_output.startswith(result.out)
    last = json.loads(result.out.splitlines()[-1])
    assert 1 << 20 < last["position"] + last["size"] <= position < LARGE
    assert position - last["position"] < 4 << 20


def test_a_server_that_comes_back_is_read_on(s3: S3Proxy, large_url: str, large: Path) -> None:
    run = PausedRun(s3, "dump", large_url, "--json")
    with stopped(s3, 1.0):
        result = run.end()
    assert (result.code, result.err) == (0, "")
    assert result.out == kfmt("dump", large, "--json").out.replace(str(large), large_url)


def test_a_server_that_says_nothing_is_given_up(
    s3: S3Proxy, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, the S3 client would retry for minutes."""
    s3.upload(large, "silent")
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    for module in (stores, file_systems):
        monkeypatch.setattr(module, "STORE_TIMEOUT_SECONDS", 1.0)
    source = stored_source.StoredSource(f"s3://silent/{large.name}/large-0/{ORDERS.name}")
    assert source.read_block(0, 8, 8) == bytes(8)
    started = time.monotonic()
    with s3.silent(), pytest.raises(InputError, match=r"0\.log byte 31457280: cannot be read: "):
        source.read_block(30 << 20, 100, 100)
    assert time.monotonic() - started < 20
    assert source.read_block(30 << 20, 100, 100) == repeated_log(LARGE)[30 << 20 :][:100]
    source.close()


def test_an_upload_that_fails_in_the_middle_leaves_nothing(s3: S3Proxy, large: Path) -> None:
    s3.files().create_dir("uploads")
    command = ("export", large, "--format", "json", "--to-offset", "80000")
    proxy = CuttingProxy(s3.port, 12 << 20)
    try:
        env = {**s3.env, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        result = kfmt(*command, "--to", "s3://uploads/half", **env)
    finally:
        proxy.close()
    assert proxy.is_cut
    assert result.code == 3
    assert "s3://uploads/half/records/" in result.err
    assert "cannot be written" in result.err
    assert result.err.count("\n") == 1, result.err
    assert s3.names("uploads/half") == []
    result = kfmt(*command, "--to", "s3://uploads/whole", **s3.env)
    assert result.code == 0, result.err
    assert any("/records/" in name for name in s3.names("uploads/whole"))


def test_a_directory_that_may_not_be_listed_is_reported(hdfs: WebHdfs, local: Path) -> None:
    """A walk that skips it silently would pass for a complete one."""
    url = hdfs.url(local / "guarded")
    secret = f"{url}/{GUARDED}"
    message = f"kfmt: {secret}: Permission denied: "
    for path in (secret, f"{secret}/{ORDERS.name}"):
        assert_one_line(kfmt("dump", path), f"kfmt: {path}: Permission denied: ")
    result = kfmt("verify-crc", url, "--json")
    assert_one_line(result, message)
    assert len(result.of("file")) == len(list(ORDERS.parent.glob("*.log")))
    result = kfmt("cat", url, "-f", "%o\\n")
    assert_one_line(result, message)
    assert result.out.split() == [str(offset) for offset in range(1500)]


def test_files_have_the_times_that_hdfs_says(hdfs: WebHdfs, local: Path) -> None:
    now_ns = time.time_ns()
    files = list(file_listing.iter_files(hdfs.url(local / COPIED[0])))
    assert len(files) > 100
    assert all(now_ns - 600 * 10**9 < file.modified_ns < now_ns for file in files)


def test_a_write_that_hdfs_refuses_is_one_line(hdfs: WebHdfs, local: Path) -> None:
    directory = local / COPIED[0] / "orders-0"
    result = kfmt("export", directory, "--to", f"{hdfs.root}/full/made")
    assert_one_line(result, f"{hdfs.root}/full/made/", "cannot be written")
    result = kfmt("export", directory, "--to", f"{hdfs.root}/open/made")
    assert result.code == 0, result.err
