"""Paths, local or with a scheme."""

from __future__ import annotations

import os
import re

_SCHEME_PATTERN = re.compile(r"[A-Za-z][\w+.-]+:/")


_REPEATED_SLASHES_PATTERN = re.compile(f"{re.escape(os.sep)}{{2,}}")


def is_local(path: str) -> bool:
    """Whether a path is in this machine's file systems."""
    return "://" not in path or path.startswith("file://")


def strip_file_scheme(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://")


def is_url(path: str) -> bool:
    """Whether a path has a scheme; one slash is enough, because pathlib removes the other."""
    return ":/" in path and _SCHEME_PATTERN.match(path) is not None


def restore_url_slashes(path: str) -> str:
    """A path with both slashes after its scheme; pathlib leaves only one."""
    return path.replace(":/", "://", 1) if is_url(path) and "://" not in path else path


def normalize_path(path: str) -> str:
    """A path in the form for comparison and display: without file:// and redundant slashes."""
    if not is_local(path):
        return path.rstrip("/")
    local_path = _REPEATED_SLASHES_PATTERN.sub(lambda _: os.sep, strip_file_scheme(path))
    return local_path.rstrip(os.sep) or local_path


def absolute_path(path: str) -> str:
    """An absolute form of a local path that keeps symbolic links; a URL is returned unchanged.

    As in system calls, `..` after a link is the parent of the link's target.
    """
    if is_url(path):
        return path
    parent_suffix = f"{os.sep}{os.pardir}"
    parent, separator, subpath = f"{path}{os.sep}".rpartition(f"{parent_suffix}{os.sep}")
    if separator:
        path = f"{os.path.realpath(parent + parent_suffix)}{os.sep}{subpath}"
    return os.path.abspath(path)  # noqa: PTH100


def path_in_listings(path: str) -> str:
    """A path as listings name it: absolute, without a scheme if it is local."""
    return absolute_path(strip_file_scheme(path)) if is_local(path) else path.rstrip("/")


def is_path_or_subpath(path: str, listed_root: str) -> bool:
    """Whether a listed path is another one, or below it."""
    return f"{path}/".startswith(f"{listed_root.rstrip('/')}/")


def format_display_name(name: str) -> str:
    """A name or path as text, with bytes that are not valid UTF-8 as \\xhh."""
    name = restore_url_slashes(name)
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")
