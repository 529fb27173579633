"""Objects fetched whole, in one request.

pyarrow requests the head of an S3 or Azure object before reading it, even after a listing. obstore
does not, which halves the requests and the wait for the many small objects of a bucket. It uses the
settings that pyarrow found for the host. If obstore cannot be used or fails, pyarrow reads the
object and reports any error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.file_systems import ATTEMPTS, PATIENCE, file_system_at
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.lazy import load
from kfmt_cli.core.listed_stores import store_kind, store_of

if TYPE_CHECKING:
    from obstore.store import AzureStore, S3Store
    from pyarrow import fs

SMALL = 4 << 20  # bytes
MOST_FAILURES = 3  # in a row, after which pyarrow reads the bucket
NO_NAMES = {"", ".", ".."}
_OF_CONTAINERS = (
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def is_fetched(url: str, size: int) -> bool:
    """Whether an object of this size is fetched whole."""
    store = store_of(_scheme(url))
    return store is not None and store.fetch != "" and size <= SMALL


def fetched(url: str, most: int | None = None) -> bytes | None:
    """An object's bytes; None if it has more than `most`, cannot be fetched, or is in another kind
    of store."""
    store = store_of(_scheme(url))
    try:
        found: bytes | None = load(store.fetch)(url, most) if store and store.fetch else None
        return found
    except Exception:  # of any kind: pyarrow tries next, and reports it
        return None


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def by_pyarrow(url: str, most: int | None) -> bytes | None:
    """Read a Google Cloud Storage object as a stream, in one request."""
    system, below = file_system_at(url)
    with system.open_input_stream(below, compression=None) as stream:
        data = bytes(stream.read() if most is None else stream.read(most + 1))
    return data if most is None or len(data) <= most else None


def by_obstore(url: str, most: int | None) -> bytes | None:
    import obstore

    bucket, _, name = file_system_at(url)[1].partition("/")
    top = url.removesuffix(name)
    if top == url or NO_NAMES & set(name.split("/")):  # obstore would take x//y for x/y
        return None
    used = _bucket(top, bucket)
    if used.store is None or used.failures >= MOST_FAILURES:
        return None
    try:
        found = obstore.get(used.store, name)
        data = None if most is not None and found.meta["size"] > most else bytes(found.bytes())
    except FileNotFoundError:
        return None
    except Exception:
        used.failures += 1
        raise
    used.failures = 0
    return data


class NoConditionsError(Exception):
    """A store, or the way to it, has no conditional writes."""


def put_if(url: str, data: bytes, tag: str | None) -> str | None:
    """Write an object only if it is still the one with this tag, or only if there is none; its new
    tag, None if another one is there. Raises NoConditionsError."""
    store, name = _place(url)
    if store is None:
        raise NoConditionsError
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    try:
        done = obstore.put(store, name, data, mode="create" if tag is None else {"e_tag": tag})
    except (AlreadyExistsError, PreconditionError):
        return None
    except Exception as error:  # NotImplemented, or a server without them
        raise NoConditionsError from error
    return done["e_tag"] or ""


def tag_of(url: str) -> str | None:
    """The tag of an object; None if there is none or it cannot be asked for."""
    store, name = _place(url)
    if store is None:
        return None
    import obstore

    try:
        return obstore.head(store, name)["e_tag"]
    except FileNotFoundError:
        return None


def names_below(url: str) -> Iterator[list[str]]:
    """The names of the objects below a URL, many at a time; none if obstore cannot be used for the
    store. Raises errors of any kind."""
    store, name = _place(url)
    if store is not None:
        import obstore

        for page in obstore.list(store, name.rstrip("/") or None):
            yield [found["path"] for found in page]


def _place(url: str) -> tuple[S3Store | AzureStore | None, str]:
    """The bucket of an object, None if obstore cannot be used for it, and the object's name."""
    bucket, _, name = file_system_at(url)[1].partition("/")
    try:
        import obstore.exceptions  # noqa: F401 (needed by all that follows)

        return _bucket(url.removesuffix(name), bucket).store, name
    except ImportError:
        return None, name


def store_settings(url: str) -> dict[str, Any] | None:
    """The settings that pyarrow found for a store, in the words of Rust's object_store; None if
    those cannot say the same."""
    store = store_of(_scheme(url))
    if store is None or not store.settings:
        return None
    system, _ = file_system_at(url)
    _, (settings,) = system.__reduce__()
    found: dict[str, Any] | None = load(store.settings)(system, Fields(settings))
    return found


@dataclass(slots=True)
class _Bucket:
    """A bucket."""

    store: S3Store | AzureStore | None = None
    """None if obstore cannot use the same credentials."""
    failures: int = 0
    """In a row."""


@lru_cache(maxsize=64)
def _bucket(top: str, bucket: str) -> _Bucket:
    """A bucket with pyarrow's settings, by the URL of its top."""
    config = store_settings(top)
    if config is None:
        return _Bucket()
    from obstore.store import AzureStore, S3Store

    patience = timedelta(seconds=PATIENCE)
    made = S3Store if store_kind(_scheme(top)) == "s3" else AzureStore
    store = made(
        bucket,
        client_options={"allow_http": True, "timeout": patience, "connect_timeout": patience},
        retry_config={"max_retries": ATTEMPTS - 1, "retry_timeout": patience},
        **config,
    )
    return _Bucket(store)


def s3_settings(system: fs.S3FileSystem, settings: Fields) -> dict[str, Any] | None:
    config: dict[str, Any] = {"region": system.region}
    endpoint = settings.endpoint_override
    if endpoint:
        config["endpoint"] = endpoint if "://" in endpoint else f"{settings.scheme}://{endpoint}"
    elif os.environ.get("AWS_ENDPOINT"):  # only obstore would use it
        return None
    if settings.access_key:  # in the URL
        config |= {"access_key_id": settings.access_key}
        config |= {"secret_access_key": settings.secret_key}
        token = settings.session_token
        return {**config, "session_token": token} if token else config
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return config
    if _has_profiles():
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError:
            return None
        return {**config, "credential_provider": Boto3CredentialProvider()}
    is_alone = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    return None if is_alone and not any(map(os.environ.get, _OF_CONTAINERS)) else config


def azure_settings(system: fs.AzureFileSystem, settings: Fields) -> dict[str, Any] | None:
    del system
    account, authority = settings.account_name, settings.blob_storage_authority
    place = f"{account}{authority}" if authority.startswith(".") else f"{authority}/{account}"
    config = {"account_name": account, "endpoint": f"{settings.blob_storage_scheme}://{place}"}
    if settings.account_key:
        return {**config, "account_key": settings.account_key}
    return {**config, "sas_key": settings.sas_token} if settings.sas_token else None


def _has_profiles() -> bool:
    """Whether there are profile files, whose credentials obstore reads only with boto3."""
    names = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
    return any(
        Path(os.environ.get(variable) or Path.home() / ".aws" / name).exists()
        for variable, name in names.items()
    )
