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

from kfmt_cli.arrow.export.atomic_files import (
    encode_json,
    list_file_names,
    open_atomic,
    remove_file,
)
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


def iter_changed_values(
    directory: str, change_files: Iterable[ChangeFile]
) -> Iterator[tuple[str, Any]]:
    """Keys and values in the order of the files, including values that later files replace; raises
    InputError."""
    for change_file in change_files:
        for line in _read_lines(directory, change_file):
            key, value = json.loads(line)
            yield key, value


def append_changes(
    directory: str,
    previous_files: Sequence[ChangeFile],
    change_number: int,
    changes: Iterable[tuple[str, Any]],
) -> tuple[ChangeFile, ...]:
    """Write a change; returns the files after it. Files that were merged into the new one stay
    until `delete_unlisted_files`. Raises OutputError, InputError.

    change_number: the number of the change; the names of files sort by it.
    """
    with tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES) as change_buffer:
        for change in changes:
            change_buffer.write(encode_json(change) + b"\n")
        n_bytes, remaining_files = change_buffer.tell(), list(previous_files)
        if not n_bytes:
            return tuple(previous_files)
        change_buffer.seek(0)
        merged_files: list[ChangeFile] = []
        while remaining_files and remaining_files[-1].bytes <= n_bytes * MAX_MERGE_RATIO:
            merged_files.append(remaining_files.pop())
            n_bytes += merged_files[-1].bytes
        file_name = f"{change_number:010}-{uuid.uuid4().hex[:12]}.jsonl"
        with open_atomic(f"{directory}/{file_name}") as output_file:
            if merged_files:
                lines_newest_first = (
                    change_buffer,
                    *(_read_lines(directory, merged_file) for merged_file in merged_files),
                )
                _merge_lines(lines_newest_first, output_file, keeps_deletions=bool(remaining_files))
            else:
                shutil.copyfileobj(change_buffer, output_file)
            return *remaining_files, ChangeFile(file_name, output_file.tell())


def delete_unlisted_files(directory: str, change_files: Iterable[ChangeFile]) -> None:
    """Delete the files in a directory that are not among `change_files`."""
    for file_name in list_file_names(directory) - {
        change_file.name for change_file in change_files
    }:
        remove_file(f"{directory}/{file_name}")


def _merge_lines(
    lines_newest_first: Iterable[Iterable[bytes]], output_file: BinaryIO, *, keeps_deletions: bool
) -> None:
    """Write the newest line of each key. keeps_deletions: also write lines that delete a key."""
    written_keys: set[str] = set()
    for lines in lines_newest_first:
        for line in lines:
            key, key_end = _KEY_DECODER.raw_decode(line[1:].decode("ascii"))
            if key not in written_keys:
                written_keys.add(key)
                if keeps_deletions or line[key_end + 1 :].strip(b", ]\n") != b"null":
                    output_file.write(line)


def _read_lines(directory: str, change_file: ChangeFile) -> Iterator[bytes]:
    path = f"{directory}/{change_file.name}"
    try:
        with open_binary(strip_file_scheme(path) if is_local(path) else path) as opened_file:
            yield from opened_file
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path}: {reason}; the directory cannot be used without it") from error
