"""Paths relative to a repository's root, for programs that show findings next to files."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from kfmt_cli.core.urls import absolute_path, is_url


@cache
def repository_root() -> Path:
    """The current directory or its nearest parent with a `.git`; the current directory if none has
    one."""
    cwd = Path.cwd()
    return next((parent for parent in (cwd, *cwd.parents) if (parent / ".git").exists()), cwd)


def path_in_repository(file: str) -> tuple[str, bool]:
    """An existing path, with forward slashes, and whether it is under the repository's root.

    A finding about a missing file is shown at the log next to it, or at the directory; one about a
    file in an archive, at the archive. A URL stays as it is.
    """
    if is_url(file):
        return file, False
    path = Path(absolute_path(file))
    if not path.exists():
        log_path = path.with_suffix(".log")
        existing_parents = (parent for parent in path.parents if parent.exists())
        path = log_path if log_path.exists() else next(existing_parents, path)
    if path.is_relative_to(repository_root()):
        return path.relative_to(repository_root()).as_posix(), True
    return path.as_posix(), False


def format_located_message(path: str, file: str, message: str) -> str:
    """The message for a finding shown at `path`, prefixed with `file` if its name differs."""
    return message if path.endswith(os.path.basename(file)) else f"{file}: {message}"  # noqa: PTH119
