"""Credentials in URLs, such as `s3://KEY:SECRET@bucket/a`, stored apart so that none is printed.

`strip_credentials` splits a URL as soon as it is passed to kfmt. All other code gets the URL
without credentials, and only `core/file_systems.py` puts them back. `PickledCredentials` transfers
them to other processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from kfmt_cli.core.urls import is_local
from kfmt_cli.errors import UsageError

_STORE_KIND_BY_SCHEME = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "az": "abfs",
    "viewfs": "hdfs",
}
_STORES_WITHOUT_PORTS = ("s3", "gs")
# Where a user without a password is a name; elsewhere it may be a token.
_USER_NAME_KINDS = frozenset({"hdfs", "webhdfs", "sftp", "ssh", "ftp", "smb", "wasb", "wasbs"})
_PARAMETER_SEPARATOR = re.compile("[&;]")
_URL_WITH_USER_PATTERN = re.compile(r"://[^/]*@")
_MIN_SECRET_LENGTH = 6  # characters; shorter secrets are not redacted in messages
_SECRET_NAME_PATTERN = re.compile(
    r"(.*_)?(secret|password|passwd|passphrase|pass|pwd|jwt|code|token|sig|signature|credentials?|key|sas|auth"
    r"|authorization|delegation)|.*(accesskey|accesskeyid|secretkey|accountkey|sessiontoken"
    r"|apikey|clientsecret)"
)
# A URL without its slashes, or of a file, with a user: read as a path, it would be shown.
_MISSPELT_URL_PATTERN = re.compile(
    r"(https?|s?ftp|s3[an]?|gs|gcs|az|abfss?|wasbs?|(web|view)?hdfs|dbfs|swift|oss|cos|jdbc|hf)"
    r":/?(?!/)[^/]*@|file://[^/]*@",
    re.IGNORECASE,
)
_URL_PATTERN = re.compile(r"[A-Za-z][\w+.-]*:/{1,2}[^\s'\"<>()]+")


def store_kind(url: str) -> str:
    """The kind of store of a URL or a scheme, whatever its case: S3A is s3."""
    scheme = url.partition(":")[0].lower()
    return _STORE_KIND_BY_SCHEME.get(scheme, scheme)


class Credentials(NamedTuple):
    """The user and the secret parameters in a URL."""

    user_info: str
    """`USER:PASSWORD`, as in the URL."""
    secret_query: str
    """Parameters, as in the URL."""

    def secrets(self) -> set[str]:
        """The secrets in them, as in the URL and percent-decoded, to redact in messages."""
        secrets = [self.user_info.partition(":")[2] or self.user_info]
        secrets += [
            parameter.partition("=")[2]
            for parameter in _PARAMETER_SEPARATOR.split(self.secret_query)
            if _is_secret_parameter(parameter)
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
    store_and_host: tuple[str, str]
    """The kind of store, and the bucket or host."""
    credentials: Credentials | None
    has_unescaped_password: bool = False
    """Whether the password has a character that ends the host."""


class CredentialRegistry:
    """The credentials that this process knows, by kind of store and bucket or host."""

    def __init__(self) -> None:
        self.credentials_by_host: dict[tuple[str, str], Credentials] = {}


CREDENTIALS = CredentialRegistry()


def strip_credentials(url: str) -> str:
    """A path or URL without its credentials, which are stored for its bucket or host.

    Raises UsageError for a bucket or host that already has other credentials, for a password with
    an unescaped `/`, `?` or `#`, and for a path that looks like a URL with credentials.
    """
    if is_local(url):
        if _MISSPELT_URL_PATTERN.match(url) and not os.path.lexists(url):
            scheme, _, rest = url.partition(":")
            message = "is not a URL with credentials; write SCHEME://USER:PASSWORD@HOST"
            raise UsageError(f"{scheme}:…@{rest.rpartition('@')[2]}: {message}")
        return url
    parts = _split_url(url)
    if parts.has_unescaped_password:
        message = "the credentials contain /, ? or #; write them as %2F, %3F and %23"
        raise UsageError(f"{parts.stripped_url}: {message}")
    credentials = parts.credentials
    if (
        credentials is not None
        and CREDENTIALS.credentials_by_host.setdefault(parts.store_and_host, credentials)
        != credentials
    ):
        message = "is given with different credentials; use one run for each of them"
        raise UsageError(f"{parts.store_and_host[0]}://{parts.store_and_host[1]}: {message}")
    return parts.stripped_url


def find_credentials(url: str) -> Credentials | None:
    """The credentials stored for a URL's bucket or host; None without any."""
    return CREDENTIALS.credentials_by_host.get(_split_url(url).store_and_host)


