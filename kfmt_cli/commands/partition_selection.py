"""Selections that depend on the logs of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kfmt_cli.broker.log_reading.log_end import read_last_records_offset
from kfmt_cli.broker.transactions.transactions import read_committed_records
from kfmt_cli.commands.each_partition import iter_log_blocks
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.log.selection.selection import Selection, SelectionOptions


def resolve_selection(
    selection_options: SelectionOptions,
    logs: Sequence[InputFile],
    decompression_limit: DecompressionLimit,
) -> Selection:
    """The selection for a partition; raises InputError, also if its logs are needed first and one
    is a pipe, which can be read only once."""
    for log in logs if selection_options.needs_logs else ():
        if Path(log.path).is_fifo():
            raise InputError(f"{log.name}: a pipe can be read only once")
    return selection_options.create_partition_selection(
        lambda n_records, selection: read_last_records_offset(
            logs, n_records, selection, decompression_limit
        ),
        lambda: read_committed_records(block for _, block in iter_log_blocks(logs)),
    )
