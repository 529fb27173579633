"""The way in: what lies at the paths that a user gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import Folder, classify, is_folder, printable, walk
from kfmt_cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class GivenPath:
    """A path that was given, and what is there."""

    path: str
    """As it was given."""
    file: Input | None = None
    """The file; None for a directory."""
    folders: list[Folder] = field(default_factory=list)
    """The directory and those below it that a broker would take."""
    is_whole: bool = True
    """Whether every directory could be listed."""


def targets(paths: Sequence[str], complain: Callable[[str], None]) -> Iterator[GivenPath]:
    """What lies at each path; raises UsageError for standard input.

    complain: is told of paths that do not exist, and of directories that cannot be listed. Names
    are those below the directory; of several paths each name begins with its path.
    """
    for path in paths:
        if path == "-":
            raise UsageError("-: this command cannot read standard input")
        if not is_folder(path):
            if Path(path).exists():
                yield GivenPath(path, classify(path, path))
            else:
                complain(f"{printable(path)}: No such file or directory")
            continue
        unlisted: list[str] = []
        folders = walk(path, len(paths) > 1, unlisted.append)
        for words in unlisted:
            complain(words)
        yield GivenPath(path, None, folders, not unlisted)
