"""Where files lie for programs that show findings next to them: below the root of a repository."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


@cache
def repository_root() -> Path:
    """The nearest directory above with a `.git`; the current one where none has."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def path_in_repository(file: str) -> tuple[str, bool]:
    """A path that exists, with forward slashes, and whether it is below the repository's root.

    A finding about a file that is not there is shown at the log next to it, or the directory; about
    one in an archive, at the archive.
    """
    path = Path(os.path.abspath(file))  # noqa: PTH100 (links are kept)
    if not path.exists():
        log = path.with_suffix(".log")
        above = (folder for folder in path.parents if folder.exists())
        path = log if log.exists() else next(above, path)
    if path.is_relative_to(repository_root()):
        return path.relative_to(repository_root()).as_posix(), True
    return path.as_posix(), False


def words_at(path: str, file: str, words: str) -> str:
    """What is said at a path: with the file, where it is another one."""
    return words if path.endswith(os.path.basename(file)) else f"{file}: {words}"  # noqa: PTH119
