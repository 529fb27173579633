"""The segments below a directory, or that of a file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.segment import SEGMENT_KINDS, Segment
from kfmt_cli.disk.tree import (
    Folder,
    classify,
    inputs_in,
    is_folder,
    is_of_broker,
    listed,
    no_log,
    printable,
    walk,
)
from kfmt_cli.errors import InputError


def folder_beside(path: str) -> Folder:
    """The directory that a file lies in; its files are named as this one was. Raises InputError."""
    top, name = os.path.split(path)
    prefix = path.removesuffix(name)
    try:
        with os.scandir(top or os.curdir) as entries:
            folder, _ = listed(top or os.curdir, top or os.curdir, entries)
    except OSError as error:
        raise InputError(f"{printable(top)}: {error.strerror}") from error
    return replace(folder, prefix=prefix)


def segments(
    path: str,
    several: bool,
    skip: Callable[[str], None],
    passed_over: Counter[str] | None = None,
) -> Iterator[Segment]:
    """The segments below a directory, or that of the file given; raises InputError.

    skip: is told of each directory that could not be listed. passed_over: counts the directory's
    other files, as `inputs_in` does.
    """
    if path == "-":
        raise InputError(
            "-: an index is checked against the log next to it: standard input is not taken here"
        )
    if is_folder(path):
        unread: list[str] = []
        folders = walk(path, several, unread.append)
        # Counts what is passed over, and takes files that are not of a segment for themselves.
        n_files = sum(1 for _ in inputs_in(folders, SEGMENT_KINDS, passed_over))
        for words in unread:
            skip(words)
        if not n_files and not unread:
            raise InputError(no_log(path))
        for folder in folders:
            for it in folder.segments:
                is_own = folder.takes_any or is_of_broker(_name(it))
                if is_own and not kind_of(_name(it))[2]:
                    yield it
        return
    if not Path(path).exists():
        raise InputError(f"{printable(path)}: No such file or directory")
    file = classify(path, path)
    if file.kind not in SEGMENT_KINDS:
        raise InputError(f"{file.name}: is neither a log nor an index")
    folder = folder_beside(path)
    name = Path(path).name
    segment = next((it for it in folder.segments if name in _names(it)), None)
    if segment is None:
        raise InputError(f"{file.name}: is not a regular file")
    segment.given = True
    if file.kind is not LOG:
        segment.wanted = frozenset({file.kind})
    yield segment


def _name(segment: Segment) -> str:
    return Path(segment.any_file.path).name


def _names(segment: Segment) -> set[str]:
    files = [*segment.indexes.values(), *([segment.log] if segment.log else [])]
    return {Path(it.path).name for it in files}
