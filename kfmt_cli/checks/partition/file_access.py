"""Check that the owner of a directory, as whom a broker usually runs, can open its files.

Source: `org.apache.kafka.storage.internals.log.AbstractIndex`, `TransactionIndex`,
`org.apache.kafka.common.record.FileRecords.open`: logs and indexes are opened for reading and
writing, other files for reading.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from kfmt_cli.checks.partition.base import DirectoryCheck
from kfmt_cli.disk.directory_listing import DirectoryListing, is_broker_file_name
from kfmt_cli.disk.file_access import find_disk_path
from kfmt_cli.disk.kinds import INDEX_KINDS, classify_name
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding

_READ, _WRITE = 0o4, 0o2
_WRITTEN_KINDS = frozenset({LOG_KIND, *INDEX_KINDS})
_ROOT_UID = 0  # may open every file


class FileAccessCheck(DirectoryCheck):
    """The owner of a directory can open its files."""

    def check_names(self, listing: DirectoryListing) -> Iterator[Finding]:
        if find_disk_path(listing.path) != listing.path:
            return
        try:
            owner = os.stat(listing.path)  # noqa: PTH116 (text)
        except OSError:  # reading its files reports the error
            return
        # A directory without write permission is a copy to read, in which no broker runs.
        if owner.st_uid == _ROOT_UID or not owner.st_mode & stat.S_IWUSR:
            return
        denied = [
            (file_name, status)
            for file_name in listing.regular_files
            if is_broker_file_name(file_name) and not classify_name(file_name)[2]
            if (status := _denied_status(f"{listing.path}/{file_name}", file_name, owner))
        ]
        if not denied:
            return
        file_name, status = denied[0]
        use = "read and write" if classify_name(file_name)[0] in _WRITTEN_KINDS else "read"
        others = f"; the same for {len(denied) - 1} more files here" if len(denied) > 1 else ""
        message = (
            f"belongs to user {status.st_uid} with mode {status.st_mode & 0o777:04o}; user "
            f"{owner.st_uid}, the owner of the directory, cannot {use} it{others}"
        )
        yield Finding(listing.input_file(file_name).name, codes.FILE_ACCESS_DENIED, None, message)


def _denied_status(path: str, file_name: str, owner: os.stat_result) -> os.stat_result | None:
    """The status of a file that a directory's owner cannot open; None if it can. owner: the status
    of the directory, whose group counts as the only one of its owner."""
    try:
        status = os.stat(path)  # noqa: PTH116 (many)
    except OSError:  # reading it reports the error
        return None
    needed = _READ | _WRITE if classify_name(file_name)[0] in _WRITTEN_KINDS else _READ
    if status.st_uid == owner.st_uid:
        granted = status.st_mode >> 6
    elif status.st_gid == owner.st_gid:
        granted = status.st_mode >> 3
    else:
        granted = status.st_mode
    return status if needed & ~granted else None
