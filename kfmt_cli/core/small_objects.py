"""Fetches small objects in one request.

pyarrow sends a HEAD request for an S3 or Azure object before reading it, even after a listing.
obstore does not, which halves the requests and the wait for the many small objects of a bucket. It
uses the settings that pyarrow found for the host. If obstore cannot be used or fails, pyarrow reads
the object and reports any error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.credentials import store_kind
from kfmt_cli.core.file_systems import MAX_ATTEMPTS, STORE_TIMEOUT_SECONDS, file_system_and_path
from kfmt_cli.core.layout.field_dict import FieldDict

if TYPE_CHECKING:
    from obstore.store import AzureStore, S3Store

SMALL_OBJECT_BYTES = 4 << 20
MAX_FAILURES = 3  # consecutive, after which pyarrow reads the bucket
UNSUPPORTED_NAME_PARTS = {"", ".", ".."}
_CONTAINER_CREDENTIAL_VARIABLES = (
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def is_fetched_whole(url: str, size: int) -> bool:
    """Whether an object of this size is fetched in one request."""
    return store_kind(url) in _FETCH_BY_STORE and size <= SMALL_OBJECT_BYTES


def fetch_object(url: str, max_bytes: int | None = None) -> bytes | None:
    """Fetch an object's bytes in one request.

    Returns None if it has more than `max_bytes`, if the request fails, or if the store does not
    support it.
    """
    fetch = _FETCH_BY_STORE.get(store_kind(url))
    try:
        return None if fetch is None else fetch(url, max_bytes)
    except Exception:  # of any kind: pyarrow tries next and reports the error
        return None


def _fetch_with_pyarrow(url: str, max_bytes: int | None) -> bytes | None:
    """Read a Google Cloud Storage object as a stream, in one request."""
    file_system, store_path = file_system_and_path(url)
    with file_system.open_input_stream(store_path, compression=None) as stream:
        data = bytes(stream.read() if max_bytes is None else stream.read(max_bytes + 1))
    return data if max_bytes is None or len(data) <= max_bytes else None


def _fetch_with_obstore(url: str, max_bytes: int | None) -> bytes | None:
    client, object_name = _client_and_object_name(url)
    # obstore would read x//y as x/y.
    if (
        client.store is None
        or client.n_failures >= MAX_FAILURES
        or not url.endswith(object_name)
        or UNSUPPORTED_NAME_PARTS & set(object_name.split("/"))
    ):
        return None
    import obstore

    try:
        response = obstore.get(client.store, object_name)
        is_too_large = max_bytes is not None and response.meta["size"] > max_bytes
        data = None if is_too_large else bytes(response.bytes())
    except FileNotFoundError:
        return None
    except Exception:
        client.n_failures += 1
        raise
    client.n_failures = 0
    return data


_FETCH_BY_STORE: Mapping[str, Callable[[str, int | None], bytes | None]] = {
    "s3": _fetch_with_obstore,
    "abfs": _fetch_with_obstore,
    "gs": _fetch_with_pyarrow,
}


class ConditionalWriteError(Exception):
    """A store, or obstore's access to it, does not support conditional writes."""


def write_object_conditionally(url: str, data: bytes, etag: str | None) -> str | None:
    """Write an object if its ETag is still `etag`, or, if `etag` is None, if it does not exist.

    Returns the new ETag; None if the condition fails. Raises ConditionalWriteError.
    """
    client, object_name = _client_and_object_name(url)
    if client.store is None:
        raise ConditionalWriteError
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    try:
        put_result = obstore.put(
            client.store, object_name, data, mode="create" if etag is None else {"e_tag": etag}
        )
    except (AlreadyExistsError, PreconditionError):
        return None
    except Exception as error:  # such as NotImplemented from a server without them
        raise ConditionalWriteError from error
    return put_result["e_tag"] or ""


def read_object_etag(url: str) -> str | None:
    """The ETag of an object; None if the object or obstore's access to it is missing."""
    client, object_name = _client_and_object_name(url)
    if client.store is None:
        return None
    import obstore

    try:
        return obstore.head(client.store, object_name)["e_tag"]
    except FileNotFoundError:
        return None


def iter_object_name_pages(url: str) -> Iterator[list[str]]:
    """The names of the objects under a URL, a page at a time; nothing if obstore cannot be used for
    the store. Raises exceptions of any kind."""
    client, object_name = _client_and_object_name(url)
    if client.store is not None:
        import obstore

        for page in obstore.list(client.store, object_name.rstrip("/") or None):
            yield [listed_object["path"] for listed_object in page]


