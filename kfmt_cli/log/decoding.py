"""The records of a run of batches, whatever their magic."""

from __future__ import annotations

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.log.block import Block, is_legacy
from kfmt_cli.log.records import Records, read_v2


def read_records(run: Block, limit: Limit) -> Records:
    """The records of a run, and what is wrong inside its batches.

    The base offset of each older wrapper is added to the run's batches.
    """
    if not is_legacy(run):
        return read_v2(run, limit)
    from kfmt_cli.log.wrappers import read_messages

    return read_messages(run, limit)
