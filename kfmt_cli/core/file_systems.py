"""The file systems of pyarrow and fsspec, by URL.

Credentials and endpoints come from the usual environment variables; pyarrow reads Amazon's itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode

from kfmt_cli.core.credentials import credentials_of, hidden
from kfmt_cli.core.lazy import load
from kfmt_cli.core.listed_stores import store_of
from kfmt_cli.errors import InputError, UsageError

if TYPE_CHECKING:
    from pyarrow import fs

    Made = tuple[fs.FileSystem, str]

_EXTRA = "pip install 'kfmt-cli[remote]'"
MOST_WORDS = 300  # characters of a store's error message
PATIENCE = 10.0  # seconds that a store may be silent
ATTEMPTS = 3  # of the S3 client, per request
_HADOOP = ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "CLASSPATH")
_S3_KEYS = ("access_key", "secret_key", "session_token")
_ACCOUNT = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_KEY = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
AZURE_KEYS = "KFMT_AZURE_KEYS"  # of several accounts, ACCOUNT=KEY;…, as in a Spark session


def file_system_at(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path with a scheme, and the path in it; raises InputError, and
    UsageError if a package is missing."""
    scheme, rest = path.split("://", 1)
    name, slash, folders = rest.partition("/")
    kept = credentials_of(path)
    if kept is None:
        system, below = _file_system(scheme, name)
        return system, below(path)
    host = name.rpartition("@")[2]
    authority = f"{kept.user}@{host}" if kept.user else name
    query = f"?{kept.query}" if kept.query else ""
    system, below = _file_system(scheme, authority + query)
    is_whole = store_of(scheme) is None  # fsspec takes some from each URL
    return system, below(f"{scheme}://{authority}{slash}{folders}{query if is_whole else ''}")


def one_line(error: Exception) -> str:
    """The first line of an error message, without any stack trace or credentials."""
    return hidden((str(error).splitlines() or [type(error).__name__])[0])[:MOST_WORDS]


@lru_cache(maxsize=64)
def _file_system(scheme: str, host: str) -> tuple[fs.FileSystem, Callable[[str], str]]:
    """The file system of a host, and a function from URLs to its paths; raises InputError and
    UsageError with a one-line reason. host: with credentials, if they are in a URL."""
    name = hidden(f"{scheme}://{host}")
    try:
        from pyarrow import ArrowException, fs
    except ImportError as error:
        raise UsageError(f"{name}: needs pyarrow: {_EXTRA}") from error
    native = store_of(scheme)
    if native is not None:
        try:
            system, top = load(native.system)(scheme, host)
        except (ArrowException, OSError, ValueError, TypeError) as error:
            raise InputError(f"{name}: {one_line(error)}") from None  # it may have the URL
        return system, lambda url: _joined(top, url.partition("://")[2].partition("/")[2])
    try:
        from fsspec.core import url_to_fs

        top, _, query = host.partition("?")
        made = url_to_fs(f"{scheme}://{top}/{query and '?'}{query}")[0]
        return fs.PyFileSystem(fs.FSSpecHandler(made)), made._strip_protocol
    except ImportError as error:
        is_fsspec = error.name in ("fsspec", "fsspec.core")
        words = f"needs fsspec: {_EXTRA}" if is_fsspec else one_line(error)
        raise UsageError(f"{name}: {words}") from error
    except (OSError, ValueError, TypeError) as error:
        words = f"no file system installed for {scheme}://"
        raise InputError(f"{name}: {words}: {one_line(error)}") from None


def _joined(top: str, below: str) -> str:
    """A path under the host's top in its file system: a bucket, a container, / or nothing."""
    path = f"{top.rstrip('/')}/{below}" if top else below
    return path if path == "/" else path.rstrip("/")


def s3(scheme: str, host: str) -> Made:
    from pyarrow import fs

    del scheme
    host, _, query = host.partition("?")
    said = dict(parse_qsl(query))
    keys = {name: said.pop(name) for name in _S3_KEYS if name in said}
    # A small file takes one request instead of the three of a multipart upload.
    settings = urlencode({"allow_delayed_open": "true", **said})
    system, top = fs.FileSystem.from_uri(f"s3://{host}/?{settings}")
    # By default the client takes three seconds of silence for a lost connection, and retries a
    # silent server for minutes.
    make, (found,) = system.__reduce__()
    attempts = fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)
    more = {**keys, "request_timeout": PATIENCE, "retry_strategy": attempts}
    return make({**found, **more}), top


