"""What can stand in the place of a broker's file without being one."""

from __future__ import annotations

import enum
import os
from pathlib import Path


class NotAFile(enum.Enum):
    """An entry of a directory that has a file's name but is none."""

    DIRECTORY = "a directory"
    FULL_DIRECTORY = "a directory with a file in it"
    PIPE = "a named pipe"
    DANGLING_LINK = "a link to nothing"
    LOOP = "a link to itself"
    UNREADABLE = "a file without read permission"


def place(path: Path, content: bytes | NotAFile) -> None:
    """Create a file with this content, or what is none; the directory above exists."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is NotAFile.PIPE:
        os.mkfifo(path)
    elif content is NotAFile.DANGLING_LINK:
        path.symlink_to("nothing")
    elif content is NotAFile.LOOP:
        path.symlink_to(path.name)
    elif content is NotAFile.UNREADABLE:
        path.touch(mode=0)
    else:
        path.mkdir()
        if content is NotAFile.FULL_DIRECTORY:
            (path / "x").touch()
