"""The topic, partition and log directory of something, from the path under which it is shown."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from kfmt_cli.core.source import PIPE
from kfmt_cli.core.urls import absolute
from kfmt_cli.disk.names import depends_on, place_of, stored_place
from kfmt_cli.rows.column import PLACE, Placed


def place_members(path: str, placed: Placed) -> dict[str, Any]:
    """The values of `PLACE` for a path; null if no directory is named like a partition.

    placed: whether the path is a file's or may be a partition directory.
    """
    return _members(path, placed, depends_on(path))


@lru_cache(maxsize=4096)
def _members(path: str, placed: Placed, _: str) -> dict[str, Any]:
    if path == PIPE:
        return dict.fromkeys(PLACE)
    folder = path
    topic: str | None = None
    if placed is Placed.PARTITION:
        topic, number = place_of(_base_name(path))
    if topic is None:
        folder = _above(path)
        topic, number = place_of(_base_name(folder))
    if topic is None and (stored := stored_place(path))[0] is not None:
        return dict(zip(PLACE, (*stored, _above(_above(folder))), strict=True))
    if topic is None:  # a link may lead to a partition
        real = os.path.realpath(path)
        folder = real if placed is Placed.PARTITION and os.path.isdir(real) else _above(real)  # noqa: PTH112
        topic, number = place_of(_base_name(folder))
    members = (topic, number, None if topic is None else _above(folder))
    return dict(zip(PLACE, members, strict=True))


def with_place(row: dict[str, object], placed: Placed) -> dict[str, object]:
    """An object with `PLACE` inserted after its file, if its type has one."""
    if not placed.has_place or not isinstance(row.get("file"), str):
        return row
    made: dict[str, object] = {}
    for name, value in row.items():
        made[name] = value
        if name == "file":
            made |= place_members(str(value), placed)
    return made


def _base_name(path: str) -> str:
    """The last name of a path, even if the path ends with dots."""
    name = path.rstrip(os.sep).rpartition(os.sep)[2]
    if name in ("", os.curdir, os.pardir):
        name = absolute(path).rpartition(os.sep)[2]
    return name


def _above(path: str) -> str:
    """The parent directory of a path, relative to the current directory."""
    above, separator, name = path.rstrip(os.sep).rpartition(os.sep)
    if name == os.curdir and above:
        return _above(above)
    if name in ("", os.curdir):
        return os.pardir
    if name == os.pardir:
        return f"{path}{os.sep}{os.pardir}"
    return above or (os.sep if separator else os.curdir)
