"""Stores that others have written: kfmt says of what lies there what it says of local files."""

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

from tests.support.real_stores import Cutting, RealStore, S3Proxy, WebHdfs, s3proxy, webhdfs
from tests.support.samples import ORDERS, Done, environment, kfmt
from tests.support.segments import positions, write
from tests.support.waiting import wait_for, waiting_in
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
SLOW = 60.0  # seconds in which kfmt must have given up a server that has ended


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of what is uploaded, about as old as what is there."""
    top = tmp_path_factory.mktemp("local")
    for folder in (SAMPLES / COPIED[0], ROOT / COPIED[1]):
        shutil.copytree(folder, top / folder.name, copy_function=shutil.copyfile)
    shutil.copytree(ORDERS.parent, top / "guarded" / GUARDED)
    shutil.copytree(ORDERS.parent, top / "guarded/orders-0")
    return top


@pytest.fixture(scope="module")
def s3(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as store:
        for name in COPIED:
            store.put(local / name, "copies")
        yield store


@pytest.fixture(scope="module")
def hdfs(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHdfs]:
    folders = [local / name for name in (*COPIED, "guarded")]
    with webhdfs(tmp_path_factory.mktemp("hdfs"), *folders) as store:
        yield store


@pytest.fixture(params=["s3", "hdfs"])
def store(request: pytest.FixtureRequest) -> RealStore:
    found: RealStore = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that has one log of many windows."""
    top = tmp_path_factory.mktemp("large")
    data = grown(LARGE)
    assert len(data) >= LARGE
    write(top / "large-0", data)
    return top


@pytest.fixture(scope="module")
def large_url(s3: S3Proxy, large: Path) -> str:
    s3.put(large, "large")
    return f"s3://large/{large.name}"


def grown(least: int) -> bytes:
    """An undamaged log of at least so many bytes: the batches of a real one, again and again."""
    data, parts, size, offset = ORDERS.read_bytes(), list[bytes](), 0, 0
    for start, end in cycle(pairwise(positions(data))):
        parts += [offset.to_bytes(8, "big"), data[start + 8 : end]]
        offset += 1 + int.from_bytes(data[start + 23 : start + 27], "big")
        size += end - start
        if size >= least:
            break
    return b"".join(parts)


def one_line(done: Done, *words: str) -> None:
    """A run that ends with exit code 3, and one line in which these words are."""
    assert done.code == 3, done.err
    assert done.err.count("\n") == 1, done.err
    assert all(word in done.err for word in words), done.err


def told(done: Done, url: str, local: Path) -> list[dict[str, Any]]:
    """The rows of a run, with local paths, without what cannot be alike: what files take on a disk,
    when they were written, and what to do, which is nothing in a store."""
    rows = [json.loads(line.replace(url, str(local))) for line in done.out.splitlines()]
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
    there = kfmt(command[0], url, *command[1:], "--json", **store.env)
    here = kfmt(command[0], local / name, *command[1:], "--json")
    assert there.code == here.code
    assert told(there, url, local / name) == told(here, url, local / name)
    assert here.out


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_hex_shows_the_bytes_of_local_files(suffix: str, store: RealStore, local: Path) -> None:
    folder = local / COPIED[0]
    file = f"orders-0/{240:020}.{suffix}"
    there = kfmt("hex", f"{store.url(folder)}/{file}", "--json", **store.env)
    here = kfmt("hex", folder / file, "--json")
    assert (there.code, here.code) == (0, 0), there.err
    assert there.out.replace(store.url(folder), str(folder)) == here.out
    assert here.out


def test_an_export_has_the_rows_of_local_files(
    store: RealStore, local: Path, tmp_path: Path
) -> None:
    def lines(to: Path) -> list[str]:
        return sorted(
            line
            for file in (to / "records").rglob("*.jsonl")
            for line in file.read_text().splitlines()
        )

    folder, there, here = local / COPIED[0], tmp_path / "there", tmp_path / "here"
    url = store.url(folder)
    assert kfmt("export", url, "--to", there, "--format", "json", **store.env).code == 0
    assert kfmt("export", folder, "--to", here, "--format", "json").code == 0
    assert [line.replace(url, str(folder)) for line in lines(there)] == lines(here)
    assert len(lines(here)) > 10_000


