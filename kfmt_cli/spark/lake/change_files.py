"""Values by key, in few files that are never rewritten in place.

A change writes one new file with the changed values, so its cost does not depend on the number of
values. Files that are not much larger than the change are merged into the new one, so their number
is the logarithm of the number of values. Each line is a JSON array of key and value; a later file
replaces the values of earlier ones, and null means that a value was deleted.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from kfmt_cli.arrow.export.atomic_files import json_bytes, list_file_names, open_atomic, remove_file
from kfmt_cli.core.urls import is_local, strip_file_scheme
from kfmt_cli.disk.file_access import open_binary
from kfmt_cli.errors import InputError

MAX_MEMORY_BYTES = 1 << 20
MAX_MERGE_RATIO = 2  # of a merged file's bytes to those of the change
_KEY_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file with changes."""

    name: str
    bytes: int


def read_values(directory: str, parts: Iterable[ChangeFile]) -> Iterator[tuple[str, Any]]:
    """Keys and values in the order of the files, including values that later files replace; raises
    InputError."""
    for part in parts:
        for line in _read_lines(directory, part):
            key, value = json.loads(line)
            yield key, value


def append_changes(
    directory: str,
    parts: Sequence[ChangeFile],
    change_number: int,
    changes: Iterable[tuple[str, Any]],
) -> tuple[ChangeFile, ...]:
    """Write a change; returns the files after it. Files that were merged into the new one stay
    until `delete_unlisted`. Raises OutputError, InputError.

    change_number: the number of the change; the names of files sort by it.
    """
    with tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES) as change_buffer:
        for change in changes:
            change_buffer.write(json_bytes(change) + b"\n")
        size, remaining_parts = change_buffer.tell(), list(parts)
        if not size:
            return tuple(parts)
        change_buffer.seek(0)
        merged_parts: list[ChangeFile] = []
        while remaining_parts and remaining_parts[-1].bytes <= size * MAX_MERGE_RATIO:
            merged_parts.append(remaining_parts.pop())
            size += merged_parts[-1].bytes
        name = f"{change_number:010}-{uuid.uuid4().hex[:12]}.jsonl"
        with open_atomic(f"{directory}/{name}") as out:
            if merged_parts:
                lines_newest_first = (
                    change_buffer,
                    *(_read_lines(directory, part) for part in merged_parts),
                )
                _merge_lines(lines_newest_first, out, keeps_deletions=bool(remaining_parts))
            else:
                shutil.copyfileobj(change_buffer, out)
            return *remaining_parts, ChangeFile(name, out.tell())


def delete_unlisted(directory: str, parts: Iterable[ChangeFile]) -> None:
    """Delete the files in a directory that are not among `parts`."""
    for name in list_file_names(directory) - {part.name for part in parts}:
        remove_file(f"{directory}/{name}")


def _merge_lines(
    lines_newest_first: Iterable[Iterable[bytes]], out: BinaryIO, *, keeps_deletions: bool
) -> None:
    """Write the newest line of each key. keeps_deletions: also write lines that delete a key."""
    seen_keys: set[str] = set()
    for lines in lines_newest_first:
        for line in lines:
            key, end = _KEY_DECODER.raw_decode(line[1:].decode("ascii"))
            if key not in seen_keys:
                seen_keys.add(key)
                if keeps_deletions or line[end + 1 :].strip(b", ]\n") != b"null":
                    out.write(line)


def _read_lines(directory: str, part: ChangeFile) -> Iterator[bytes]:
    path = f"{directory}/{part.name}"
    try:
        with open_binary(strip_file_scheme(path) if is_local(path) else path) as source:
            yield from source
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path}: {reason}; the directory cannot be used without it") from error
