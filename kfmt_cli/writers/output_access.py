"""The owner, the group and the permissions of outputs.

A broker opens logs and indexes for reading and writing as its own user, so files written for a
broker belong to that user. An output gives nobody access to data that they cannot read in its
inputs.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from kfmt_cli.core.urls import absolute_path, format_display_name, is_local, strip_file_scheme
from kfmt_cli.disk.directory_walk import iter_directories
from kfmt_cli.disk.mounts import list_disk_entries

ALL_PERMISSIONS = 0o777


def current_umask() -> int:
    """The umask of this process: the permissions that its new files lack."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def stat_input(path: str) -> os.stat_result | None:
    """The status of an input, or of the archive that contains it; None unless it is on this
    machine's disk."""
    if path == "-" or not is_local(path):
        return None
    disk_path = Path(absolute_path(strip_file_scheme(path)))
    for candidate_path in (disk_path, *disk_path.parents):
        try:
            return candidate_path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return None
    return None


def readers_mask(inputs: Iterable[str]) -> int:
    """The permissions that outputs may have: those of the owner, and those of the classes of users
    that may read all inputs and all files under them."""
    readable_by = stat.S_IRGRP | stat.S_IROTH
    for path in inputs:
        if (status := stat_input(path)) is None:
            continue
        readable_by &= status.st_mode
        if stat.S_ISDIR(status.st_mode) and readable_by:
            # Only on the disk: an archive, which is a file, counts as a whole.
            walk = iter_directories(strip_file_scheme(path), lambda *_: None, list_disk_entries)
            for directory, entries in walk:
                for name in (*entries.directories, *(entry.name for entry in entries.files)):
                    with suppress(OSError):
                        readable_by &= os.stat(f"{directory}/{name}").st_mode  # noqa: PTH116 (many)
                if not readable_by:
                    break
    return stat.S_IRWXU | readable_by | readable_by >> 1 | readable_by >> 2


_umask_lock = Lock()
_active_masks: list[int] = []
_original_umask = 0


@contextmanager
def private_like(inputs: Iterable[str]) -> Iterator[None]:
    """Create the files of this process and its children with no permissions that `readers_mask`
    excludes."""
    mask = readers_mask(inputs)
    _change_umask(_active_masks.append, mask)
    try:
        yield
    finally:
        _change_umask(_active_masks.remove, mask)


def _change_umask(change: Callable[[int], None], mask: int) -> None:
    """Add or remove a mask. The umask is that of the process, which may have other threads."""
    global _original_umask  # noqa: PLW0603 (the process has one umask)
    with _umask_lock:
        if not _active_masks:
            _original_umask = current_umask()
        change(mask)
        umask = _original_umask
        for active_mask in _active_masks:
            umask |= ALL_PERMISSIONS & ~active_mask
        os.umask(umask)


def stat_replaced_file(path: Path) -> os.stat_result | None:
    """The status of a file to replace; None without one. For a link, it is the status of the link
    itself."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def give_access_like(path: Path, model: os.stat_result) -> bool:
    """Give a new file the owner, group and permissions of another; False if only root could give it
    to that owner. Raises OSError."""
    mode = model.st_mode & ALL_PERMISSIONS
    has_owner = give_to(path, model)
    if path.stat().st_gid != model.st_gid:  # members of this group may do no more than others
        mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    path.chmod(mode)
    return has_owner


def give_to(path: Path, model: os.stat_result) -> bool:
    """Give a new file to the owner and the group of another, if this user may; False for
    another owner. Raises OSError."""
    status = path.stat()
    if (status.st_uid, status.st_gid) == (model.st_uid, model.st_gid):
        return True
    for uid in (model.st_uid, -1):
        try:
            os.chown(path, uid, model.st_gid)
        except OSError:  # only root may give files away, and only to users that it knows
            continue
        return model.st_uid in {uid, status.st_uid}
    return status.st_uid == model.st_uid


def report_other_owner(path: Path, uid: int) -> None:
    """Write a message about an output that a broker may be unable to open."""
    display_path = format_display_name(str(path))
    message = f"belongs to user {os.geteuid()}, not to user {uid}, as only root could give it away"
    sys.stderr.write(
        f"kfmt: {display_path}: {message}; before a broker of that user reads it, run chown -R "
        f"{uid} {display_path}\n"
    )
