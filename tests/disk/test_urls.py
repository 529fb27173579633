"""Commands on URLs: the same answers as from the directory that was uploaded."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, Done, anywhere, kfmt
from tests.support.store_server import Bucket, new_bucket, server_named
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("pyarrow")
pytest.importorskip("moto.server")

from kfmt_cli.core import file_systems, stored_source, stores
from kfmt_cli.disk import file_listing
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

BROKER = SAMPLES / "kafka-3.9.1-broker1"
KEPT = ROOT / "tests/kept/aiven-1.0.0"


def ran(*arguments: str | Path, cwd: Path) -> Done:
    """A command, which says nothing of its temporary directory, and leaves nothing there."""
    rest = cwd / "placeholders"
    rest.mkdir(exist_ok=True)
    done = kfmt(*arguments, cwd=cwd, TMPDIR=str(rest), **server_named())
    assert str(rest) not in done.out + done.err
    assert list(rest.iterdir()) == []
    return done


COMMANDS = [
    *(("check",), ("verify-crc", "--deep"), ("index-check",), ("stat",), ("txn",)),
    *(("dump",), ("dump", "--records"), ("cat", "--last", "5"), ("find", "--offset", "3")),
    *(("state",), ("compaction",), ("stat", "--sample", "20K")),
]


FOLDERS = ["damaged_segments", "sample_segments/kafka-3.9.1-broker1"]


@pytest.fixture(scope="module", params=FOLDERS)
def uploaded(
    request: pytest.FixtureRequest, server: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """A directory, and the URL of its copy."""
    del server
    bucket = new_bucket(tmp_path_factory.mktemp("uploaded"))
    return request.param, bucket.put(ROOT / request.param, "uploaded")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_url_is_what_was_uploaded(
    command: tuple[str, ...], uploaded: tuple[str, str], tmp_path: Path
) -> None:
    name, *options = command
    folder, url = uploaded
    ours = ran(name, url, *options, "--json", cwd=tmp_path)
    theirs = kfmt(name, ROOT / folder, *options, "--json")
    assert ours.code == theirs.code
    assert anywhere(ours.out) == anywhere(theirs.out.replace(str(ROOT / folder), url))


def test_a_file_at_a_url_is_read_with_those_next_to_it(bucket: Bucket, tmp_path: Path) -> None:
    log = bucket.file(f"data/orders-0/{240:020}.log")
    for command in (["check"], ["index-check"], ["hex", "--position", "0"], ["dump"]):
        ours = ran(command[0], log, *command[1:], cwd=tmp_path)
        theirs = kfmt(command[0], str(ORDERS.parent / f"{240:020}.log"), *command[1:])
        assert ours.code == theirs.code == 0, ours.err
        assert len(ours.out.splitlines()) == len(theirs.out.splitlines())
    done = ran("diff", bucket.file("data/orders-0"), ORDERS.parent, cwd=tmp_path)
    assert done.code == 0, done.out
    for command in (["salvage"], ["convert-v0-to-v2"]):
        done = ran(*command, bucket.file("data/orders-0"), f"{command[0]}-made", cwd=tmp_path)
        assert done.code in (0, 3), done.err
    done = ran("export", bucket.file("data"), "--to", "lake", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "1 500 records, no damage" in done.out + done.err
    saved = tmp_path / "salvage-made" / f"{240:020}.log"
    assert saved.read_bytes() == (ORDERS.parent / f"{240:020}.log").read_bytes()


def test_only_what_is_asked_for_is_read(bucket: Bucket, tmp_path: Path) -> None:
    """A log of many windows: a look at its front is one request, a whole reading has no overlap."""
    large = tmp_path / "large-0"
    large.mkdir()
    data = ORDERS.read_bytes()
    (large / ORDERS.name).write_bytes(
        data * (20 * stored_source.READ_WINDOW_BYTES // len(data) // 4)
    )
    url = bucket.put(large, "large-0")
    bucket.requests.clear()
    assert ran("dump", f"{url}/{ORDERS.name}", "--limit", "1", cwd=tmp_path).code == 0
    assert len(bucket.asked("^GET .*log")) == 1
    bucket.requests.clear()
    ran("verify-crc", f"{url}/{ORDERS.name}", cwd=tmp_path)
    assert 5 <= len(bucket.asked("^GET .*log")) <= 9
    bucket.requests.clear()
    ran("verify-crc", bucket.file("data"), cwd=tmp_path)
    assert len(bucket.asked("^GET .*log")) == 7


def test_what_is_packed_is_read_from_a_store(bucket: Bucket, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / "broker.tar.gz", "w:gz") as tar:
        tar.add(ORDERS.parent, "orders-0")
    (packed / f"{ORDERS.name}.gz").write_bytes(gzip.compress(ORDERS.read_bytes()))
    url = bucket.put(packed, "packed")
    done = ran("verify-crc", f"{url}/broker.tar.gz", "--json", cwd=tmp_path)
    assert (done.code, len(done.of("file"))) == (0, 7)
    assert done.of("file")[0]["file"] == f"{url}/broker.tar.gz/orders-0/{ORDERS.name}"
    done = ran("cat", f"{url}/{ORDERS.name}.gz", "-f", "%o\\n", cwd=tmp_path)
    assert done.out.split() == [str(i) for i in range(240)]


def test_a_tiered_bucket_is_read_in_its_store(bucket: Bucket, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    key = str(KEPT / "encrypted/test-key.pkcs8.der")
    theirs = kfmt("dump", BROKER / "txn-0", "--records", "--json").of("record")
    known = {row["offset"]: row["value"] for row in theirs}
    for name in ("plain", "zstd", "encrypted"):
        url = bucket.put(KEPT / name / "tiered", f"{name}/some/prefix")
        options = ("--rsm-private-key", key) if name == "encrypted" else ()
        done = ran("dump", url, "--records", "--json", *options, cwd=tmp_path)
        assert done.code == 0, done.err
        rows = [row for row in done.of("record") if row["topic"] == "txn"]
        assert len(rows) > 100
        assert all(known[row["offset"]] == row["value"] for row in rows)
        assert rows[0]["file"].startswith(url)


@pytest.mark.parametrize("at", ["tiered", ""])
def test_a_tiered_partition_has_a_url_of_its_own(at: str, bucket: Bucket, tmp_path: Path) -> None:
    """The one that is shown for it, which the bucket does not have."""
    bucket.put(KEPT / "plain", "one")
    url = bucket.file("one/tiered" if at else "one")
    (file,) = {row["file"] for row in ran("dump", url, "--json", cwd=tmp_path).of("batch")} - {
        f"{url}/txn-0/{357:020}.log"
    }
    assert file == f"{url}/txn-0/{0:020}.log"
    ours = ran("hex", file, "--position", "0", cwd=tmp_path)
    theirs = kfmt("hex", BROKER / f"txn-0/{0:020}.log", "--position", "0")
    assert ours.out.splitlines()[1:] == theirs.out.splitlines()[1:]
    assert "2 segments" in ran("verify-crc", f"{url}/txn-0", cwd=tmp_path).out
    for path in (f"{url}/txn-1", f"{url}/txn-0/{1:020}.log", f"{url}/more/txn-0"):
        done = ran("verify-crc", path, cwd=tmp_path)
        assert (done.code, "No such file or directory" in done.err) == (3, True)


def test_nothing_is_written_to_a_url_but_exports(bucket: Bucket, tmp_path: Path) -> None:
    source, to = bucket.file("data/orders-0"), bucket.file("made")
    for command in ("salvage", "convert-v0-to-v2", "rebuild-index"):
        done = ran(command, source, to, cwd=tmp_path)
        assert done.code == 2
        assert f"{to}: can only write to local directories" in done.err
    done = ran("rebuild-index", "--in-place", source, cwd=tmp_path)
    assert done.code == 2
    assert "files at a URL" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["placeholders"]
    for code in (0, 2):
        done = ran("export", source, "--to", to, cwd=tmp_path)
        assert done.code == code, done.err
    assert "not empty" in done.err
    assert ran("export", ORDERS.parent, "--to", bucket.file("more"), cwd=tmp_path).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["placeholders"]
    for made in (to, bucket.file("more")):
        names = [file.path.removeprefix(made) for file in file_listing.iter_files(made)]
        assert "/_kfmt/manifest.json" in names
        assert sum(name.startswith("/records/orders-0-") for name in names) == 1


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("{}/nothing", 3, "{}/nothing: No such file or directory"),
        ("s3://no-such-bucket-here/x", 3, "no-such-bucket-here does not exist"),
        ("gopher://host/x", 3, "no file system installed for gopher://"),
        ("{}/a/../b", 3, '".." has no meaning in the URL of a store'),
    ],
)
def test_what_is_not_there_is_one_line(
    path: str, code: int, words: str, bucket: Bucket, tmp_path: Path
) -> None:
    done = ran("dump", path.format(bucket.url), cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert words.format(bucket.url) in done.err
    assert done.err.count("\n") == 1


def test_a_server_that_does_not_answer_is_one_line(bucket: Bucket, tmp_path: Path) -> None:
    named: dict[str, Any] = {**server_named(), "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    done = kfmt("dump", bucket.file("data"), cwd=tmp_path, apart=True, **named)
    assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
    assert f"kfmt: {bucket.url}/data: " in done.err


class Unsteady:
    """A file whose connection is lost so many times."""

    def __init__(self, losses: int) -> None:
        self.losses = losses

    def read_at(self, n: int, position: int) -> bytes:
        if self.losses:
            self.losses -= 1
            raise OSError("connection reset")
        return ORDERS.read_bytes()[position : position + n]


def test_a_lost_connection_is_tried_again_and_then_told(
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
    """Also of whoever asks for another place, or for the same one, of the same source."""
    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(stored_source, "MIN_REQUEST_BYTES", 1000)
    data = ORDERS.read_bytes()
    source: Any = stored_source.StoredSource(bucket.file(f"data/orders-0/{ORDERS.name}"))
    assert source.read_block(0, 1000, 1) == data[:1000]
    source._file = Unsteady(len(stores.RETRY_PAUSES_SECONDS) + 1)
    with pytest.raises(InputError, match="byte 20000: cannot be read: connection reset"):
        source.read_block(20_000, 50, 1)
    assert source.read_block(20_000, 50, 1) == data[20_000:20_050]
    lost: Future[bytes] = Future()
    lost.set_exception(InputError("it was lost while it was read ahead"))
    source._prefetched = 21_000, lost
    with pytest.raises(InputError, match="read ahead"):
        source.read_block(20_500, 1000, 1)
    assert source.read_block(20_500, 1000, 1) == data[20_500:21_500]


def test_an_object_that_vanishes_is_named(bucket: Bucket) -> None:
    from kfmt_cli.disk.input_paths import resolve_path
    from kfmt_cli.disk.path_resolution import resolve_display_path

    MOUNTS.clear()  # other tests of this process may have some
    url = bucket.file(f"data/orders-0/{ORDERS.name}")
    try:
        file = resolve_path(resolve_display_path(url)).file
        system, below = file_systems.file_system_at(url)
        system.delete_file(below)
        from kfmt_cli.disk.file_access import open_source

        assert file is not None
        with pytest.raises(InputError) as gone:
            open_source(file.path, file.name)
        assert str(gone.value) == f"{url}: No such file or directory"
        assert (gone.value.is_missing, gone.value.file) == (True, file.path)
    finally:
        MOUNTS.clear()


def test_windows_of_a_source_are_the_file(bucket: Bucket) -> None:
    """Whatever is asked for in whatever order."""
    data = io.BytesIO(os.urandom(3 * stored_source.READ_WINDOW_BYTES + 12345)).getvalue()
    system, below = file_systems.file_system_at(bucket.file("blob"))
    with system.open_output_stream(below) as out:
        out.write(data)
    source = stored_source.StoredSource(bucket.file("blob"))
    places = [(0, 100), (50, 1000), (300_000, 10), (299_000, 2 << 20), (2 << 20, 3 << 20)]
    places += [(4 << 20, 9 << 20), (len(data) - 5, 100), (len(data), 5), (0, len(data)), (7, 7)]
    for at, n in places:
        assert source.read_block(at, n, 1) == data[at : at + n], (at, n)
    source.close()


@pytest.mark.parametrize("form", ["archive", "packed", "tiered"])
def test_what_is_at_a_url_in_another_form_is_read(
    form: str, bucket: Bucket, tmp_path: Path
) -> None:
    plain = BROKER
    if form == "archive":
        with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
            tar.add(BROKER, "b")
        (tmp_path / "put").mkdir()
        (tmp_path / "b.tar.gz").rename(tmp_path / "put/b.tar.gz")
        url = f"{bucket.put(tmp_path / 'put', 'archive')}/b.tar.gz"
    elif form == "packed":
        shutil.copytree(BROKER, tmp_path / "packed")
        for log in (tmp_path / "packed").rglob("*/*.log"):
            log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
            log.unlink()
        url = bucket.put(tmp_path / "packed", "packed")
    else:
        plain = KEPT / "plain"
        url = bucket.put(plain, "tiered")
    for command in ("check", "rebuild-index"):
        to = [str(tmp_path / f"{form}-{i}") for i in (0, 1)]
        ours = ran(command, url, *(to[:1] if command == "rebuild-index" else []), cwd=tmp_path)
        theirs = kfmt(command, plain, *(to[1:] if command == "rebuild-index" else []))
        assert ours.code == theirs.code, ours.err
        assert "s3:/" not in (ours.out + ours.err).replace("s3://", "")
    pytest.importorskip("pyarrow")
    done = ran("export", url, "--to", "lake", "--format", "csv", cwd=tmp_path)
    whole = kfmt("export", plain, "--to", tmp_path / "whole", "--format", "csv")
    assert done.code == whole.code, done.err
    rows = [
        sum(len(file.read_text().splitlines()) - 1 for file in (tmp_path / name).rglob("*.csv"))
        for name in ("lake", "whole")
    ]
    assert rows[0] == rows[1] > 500


def test_a_path_in_an_archive_at_a_url(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "put").mkdir()
    with tarfile.open(tmp_path / "put/b.tar.gz", "w:gz") as tar:
        tar.add(BROKER, "b")
    url = f"{bucket.put(tmp_path / 'put', 'within')}/b.tar.gz/b/orders-0"
    for command in ("stat", "check", "verify-crc", "dump"):
        for below in ("", f"/{0:020}.log"):
            ours = ran(command, url + below, "--json", cwd=tmp_path)
            theirs = kfmt(command, f"{BROKER}/orders-0{below}", "--json")
            assert ours.code == theirs.code == 0, ours.err
            assert ours.out.count("\n") == theirs.out.count("\n") > 0
    named = bucket.put(BROKER / "orders-0", "named.tar/orders-0")
    bucket.requests.clear()
    assert ran("verify-crc", named, cwd=tmp_path).code == 0
    assert bucket.requests
    assert all("orders-0" in request for request in bucket.requests)  # nothing above is asked for
    gone = ran("check", f"{url}-none", cwd=tmp_path)
    assert (gone.code, gone.err) == (3, f"kfmt: {url}-none: No such file or directory\n")
