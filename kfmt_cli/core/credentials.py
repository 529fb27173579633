"""Credentials in URLs, such as `s3://KEY:SECRET@bucket/a`, kept where nothing is printed.

A URL is split where it is given. All that follows gets the URL without them, and only
`core/file_systems.py` puts them back. `SentCredentials` takes them to other processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from kfmt_cli.core.urls import is_local
from kfmt_cli.errors import UsageError

SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs", "viewfs": "hdfs"}
_NO_PORTS = ("s3", "gs")
_TOKENS = ("http", "https")  # where a user without a password may be a token
_LONG = 6  # characters of a secret that is looked for in messages
_SECRET = re.compile(
    r"(.*_)?(secret|password|passwd|pwd|token|sig|signature|credentials?|key|sas|auth"
    r"|authorization|delegation)|.*(accesskey|accesskeyid|secretkey|accountkey|sessiontoken"
    r"|apikey|clientsecret)"
)
_IN_TEXT = re.compile(r"[A-Za-z][\w+.-]*:/{1,2}[^\s'\"<>()]+")


class Credentials(NamedTuple):
    """What a URL says about who asks."""

    user: str
    """`USER:PASSWORD`, as in the URL."""
    query: str
    """Parameters, as in the URL."""

    def secrets(self) -> set[str]:
        """The parts that nobody may see, as they are and decoded."""
        given = [self.user.partition(":")[2] or self.user]
        given += [part.partition("=")[2] for part in self.query.split("&") if _is_secret(part)]
        return {form for part in given for form in (part, unquote(part)) if len(form) >= _LONG}


class Parts(NamedTuple):
    """A URL in parts."""

    clean: str
    place: tuple[str, str]
    """Its kind of store, and the bucket or host."""
    credentials: Credentials | None
    is_torn: bool = False
    """Whether the password has a character that ends the host."""


class KeptCredentials:
    """The credentials that this process was given, by store and bucket or host."""

    def __init__(self) -> None:
        self.by_place: dict[tuple[str, str], Credentials] = {}


KEPT = KeptCredentials()


def without_credentials(url: str) -> str:
    """A path or URL without credentials, which are kept for this bucket or host; raises UsageError
    if others are."""
    if is_local(url):
        return url
    parts = _parts(url)
    if parts.is_torn:
        words = "the credentials contain /, ? or #; write them as %2F, %3F and %23"
        raise UsageError(f"{parts.clean}: {words}")
    given = parts.credentials
    if given is not None and KEPT.by_place.setdefault(parts.place, given) != given:
        words = "is given with different credentials; use one run for each of them"
        raise UsageError(f"{parts.place[0]}://{parts.place[1]}: {words}")
    return parts.clean


def credentials_of(url: str) -> Credentials | None:
    """The credentials kept for a URL's bucket or host."""
    return KEPT.by_place.get(_parts(url).place)


def hidden(text: str) -> str:
    """A message, maybe of a library, without credentials."""
    text = _IN_TEXT.sub(_hidden_url, text)
    for secret in chain.from_iterable(kept.secrets() for kept in KEPT.by_place.values()):
        text = text.replace(secret, "***")
    return text


def _hidden_url(found: re.Match[str]) -> str:
    url = found[0]
    return url if url.startswith("file:") else _parts(url).clean


class SentCredentials:
    """Pickles as the credentials kept by this process; another keeps them when it unpickles."""

    def __reduce__(
        self,
    ) -> tuple[Callable[..., SentCredentials], tuple[Mapping[tuple[str, str], Credentials]]]:
        return _arrived, (dict(KEPT.by_place),)


def _arrived(kept: Mapping[tuple[str, str], Credentials]) -> SentCredentials:
    KEPT.by_place.update(kept)
    return SentCredentials()


def _parts(url: str) -> Parts:
    scheme, colon, below = url.partition(":")
    slashes = below[: len(below) - len(below.lstrip("/"))][:2]
    below = below[len(slashes) :]
    kind = SAME.get(scheme.lower(), scheme.lower())
    authority = re.split("[/?#]", below, maxsplit=1)[0]
    user, at, host = authority.rpartition("@")
    rest = below[len(authority) :]
    if not at and "@" in rest and _has_password(kind, authority):
        host = below.rpartition("@")[2]
        return Parts(f"{scheme}{colon}{slashes}{host}", (kind, host), None, is_torn=True)
    shown, secret = _shown_user(kind, user)
    rest, query = _without_query(rest)
    place = f"{shown}@{host}" if shown else host
    found = Credentials(secret, query) if secret or query else None
    return Parts(f"{scheme}{colon}{slashes}{place}{rest}", (kind, place), found)


def _shown_user(kind: str, user: str) -> tuple[str, str]:
    """What is shown of `USER:PASSWORD`, and what is kept."""
    name, colon, _ = user.partition(":")
    if kind == "abfs":  # the name is a container
        return name, user if colon else ""
    return ("", user) if colon or kind in _TOKENS else (user, "")


def _has_password(kind: str, authority: str) -> bool:
    _, colon, end = authority.rpartition(":")
    is_port = kind not in _NO_PORTS and (end.isdigit() or authority.startswith("["))
    return bool(colon) and not is_port


def _without_query(rest: str) -> tuple[str, str]:
    """The end of a URL without parameters, and these if one is a secret: an object's name may
    contain a question mark."""
    path, _, query = rest.rpartition("?")
    is_query = any(map(_is_secret, query.split("&")))
    return (path, query) if is_query else (rest, "")


def _is_secret(parameter: str) -> bool:
    name, equals, _ = parameter.partition("=")
    return bool(equals and _SECRET.fullmatch(name.lower().replace("-", "_")))
