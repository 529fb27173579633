"""Finds the batches of a log whose offsets are plausible."""

from __future__ import annotations

import numpy as np

from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.table import BoolArray
from kfmt_cli.rows.log_tables import BatchTable


def in_order_mask(batches: BatchTable, log_end_offset: int = 0) -> BoolArray:
    """Which batches are undamaged and have offsets that agree with the batches around them.

    The checksum does not cover the base offset, so that a batch may be undamaged and in the wrong
    place. A wrapper's base offset is known only once it is decompressed. log_end_offset: the offset
    after the last batch before these.
    """
    is_undamaged: BoolArray = (batches.crc_valid == 1) & (
        batches.last_offset >= batches.base_offset
    )
    rows = np.flatnonzero(is_undamaged & (batches.is_v2 == 1))
    if not len(rows):
        return is_undamaged
    base_offsets, last_offsets = batches.base_offset[rows], batches.last_offset[rows]
    next_offsets = np.append(base_offsets, MAX_OFFSET)[1:]
    previous_ends = np.append(log_end_offset, last_offsets + 1)[:-1]
    is_too_high = (next_offsets <= last_offsets) & (
        next_offsets - previous_ends >= last_offsets - base_offsets + 1  # it fits between them
    )
    end_offsets = np.where(is_too_high, log_end_offset, last_offsets + 1)
    min_offsets = np.maximum.accumulate(np.append(log_end_offset, end_offsets))[:-1]
    is_undamaged[rows] = ~is_too_high & (base_offsets >= min_offsets)
    return is_undamaged
