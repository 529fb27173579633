"""The part of a log that log recovery keeps.

The broker reads batch after batch and truncates the log at the first one it refuses. Source:
`org.apache.kafka.storage.internals.log.LogSegment.recover`, `LogLoader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.findings.finding import has_errors, is_error
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.log.block import Block
from kfmt_cli.rows.log_tables import BatchTable


def kept(blocks: Iterable[Block], base_offset: int) -> Iterator[tuple[Block, int]]:
    """Each block of a log with the number of its batches that are kept.

    base_offset: the segment's.
    """
    last = base_offset - 1
    is_cut = False
    for block in blocks:
        n = 0 if is_cut else _before_cut(block, last, base_offset)
        stopped = has_errors(block.findings)
        is_cut |= n < len(block.batches) or stopped
        if n:
            last = int(block.batches.last_offset[n - 1])
        yield block, n


def _before_cut(block: Block, last: int, base_offset: int) -> int:
    """The number of batches in the block before the first refused one."""
    batches = block.batches
    n = len(batches)
    stops = [finding.position or 0 for finding in filter(is_error, block.findings)]
    if stops:
        n = int((batches.position < min(stops)).sum())
    refused = np.flatnonzero(is_refused(batches, last, base_offset))
    return min(n, int(refused[0])) if len(refused) else n


def is_refused(batches: BatchTable, last: int, base_offset: int) -> BoolArray:
    """Which batches a recovering broker refuses.

    Their checksum does not match, or their offsets do not increase or are out of range. It checks
    neither the codec nor the number of records. last: the offset before the first batch.
    """
    base, end = batches.base_offset, batches.last_offset
    before = np.concatenate([[last], end])[:-1]
    refused: BoolArray = (batches.crc_valid == 0) | (base <= before)
    refused |= (batches.is_v2 == 1) & (batches.last_offset_delta < 0)
    return refused | (base < base_offset) | (end - base_offset > MAX_RELATIVE_OFFSET)
