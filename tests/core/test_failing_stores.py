"""Requests to a failing store are retried, but not for each object."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kfmt_cli.core import stores
from kfmt_cli.core.stores import request_with_retries
from kfmt_cli.errors import InputError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which passes only in `sleep`."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(stores, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    stores._store_health.cache_clear()
    return now


def test_a_store_that_fails_is_not_waited_for_with_each_object(clock: list[float]) -> None:
    requests = []

    def request(path: str, succeeds: bool = False) -> str:
        def send() -> str:
            requests.append(path)
            if not succeeds:
                raise OSError("HTTP status 503")
            return path

        return request_with_retries(send, path)

    for i in range(7):
        with pytest.raises(InputError, match="HTTP status 503"):
            request(f"s3://bucket/orders-0/{i}.log")
    assert len(requests) == 4 + 6
    assert clock[0] - 1000 < 10
    with pytest.raises(InputError):
        request("s3://another/1.log")
    assert len(requests) == 14
    assert request("s3://bucket/orders-0/8.log", succeeds=True)
    with pytest.raises(InputError):
        request("s3://bucket/orders-0/9.log")
    assert len(requests) == 15 + 4
    clock[0] += stores.FAILING_SECONDS
    with pytest.raises(InputError):
        request("s3://bucket/orders-0/9.log")
    assert len(requests) == 19 + 4


def test_a_refusal_is_not_a_failing_store(clock: list[float]) -> None:
    requests = []

    def refuse() -> str:
        requests.append(1)
        raise PermissionError("HTTP status 403")

    for _ in range(3):
        with pytest.raises(InputError):
            request_with_retries(refuse, "s3://bucket/1.log")
    assert len(requests) == 3
    assert stores._store_health("s3://bucket").failed_at_seconds < 0
    del clock


def test_a_missing_bucket_is_asked_for_as_often_as_its_objects(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    bucket_responses = [OSError("HTTP status 503"), fs.FileType.NotFound]

    def get_file_info(path_or_paths: str | list[str]) -> object:
        not_found = SimpleNamespace(type=fs.FileType.NotFound)
        if isinstance(path_or_paths, list):
            return [not_found]
        response = bucket_responses.pop(0)
        if isinstance(response, OSError):
            raise response
        return not_found

    file_system = SimpleNamespace(get_file_info=get_file_info)
    monkeypatch.setattr(stores, "file_system_and_path", lambda _: (file_system, "bucket/x"))
    with pytest.raises(InputError, match=r"^s3://bucket/x: bucket does not exist$"):
        stores.stat_file("s3://bucket/x")
    bucket_responses += [OSError("HTTP status 503") for _ in range(4)]
    with pytest.raises(InputError, match=r"^s3://bucket/x: HTTP status 503$"):
        stores.stat_file("s3://bucket/x")
    del clock


def test_a_topic_id_that_a_store_does_not_give_is_not_missing(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    from kfmt_cli.arrow.export import atomic_files
    from kfmt_cli.arrow.topic_ids import TopicIdCache

    errors: list[type[OSError]] = [OSError, PermissionError, FileNotFoundError]

    def file_system_at(path: str) -> object:
        raise errors[0](path)

    monkeypatch.setattr(atomic_files, "file_system_and_path", file_system_at)
    monkeypatch.setattr(atomic_files, "fetch_object", lambda path: None)
    for _ in range(2):
        with pytest.raises(InputError, match=r"^s3://bucket/orders-0/partition.metadata: "):
            TopicIdCache()["s3://bucket/orders-0"]
        del errors[0]
    assert TopicIdCache()["s3://bucket/orders-0"] is None
    del clock
