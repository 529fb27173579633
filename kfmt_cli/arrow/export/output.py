"""Output files of tasks: written under a temporary name, then renamed, so that a repeated task
leaves no duplicates."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from kfmt_cli.core.file_systems import file_system_at, one_line
from kfmt_cli.core.small_objects import fetched
from kfmt_cli.core.stores import insist
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import InputError, OutputError

PIECE = 1 << 20
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.unfinished")


@contextmanager
def appearing(path: str) -> Iterator[BinaryIO]:
    """A file that appears, complete, when the block ends; raises OutputError.

    A store completes an upload when it is closed, even after an exception. Files for a store are
    therefore first written to a temporary file.
    """
    try:
        if not is_local(path):
            file_system_at(path)  # fails before there is anything to upload
            with tempfile.TemporaryFile() as made:
                yield made
                made.seek(0)
                _upload(made, path)
            return
        final = Path(local(path))
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = final.with_name(f".{final.name}.{uuid.uuid4().hex}.unfinished")
        try:
            with temporary.open("xb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def take_away_unfinished(folder: str) -> None:
    """Remove unfinished files of dead writers under a directory. A store has none, as objects
    appear only when complete."""
    if not is_local(folder):
        return
    for path in Path(local(folder)).rglob(".*"):
        if _UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _upload(made: BinaryIO, path: str) -> None:
    """Upload a file to a store; raises OutputError."""
    system, below = file_system_at(path)
    try:
        with system.open_output_stream(below, compression=None) as out:
            shutil.copyfileobj(made, out, PIECE)
    except Exception as error:  # fsspec's file systems raise many kinds
        raise OutputError(f"{path}: cannot be written: {one_line(error)}") from error


def as_json(value: object) -> bytes:
    """A value as JSON, in ASCII, because names need not be valid text."""
    return json.dumps(value).encode()


def put_json(path: str, value: object) -> None:
    """Write a JSON file, all or nothing."""
    with appearing(path) as out:
        out.write(as_json(value))


def read_whole(path: str) -> bytes | None:
    """The content of a small file, None if it is missing; raises InputError."""
    if is_local(path):
        try:
            return Path(local(path)).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
    if (data := fetched(path)) is not None:
        return data

    def read() -> bytes:
        system, below = file_system_at(path)
        with system.open_input_file(below) as source:
            return bytes(source.read())

    try:
        return insist(read, path)
    except InputError as error:
        if error.is_gone:
            return None
        raise


def get_json(path: str) -> Any | None:
    """The content of a JSON file, None if it is missing or incomplete; raises InputError."""
    try:
        return json.loads(read_whole(path) or b"")
    except ValueError:
        return None


def names_in(folder: str) -> set[str]:
    """The names of the files in a directory, an empty set if it is missing."""
    try:
        if is_local(folder):
            return set(os.listdir(local(folder)))  # noqa: PTH208 (names only)
        from pyarrow import fs

        system, below = file_system_at(folder)
        # Google's has no directories unless somebody made them, only the objects in them.
        deep = isinstance(system, fs.GcsFileSystem)
        selector = fs.FileSelector(below, recursive=deep, allow_not_found=True)
        above = len(below.strip("/")) + 1
        found = system.get_file_info(selector)
        return {info.path.strip("/")[above:].partition("/")[0] for info in found}
    except OSError:
        return set()


def remove(path: str) -> None:
    """Remove a file if it exists."""
    if is_local(path):
        Path(local(path)).unlink(missing_ok=True)
        return
    system, below = file_system_at(path)
    try:
        system.delete_file(below)
    except OSError:
        return
