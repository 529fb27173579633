"""Objects of S3 that are fetched whole, in one request.

pyarrow asks for the head of each object before it reads it, whatever a listing said. obstore does
not, so that small objects, of which a bucket has many, cost half the requests and half the wait. It
is given what pyarrow has found out of the host; where it cannot be used or does not answer, the
object is read by pyarrow, which then says what is wrong.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.stores import ATTEMPTS, PATIENCE, file_system_at

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEMES = ("s3", "s3a", "s3n")
SMALL = 4 << 20  # bytes
NO_NAMES = {"", ".", ".."}


def is_fetched(url: str, size: int) -> bool:
    """Whether an object of this size is fetched whole."""
    return url.partition("://")[0] in SCHEMES and size <= SMALL


def fetched(url: str, most: int | None = None) -> bytes | None:
    """What an object of S3 holds. None for one of more than `most` bytes, one that cannot be had,
    and what is in another store."""
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        return None
    bucket, _, name = rest.partition("/")
    if NO_NAMES & set(name.split("/")):  # obstore would take x//y for x/y
        return None
    try:
        store = _store(scheme, bucket)
        if store is None:
            return None
        import obstore

        found = obstore.get(store, name)
        if most is not None and found.meta["size"] > most:
            return None
        return bytes(found.bytes())
    except Exception:  # whatever it is: pyarrow is asked next, and says it
        return None


@cache
def _store(scheme: str, bucket: str) -> S3Store | None:
    """A bucket as pyarrow knows it; None where obstore cannot have the same credentials."""
    try:
        from obstore.store import S3Store
    except ImportError:
        return None
    system, _ = file_system_at(f"{scheme}://{bucket}/")
    _, (settings,) = system.__reduce__()
    config: dict[str, Any] = {"region": system.region}
    endpoint = settings["endpoint_override"]
    if endpoint:
        config["endpoint"] = endpoint if "://" in endpoint else f"{settings['scheme']}://{endpoint}"
    if not os.environ.get("AWS_ACCESS_KEY_ID") and _has_profiles():
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError:
            return None
        config["credential_provider"] = Boto3CredentialProvider()
    patience = timedelta(seconds=PATIENCE)
    return S3Store(
        bucket,
        client_options={"allow_http": True, "timeout": patience, "connect_timeout": patience},
        retry_config={"max_retries": ATTEMPTS - 1, "retry_timeout": patience},
        **config,
    )


def _has_profiles() -> bool:
    """Whether credentials are in files of profiles, which obstore reads with boto3 only."""
    names = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
    return any(
        Path(os.environ.get(variable) or Path.home() / ".aws" / name).exists()
        for variable, name in names.items()
    )
