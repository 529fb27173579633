"""Paths, local or with a scheme."""

from __future__ import annotations

import os


def is_local(path: str) -> bool:
    """Whether a path is in this machine's file systems."""
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://")


def name_text(name: str) -> str:
    """A name or path as text, with bytes that are not valid UTF-8 as \\xhh."""
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")
