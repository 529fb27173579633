"""check: what a broker marked as deleted and has not removed yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.disk.kinds.logs import DELETED_LOG
from kfmt_cli.disk.names import mark_of
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import InputError


def deleted_in(
    reports: Sequence[CheckedDirectory], complain: Callable[[str], None]
) -> Iterator[tuple[CheckedDirectory, int]]:
    """The number of records that are still in directories marked -delete and in logs marked
    .deleted, of each partition that has some. complain: receives errors about unreadable logs."""
    for report in reports:
        if report.folder is None:
            continue
        is_topic = mark_of(report.folder.path.rstrip(os.sep).rpartition(os.sep)[2]) == "delete"
        records = _records(report.folder, complain) + (report.records if is_topic else 0)
        if records:
            yield report, records


def _records(folder: Folder, complain: Callable[[str], None]) -> int:
    """The number of records in a directory's deleted logs, by their batch headers."""
    n_records = 0
    for name in folder.files:
        if name.endswith(DELETED_LOG) and name not in folder.special:
            try:
                for block in blocks_from(folder.input(name)):
                    n_records += int(block.batches.records_count.sum())
            except InputError as error:
                if not error.is_gone:  # a broker removes it after a minute
                    complain(str(error))
    return n_records
