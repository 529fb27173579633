"""Values by key, in few files that are never rewritten in place.

A change writes one new file with what it changes, so that it costs the same however many values
there are. Files that are not much larger than the change are merged into the new one: their number
stays a logarithm of that of the values. Each line is a JSON array of key and value; a later file
replaces the values of earlier ones, and null means that a value is gone.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from kfmt_cli.arrow.export.output import appearing, as_json, names_in, remove
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.disk.opening import file_at
from kfmt_cli.errors import InputError

IN_MEMORY = 1 << 20  # bytes
MUCH_LARGER = 2  # times
_KEY = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Part:
    """One of the files."""

    name: str
    bytes: int


def values_in(folder: str, parts: Iterable[Part]) -> Iterator[tuple[str, Any]]:
    """Keys and values in the order of the parts, with those that later ones replace; raises
    InputError."""
    for part in parts:
        for line in _lines(folder, part):
            key, value = json.loads(line)
            yield key, value


def appended(
    folder: str, parts: Sequence[Part], number: int, changes: Iterable[tuple[str, Any]]
) -> tuple[Part, ...]:
    """Write a change; the parts with it. The files that it replaces stay until `sweep`. Raises
    OutputError, InputError.

    number: of the change; files are named in its order.
    """
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as made:
        for change in changes:
            made.write(as_json(change) + b"\n")
        size, kept = made.tell(), list(parts)
        if not size:
            return tuple(parts)
        made.seek(0)
        merged: list[Part] = []
        while kept and kept[-1].bytes <= size * MUCH_LARGER:
            merged.append(kept.pop())
            size += merged[-1].bytes
        name = f"{number:010}-{uuid.uuid4().hex[:12]}.jsonl"
        with appearing(f"{folder}/{name}") as out:
            if merged:
                newest_first = (made, *(_lines(folder, part) for part in merged))
                _merge(newest_first, out, keeps_gone=bool(kept))
            else:
                shutil.copyfileobj(made, out)
            return *kept, Part(name, out.tell())


def sweep(folder: str, parts: Iterable[Part]) -> None:
    """Delete the files that are no parts."""
    for name in names_in(folder) - {part.name for part in parts}:
        remove(f"{folder}/{name}")


def _merge(newest_first: Iterable[Iterable[bytes]], out: BinaryIO, *, keeps_gone: bool) -> None:
    """Write the newest line of each key. keeps_gone: also where that says that it is gone."""
    seen: set[str] = set()
    for lines in newest_first:
        for line in lines:
            key, end = _KEY.raw_decode(line[1:].decode("ascii"))
            if key not in seen:
                seen.add(key)
                if keeps_gone or line[end + 1 :].strip(b", ]\n") != b"null":
                    out.write(line)


def _lines(folder: str, part: Part) -> Iterator[bytes]:
    place = f"{folder}/{part.name}"
    try:
        with file_at(local(place) if is_local(place) else place) as source:
            yield from source
    except OSError as error:
        words = error.strerror or str(error)
        raise InputError(f"{place}: {words}; the directory cannot be used without it") from error
