"""Writes output files of tasks under a temporary name, then renames them, so that a repeated task
leaves no duplicates. Also reads, lists and removes such files, on disk or in an object store."""

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

from kfmt_cli.core.file_systems import file_system_and_path, first_error_line
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.regular_files import read_regular_file
from kfmt_cli.core.small_objects import fetch_object
from kfmt_cli.core.stores import list_names, request_with_retries
from kfmt_cli.core.urls import is_local, strip_file_scheme
from kfmt_cli.errors import InputError, OutputError
from kfmt_cli.writers.output_access import give_access_like, stat_replaced_file
from kfmt_cli.writers.synced_directories import create_directory, sync_directories

COPY_BUFFER_BYTES = 1 << 20
MAX_OWN_FILE_BYTES = 1 << 30
_UNFINISHED_NAME = re.compile(r"\..+\.[0-9a-f]{32}\.unfinished")


@contextmanager
def open_atomic(path: str) -> Iterator[BinaryIO]:
    """Open a file that appears, complete, when the block ends; raises OutputError.

    A store completes an upload when it is closed, even after an exception. Files for a store are
    therefore first written to a temporary file.
    """
    try:
        if not is_local(path):
            file_system_and_path(path)  # fails before there is anything to upload
            with tempfile.TemporaryFile() as temporary_file:
                yield temporary_file
                temporary_file.seek(0)
                _upload_file(temporary_file, path)
            return
        final_path = Path(strip_file_scheme(path))
        create_directory(final_path.parent)
        temporary_path = final_path.with_name(f".{final_path.name}.{uuid.uuid4().hex}.unfinished")
        try:
            with temporary_path.open("xb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            if (replaced_status := stat_replaced_file(final_path)) is not None:
                give_access_like(temporary_path, replaced_status)
            temporary_path.replace(final_path)
            sync_directories(final_path, [final_path.parent])
        finally:
            temporary_path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def remove_unfinished_files(directory: str) -> None:
    """Remove the unfinished files of killed writers under a directory; raises InputError. An object
    store has none, as objects appear only when complete."""
    if not is_local(directory):
        return

    def raise_input_error(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be listed: {error.strerror}") from error

    for parent, _, file_names in os.walk(strip_file_scheme(directory), onerror=raise_input_error):
        for file_name in filter(_UNFINISHED_NAME.fullmatch, file_names):
            Path(parent, file_name).unlink(missing_ok=True)


def _upload_file(source: BinaryIO, path: str) -> None:
    """Upload a file to a store; raises OutputError."""
    file_system, store_path = file_system_and_path(path)
    try:
        with file_system.open_output_stream(store_path, compression=None) as out:
            shutil.copyfileobj(source, out, COPY_BUFFER_BYTES)
    except Exception as error:  # fsspec's file systems raise many kinds
        raise OutputError(f"{path}: cannot be written: {first_error_line(error)}") from error


def encode_json(json_value: object) -> bytes:
    """A value as JSON, in ASCII, because names may not be valid text."""
    return json.dumps(json_value).encode()


def write_json_file(path: str, json_value: object) -> None:
    """Write a JSON file atomically; raises OutputError."""
    with open_atomic(path) as out:
        out.write(encode_json(json_value))


def read_file_bytes(path: str) -> bytes | None:
    """The content of a small file that kfmt wrote; None if it is missing. Raises InputError."""
    if is_local(path):
        try:
            return read_regular_file(
                strip_file_scheme(path), MAX_OWN_FILE_BYTES, follow_links=False
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
    if (object_bytes := fetch_object(path)) is not None:
        return object_bytes

    def read_object() -> bytes:
        file_system, store_path = file_system_and_path(path)
        with file_system.open_input_file(store_path) as source:
            return bytes(source.read())

    try:
        return request_with_retries(read_object, path)
    except InputError as error:
        if error.is_missing:
            return None
        raise


def read_json_file(path: str) -> Any | None:
    """The content of a JSON file, None if it is missing or incomplete; raises InputError."""
    try:
        return parse_json(read_file_bytes(path) or b"")
    except ValueError:
        return None


def list_file_names(directory: str) -> set[str]:
    """The names of the entries of a directory; an empty set if it does not exist. Raises
    InputError: a directory that cannot be listed is not an empty one."""
    if not is_local(directory):
        return list_names(directory)
    try:
        return set(os.listdir(strip_file_scheme(directory)))  # noqa: PTH208 (names only)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as error:
        raise InputError(f"{directory}: cannot be listed: {error.strerror or error}") from error


def remove_file(path: str) -> None:
    """Remove a file if it exists."""
    if is_local(path):
        Path(strip_file_scheme(path)).unlink(missing_ok=True)
        return
    file_system, store_path = file_system_and_path(path)
    try:
        file_system.delete_file(store_path)
    except OSError:
        return
