"""Kills of this process at a file event: from then on, no file event of it below a directory has
an effect."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE_EVENTS = (
    *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"),
    *("os.listdir", "os.scandir", "sqlite3.connect"),
)


class KilledError(BaseException):
    """A stand-in for SIGKILL."""


@dataclass
class _Kill:
    """The kill that is due."""

    directory: str
    at_event: int
    n_events: int = 0
    place: str = ""
    """The event at which the process was killed."""


_kills: list[_Kill] = []  # hooks cannot be removed
_has_hook: list[bool] = []


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _kills or event not in FILE_EVENTS or not arguments:
        return
    kill, path = _kills[-1], arguments[0]
    path = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    if not path.startswith(kill.directory):
        return
    kill.n_events += 1
    if kill.n_events >= kill.at_event:
        kill.place = kill.place or f"{event} {path.removeprefix(kill.directory)}"
        raise KilledError


def kill_at_event(directory: Path, at_event: int, function: Callable[[], object]) -> str:
    """Call a function that is killed at its file event with this number, from 1, below a directory;
    returns the event, empty if the function ended before."""
    if not _has_hook:
        sys.addaudithook(_on_event)
        _has_hook.append(True)
    kill = _Kill(str(directory), at_event)
    _kills.append(kill)
    try:
        with suppress(KilledError):
            function()
    finally:
        _kills.remove(kill)
    return kill.place
