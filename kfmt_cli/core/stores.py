"""Lists and describes the files in stores; retries requests if the connection is lost.

A store may send the same names over and over. pyarrow cannot report the progress of a listing or
cancel it, so it runs in a thread. If that takes long, obstore lists the same objects at the same
time, and shows whether their names repeat.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain, takewhile
from typing import Any, TypeVar

from kfmt_cli.core.file_systems import STORE_TIMEOUT_SECONDS, file_system_and_path, first_error_line
from kfmt_cli.core.parallel import run_in_daemon_thread
from kfmt_cli.core.small_objects import iter_object_name_pages
from kfmt_cli.errors import InputError

T = TypeVar("T")

RETRY_PAUSES_SECONDS = 0.5, 2.0, 5.0  # between attempts
FAILING_SECONDS = 60.0  # how long a store counts as failing after its last failure
SLOW_LISTING_SECONDS = 20.0  # after which names are compared
MAX_LISTING_SECONDS = 3600.0  # if names cannot be compared
# Errors that another attempt does not fix; 408 and 429 ask for one.
_PERMANENT_ERROR = re.compile(
    r"HTTP status 4(?!08|29)\d\d|credentials"
    r"|AWS Error (ACCESS_DENIED|INVALID_|SIGNATURE_DOES_NOT_MATCH|NO_SUCH_|RESOURCE_NOT_FOUND)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _StoreHealth:
    """When a store last failed."""

    failed_at_seconds: float = -FAILING_SECONDS
    """In seconds of `time.monotonic()`."""


@lru_cache(maxsize=256)
def _store_health(store_url: str) -> _StoreHealth:
    """The health of the store at a URL, one object for each."""
    del store_url
    return _StoreHealth()


@dataclass(slots=True, unsafe_hash=True)
class StoredFile:
    """A file in a store. Immutable by convention: a frozen class would take several times as long
    to create."""

    path: str
    size: int
    modified_ns: int
    """Nanoseconds since the epoch, 0 if unknown."""
    error: str | None = None
    """Why a directory could not be listed; `path` is then that directory."""


def request_with_retries(send_request: Callable[[], T], path: str, message_suffix: str = "") -> T:
    """Send a request to a store, with retries, and return the result; raises InputError.

    A store that recently failed in spite of retries gets one attempt. message_suffix: text after
    the path in the message.
    """
    start_seconds = time.monotonic()
    store_url = "/".join(path.split("/", 3)[:3])
    store_health = _store_health(store_url)
    is_store_failing = start_seconds - store_health.failed_at_seconds < FAILING_SECONDS
    for pause_seconds in (None,) if is_store_failing else (*RETRY_PAUSES_SECONDS, None):
        try:
            response = send_request()
            store_health.failed_at_seconds = -FAILING_SECONDS
            return response
        except InputError:
            raise
        except FileNotFoundError:
            message = os.strerror(errno.ENOENT)
            raise InputError(
                f"{path}{message_suffix}: {message}", file=path, is_missing=True
            ) from None
        except Exception as error:  # fsspec file systems raise many kinds
            message = first_error_line(error)
            is_timed_out = time.monotonic() - start_seconds > STORE_TIMEOUT_SECONDS
            is_error_permanent = isinstance(error, PermissionError) or _PERMANENT_ERROR.search(
                message
            )
            if not is_error_permanent and (pause_seconds is None or is_timed_out):
                store_health.failed_at_seconds = time.monotonic()
            if pause_seconds is None or is_timed_out or is_error_permanent:
                # `from None`: the text of the cause may contain the URL with its credentials.
                raise InputError(f"{path}{message_suffix}: {message}") from None
        time.sleep(pause_seconds)
    raise AssertionError


def stat_file(path: str) -> StoredFile | None:
    """The file at a URL; None for a directory. Raises InputError if it does not exist."""
    file_system, store_path = file_system_and_path(path)
    from pyarrow import fs

    (file_info,) = request_with_retries(lambda: file_system.get_file_info([store_path]), path)
    if file_info.type is fs.FileType.NotFound:
        bucket = store_path.strip("/").partition("/")[0]
        is_in_bucket = store_path.startswith(f"{bucket}/")
        if is_in_bucket:
            bucket_info = request_with_retries(lambda: file_system.get_file_info(bucket), path)
            if bucket_info.type is fs.FileType.NotFound:
                raise InputError(f"{path}: {bucket} does not exist")
        raise InputError(f"{path}: not found", file=path, is_missing=True)
    if file_info.type is fs.FileType.Directory:
        return None
    return StoredFile(path, file_info.size or 0, file_info.mtime_ns or 0)


def list_files(path: str, *, recursive: bool = True) -> Iterator[StoredFile]:
    """The files in a directory at a URL; raises InputError.

    A subdirectory that cannot be listed is yielded as an entry with an `error`.
    """
    file_system, store_path = file_system_and_path(path)
    from pyarrow import fs

    if isinstance(file_system, fs.PyFileSystem):
        yield from _list_fsspec_objects(
            file_system.handler.fs, path.rstrip("/"), store_path, recursive
        )
        return
    selector = fs.FileSelector(store_path, recursive=recursive)
    file_infos = request_with_retries(
        lambda: _run_listing(lambda: file_system.get_file_info(selector), path), path
    )
    url_prefix, store_prefix = f"{path.rstrip('/')}/", f"{store_path.strip('/')}/"
    for file_info in file_infos:
        if file_info.type is fs.FileType.File:
            subpath = file_info.path.lstrip("/").removeprefix(store_prefix)
            yield StoredFile(url_prefix + subpath, file_info.size or 0, file_info.mtime_ns or 0)


def list_names(path: str) -> set[str]:
    """The names of the entries of a directory at a URL; an empty set if it does not exist. Raises
    InputError."""
    file_system, store_path = file_system_and_path(path)
    from pyarrow import fs

    def list_paths() -> Iterable[str]:
        if isinstance(file_system, fs.PyFileSystem):  # its own listing omits what it cannot list
            fsspec_system = file_system.handler.fs
            fsspec_system.invalidate_cache()
            return [entry["name"] for entry in fsspec_system.ls(store_path, detail=True)]
        # Google Cloud Storage has no directories unless somebody created them, only objects.
        is_recursive = isinstance(file_system, fs.GcsFileSystem)
        selector = fs.FileSelector(store_path, recursive=is_recursive, allow_not_found=True)
        return [file_info.path for file_info in file_system.get_file_info(selector)]

    try:
        paths = request_with_retries(list_paths, path)
    except InputError as error:
        if error.is_missing:
            return set()
        raise
    prefix = f"{store_path.strip('/')}/"
    subpaths = (listed_path.strip("/") for listed_path in paths)
    return {
        subpath.removeprefix(prefix).partition("/")[0]
        for subpath in subpaths
        if subpath.startswith(prefix) or prefix == "/"
    }


def _run_listing(list_objects: Callable[[], T], url: str) -> T:
    """Run a request that lists the objects under a URL, and return its result.

    Raises the request's exceptions, and InputError if the listing never ends.
    """
    deadline_seconds = time.monotonic() + MAX_LISTING_SECONDS
    listing_future = run_in_daemon_thread(list_objects)
    wait([listing_future], SLOW_LISTING_SECONDS)
    if not listing_future.done():
        name_pages = takewhile(lambda _: not listing_future.done(), iter_object_name_pages(url))
        repetition_future = run_in_daemon_thread(
            lambda: find_repeated_name(chain.from_iterable(name_pages))
        )
        futures: list[Future[Any]] = [listing_future, repetition_future]
        wait(futures, deadline_seconds - time.monotonic(), FIRST_COMPLETED)
        if (
            repetition_future.done()
            and not repetition_future.exception()
            and (repeated_name := repetition_future.result())
        ):
            raise InputError(f"{url}: the store's listing never ends: it repeats {repeated_name}")
        wait([listing_future], deadline_seconds - time.monotonic())
    if not listing_future.done():
        raise InputError(
            f"{url}: the store's listing has not ended after {MAX_LISTING_SECONDS:.0f} seconds"
        )
    return listing_future.result()


def find_repeated_name(names: Iterable[str]) -> str | None:
    """A name that occurs twice in a listing, in which names are unique; None if the listing ends.

    Brent's algorithm: it remembers one name at a time, each for twice as long as the previous one.
    """
    reference_name, next_reference_index = None, 1
    for name_index, name in enumerate(names):
        if name == reference_name:
            return name
        if name_index == next_reference_index:
            reference_name, next_reference_index = name, 2 * next_reference_index
    return None


def _list_fsspec_objects(
    file_system: Any, path: str, store_path: str, recursive: bool
) -> Iterator[StoredFile]:
    """`list_files` for fsspec, whose `walk` skips directories that it cannot list."""
    store_root = store_path.strip("/")
    directories = [path]
    while directories:
        directory = directories.pop()
        try:
            list_directory = partial(
                file_system.ls, store_path + directory[len(path) :], detail=True
            )
            entries = request_with_retries(list_directory, directory)
        except InputError as error:
            if directory == path:
                raise
            yield StoredFile(directory, 0, 0, str(error).removeprefix(f"{directory}: "))
            continue
        for entry in entries:
            subpath = entry["name"].strip("/").removeprefix(store_root).strip("/")
            entry_url = f"{path}/{subpath}"
            if entry["type"] == "file":
                yield StoredFile(entry_url, entry["size"] or 0, _modified_ns(entry))
            elif entry["type"] == "directory" and recursive and entry_url != directory:
                directories.append(entry_url)


def _modified_ns(entry: Mapping[str, Any]) -> int:
    """When a file listed by fsspec was modified: nanoseconds since the epoch, 0 if unknown."""
    if "modificationTime" in entry:  # from WebHDFS, in milliseconds
        return int(entry["modificationTime"]) * 1_000_000
    mtime = entry.get("mtime")
    modified_seconds = mtime.timestamp() if isinstance(mtime, datetime) else mtime
    return int(modified_seconds * 1e9) if isinstance(modified_seconds, int | float) else 0
