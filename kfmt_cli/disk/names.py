"""The meaning of the names of broker files and directories: offsets, topics, partitions, marks."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from kfmt_cli.core.urls import absolute, is_url, local, name_text
from kfmt_cli.disk.trees import TREES

_NUMBER = re.compile(r"^[+-]?\d{1,20}$")
MOST_OFFSET = (1 << 63) - 1
# Tiered storage: a segment's base offset and id, and the manifest of Aiven's plug-in.
_STORED = re.compile(r"(?:^|/)([^/]+)-[\w-]{22}/(\d{1,10})/\d{20}-[\w-]{22}\.[^/]*$")
STORED_STEM = re.compile(r"^(\d{20})-[\w-]{22}$")
MANIFEST, STORED_INDEXES = ".rsm-manifest", ".indexes"


def offset_of_name(name: str) -> int | None:
    """The offset that a broker reads from a name, before the first dot, or None."""
    text, dot, _ = name.partition(".")
    if not dot or _NUMBER.match(text) is None:
        return None
    return int(text) if -MOST_OFFSET - 1 <= int(text) <= MOST_OFFSET else None


# `<topic>-<partition>`, then the suffix of a moved or deleted directory, or a topic id.
_FOLDER = re.compile(r"^(.+)-(\d+)(?:-[\w-]{22}|\.[0-9a-f]{32}-(?:future|delete|stray))?$")

_MARKED = re.compile(r"\.[0-9a-f]{32}-(future|delete|stray)$")


def mark_of(folder: str) -> str:
    """A broker's mark on a partition's directory: future, delete or stray; else empty."""
    named = _MARKED.search(folder)
    return named[1] if named else ""


def left_out_words(folders: Collection[str]) -> str:
    """The message for marked directories that are skipped."""
    marks = sorted({mark_of(folder.rpartition(os.sep)[2]) for folder in folders})
    number = "1 directory" if len(folders) == 1 else f"{len(folders)} directories"
    return f"{number} marked -{' or -'.join(marks)} skipped; name one as PATH to read it"


_PACKED = re.compile(r"^\d{20}\.(?:log|index|timeindex|txnindex|snapshot)\.(?:gz|zst|lz4)$")


def is_packed(name: str) -> bool:
    """Whether a name is of a segment file compressed as a whole."""
    return _PACKED.match(name) is not None


def topic_trouble(name: str) -> str | None:
    """Why a topic cannot have this name; None if it can.

    Source: `org.apache.kafka.common.internals.Topic.validate`.
    """
    if name in (".", "..") or not re.fullmatch(r"[\w.-]{1,249}", name, re.A):
        words = "a topic name has 1 to 249 characters of a–z, A–Z, 0–9, ., _ and -"
        return f"{name!r}: {words}"
    return None


_OTHER_FORMS = (MANIFEST, ".gz", ".zst", ".lz4")


def has_other_form(names: Iterable[str]) -> bool:
    """Whether some of the names are of manifests in tiered storage, or of packed segment files."""
    return any(
        name.endswith(_OTHER_FORMS) and (name.endswith(MANIFEST) or is_packed(name))
        for name in names
    )


def partition_of(path: str) -> tuple[str | None, int | None]:
    """The topic and partition in the name of a file's directory."""
    folder = path.rpartition(os.sep)[0].rpartition(os.sep)[2]
    if folder in ("", os.curdir, os.pardir):
        folder = absolute(path).rpartition(os.sep)[0].rpartition(os.sep)[2]
    place = place_of(folder)
    if place[0] is None:
        place = stored_place(path)
    if place[0] is not None:
        return place
    above = path.rpartition(os.sep)[0]
    return place_of(_real_folder(above, depends_on(above)).rpartition(os.sep)[2])


def real_path(path: str, may_be_link: bool = True) -> str:
    """The path without symbolic links. may_be_link: follow the last part, too."""
    if is_url(path):
        return path
    folder, _, name = path.rpartition(os.sep)
    is_named = name not in ("", os.curdir, os.pardir)
    if not is_named or (may_be_link and os.path.islink(path)):  # noqa: PTH114 (28,000 are free)
        return os.path.realpath(path)
    folder = folder or (os.sep if path.startswith(os.sep) else "")
    real = _real_folder(folder, depends_on(folder))
    return f"{real.rstrip(os.sep)}{os.sep}{name}"


def identity(path: str, may_be_link: bool = True) -> str:
    """A path that all paths to a file or directory have in common: without symbolic links, and that
    of its object for one that has been put together from tiered storage."""
    at = TREES.at(path)
    return real_path(path if at is None else at[0].identity(at[1]), may_be_link)


def distinct_paths(paths: Iterable[str]) -> list[str]:
    """Paths that lead to different files or directories; of those that lead to one, the first."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(identity(local(path)), path)
    return list(found.values())


@lru_cache(maxsize=1024)
def _real_folder(folder: str, _: str) -> str:
    return os.path.realpath(folder)


def partition_folder(path: str) -> Path:
    """A partition's directory, absolute, as a broker names it: a link by its own name, unless only
    what it leads to is named like a partition."""
    named = Path(real_path(str(Path(path)), may_be_link=False))  # without /.
    if place_of(named.name)[0] is not None:
        return named
    return Path(os.path.realpath(named))  # resolve() fails on links in a circle


def folder_of_log(path: str) -> Path:
    """The same for the directory of a log."""
    above = partition_folder(os.path.dirname(path) or os.curdir)  # noqa: PTH120 (text)
    return above if place_of(above.name)[0] is not None else Path(os.path.realpath(path)).parent


def stored_place(path: str) -> tuple[str | None, int | None]:
    """The topic and partition of a segment in tiered storage, as named by Aiven's plug-in."""
    named = _STORED.search(path)
    return (named[1], int(named[2])) if named else (None, None)


def depends_on(path: str) -> str:
    """The current directory if a path is relative to it: a part of a cache's key."""
    try:
        return "" if path.startswith(os.sep) else os.getcwd()  # noqa: PTH109 (many)
    except OSError:  # it was deleted
        return ""


@lru_cache(maxsize=4096)
def place_of(folder: str) -> tuple[str | None, int | None]:
    """The topic and partition in a directory's name, as text."""
    named = _FOLDER.match(folder)
    return (name_text(named[1]), int(named[2])) if named else (None, None)


_MOVING = re.compile(r"^(\S+-\S+)\.\S+-(?:delete|future|stray)$")
_PLACE = re.compile(r"^(.+)-(\+?\d+)$", re.DOTALL)
_MOST_PARTITION = (1 << 31) - 1


@lru_cache(maxsize=4096)
def parsed_place(folder: str) -> tuple[str, int] | None:
    """The topic and partition that a broker, which checks less than `place_of`, reads from a
    directory's name; None if the broker does not start with it."""
    if folder.endswith(("-delete", "-future", "-stray")):
        moving = _MOVING.match(folder)
        if moving is None:
            return None
        folder = moving[1]
    named = _PLACE.match(folder)
    if named is None or int(named[2]) > _MOST_PARTITION:
        return None
    return name_text(named[1]), int(named[2])


def suffix_of(folder: str) -> str:
    """A broker's mark on a directory whose name it accepts: delete, future or stray; else empty."""
    return folder.rpartition("-")[2] if _MOVING.match(folder) else ""
