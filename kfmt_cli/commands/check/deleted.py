"""check: what a broker marked as deleted and has not removed yet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.disk.kinds.logs import DELETED_LOG
from kfmt_cli.disk.names import mark_of
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import InputError
from kfmt_cli.log.open_log import open_log


def deleted_in(reports: Sequence[CheckedDirectory]) -> Iterator[tuple[CheckedDirectory, int]]:
    """The number of records that are still in directories marked -delete and in logs marked
    .deleted, of each partition that has some."""
    for report in reports:
        if report.folder is None:
            continue
        is_topic = mark_of(report.folder.path.rstrip(os.sep).rpartition(os.sep)[2]) == "delete"
        records = _records(report.folder) + (report.records if is_topic else 0)
        if records:
            yield report, records


def _records(folder: Folder) -> int:
    """The number of records in a directory's deleted logs, by their batch headers."""
    n_records = 0
    for name in folder.files:
        if name.endswith(DELETED_LOG) and name not in folder.special:
            with suppress(InputError), open_log(folder.input(name), read_ahead=False) as log:
                n_records += sum(int(block.batches.records_count.sum()) for block in log.blocks)
    return n_records
