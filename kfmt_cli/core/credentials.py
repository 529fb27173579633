"""Credentials in URLs, such as `s3://KEY:SECRET@bucket/a`, stored apart so that none is printed.

`strip_credentials` splits a URL as soon as it is passed to kfmt. All other code gets the URL
without credentials, and only `core/file_systems.py` puts them back. `PickledCredentials` transfers
them to other processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from kfmt_cli.core.urls import is_local
from kfmt_cli.errors import UsageError

STORE_KIND_BY_SCHEME = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "az": "abfs",
    "viewfs": "hdfs",
}
_STORES_WITHOUT_PORTS = ("s3", "gs")
_TOKEN_SCHEMES = ("http", "https")  # where a user without a password may be a token
_MIN_SECRET_LENGTH = 6  # characters; shorter secrets are not redacted in messages
_SECRET_NAME = re.compile(
    r"(.*_)?(secret|password|passwd|pwd|token|sig|signature|credentials?|key|sas|auth"
    r"|authorization|delegation)|.*(accesskey|accesskeyid|secretkey|accountkey|sessiontoken"
    r"|apikey|clientsecret)"
)
_URL_IN_TEXT = re.compile(r"[A-Za-z][\w+.-]*:/{1,2}[^\s'\"<>()]+")


class Credentials(NamedTuple):
    """The user and the secret parameters in a URL."""

    user: str
    """`USER:PASSWORD`, as in the URL."""
    query: str
    """Parameters, as in the URL."""

    def secrets(self) -> set[str]:
        """The secrets in them, as in the URL and percent-decoded, to redact in messages."""
        secrets = [self.user.partition(":")[2] or self.user]
        secrets += [
            parameter.partition("=")[2]
            for parameter in self.query.split("&")
            if _is_secret(parameter)
        ]
        return {
            spelling
            for secret in secrets
            for spelling in (secret, unquote(secret))
            if len(spelling) >= _MIN_SECRET_LENGTH
        }


class UrlParts(NamedTuple):
    """A URL split into its credentials and everything else."""

    stripped_url: str
    location: tuple[str, str]
    """The kind of store, and the bucket or host."""
    credentials: Credentials | None
    has_unescaped_password: bool = False
    """Whether the password has a character that ends the host."""


class CredentialRegistry:
    """The credentials that this process knows, by kind of store and bucket or host."""

    def __init__(self) -> None:
        self.by_location: dict[tuple[str, str], Credentials] = {}


CREDENTIALS = CredentialRegistry()


def strip_credentials(url: str) -> str:
    """A path or URL without its credentials, which are stored for its bucket or host.

    Raises UsageError for a bucket or host that already has other credentials, and for a password
    with an unescaped `/`, `?` or `#`.
    """
    if is_local(url):
        return url
    parts = _split_url(url)
    if parts.has_unescaped_password:
        message = "the credentials contain /, ? or #; write them as %2F, %3F and %23"
        raise UsageError(f"{parts.stripped_url}: {message}")
    credentials = parts.credentials
    if (
        credentials is not None
        and CREDENTIALS.by_location.setdefault(parts.location, credentials) != credentials
    ):
        message = "is given with different credentials; use one run for each of them"
        raise UsageError(f"{parts.location[0]}://{parts.location[1]}: {message}")
    return parts.stripped_url


def find_credentials(url: str) -> Credentials | None:
    """The credentials stored for a URL's bucket or host; None without any."""
    return CREDENTIALS.by_location.get(_split_url(url).location)


def redact_credentials(text: str) -> str:
    """Text, such as a library's error message, with credentials removed or replaced by ***."""
    text = _URL_IN_TEXT.sub(_redact_url, text)
    for secret in chain.from_iterable(
        credentials.secrets() for credentials in CREDENTIALS.by_location.values()
    ):
        text = text.replace(secret, "***")
    return text


def _redact_url(match: re.Match[str]) -> str:
    url = match[0]
    return url if url.startswith("file:") else _split_url(url).stripped_url


class PickledCredentials:
    """Pickles as the credentials of this process; unpickling adds them to another process's."""

    def __reduce__(
        self,
    ) -> tuple[Callable[..., PickledCredentials], tuple[Mapping[tuple[str, str], Credentials]]]:
        return _restore_credentials, (dict(CREDENTIALS.by_location),)


def _restore_credentials(by_location: Mapping[tuple[str, str], Credentials]) -> PickledCredentials:
    CREDENTIALS.by_location.update(by_location)
    return PickledCredentials()


def _split_url(url: str) -> UrlParts:
    scheme, colon, remainder = url.partition(":")
    slashes = remainder[: len(remainder) - len(remainder.lstrip("/"))][:2]
    remainder = remainder[len(slashes) :]
    store = STORE_KIND_BY_SCHEME.get(scheme.lower(), scheme.lower())
    authority = re.split("[/?#]", remainder, maxsplit=1)[0]
    user_info, at_sign, host = authority.rpartition("@")
    path = remainder[len(authority) :]
    if not at_sign and "@" in path and _has_password(store, authority):
        host = remainder.rpartition("@")[2]
        return UrlParts(
            f"{scheme}{colon}{slashes}{host}", (store, host), None, has_unescaped_password=True
        )
    public_user, secret_user = _split_user(store, user_info)
    path, secret_query = _split_secret_query(path)
    public_authority = f"{public_user}@{host}" if public_user else host
    credentials = Credentials(secret_user, secret_query) if secret_user or secret_query else None
    return UrlParts(
        f"{scheme}{colon}{slashes}{public_authority}{path}", (store, public_authority), credentials
    )


def _split_user(store: str, user_info: str) -> tuple[str, str]:
    """Split `USER:PASSWORD` into the public part and the secret part."""
    name, colon, _ = user_info.partition(":")
    if store == "abfs":  # the name is a container
        return name, user_info if colon else ""
    return ("", user_info) if colon or store in _TOKEN_SCHEMES else (user_info, "")


def _has_password(store: str, authority: str) -> bool:
    _, colon, port = authority.rpartition(":")
    is_port = store not in _STORES_WITHOUT_PORTS and (port.isdigit() or authority.startswith("["))
    return bool(colon) and not is_port


def _split_secret_query(path_and_query: str) -> tuple[str, str]:
    """Split the end of a URL into path and parameters.

    Without a secret parameter, all of it is the path: an object's name may contain `?`.
    """
    path, _, query = path_and_query.rpartition("?")
    is_query = any(map(_is_secret, query.split("&")))
    return (path, query) if is_query else (path_and_query, "")


def _is_secret(parameter: str) -> bool:
    name, equals, _ = parameter.partition("=")
    return bool(equals and _SECRET_NAME.fullmatch(name.lower().replace("-", "_")))