@pytest.fixture
def spark_there(store: RealStore, spark: Any) -> Iterator[Any]:
    """The session of all tests, whose workers find the store."""
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
    folder, columns = local / COPIED[0], "topic,partition,offset,timestamp,key,value"

    def rows(path: str) -> list[Any]:
        frame = spark_there.read.format("kfmt").option("columns", columns).load(path)
        return sorted(map(tuple, frame.collect()), key=repr)

    here = rows(str(folder))
    assert rows(store.url(folder)) == here
    assert len(here) > 10_000


@pytest.mark.spark
def test_a_job_verifies_what_lies_there(
    store: RealStore, local: Path, spark_there: Any, tmp_path: Path
) -> None:
    from pyarrow import parquet

    from kfmt_cli.execution.read_request import ReadRequest
    from kfmt_cli.spark.jobs import verify
    from kfmt_cli.spark.jobs.context import JobContext

    folder = local / COPIED[1]

    def found(path: str, to: Path) -> tuple[dict[str, int], list[Any]]:
        context = JobContext(
            spark_there, ReadRequest(paths=(path,)), str(to), "parquet", lambda _: None
        )
        summary = verify.run_job(context)
        assert summary.unreadable_inputs == []
        return summary.counts, parquet.read_table(to / "findings").to_pylist()

    url = store.url(folder)
    numbers, findings = found(url, tmp_path / "there")
    theirs, known = found(str(folder), tmp_path / "here")
    assert numbers == theirs
    assert [json.loads(json.dumps(row).replace(url, str(folder))) for row in findings] == known
    assert numbers["errors"] == len(known) > 5


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_one_line(variable: str, s3: S3Proxy, local: Path) -> None:
    url = s3.url(local / COPIED[0])
    for path in (url, f"{url}/orders-0/{ORDERS.name}"):
        started = time.monotonic()
        done = kfmt("dump", path, **{**s3.env, variable: "wrong"})
        one_line(done, f"kfmt: {path}: ", "ACCESS_DENIED")
        assert done.out == ""
        assert time.monotonic() - started < 7, "it was asked again"


def test_what_is_not_there_is_one_line(store: RealStore, local: Path) -> None:
    url = store.url(local / "nothing")
    one_line(kfmt("dump", url, **store.env), f"{url}: No such file or directory")
    if isinstance(store, S3Proxy):
        done = kfmt("dump", "s3://no-such-bucket/x", **store.env)
        one_line(done, "s3://no-such-bucket/x: no-such-bucket does not exist")


MUCH = 1 << 15  # bytes, of the twice as many that a pipe holds


class Reading:
    """A run of kfmt that has written its first bytes, and can write no more than a pipe holds."""

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
        wait_for(lambda: waiting_in(pipe) >= MUCH)
        assert self._process.poll() is None, "it is done already"

    def end(self) -> Done:
        """Read on to its end."""
        out, err = self._process.communicate(timeout=SLOW)
        assert b"Traceback" not in err, err.decode()
        return Done(self._process.returncode, (self._first + out).decode(), err.decode())


@pytest.mark.parametrize("command", [("cat",), ("dump", "--records")], ids=" ".join)
def test_an_object_that_vanishes_is_one_line_and_the_rest_is_read(
    command: tuple[str, ...], s3: S3Proxy, tmp_path: Path
) -> None:
    """It is deleted after the listing, while what comes before it is shown."""
    n, data = 40, grown(300_000)
    for i in range(n):
        write(tmp_path / f"fleet/orders-{i}", data)
    bucket = f"vanishing-{command[0]}"
    s3.put(tmp_path / "fleet", bucket)
    whole = kfmt(*command, f"s3://{bucket}/fleet", "--json", **s3.env)
    assert whole.code == 0, whole.err
    reading = Reading(s3, *command, f"s3://{bucket}/fleet", "--json")
    gone = f"{bucket}/fleet/orders-{n - 1}/{ORDERS.name}"
    s3.files().delete_file(gone)
    done = reading.end()
    assert done.code == 3
    assert f"kfmt: s3://{gone}: No such file or directory\n" in done.err
    assert done.err.count(bucket) == 1, done.err
    rest = [line for line in whole.out.splitlines() if f'"partition":{n - 1},' not in line]
    assert len(rest) < len(whole.out.splitlines())
    assert done.out.splitlines() == rest