def redact_credentials(text: str) -> str:
    """Text, such as a library's error message, with credentials removed or replaced by ***."""
    text = _URL_PATTERN.sub(_redact_url, text)
    for secret in chain.from_iterable(
        credentials.secrets() for credentials in CREDENTIALS.credentials_by_host.values()
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
        return _restore_credentials, (dict(CREDENTIALS.credentials_by_host),)


def _restore_credentials(
    credentials_by_host: Mapping[tuple[str, str], Credentials],
) -> PickledCredentials:
    CREDENTIALS.credentials_by_host.update(credentials_by_host)
    return PickledCredentials()


def _split_url(url: str) -> UrlParts:
    scheme, colon, url_after_scheme = url.partition(":")
    slashes = url_after_scheme[: len(url_after_scheme) - len(url_after_scheme.lstrip("/"))][:2]
    url_after_scheme = url_after_scheme[len(slashes) :]
    kind = store_kind(scheme)
    authority = re.split("[/?#]", url_after_scheme, maxsplit=1)[0]
    user_info, at_sign, host_and_port = authority.rpartition("@")
    path = url_after_scheme[len(authority) :]
    if not at_sign and "@" in path and _has_password(kind, authority):
        host_and_port = url_after_scheme.rpartition("@")[2]
        return UrlParts(
            f"{scheme}{colon}{slashes}{host_and_port}",
            (kind, host_and_port),
            None,
            has_unescaped_password=True,
        )
    public_user, secret_user = _split_user(kind, user_info)
    path, secret_query = _split_secret_query(path)
    public_authority = f"{public_user}@{host_and_port}" if public_user else host_and_port
    credentials = Credentials(secret_user, secret_query) if secret_user or secret_query else None
    return UrlParts(
        f"{scheme}{colon}{slashes}{public_authority}{path}",
        (kind, public_authority),
        credentials,
    )


def _split_user(kind: str, user_info: str) -> tuple[str, str]:
    """Split `USER:PASSWORD` into the public part and the secret part."""
    user_or_container, colon, _ = user_info.partition(":")
    if kind == "abfs":  # the name is a container
        return user_or_container, user_info if colon else ""
    return (user_info, "") if kind in _USER_NAME_KINDS and not colon else ("", user_info)


def _has_password(kind: str, authority: str) -> bool:
    _, colon, port = authority.rpartition(":")
    is_port = kind not in _STORES_WITHOUT_PORTS and (port.isdigit() or authority.startswith("["))
    return bool(colon) and not is_port


def _split_secret_query(path_and_query: str) -> tuple[str, str]:
    """Split the end of a URL into path and parameters.

    Without a secret parameter, all of it is the path: an object's name may contain `?`.
    """
    path, _, query = path_and_query.rpartition("?")
    has_secret = any(map(_is_secret_parameter, _PARAMETER_SEPARATOR.split(query)))
    return (path, query) if has_secret else (path_and_query, "")


def _is_secret_parameter(parameter: str) -> bool:
    parameter_name, _, value = parameter.partition("=")
    is_secret_name = _SECRET_NAME_PATTERN.fullmatch(parameter_name.lower().replace("-", "_"))
    return bool(value and (is_secret_name or _URL_WITH_USER_PATTERN.search(unquote(value))))
