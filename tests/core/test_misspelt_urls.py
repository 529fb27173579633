"""Credentials in what looks like a URL are in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfmt_cli.core.credentials import CREDENTIALS, redact_credentials, strip_credentials
from kfmt_cli.errors import UsageError
from tests.support.samples import kfmt

SECRET = "S3CRETxyz"  # noqa: S105


@pytest.mark.parametrize(
    "url",
    [
        *(f"https:/u:{SECRET}@host/a.tar", f"https:u:{SECRET}@host/a.tar", f"HTTP:/{SECRET}@h/a"),
        *(f"file://u:{SECRET}@localhost/a", f"dbfs:/u:{SECRET}@h/a", f"s3:/AK:{SECRET}@bucket/a"),
        f"https:/u:a@{SECRET}@host/a",
    ],
)
def test_a_path_that_looks_like_a_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not a URL with credentials") as refused:
        strip_credentials(url)
    assert SECRET not in str(refused.value)
    result = kfmt("stat", url)
    assert (result.code, SECRET in result.out + result.err) == (2, False)


def test_a_file_of_such_a_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s3:a@b").touch()
    for path in ("s3:a@b", "topic@host", "a:b@c", "C:/x@y", "file:///a@b"):
        assert strip_credentials(path) == path


@pytest.mark.parametrize(
    "query",
    [
        *(f"x=1;token={SECRET}", f"pass={SECRET}", f"code={SECRET}", f"jwt={SECRET}"),
        f"endpoint_override=http%3A%2F%2Fu%3A{SECRET}%40127.0.0.1%3A1",
    ],
)
def test_secret_parameters(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CREDENTIALS, "credentials_by_host", {})
    url = f"https://host/a.tar?{query}"
    assert SECRET not in redact_credentials(url)
    assert strip_credentials(url) == "https://host/a.tar"
