"""The records of a run of batches, whatever their magic."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.log.block import Block, is_legacy, split_runs
from kfmt_cli.log.records import RecordColumns, read_lazy_v2_records, read_v2_records


def read_records(run: Block, limit: DecompressionLimit) -> RecordColumns:
    """Decode the records of a run, with findings about its batches' contents.

    Adds the base offset of each wrapper of magic 0 or 1 to the run's batches.
    """
    if not is_legacy(run):
        return read_v2_records(run, limit)
    from kfmt_cli.log.wrappers import read_messages

    return read_messages(run, limit)


def read_lazy_records(run: Block, limit: DecompressionLimit) -> RecordColumns:
    """`read_records`, but rows are decoded only when a check uses them."""
    return read_records(run, limit) if is_legacy(run) else read_lazy_v2_records(run, limit)


def iter_runs_with_base_offsets(block: Block, limit: DecompressionLimit) -> Iterator[Block]:
    """The runs of a block; fills each wrapper's base offset, which only decoding shows."""
    for run in split_runs(block):
        if is_legacy(run) and run.batches.compression.any():
            read_records(run, limit)
        yield run
