"""Paths, local or with a scheme."""

from __future__ import annotations

import os


def is_local(path: str) -> bool:
    """Whether a path is in this machine's file systems."""
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://")


def absolute(path: str) -> str:
    """A local path, absolute, with links as they are named; `..` after a link is the directory
    above its target, as the system takes it."""
    up = f"{os.sep}{os.pardir}"
    above, found, below = f"{path}{os.sep}".rpartition(f"{up}{os.sep}")
    if found:
        path = f"{os.path.realpath(above + up)}{os.sep}{below}"
    return os.path.abspath(path)  # noqa: PTH100


def name_text(name: str) -> str:
    """A name or path as text, with bytes that are not valid UTF-8 as \\xhh."""
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")
