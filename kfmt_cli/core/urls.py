"""Paths, local or with a scheme."""

from __future__ import annotations

import os
import re

_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:/")


_SLASHES = re.compile(f"{re.escape(os.sep)}{{2,}}")


def is_local(path: str) -> bool:
    """Whether a path is in this machine's file systems."""
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://")


def is_url(path: str) -> bool:
    """Whether a path has a scheme, be it with one slash, as pathlib writes it."""
    return ":/" in path and _SCHEME.match(path) is not None


def url_text(path: str) -> str:
    """A path, with both slashes after its scheme, of which pathlib leaves one."""
    return path.replace(":/", "://", 1) if is_url(path) and "://" not in path else path


def plain(path: str) -> str:
    """A path as it is compared with others and shown: without file:// and redundant slashes."""
    if not is_local(path):
        return path.rstrip("/")
    short = _SLASHES.sub(lambda _: os.sep, local(path))
    return short.rstrip(os.sep) or short


def absolute(path: str) -> str:
    """A local path, absolute, with links as they are named; `..` after a link is the directory
    above its target, as the system takes it."""
    if is_url(path):
        return path
    up = f"{os.sep}{os.pardir}"
    above, found, below = f"{path}{os.sep}".rpartition(f"{up}{os.sep}")
    if found:
        path = f"{os.path.realpath(above + up)}{os.sep}{below}"
    return os.path.abspath(path)  # noqa: PTH100


def name_text(name: str) -> str:
    """A name or path as text, with bytes that are not valid UTF-8 as \\xhh."""
    name = url_text(name)
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")
