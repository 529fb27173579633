"""Check the names in a directory.

Source: `org.apache.kafka.storage.internals.log.LogLoader` (from which names it takes an offset,
and how it handles `.swap` files), `kafka.log.LogManager.loadLogs` and
`org.apache.kafka.storage.internals.log.UnifiedLog.parseTopicPartitionName`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from kfmt_cli.broker.start.checkpoints import IGNORED_DIRECTORIES, is_log_directory
from kfmt_cli.checks.partition.base import DirectoryCheck
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_names import (
    MAX_PARTITION,
    parse_broker_topic_partition,
    parse_offset_name,
    parse_topic_partition,
)
from kfmt_cli.disk.kinds.kind import CLEANED_SUFFIX, SWAP_SUFFIX
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding

_LOG_NAME = re.compile(r"^\d{20}\.log$")
_SWAP_NAME = re.compile(r"^\d{20}\.log\.swap$")
# Names from which a broker takes an offset: the part before the first dot.
_NAME_WITH_OFFSET = re.compile(r"\.(?:log|index|timeindex|txnindex|snapshot|cleaned|swap)$")


class DirectoryNamesCheck(DirectoryCheck):
    """All names are ones that a starting broker expects."""

    def check_names(self, listing: DirectoryListing) -> Iterator[Finding]:
        yield from iter_non_partition_findings(listing)
        for file_name in () if listing.accepts_any_log else sorted(listing.renamed_logs):
            message = "starts like a log, but was skipped because the directory has segments"
            yield Finding(listing.input_file(file_name).name, codes.LOG_NOT_CHECKED, None, message)
        if not any(map(_is_segment_name, listing.files)):
            return
        yield from _iter_swap_findings(listing)
        for file_name in listing.files:
            if _lacks_required_offset(file_name):
                message = f"{format_display_name(file_name)!r} does not start with an offset"
                yield Finding(
                    listing.input_file(file_name).name, codes.NAME_NOT_NUMERIC, None, message
                )


# Partitions have files of the same names, so the cache avoids most matching.
@lru_cache(maxsize=4096)
def _is_segment_name(name: str) -> bool:
    return _LOG_NAME.match(name) is not None or _SWAP_NAME.match(name) is not None


@lru_cache(maxsize=4096)
def _lacks_required_offset(name: str) -> bool:
    """Whether a broker would take an offset from a name that has none."""
    return _NAME_WITH_OFFSET.search(name) is not None and parse_offset_name(name) is None


def _iter_swap_findings(listing: DirectoryListing) -> Iterator[Finding]:
    """Findings for `.swap` logs that a start renames, not for unfinished ones that it deletes."""
    if not any(name.endswith(SWAP_SUFFIX) for name in listing.files):
        return
    cleaned_file_names = (
        file_name for file_name in listing.files if file_name.endswith(CLEANED_SUFFIX)
    )
    cleaned_offsets = [
        cleaned_offset
        for cleaned_offset in map(parse_offset_name, cleaned_file_names)
        if cleaned_offset is not None
    ]
    for swap_name in listing.files:
        base_offset = int(swap_name.partition(".")[0]) if _SWAP_NAME.match(swap_name) else None
        if base_offset is None or (cleaned_offsets and base_offset >= min(cleaned_offsets)):
            continue
        target_name = swap_name.removesuffix(SWAP_SUFFIX)
        target_exists = target_name in listing.files
        effect_text = (
            "it replaces the existing log" if target_exists else "no log with that name exists"
        )
        message = f"a broker was stopped before renaming this file to {target_name}: {effect_text}"
        yield Finding(
            listing.input_file(swap_name).name, codes.SWAP_FILE, None, message, offset=base_offset
        )


def iter_non_partition_findings(listing: DirectoryListing) -> Iterator[Finding]:
    """Findings for directories that prevent a broker from starting."""
    if not is_log_directory(listing):
        return
    for directory_name in listing.directories:
        message = find_partition_name_problem(directory_name)
        if message is not None and directory_name not in IGNORED_DIRECTORIES:
            display_path = listing.input_file(directory_name).name
            yield Finding(display_path, codes.DIRECTORY_NOT_A_PARTITION, None, message)


def find_partition_name_problem(directory_name: str) -> str | None:
    """Why a broker does not start with a directory of this name; None if it takes a topic and a
    partition from it."""
    if parse_broker_topic_partition(directory_name) is not None:
        return None
    quoted_name = repr(format_display_name(directory_name))
    if parse_topic_partition(directory_name)[0] is not None:
        return f"the partition number of {quoted_name} is above {MAX_PARTITION}"
    return f'{quoted_name} does not end in "-" and a partition number'
