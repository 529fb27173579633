"""Paths relative to a repository's root, for programs that show findings next to files."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from kfmt_cli.core.urls import absolute_path, is_url


@cache
def repository_root() -> Path:
    """The nearest directory above with a `.git`, or the current directory."""
    cwd = Path.cwd()
    return next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)


def path_in_repository(file: str) -> tuple[str, bool]:
    """An existing path, with forward slashes, and whether it is under the repository's root.

    A finding about a missing file is shown at the log next to it, or at the directory; one about a
    file in an archive, at the archive. A URL stays as it is.
    """
    if is_url(file):
        return file, False
    path = Path(absolute_path(file))
    if not path.exists():
        log = path.with_suffix(".log")
        parents = (folder for folder in path.parents if folder.exists())
        path = log if log.exists() else next(parents, path)
    if path.is_relative_to(repository_root()):
        return path.relative_to(repository_root()).as_posix(), True
    return path.as_posix(), False


def locate_message(path: str, file: str, message: str) -> str:
    """A message for a path; names the file if it is a different one."""
    return message if path.endswith(os.path.basename(file)) else f"{file}: {message}"  # noqa: PTH119
