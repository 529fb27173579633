"""One job at a time writes to a directory.

On a file system the owner holds a lock on `_kfmt/lease.json`, which the kernel releases when the
owner dies. In a store the owner creates that object, on the condition that there is none, and
rewrites it every few seconds; an object that has not been rewritten for a minute is a dead owner's,
and whoever replaces it first takes over. Stores without conditional writes are asked again after a
moment whether the object is still one's own.
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

from kfmt_cli.arrow.export.output import as_json, get_json, put_json, remove
from kfmt_cli.core.small_objects import NoConditionsError, put_if, tag_of
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import InputError, OutputError, UsageError
from kfmt_cli.render.style import safe

BEAT = 10.0  # seconds between two heartbeats in a store
DEAD_AFTER = 60.0  # seconds without a heartbeat
MOST_LOCKS = 100  # owners that may end between the opening of the file and the lock
SETTLED_AFTER = 1.0  # seconds, in a store without conditional writes


class Lease:
    """The right to write to a directory."""

    def __init__(self) -> None:
        self.is_lost = threading.Event()

    def check(self, to: str) -> None:
        """Raise OutputError if another job has taken over."""
        if self.is_lost.is_set():
            raise OutputError(f"{to}: another job has taken over this directory; nothing committed")


def leased(to: str, job: str) -> AbstractContextManager[Lease]:
    """Hold a directory for a job; raises UsageError, which names the owner, if another has it."""
    place = f"{to}/_kfmt/lease.json"
    mine = {
        "owner": uuid.uuid4().hex,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "job": job,
        "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return (_locked if is_local(to) else _kept)(to, place, mine)


@contextmanager
def _locked(to: str, place: str, mine: dict[str, Any]) -> Iterator[Lease]:
    path = Path(local(place))
    new = [folder for folder in path.parents if not folder.exists()]
    try:
        held = _lock(path)
    except BlockingIOError:
        raise _taken(to, get_json(place) or {}) from None
    except OSError as error:
        raise OutputError(f"{place}: cannot be written: {error.strerror}") from error
    with held:
        held.truncate(0)
        held.write(as_json(mine))
        held.flush()
        try:
            yield Lease()
        finally:  # a job that wrote nothing leaves nothing
            path.unlink(missing_ok=True)
            with suppress(OSError):
                for folder in new:
                    folder.rmdir()


def _lock(path: Path) -> BinaryIO:
    """Open a file and lock it; raises BlockingIOError if another process has the lock, OSError."""
    for _ in range(MOST_LOCKS):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # the owner before has just removed it
            held = path.open("a+b")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(held.fileno()), path.stat()):
                    return held
            except OSError:
                held.close()
                raise
            held.close()
    raise BlockingIOError


@contextmanager
def _kept(to: str, place: str, mine: dict[str, Any]) -> Iterator[Lease]:
    lease, done = Lease(), threading.Event()
    tag = _acquired(to, place, mine)

    def beat() -> None:
        known: str | None = tag
        while not done.wait(BEAT):
            try:
                known = _put(place, mine, known)
            except (InputError, OutputError):
                continue  # a store that does not answer; it may next time
            if known is None:
                lease.is_lost.set()
                return

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield lease
    finally:
        done.set()
        beating.join()
        if not lease.is_lost.is_set():
            remove(place)


def _acquired(to: str, place: str, mine: dict[str, Any]) -> str:
    """Create or take over the lease; its tag. Raises UsageError."""
    for _ in range(2):
        found = get_json(place)
        if found is not None and time.time() - float(found.get("beat", 0)) < DEAD_AFTER:
            raise _taken(to, found)
        tag = _put(place, mine, None if found is None else tag_of(place))
        if tag is not None:
            return tag
    raise _taken(to, get_json(place) or {})


def _put(place: str, mine: dict[str, Any], tag: str | None) -> str | None:
    """Write the lease if it is still the one with this tag; its new tag, None if it is not."""
    data = {**mine, "beat": time.time()}
    try:
        return put_if(place, json.dumps(data).encode(), tag)
    except NoConditionsError:
        is_first = tag is None
        if not is_first and (get_json(place) or mine).get("owner") != mine["owner"]:
            return None
        put_json(place, data)
        if is_first:
            time.sleep(SETTLED_AFTER)
        is_mine = (get_json(place) or {}).get("owner") == mine["owner"]
        return "" if is_mine else None


def _taken(to: str, found: dict[str, Any]) -> UsageError:
    """The error that names the owner of a lease."""
    job, host = safe(str(found.get("job", "?"))), safe(str(found.get("host", "?")))
    since = safe(str(found.get("since", "?")))
    return UsageError(
        f"{to}: in use by kfmt pipeline {job}, process {found.get('pid', '?')} on {host}, since "
        f"{since}; wait until it ends, or choose another --to"
    )
