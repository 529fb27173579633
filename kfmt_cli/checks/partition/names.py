"""Check the names in a directory.

Source: `org.apache.kafka.storage.internals.log.LogLoader` (from which names it takes an offset,
and how it handles `.swap` files), `kafka.log.LogManager.loadLogs` and
`org.apache.kafka.storage.internals.log.UnifiedLog.parseTopicPartitionName`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from kfmt_cli.broker.start.own_files import is_log_directory
from kfmt_cli.checks.partition.base import DirectoryCheck
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import CLEAN_SHUTDOWN
from kfmt_cli.disk.kinds.kind import CLEANED, SWAP
from kfmt_cli.disk.names import offset_of_name, parsed_place
from kfmt_cli.disk.tree import Folder
from kfmt_cli.findings import partition as codes
from kfmt_cli.findings.finding import Finding

_SEGMENT = re.compile(r"^\d{20}\.log$")
_SWAP = re.compile(r"^\d{20}\.log\.swap$")
# Names from which a broker takes an offset: the part before the first dot.
_WITH_OFFSET = re.compile(r"\.(?:log|index|timeindex|txnindex|snapshot|cleaned|swap)$")
# Directories that a broker skips or deletes.
_NOT_LOGS = frozenset({"remote-log-index-cache"} | CLEAN_SHUTDOWN.names)


class Names(DirectoryCheck):
    """All names are ones that a starting broker expects."""

    codes = (
        codes.NAME_NOT_NUMERIC,
        codes.DIRECTORY_NOT_A_PARTITION,
        codes.SWAP_FILE,
        codes.LOG_NOT_CHECKED,
    )

    def look(self, folder: Folder) -> Iterator[Finding]:
        yield from not_partitions(folder)
        for name in () if folder.takes_any else sorted(folder.other_logs):
            message = "starts like a log, but was skipped because the directory has segments"
            yield Finding(folder.input(name).name, codes.LOG_NOT_CHECKED, None, message)
        if not any(map(_is_of_partition, folder.files)):
            return
        yield from _swapped(folder)
        for name in folder.files:
            if _lacks_offset(name):
                message = f"{name_text(name)!r} does not start with an offset"
                yield Finding(folder.input(name).name, codes.NAME_NOT_NUMERIC, None, message)


# Partitions have files of the same names, so the cache avoids most matching.
@lru_cache(maxsize=4096)
def _is_of_partition(name: str) -> bool:
    return _SEGMENT.match(name) is not None or _SWAP.match(name) is not None


@lru_cache(maxsize=4096)
def _lacks_offset(name: str) -> bool:
    """Whether a broker would take an offset from a name that has none."""
    return _WITH_OFFSET.search(name) is not None and offset_of_name(name) is None


def _swapped(folder: Folder) -> Iterator[Finding]:
    """Findings for `.swap` logs that a start renames, not for unfinished ones that it deletes."""
    if not any(name.endswith(SWAP) for name in folder.files):
        return
    names = (file for file in folder.files if file.endswith(CLEANED))
    made = [base for base in map(offset_of_name, names) if base is not None]
    for name in folder.files:
        offset = int(name.partition(".")[0]) if _SWAP.match(name) else None
        if offset is None or (made and offset >= min(made)):
            continue
        of = name.removesuffix(SWAP)
        exists = of in folder.files
        there = "it replaces the existing log" if exists else "no log with that name exists"
        message = f"a broker was stopped before renaming this file to {of}: {there}"
        yield Finding(folder.input(name).name, codes.SWAP_FILE, None, message, offset=offset)


def not_partitions(folder: Folder) -> Iterator[Finding]:
    """Findings for directories with which a broker does not start."""
    if not is_log_directory(folder):
        return
    for name in folder.folders:
        if name not in _NOT_LOGS and parsed_place(name) is None:
            message = f'{name_text(name)!r} does not end in "-" and a partition number'
            found = folder.input(name).name
            yield Finding(found, codes.DIRECTORY_NOT_A_PARTITION, None, message)
