"""Opens the pyarrow or fsspec file system of a URL.

Credentials and endpoints come from the usual environment variables; pyarrow reads the AWS ones
itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode

from kfmt_cli.core.credentials import (
    Credentials,
    find_credentials,
    redact_credentials,
    store_kind,
)
from kfmt_cli.errors import InputError, UsageError

if TYPE_CHECKING:
    from pyarrow import fs

    FileSystemAndPath = tuple[fs.FileSystem, str]

_INSTALL_HINT = "pip install 'kfmt-cli[remote]'"
MAX_MESSAGE_LENGTH = 300  # characters of a store's message that are shown
STORE_TIMEOUT_SECONDS = 10.0  # how long a store may be silent
MAX_ATTEMPTS = 3  # of the S3 client, per request
_HADOOP_VARIABLES = ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "CLASSPATH")
_S3_CREDENTIAL_PARAMETERS = ("access_key", "secret_key", "session_token")
_ACCOUNT_VARIABLES = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_ACCOUNT_KEY_VARIABLES = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
AZURE_KEYS_VARIABLE = "KFMT_AZURE_KEYS"  # ACCOUNT=KEY;…, for several accounts, as Spark allows


def file_system_and_path(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path with a scheme, and the path in it.

    Raises InputError, and UsageError if a package is missing.
    """
    scheme, url_after_scheme = path.split("://", 1)
    public_authority, slash, url_path = url_after_scheme.partition("/")
    user_info, secret_query = find_credentials(path) or Credentials("", "")
    host = public_authority.rpartition("@")[2]
    authority = f"{user_info}@{host}" if user_info else public_authority
    query = f"?{secret_query}" if secret_query else ""
    file_system, to_store_path = _open_file_system(scheme, authority + query)
    if store_kind(scheme) not in STORES:  # some fsspec systems read it from each URL
        url_path += query
    return file_system, to_store_path(f"{scheme}://{authority}{slash}{url_path}")


def first_error_line(error: Exception) -> str:
    """The first line of an error's message, without credentials, limited to MAX_MESSAGE_LENGTH."""
    return redact_credentials((str(error).splitlines() or [type(error).__name__])[0])[
        :MAX_MESSAGE_LENGTH
    ]


@lru_cache(maxsize=64)
def _open_file_system(scheme: str, authority: str) -> tuple[fs.FileSystem, Callable[[str], str]]:
    """The file system of a host, and a function from URLs to its paths.

    Raises InputError and UsageError with a one-line reason. authority: includes the credentials of
    the URL, if it has any.
    """
    display_url = redact_credentials(f"{scheme}://{authority}")
    try:
        from pyarrow import ArrowException, fs
    except ImportError as error:
        raise UsageError(f"{display_url}: needs pyarrow: {_INSTALL_HINT}") from error
    create_file_system = STORES.get(store_kind(scheme))
    if create_file_system is not None:
        try:
            file_system, root_path = create_file_system(scheme, authority)
        except (ArrowException, OSError, ValueError, TypeError) as error:
            # Without the cause, whose message may have the credentials of the URL.
            raise InputError(f"{display_url}: {first_error_line(error)}") from None
        return file_system, lambda url: _join_path(
            root_path, url.partition("://")[2].partition("/")[2]
        )
    try:
        from fsspec.core import url_to_fs

        root_path, _, query = authority.partition("?")
        fsspec_system = url_to_fs(f"{scheme}://{root_path}/{query and '?'}{query}")[0]
        return fs.PyFileSystem(fs.FSSpecHandler(fsspec_system)), fsspec_system._strip_protocol
    except ImportError as error:
        is_fsspec_missing = error.name in ("fsspec", "fsspec.core")
        message = f"needs fsspec: {_INSTALL_HINT}" if is_fsspec_missing else first_error_line(error)
        raise UsageError(f"{display_url}: {message}") from error
    except (OSError, ValueError, TypeError) as error:
        message = f"no file system installed for {scheme}://"
        raise InputError(f"{display_url}: {message}: {first_error_line(error)}") from None


def _join_path(root_path: str, subpath: str) -> str:
    """A path under the root of a host in its file system: a bucket, a container, / or empty."""
    path = f"{root_path.rstrip('/')}/{subpath}" if root_path else subpath
    return path if path == "/" else path.rstrip("/")


def s3_file_system(scheme: str, host: str) -> FileSystemAndPath:
    from pyarrow import fs

    del scheme
    host, _, query = host.partition("?")
    url_options = dict(parse_qsl(query))
    credentials = {
        name: url_options.pop(name) for name in _S3_CREDENTIAL_PARAMETERS if name in url_options
    }
    # A small file takes one request instead of the three of a multipart upload.
    url_query = urlencode({"allow_delayed_open": "true", **url_options})
    file_system, root_path = fs.FileSystem.from_uri(f"s3://{host}/?{url_query}")
    # By default the client treats three seconds of silence as a lost connection, and retries a
    # silent server for minutes.
    rebuild_file_system, (arguments,) = file_system.__reduce__()
    retry_strategy = fs.AwsStandardS3RetryStrategy(max_attempts=MAX_ATTEMPTS)
    overrides = {
        **credentials,
        "request_timeout": STORE_TIMEOUT_SECONDS,
        "retry_strategy": retry_strategy,
    }
    return rebuild_file_system({**arguments, **overrides}), root_path


def gcs_file_system(scheme: str, host: str) -> FileSystemAndPath:
    from pyarrow import fs

    del scheme
    host, _, query = host.partition("?")
    url_query = f"?{query}{query and '&'}retry_limit_seconds={STORE_TIMEOUT_SECONDS:.0f}"
    emulator_url = os.environ.get("STORAGE_EMULATOR_HOST")
    if emulator_url:
        protocol, _, emulator_address = emulator_url.rstrip("/").rpartition("://")
        host = f"anonymous@{host}"
        url_query += f"&scheme={protocol or 'http'}&endpoint_override={emulator_address}"
    system_and_path: FileSystemAndPath = fs.FileSystem.from_uri(f"gs://{host}/{url_query}")
    return system_and_path


