"""Paths that say where a file is."""

from __future__ import annotations


def is_local(path: str) -> bool:
    """Whether a path is one of this machine's file systems."""
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://")