def _client_and_object_name(url: str) -> tuple[_ObjectStoreClient, str]:
    """The obstore client of an object's bucket, and the object's name."""
    bucket, _, object_name = file_system_and_path(url)[1].partition("/")
    return _object_store_client(url.removesuffix(object_name), bucket), object_name


def object_store_options(url: str) -> dict[str, Any] | None:
    """The settings that pyarrow found for a store, as options of Rust's object_store; None if they
    have no equivalent."""
    kind = store_kind(url)
    if kind not in ("s3", "abfs"):
        return None
    file_system, _ = file_system_and_path(url)
    settings = FieldDict(file_system.__reduce__()[1][0])
    return s3_settings(file_system.region, settings) if kind == "s3" else azure_settings(settings)


@dataclass(slots=True)
class _ObjectStoreClient:
    """An obstore client of a bucket."""

    store: S3Store | AzureStore | None = None
    """None if obstore is not installed or cannot use the same credentials."""
    n_failures: int = 0
    """The number of consecutive failures."""


@lru_cache(maxsize=64)
def _object_store_client(bucket_url: str, bucket: str) -> _ObjectStoreClient:
    """A client with pyarrow's settings for a bucket. bucket_url: the URL of the bucket's root."""
    obstore_options = object_store_options(bucket_url)
    if obstore_options is None:
        return _ObjectStoreClient()
    try:
        import obstore.store
    except ImportError:
        return _ObjectStoreClient()
    timeout = timedelta(seconds=STORE_TIMEOUT_SECONDS)
    is_azure = store_kind(bucket_url) == "abfs"
    store_class = obstore.store.AzureStore if is_azure else obstore.store.S3Store
    store = store_class(
        bucket,
        client_options={"allow_http": True, "timeout": timeout, "connect_timeout": timeout},
        retry_config={"max_retries": MAX_ATTEMPTS - 1, "retry_timeout": timeout},
        **obstore_options,
    )
    return _ObjectStoreClient(store)


def s3_settings(region: str, pyarrow_settings: FieldDict) -> dict[str, Any] | None:
    obstore_options: dict[str, Any] = {"region": region}
    endpoint = pyarrow_settings.endpoint_override
    if endpoint:
        obstore_options["endpoint"] = (
            endpoint if "://" in endpoint else f"{pyarrow_settings.scheme}://{endpoint}"
        )
    elif os.environ.get("AWS_ENDPOINT"):  # pyarrow ignores it, obstore would use it
        return None
    if pyarrow_settings.access_key:  # in the URL
        obstore_options["access_key_id"] = pyarrow_settings.access_key
        obstore_options["secret_access_key"] = pyarrow_settings.secret_key
        if pyarrow_settings.session_token:
            obstore_options["session_token"] = pyarrow_settings.session_token
        return obstore_options
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return obstore_options
    if _has_aws_profiles():
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError:
            return None
        return {**obstore_options, "credential_provider": Boto3CredentialProvider()}
    # Without any of these, obstore would ask the metadata service, even if it is disabled.
    has_metadata_service = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"
    has_container_credentials = any(map(os.environ.get, _CONTAINER_CREDENTIAL_VARIABLES))
    return obstore_options if has_metadata_service or has_container_credentials else None


def azure_settings(pyarrow_settings: FieldDict) -> dict[str, Any] | None:
    account, authority = pyarrow_settings.account_name, pyarrow_settings.blob_storage_authority
    endpoint_address = (
        f"{account}{authority}" if authority.startswith(".") else f"{authority}/{account}"
    )
    obstore_options = {
        "account_name": account,
        "endpoint": f"{pyarrow_settings.blob_storage_scheme}://{endpoint_address}",
    }
    if pyarrow_settings.account_key:
        return {**obstore_options, "account_key": pyarrow_settings.account_key}
    if pyarrow_settings.sas_token:
        return {**obstore_options, "sas_key": pyarrow_settings.sas_token}
    return None  # a login or a managed identity, which only pyarrow finds


def _has_aws_profiles() -> bool:
    """Whether there are profile files, whose credentials obstore reads only with boto3."""
    file_name_by_variable = {
        "AWS_SHARED_CREDENTIALS_FILE": "credentials",
        "AWS_CONFIG_FILE": "config",
    }
    return any(
        Path(os.environ.get(variable) or Path.home() / ".aws" / file_name).exists()
        for variable, file_name in file_name_by_variable.items()
    )
