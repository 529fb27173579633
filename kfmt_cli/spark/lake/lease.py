"""One job at a time writes to a directory.

On a file system the owner holds a lock on `_kfmt/lease.json`, which the kernel releases when the
owner dies. In an object store the owner creates that object, on the condition that it does not
exist, and rewrites it every few seconds. An object that has not been rewritten for a minute belongs
to a dead owner, and the first job that replaces it takes over. In a store without conditional
writes, a job reads the object again after a moment to see whether it is still its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from kfmt_cli.arrow.export.atomic_files import (
    encode_json,
    read_json_file,
    remove_file,
    write_json_file,
)
from kfmt_cli.core.regular_files import open_regular_file
from kfmt_cli.core.small_objects import (
    ConditionalWriteError,
    read_object_etag,
    write_object_conditionally,
)
from kfmt_cli.core.urls import is_local, strip_file_scheme
from kfmt_cli.errors import InputError, OutputError, UsageError
from kfmt_cli.render.style import escape_unprintable

HEARTBEAT_SECONDS = 10.0  # seconds between two heartbeats in a store
LEASE_TIMEOUT_SECONDS = 60.0  # seconds without a heartbeat
MAX_LOCK_ATTEMPTS = 100  # owners that may end between the opening of the file and the lock
REREAD_DELAY_SECONDS = 1.0  # seconds, in a store without conditional writes


class DirectoryLease:
    """The right to write to a directory."""

    def __init__(self) -> None:
        self.lost_event = threading.Event()

    def raise_if_lost(self, output_directory: str) -> None:
        """Raise OutputError if another job has taken over."""
        if self.lost_event.is_set():
            raise OutputError(
                f"{output_directory}: another job has taken over this directory; nothing committed"
            )


def hold_lease(output_directory: str, job_name: str) -> AbstractContextManager[DirectoryLease]:
    """Hold a directory for a job; raises UsageError, which names the owner, if another has it."""
    lease_path = f"{output_directory}/_kfmt/lease.json"
    own_fields = {
        "owner": uuid.uuid4().hex,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "job": job_name,
        "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return (_hold_file_lock if is_local(output_directory) else _hold_object_lease)(
        output_directory, lease_path, own_fields
    )


@contextmanager
def _hold_file_lock(
    output_directory: str, lease_path: str, own_fields: dict[str, Any]
) -> Iterator[DirectoryLease]:
    local_path = Path(strip_file_scheme(lease_path))
    created_directories = [parent for parent in local_path.parents if not parent.exists()]
    try:
        lease_file = _open_locked_file(local_path)
    except BlockingIOError:
        raise _create_in_use_error(output_directory, read_json_file(lease_path) or {}) from None
    except OSError as error:
        raise OutputError(f"{lease_path}: cannot be written: {error.strerror}") from error
    with lease_file:
        lease_file.truncate(0)
        lease_file.write(encode_json(own_fields))
        lease_file.flush()
        try:
            yield DirectoryLease()
        finally:  # a job that wrote nothing leaves nothing
            local_path.unlink(missing_ok=True)
            with suppress(OSError):
                for directory in created_directories:
                    directory.rmdir()


def _open_locked_file(path: Path) -> BinaryIO:
    """Open a file and lock it; raises BlockingIOError if another process has the lock, OSError."""
    for _ in range(MAX_LOCK_ATTEMPTS):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # the previous owner has just removed it
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            lease_file = os.fdopen(open_regular_file(path, flags, follow_links=False), "a+b")
            try:
                fcntl.flock(lease_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lease_file.fileno()), path.stat()):
                    return lease_file
            except OSError:
                lease_file.close()
                raise
            lease_file.close()
    raise BlockingIOError


@contextmanager
def _hold_object_lease(
    output_directory: str, lease_path: str, own_fields: dict[str, Any]
) -> Iterator[DirectoryLease]:
    lease, release_event = DirectoryLease(), threading.Event()
    etag = _acquire_object_lease(output_directory, lease_path, own_fields)

    def send_heartbeats() -> None:
        current_etag: str | None = etag
        while not release_event.wait(HEARTBEAT_SECONDS):
            try:
                current_etag = _write_lease_if_unchanged(lease_path, own_fields, current_etag)
            except (InputError, OutputError):
                continue  # a store that does not answer; it may next time
            if current_etag is None:
                lease.lost_event.set()
                return

    heartbeat_thread = threading.Thread(target=send_heartbeats, daemon=True)
    heartbeat_thread.start()
    try:
        yield lease
    finally:
        release_event.set()
        heartbeat_thread.join()
        if not lease.lost_event.is_set():
            remove_file(lease_path)


def _acquire_object_lease(
    output_directory: str, lease_path: str, own_fields: dict[str, Any]
) -> str:
    """Create or take over the lease; returns its tag. Raises UsageError."""
    for _ in range(2):
        existing_fields = read_json_file(lease_path)
        if (
            existing_fields is not None
            and time.time() - float(existing_fields.get("beat", 0)) < LEASE_TIMEOUT_SECONDS
        ):
            raise _create_in_use_error(output_directory, existing_fields)
        etag = _write_lease_if_unchanged(
            lease_path,
            own_fields,
            None if existing_fields is None else read_object_etag(lease_path),
        )
        if etag is not None:
            return etag
    raise _create_in_use_error(output_directory, read_json_file(lease_path) or {})


def _write_lease_if_unchanged(
    lease_path: str, own_fields: dict[str, Any], etag: str | None
) -> str | None:
    """Write the lease if its tag is still this one; returns the new tag, or None if it is not."""
    written_fields = {**own_fields, "beat": time.time()}
    try:
        return write_object_conditionally(lease_path, json.dumps(written_fields).encode(), etag)
    except ConditionalWriteError:
        is_new_lease = etag is None
        if (
            not is_new_lease
            and (read_json_file(lease_path) or own_fields).get("owner") != own_fields["owner"]
        ):
            return None
        write_json_file(lease_path, written_fields)
        if is_new_lease:
            time.sleep(REREAD_DELAY_SECONDS)
        is_own = (read_json_file(lease_path) or {}).get("owner") == own_fields["owner"]
        return "" if is_own else None


def _create_in_use_error(output_directory: str, existing_fields: dict[str, Any]) -> UsageError:
    """The error that names the owner of a lease."""
    job = escape_unprintable(str(existing_fields.get("job", "?")))
    host = escape_unprintable(str(existing_fields.get("host", "?")))
    since = escape_unprintable(str(existing_fields.get("since", "?")))
    return UsageError(
        f"{output_directory}: in use by kfmt pipeline {job}, process "
        f"{existing_fields.get('pid', '?')} on {host}, since "
        f"{since}; wait until it ends, or choose another --to"
    )
