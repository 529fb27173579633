"""Selections that depend on the logs of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kfmt_cli.broker.offsets.last_records import first_of_last
from kfmt_cli.broker.transactions.committed import committed_of
from kfmt_cli.commands.each_partition import blocks_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.errors import InputError
from kfmt_cli.log.selection.select import Asked, Selection


def wanted_of(asked: Asked, logs: Sequence[Input], limit: Limit) -> Selection:
    """The selection for a partition; raises InputError, also if its logs are needed first and one
    is a pipe, which can be read only once."""
    for log in logs if asked.needs_logs else ():
        if Path(log.path).is_fifo():
            raise InputError(f"{log.name}: a pipe can be read only once")
    return asked.of(
        lambda last, wanted: first_of_last(logs, last, wanted, limit),
        lambda: committed_of(block for _, block in blocks_of(logs)),
    )