def azure_file_system(scheme: str, host: str) -> FileSystemAndPath:
    """The file system of `CONTAINER@ACCOUNT.dfs.…`, of `ACCOUNT.blob.…`, or of `CONTAINER` in the
    account that the environment names."""
    from pyarrow import fs

    del scheme
    host, _, query = host.partition("?")
    password = unquote(host.rpartition("@")[0].partition(":")[2])
    url_credentials = _parse_azure_credentials(query, password)
    if "." not in host and "@" not in host:
        arguments = {**_azure_environment_settings(), **url_credentials}
        if "account_name" not in arguments:
            message = (
                "no account in the URL; use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net, or set "
            )
            raise ValueError(f"{message}{_ACCOUNT_VARIABLES[0]}")
        return fs.AzureFileSystem(**arguments), host
    file_system, root_path = fs.FileSystem.from_uri(f"abfss://{host}/")
    rebuild_file_system, (settings,) = file_system.__reduce__()
    arguments = url_credentials or _azure_environment_settings(settings["account_name"])
    return rebuild_file_system({**settings, **arguments}), root_path


def _parse_azure_credentials(query: str, password: str) -> dict[str, str | None]:
    """The credentials in a URL, as pyarrow arguments: a key, or a shared access signature."""
    parameters = dict(parse_qsl(query))
    if account_key := parameters.get("account_key") or password:
        return {"account_key": account_key, "sas_token": None}
    sas_token = parameters.get("sas_token") or query
    return {"account_key": None, "sas_token": f"?{sas_token.lstrip('?')}"} if sas_token else {}


def _azure_environment_settings(account_name: str | None = None) -> dict[str, Any]:
    """The environment's settings for an Azure account, as pyarrow arguments.

    Without a key or token, Azure's default credential chain applies: a login, a managed identity,
    AZURE_CLIENT_ID. account_name: the account; None for the one that the environment names.
    """
    settings = _parse_connection_string(os.environ.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    if environment_account := _first_environment_value(_ACCOUNT_VARIABLES):
        credentials = {
            "account_key": _first_environment_value(_ACCOUNT_KEY_VARIABLES),
            "sas_token": _first_environment_value(("AZURE_STORAGE_SAS_TOKEN",)),
        }
        if settings["account_name"] != environment_account:
            settings = {"account_name": environment_account, **credentials}
        elif any(credentials.values()):
            settings |= credentials
    if settings["account_name"] is None or (
        account_name is not None and settings["account_name"] != account_name
    ):
        settings = {
            "account_name": account_name,
            "account_key": _azure_key_by_account().get(account_name or ""),
        }
    if settings.get("account_key"):
        settings["sas_token"] = None  # pyarrow accepts only one of them
    if sas_token := settings.get("sas_token"):
        settings["sas_token"] = "?" + sas_token.lstrip("?")
    return {setting: value for setting, value in settings.items() if value}


def _azure_key_by_account() -> dict[str, str]:
    """The keys by account in the environment; raises UsageError."""
    key_by_account: dict[str, str] = {}
    for account_and_key in filter(None, os.environ.get(AZURE_KEYS_VARIABLE, "").split(";")):
        account, separator, account_key = account_and_key.partition("=")
        if not separator:
            raise UsageError(f"{AZURE_KEYS_VARIABLE} needs ACCOUNT=KEY, separated by semicolons")
        key_by_account[account] = account_key
    return key_by_account


def _parse_connection_string(connection_string: str) -> dict[str, str | None]:
    """The settings in a connection string, as pyarrow arguments; None for absent ones."""
    settings = dict(
        setting.split("=", 1) for setting in connection_string.split(";") if "=" in setting
    )
    blob_protocol, _, blob_address = settings.get("BlobEndpoint", "").partition("://")
    blob_host = blob_address.partition("/")[0]
    account = settings.get("AccountName") or blob_host.partition(".")[0] or None
    arguments: dict[str, str | None] = {
        "account_name": account,
        "account_key": settings.get("AccountKey"),
        "sas_token": settings.get("SharedAccessSignature"),
    }
    blob_authority = f".blob.{settings['EndpointSuffix']}" if "EndpointSuffix" in settings else None
    if blob_host:
        blob_authority = blob_host.removeprefix(account or "")
    for service in ("blob", "dfs"):
        arguments[f"{service}_storage_scheme"] = blob_protocol or settings.get(
            "DefaultEndpointsProtocol"
        )
        arguments[f"{service}_storage_authority"] = blob_authority and blob_authority.replace(
            ".blob.", f".{service}."
        )
    return arguments


def _first_environment_value(variable_names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(os.environ.get, variable_names)), None)


def hdfs_file_system(scheme: str, host: str) -> FileSystemAndPath:
    if not any(map(os.environ.get, _HADOOP_VARIABLES)):
        message = f"needs the Hadoop client: set {' or '.join(_HADOOP_VARIABLES)}"
        raise ValueError(message)
    from pyarrow import fs

    return fs.FileSystem.from_uri(f"{scheme}://{host}/")[0], "/"


STORES: Mapping[str, Callable[[str, str], FileSystemAndPath]] = {
    "s3": s3_file_system,
    "abfs": azure_file_system,
    "gs": gcs_file_system,
    "hdfs": hdfs_file_system,
}
"""The stores that pyarrow supports; fsspec has a registry for others.

A function creates the file system of a scheme and host, and also returns the path of its root.
"""
