"""The part of a log that log recovery keeps.

The broker reads batch after batch and truncates the log at the first one it refuses. Here, whole
blocks are checked at once; `RecoverySegment.recover` applies the same rules batch by batch. Source:
`org.apache.kafka.storage.internals.log.LogSegment.recover`, `LogLoader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kfmt_cli.core.table import BoolArray
from kfmt_cli.findings.finding import has_errors, is_error
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.log.block import Block
from kfmt_cli.rows.log_tables import BatchTable


def iter_recovered_blocks(
    blocks: Iterable[Block], segment_base_offset: int
) -> Iterator[tuple[Block, int]]:
    """Each block of a log with the number of its batches that are kept.

    segment_base_offset: the base offset of the segment.
    """
    last_offset_before_block = segment_base_offset - 1
    is_truncated = False
    for block in blocks:
        n_recovered = (
            0
            if is_truncated
            else _count_recovered_batches(block, last_offset_before_block, segment_base_offset)
        )
        has_error = has_errors(block.findings)
        is_truncated |= n_recovered < len(block.batches) or has_error
        if n_recovered:
            last_offset_before_block = int(block.batches.last_offset[n_recovered - 1])
        yield block, n_recovered


def _count_recovered_batches(
    block: Block, last_offset_before_block: int, segment_base_offset: int
) -> int:
    """The number of batches in the block before the first refused one."""
    batches = block.batches
    n_recovered = len(batches)
    error_positions = [finding.position or 0 for finding in filter(is_error, block.findings)]
    if error_positions:
        n_recovered = int((batches.position < min(error_positions)).sum())
    refused_rows = np.flatnonzero(
        refused_batch_mask(batches, last_offset_before_block, segment_base_offset)
    )
    return min(n_recovered, int(refused_rows[0])) if len(refused_rows) else n_recovered


def refused_batch_mask(
    batches: BatchTable, last_offset_before_block: int, segment_base_offset: int
) -> BoolArray:
    """Which batches a recovering broker refuses.

    Their checksum does not match, or their offsets do not increase or are out of range. It checks
    neither the codec nor the number of records. last_offset_before_block: the offset before the
    first batch.
    """
    base_offsets, last_offsets = batches.base_offset, batches.last_offset
    previous_last_offsets = np.concatenate([[last_offset_before_block], last_offsets])[:-1]
    is_refused: BoolArray = (batches.crc_valid == 0) | (base_offsets <= previous_last_offsets)
    is_refused |= (batches.is_v2 == 1) & (batches.last_offset_delta < 0)
    return (
        is_refused
        | (base_offsets < segment_base_offset)
        | (last_offsets - segment_base_offset > MAX_RELATIVE_OFFSET)
    )
