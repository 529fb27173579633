"""Paths, local or with a scheme."""

from __future__ import annotations


def is_local(path: str) -> bool:
    """Whether a path is in this machine's file systems."""
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://")
