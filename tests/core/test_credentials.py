"""Credentials in URLs: in messages, for the store, and in pickled requests."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from kfmt_cli.core import credentials, file_systems
from kfmt_cli.core.credentials import find_credentials, redact_credentials, strip_credentials
from kfmt_cli.core.file_systems import file_system_and_path
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.execution.read_request import ReadRequest

pytest.importorskip("pyarrow")
SECRET = "Zm9vYmFyLXNlY3JldA"  # noqa: S105


@pytest.fixture(autouse=True)
def _no_saved_credentials() -> Iterator[None]:
    yield
    credentials.CREDENTIALS.credentials_by_host.clear()
    file_systems._open_file_system.cache_clear()


URLS = [
    (f"s3://KEY:{SECRET}@bucket/a", "s3://bucket/a"),
    (f"s3a://KEY:{SECRET}@bucket", "s3a://bucket"),
    (f"s3://bucket/a?access_key=KEY&secret_key={SECRET}&region=x", "s3://bucket/a"),
    (f"s3://bucket/a?session_token={SECRET}", "s3://bucket/a"),
    (f"abfs://box@account.dfs.core.windows.net/a?sv=2&sig={SECRET}%3D", None),
    (f"abfs://box@account.dfs.core.windows.net/a?account_key={SECRET}", None),
    (f"abfss://box:{SECRET}@account.dfs.core.windows.net/a", None),
    (f"abfs://:{SECRET}@account/box/a", "abfs://account/box/a"),
    (f"hdfs://user:{SECRET}@host:8020/a", "hdfs://host:8020/a"),
    (f"webhdfs://host:9870/a?delegation={SECRET}", "webhdfs://host:9870/a"),
    (f"gs://bucket/a?sas_token={SECRET}", "gs://bucket/a"),
    (f"gs://bucket/a?token={SECRET}", "gs://bucket/a"),
    (f"http://user:{SECRET}@host/a?b=c", "http://host/a?b=c"),
    (f"https://{SECRET}@host/a", "https://host/a"),
    (f"https://host/a?X-Amz-Signature={SECRET}&X-Amz-Date=1", "https://host/a"),
    (f"sftp://user:p@{SECRET}@host/a", "sftp://host/a"),
]


@pytest.mark.parametrize(("url", "expected"), URLS)
def test_a_url_is_shown_without_its_credentials(url: str, expected: str | None) -> None:
    if expected is None:
        expected = f"{url.partition('://')[0]}://box@account.dfs.core.windows.net/a"
    assert redact_credentials(f"{url}: not found") == f"{expected}: not found" or "?" in url
    assert SECRET not in redact_credentials(f"{url}: not found")
    assert strip_credentials(url) == expected
    assert strip_credentials(expected) == expected
    saved = find_credentials(f"{expected.rstrip('/')}/orders-0/0.log")
    assert saved is not None
    assert SECRET in saved.user_info + saved.secret_query
    for secret in saved.secrets():
        assert redact_credentials(f"refused: {secret} of {url}") == f"refused: *** of {expected}"


@pytest.mark.parametrize(
    "path",
    [
        *("/var/lib/kafka:a@b/c", "a?token=x", "-", "file:///a:b@c?token=x", "s3://bucket/a?b/c=d"),
        *("abfss://box@account.dfs.core.windows.net/a", "hdfs://alice@host:8020/a@b"),
        *("s3://bucket/a@b:c", "hdfs://[::1]:8020/a@b", "s3://bucket/what?", "s3://bucket/?a=b"),
    ],
)
def test_a_path_without_credentials_is_left_alone(path: str) -> None:
    assert strip_credentials(path) == path
    assert redact_credentials(f"{path}: x") == f"{path}: x"
    assert find_credentials(path) is None


@pytest.mark.parametrize("url", [f"s3://K:{SECRET}/x@b/a", f"hdfs://u:{SECRET}?@b/a"])
def test_a_password_that_ends_the_host_is_not_shown(url: str) -> None:
    with pytest.raises(UsageError, match="write them as %2F") as raised:
        strip_credentials(url)
    assert SECRET not in str(raised.value)
    assert SECRET not in redact_credentials(url)


def test_one_bucket_has_one_pair_of_credentials() -> None:
    strip_credentials(f"s3://KEY:{SECRET}@bucket/a")
    strip_credentials(f"s3a://KEY:{SECRET}@bucket/b")
    strip_credentials("s3://KEY:other@another/b")
    with pytest.raises(
        UsageError, match="s3://bucket: is given with different credentials"
    ) as raised:
        strip_credentials("s3://KEY:other@bucket/b")
    assert "other" not in str(raised.value)


def test_the_store_gets_them(server: str) -> None:
    del server

    def settings(url: str) -> dict[str, object]:
        system, path = file_system_and_path(strip_credentials(url))
        assert path == "bucket/a"
        result: dict[str, object] = system.__reduce__()[1][0]
        return result

    user_settings = settings("s3://KEY:SEC%2FRET@bucket/a")
    assert (user_settings["access_key"], user_settings["secret_key"]) == ("KEY", "SEC/RET")
    credentials.CREDENTIALS.credentials_by_host.clear()
    query = "access_key=K&secret_key=S%2B&session_token=T&region=x&endpoint_override=host%3A1"
    query_settings = settings(f"s3://bucket/a?{query}")
    assert [query_settings[f"{name}_key"] for name in ("access", "secret")] == ["K", "S+"]
    assert (query_settings["session_token"], query_settings["endpoint_override"]) == ("T", "host:1")
    credentials.CREDENTIALS.credentials_by_host.clear()
    base_url = "abfss://bucket@account.dfs.core.windows.net/a"
    assert settings(f"{base_url}?account_key=a2V5")["account_key"] == "a2V5"
    credentials.CREDENTIALS.credentials_by_host.clear()
    signature = "sv=2&sig=a%3D"
    assert settings(f"{base_url}?{signature}")["sas_token"] == f"?{signature}"
    credentials.CREDENTIALS.credentials_by_host.clear()
    assert settings("abfss://bucket:a2V5@account.dfs.core.windows.net/a")["account_key"] == "a2V5"


def test_an_error_of_a_library_is_shown_without_them() -> None:
    for url in (f"nothing://user:{SECRET}@host/a", f"hdfs://user:{SECRET}@host/a"):
        url_without_credentials = strip_credentials(url)
        with pytest.raises((InputError, UsageError)) as raised:
            file_system_and_path(url_without_credentials)
        assert SECRET not in str(raised.value)
        assert "://host: " in str(raised.value)


def test_a_request_takes_them_to_other_processes() -> None:
    url = strip_credentials(f"s3://KEY:{SECRET}@bucket/a")
    request = ReadRequest(paths=(url,))
    assert SECRET not in repr(request)
    data = pickle.dumps(request)
    credentials.CREDENTIALS.credentials_by_host.clear()
    assert pickle.loads(data) == request  # noqa: S301
    saved = find_credentials(url)
    assert saved is not None
    assert saved.user_info == f"KEY:{SECRET}"
    assert request == ReadRequest(paths=(url,))