def gs(scheme: str, host: str) -> Made:
    from pyarrow import fs

    del scheme
    host, _, query = host.partition("?")
    more = f"?{query}{query and '&'}retry_limit_seconds={PATIENCE:.0f}"
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if emulator:
        protocol, _, address = emulator.rstrip("/").rpartition("://")
        host = f"anonymous@{host}"
        more += f"&scheme={protocol or 'http'}&endpoint_override={address}"
    made: Made = fs.FileSystem.from_uri(f"gs://{host}/{more}")
    return made


def azure(scheme: str, host: str) -> Made:
    """`CONTAINER@ACCOUNT.dfs.…`, `ACCOUNT.blob.…`, or `CONTAINER` in the account that the
    environment names."""
    from pyarrow import fs

    del scheme
    host, _, query = host.partition("?")
    password = unquote(host.rpartition("@")[0].partition(":")[2])
    given = _azure_keys(query, password)
    if "." not in host and "@" not in host:
        said = {**_azure_account(), **given}
        if "account_name" not in said:
            words = (
                "no account in the URL; use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net, or set "
            )
            raise ValueError(f"{words}{_ACCOUNT[0]}")
        return fs.AzureFileSystem(**said), host
    system, top = fs.FileSystem.from_uri(f"abfss://{host}/")
    make, (settings,) = system.__reduce__()
    said = given or _azure_account(settings["account_name"])
    return make({**settings, **said}), top


def _azure_keys(query: str, password: str) -> dict[str, str | None]:
    """The pyarrow arguments in a URL: a key, or a shared access signature."""
    said = dict(parse_qsl(query))
    if key := said.get("account_key") or password:
        return {"account_key": key, "sas_token": None}
    token = said.get("sas_token") or query
    return {"account_key": None, "sas_token": f"?{token.lstrip('?')}"} if token else {}


def _azure_account(name: str | None = None) -> dict[str, Any]:
    """The environment's settings for an Azure account, as pyarrow arguments. name: the account,
    None for the environment's own. Without a key, Azure's own chain applies: a login, a managed
    identity, AZURE_CLIENT_ID."""
    found = _of_connection(os.environ.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    if account := _first(_ACCOUNT):
        said = {"account_key": _first(_KEY), "sas_token": _first(("AZURE_STORAGE_SAS_TOKEN",))}
        if found["account_name"] != account:
            found = {"account_name": account, **said}
        elif any(said.values()):
            found |= said
    if found["account_name"] is None or (name is not None and found["account_name"] != name):
        keys = dict(of.split("=", 1) for of in os.environ.get(AZURE_KEYS, "").split(";") if of)
        found = {"account_name": name, "account_key": keys.get(name or "")}
    if found.get("account_key"):
        found["sas_token"] = None  # pyarrow takes only one of them
    if token := found.get("sas_token"):
        found["sas_token"] = "?" + token.lstrip("?")
    return {setting: value for setting, value in found.items() if value}


def _of_connection(words: str) -> dict[str, str | None]:
    """The settings in a connection string."""
    stored = dict(word.split("=", 1) for word in words.split(";") if "=" in word)
    protocol, _, address = stored.get("BlobEndpoint", "").partition("://")
    host = address.partition("/")[0]
    account = stored.get("AccountName") or host.partition(".")[0] or None
    found: dict[str, str | None] = {
        "account_name": account,
        "account_key": stored.get("AccountKey"),
        "sas_token": stored.get("SharedAccessSignature"),
    }
    authority = f".blob.{stored['EndpointSuffix']}" if "EndpointSuffix" in stored else None
    if host:
        authority = host.removeprefix(account or "")
    for kind in ("blob", "dfs"):
        found[f"{kind}_storage_scheme"] = protocol or stored.get("DefaultEndpointsProtocol")
        found[f"{kind}_storage_authority"] = authority and authority.replace(".blob.", f".{kind}.")
    return found


def _first(variables: tuple[str, ...]) -> str | None:
    return next(filter(None, map(os.environ.get, variables)), None)


def hdfs(scheme: str, host: str) -> Made:
    if not any(map(os.environ.get, _HADOOP)):
        words = f"needs the Hadoop client: set {' or '.join(_HADOOP)}"
        raise ValueError(words)
    return of_host(scheme, host)


def of_host(scheme: str, host: str) -> Made:
    """A file system whose paths begin at the host's root."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(f"{scheme}://{host}/")[0], "/"