@contextmanager
def stopped(s3: S3Proxy, seconds: float) -> Iterator[None]:
    """The server is killed, and starts again after that time."""
    s3.kill()
    timer = threading.Timer(seconds, s3.start)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_server_that_ends_is_one_line(s3: S3Proxy, large_url: str, large: Path) -> None:
    """Which names the object and the byte; what was read before is shown."""
    reading = Reading(s3, "dump", large_url, "--json")
    s3.kill()
    started = time.monotonic()
    try:
        done = reading.end()
    finally:
        s3.start()
    assert time.monotonic() - started < SLOW
    one_line(done, f"kfmt: {large_url}/large-0/{ORDERS.name} byte ", ": cannot be read: ")
    byte = int(done.err.split(" byte ")[1].split(":")[0])
    whole = kfmt("dump", large, "--json").out.replace(str(large), large_url)
    assert whole.startswith(done.out)
    last = json.loads(done.out.splitlines()[-1])
    assert 1 << 20 < last["position"] + last["size"] <= byte < LARGE
    assert byte - last["position"] < 4 << 20


def test_a_server_that_comes_back_is_read_on(s3: S3Proxy, large_url: str, large: Path) -> None:
    reading = Reading(s3, "dump", large_url, "--json")
    with stopped(s3, 1.0):
        done = reading.end()
    assert (done.code, done.err) == (0, "")
    assert done.out == kfmt("dump", large, "--json").out.replace(str(large), large_url)


def test_a_server_that_says_nothing_is_given_up(
    s3: S3Proxy, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of S3 would ask it for minutes."""
    s3.put(large, "silent")
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    for module in (stores, file_systems):
        monkeypatch.setattr(module, "PATIENCE", 1.0)
    source = stored_source.StoredSource(f"s3://silent/{large.name}/large-0/{ORDERS.name}")
    assert source.read_block(0, 8, 8) == bytes(8)
    started = time.monotonic()
    with s3.silent(), pytest.raises(InputError, match=r"0\.log byte 31457280: cannot be read: "):
        source.read_block(30 << 20, 100, 100)
    assert time.monotonic() - started < 20
    assert source.read_block(30 << 20, 100, 100) == grown(LARGE)[30 << 20 :][:100]
    source.close()


def test_an_upload_that_fails_in_the_middle_leaves_nothing(s3: S3Proxy, large: Path) -> None:
    s3.files().create_dir("uploads")
    command = ("export", large, "--format", "json", "--to-offset", "80000")
    way = Cutting(s3.port, 12 << 20)
    try:
        env = {**s3.env, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{way.port}"}
        done = kfmt(*command, "--to", "s3://uploads/half", **env)
    finally:
        way.close()
    assert way.is_cut
    assert done.code == 3
    assert "s3://uploads/half/records/" in done.err
    assert "cannot be written" in done.err
    assert done.err.count("\n") == 1, done.err
    assert s3.names("uploads/half") == []
    done = kfmt(*command, "--to", "s3://uploads/whole", **s3.env)
    assert done.code == 0, done.err
    assert any("/records/" in name for name in s3.names("uploads/whole"))


def test_a_directory_that_may_not_be_listed_is_told(hdfs: WebHdfs, local: Path) -> None:
    """A walk that leaves it out would call the rest all there is."""
    url = hdfs.url(local / "guarded")
    secret = f"{url}/{GUARDED}"
    words = f"kfmt: {secret}: Permission denied: "
    for path in (secret, f"{secret}/{ORDERS.name}"):
        one_line(kfmt("dump", path), f"kfmt: {path}: Permission denied: ")
    done = kfmt("verify-crc", url, "--json")
    one_line(done, words)
    assert len(done.of("file")) == len(list(ORDERS.parent.glob("*.log")))
    done = kfmt("cat", url, "-f", "%o\\n")
    one_line(done, words)
    assert done.out.split() == [str(offset) for offset in range(1500)]


def test_files_have_the_times_that_hdfs_says(hdfs: WebHdfs, local: Path) -> None:
    before = time.time_ns()
    files = list(file_listing.iter_files(hdfs.url(local / COPIED[0])))
    assert len(files) > 100
    assert all(before - 600 * 10**9 < file.modified_ns < before for file in files)


def test_what_hdfs_refuses_to_take_is_one_line(hdfs: WebHdfs, local: Path) -> None:
    folder = local / COPIED[0] / "orders-0"
    done = kfmt("export", folder, "--to", f"{hdfs.top}/full/made")
    one_line(done, f"{hdfs.top}/full/made/", "cannot be written")
    done = kfmt("export", folder, "--to", f"{hdfs.top}/open/made")
    assert done.code == 0, done.err
