"""What the environment says of an account of Azure; nothing of one account goes to another."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from kfmt_cli.core import file_systems
from kfmt_cli.core.file_systems import file_system_at
from kfmt_cli.errors import InputError

MINE = "https://mine.blob.core.windows.net"
CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
ACCOUNT, KEY, SAS = (f"AZURE_STORAGE_{name}" for name in ("ACCOUNT", "KEY", "SAS_TOKEN"))


@pytest.fixture(autouse=True)
def _nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CONNECTION, ACCOUNT, KEY, SAS, file_systems.AZURE_KEYS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    file_systems._open_file_system.cache_clear()


@pytest.mark.parametrize(
    ("said", "url", "expected"),
    [
        ({ACCOUNT: "mine", KEY: "a2V5"}, "abfs://box/x", ("mine", "a2V5", "")),
        ({ACCOUNT: "mine", SAS: "sv=1&sig=a%3D"}, "abfs://box/x", ("mine", "", "?sv=1&sig=a%3D")),
        ({ACCOUNT: "mine", SAS: "?sv=1"}, "abfs://box/x", ("mine", "", "?sv=1")),
        ({CONNECTION: "AccountName=mine;AccountKey=a2V5=="}, "az://box/x", ("mine", "a2V5==", "")),
        (
            {CONNECTION: f"BlobEndpoint={MINE}/;SharedAccessSignature=sv=1"},
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
def test_what_is_said_of_an_account(
    said: dict[str, str],
    url: str,
    expected: tuple[str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    system, below = file_system_at(url)
    _, (settings,) = system.__reduce__()
    found = tuple(settings[name] for name in ("account_name", "account_key", "sas_token"))
    assert (found, below) == (expected, "box/x")
    assert settings["blob_storage_authority"] == ".blob.core.windows.net"


def test_a_container_without_an_account_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "a2V5")
    with pytest.raises(InputError, match="no account in the URL"):
        file_system_at("abfs://box/x")
