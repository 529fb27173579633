"""Azure accounts in environment variables; no account gets the credentials of another."""

from __future__ import annotations

import pytest

from kfmt_cli.core.credentials import store_kind
from kfmt_cli.errors import UsageError

pytest.importorskip("pyarrow")

from kfmt_cli.core import file_systems
from kfmt_cli.core.file_systems import file_system_and_path
from kfmt_cli.errors import InputError

ACCOUNT_URL = "https://mine.blob.core.windows.net"
CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
ACCOUNT, KEY, SAS = (f"AZURE_STORAGE_{name}" for name in ("ACCOUNT", "KEY", "SAS_TOKEN"))


@pytest.fixture(autouse=True)
def _no_azure_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CONNECTION, ACCOUNT, KEY, SAS, file_systems.AZURE_KEYS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    file_systems._open_file_system.cache_clear()


@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({ACCOUNT: "mine", KEY: "a2V5"}, "abfs://box/x", ("mine", "a2V5", "")),
        ({ACCOUNT: "mine", SAS: "sv=1&sig=a%3D"}, "abfs://box/x", ("mine", "", "?sv=1&sig=a%3D")),
        ({ACCOUNT: "mine", SAS: "?sv=1"}, "abfs://box/x", ("mine", "", "?sv=1")),
        ({CONNECTION: "AccountName=mine;AccountKey=a2V5=="}, "az://box/x", ("mine", "a2V5==", "")),
        (
            {CONNECTION: f"BlobEndpoint={ACCOUNT_URL}/;SharedAccessSignature=sv=1"},
            "abfs://box/x",
            ("mine", "", "?sv=1"),
        ),
        (
            {CONNECTION: "AccountName=other;AccountKey=b3RoZXI=", ACCOUNT: "mine"},
            "abfs://box/x",
            ("mine", "", ""),
        ),
        (
            {CONNECTION: "AccountName=other;AccountKey=b3RoZXI="},
            "abfss://box@mine.dfs.core.windows.net/x",
            ("mine", "", ""),
        ),
        (
            {ACCOUNT: "other", KEY: "b3RoZXI="},
            "abfss://box@mine.dfs.core.windows.net/x",
            ("mine", "", ""),
        ),
        ({SAS: "?sv=1"}, "abfss://box@mine.dfs.core.windows.net/x", ("mine", "", "")),
        (
            {file_systems.AZURE_KEYS_VARIABLE: "other=b3RoZXI=;mine=a2V5"},
            "abfss://box@mine.dfs.core.windows.net/x",
            ("mine", "a2V5", ""),
        ),
    ],
)
def test_an_account_comes_from_variables_and_the_url(
    variables: dict[str, str],
    url: str,
    expected: tuple[str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    system, path = file_system_and_path(url)
    _, (settings,) = system.__reduce__()
    account = tuple(settings[name] for name in ("account_name", "account_key", "sas_token"))
    assert (account, path) == (expected, "box/x")
    assert settings["blob_storage_authority"] == ".blob.core.windows.net"


def test_a_container_without_an_account_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "a2V5")
    with pytest.raises(InputError, match="no account in the URL"):
        file_system_and_path("abfs://box/x")


def test_keys_without_accounts_are_refused_by_the_name_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KFMT_AZURE_KEYS", "account")
    with pytest.raises(UsageError, match="KFMT_AZURE_KEYS needs ACCOUNT=KEY"):
        file_systems._azure_key_by_account()
    monkeypatch.setenv("KFMT_AZURE_KEYS", "one=a=;two=b")
    assert file_systems._azure_key_by_account() == {"one": "a=", "two": "b"}


@pytest.mark.parametrize("scheme", ["s3", "S3", "s3a", "S3A"])
def test_a_scheme_has_a_store_whatever_its_case(scheme: str) -> None:
    assert store_kind(scheme) == "s3"
