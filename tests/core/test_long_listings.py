"""Invalid listings: one that never ends, and one with impossible sizes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, cycle, islice
from types import SimpleNamespace

import pytest

from kfmt_cli.core import stores
from kfmt_cli.core.stores import StoredFile, find_repeated_name
from kfmt_cli.disk import object_stores
from kfmt_cli.disk.file_listing import iter_files
from kfmt_cli.errors import InputError

OBJECT = (
    "<Contents><Key>logs/orders-0/{:020}.log</Key><Size>70</Size>"
    "<LastModified>2026-11-20T00:00:00.000Z</LastModified><ETag>e</ETag></Contents>"
)
PAGE = (
    "<ListBucketResult><IsTruncated>true</IsTruncated><KeyCount>7</KeyCount>"
    f"{''.join(map(OBJECT.format, range(7)))}"
    "<NextContinuationToken>same</NextContinuationToken></ListBucketResult>"
).encode()


class EndlessStore(BaseHTTPRequestHandler):
    """A store whose every page says that more follow."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        """No object has the name of a directory."""
        self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        """Send the same page every time."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)


@pytest.fixture
def endless_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The endless store, configured by environment variables."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EndlessStore) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield
        server.shutdown()


def test_a_listing_without_an_end_is_one_line(
    endless_store: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("obstore")
    del endless_store
    monkeypatch.setattr(stores, "SLOW_LISTING_SECONDS", 0.1)
    for key in ("logs", "logs/orders-0"):
        message = f"s3://endless/{key}: the store's listing never ends: it repeats logs/orders-0/0"
        with pytest.raises(InputError, match=re.escape(message)):
            list(iter_files(f"s3://endless/{key}"))


def test_names_that_repeat_are_found_wherever_the_repetition_begins() -> None:
    for n_distinct, period in ((0, 1), (0, 1000), (5000, 7), (12345, 999)):
        names = chain(map(str, range(n_distinct)), cycle(f"again {n}" for n in range(period)))
        repeated_name = find_repeated_name(islice(names, 4 * (n_distinct + period) + 4))
        assert repeated_name is not None
        assert repeated_name.startswith("again")


def test_a_million_names_are_no_repetition() -> None:
    assert find_repeated_name(map(str, range(1_000_000))) is None


def test_a_long_listing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [[str(n) for n in range(first, first + 1000)] for first in range(0, 1_000_000, 1000)]
    monkeypatch.setattr(stores, "SLOW_LISTING_SECONDS", 0.01)
    monkeypatch.setattr(stores, "iter_object_name_pages", lambda _: iter(pages))

    def list_objects() -> int:
        time.sleep(0.5)
        return 7

    assert stores._run_listing(list_objects, "s3://bucket/logs") == 7


def test_a_listing_of_names_that_cannot_be_compared_ends_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "SLOW_LISTING_SECONDS", 0.01)
    monkeypatch.setattr(stores, "MAX_LISTING_SECONDS", 0.01)
    monkeypatch.setattr(stores, "iter_object_name_pages", lambda _: iter(()))
    ended = threading.Event()
    with pytest.raises(InputError, match="s3://bucket/logs: the store's listing has not ended"):
        stores._run_listing(ended.wait, "s3://bucket/logs")
    ended.set()


def test_a_listing_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the comparison of its names ends shortly before the limit."""
    now = [1000.0]
    ended = threading.Event()

    def wait(_: object, timeout: float, *__: object) -> None:
        """Let time pass; the second call ends early, as the other listing does."""
        waits.append(timeout)
        now[0] += 3500 if len(waits) == 2 else timeout

    waits: list[float] = []
    monkeypatch.setattr(stores, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(stores, "wait", wait)
    monkeypatch.setattr(stores, "iter_object_name_pages", lambda _: iter(()))
    with pytest.raises(InputError, match="the store's listing has not ended after 3600 seconds"):
        stores._run_listing(ended.wait, "s3://bucket/logs")
    ended.set()
    assert now[0] == 1000 + stores.MAX_LISTING_SECONDS


def test_what_a_listing_raises_is_raised() -> None:
    def list_objects() -> None:
        raise PermissionError("HTTP status 403")

    with pytest.raises(PermissionError, match="403"):
        stores._run_listing(list_objects, "s3://bucket/logs")


@pytest.mark.parametrize("size", [-5, 1 << 62])
def test_a_size_that_no_object_has_is_one_line(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [StoredFile(f"s3://odd/orders-0/{n:020}.log", size * n, 0) for n in (0, 1)]
    monkeypatch.setattr(object_stores, "stat_file", lambda _: None)
    monkeypatch.setattr(object_stores, "list_files", lambda _, *, recursive: iter(files))
    store = object_stores.ObjectStoreTree("s3:")
    store.load_listing("odd/orders-0")
    message = f"the store lists an impossible size, {size} bytes"
    assert store.problem_messages("odd/orders-0") == [f"{files[1].path}: {message}"]
    assert [file.name for file in store.list_entries("odd/orders-0").files] == [f"{0:020}.log"]


def test_a_directory_is_listed_though_a_file_in_it_was_given_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stat_urls: list[str] = []
    names = ["top.log", "orders-0/0.log"]

    def stat_file(url: str) -> StoredFile | None:
        stat_urls.append(url)
        return StoredFile(url, 1, 0) if url.endswith(".log") else None

    def list_files(url: str, *, recursive: bool) -> Iterator[StoredFile]:
        return (StoredFile(f"{url}/{name}", 1, 0) for name in (names if recursive else names[:1]))

    monkeypatch.setattr(object_stores, "stat_file", stat_file)
    monkeypatch.setattr(object_stores, "list_files", list_files)
    store = object_stores.ObjectStoreTree("s3:")
    for path in ("b/logs/top.log", "b/logs", "b/logs/orders-0", "b/logs"):
        store.load_listing(path)
    assert [file.name for file in store.list_entries("b/logs").files] == ["top.log"]
    assert [file.name for file in store.list_entries("b/logs/orders-0").files] == ["0.log"]
    assert stat_urls == ["s3://b/logs/top.log", "s3://b/logs"]  # the other listings are cached
