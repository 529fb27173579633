"""Parts of a block: offsets from … to …, the first few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.files.block import Block
from kfmt_cli.files.records import Records


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets that are wanted, both ends included; None is no bound."""

    first: int | None = None
    last: int | None = None

    def __bool__(self) -> bool:
        return self.first is not None or self.last is not None

    def holds(self, offsets: IntArray) -> BoolArray:
        """Which of the offsets are wanted."""
        wanted = np.ones(len(offsets), np.bool_)
        if self.first is not None:
            wanted &= offsets >= self.first
        if self.last is not None:
            wanted &= offsets <= self.last
        return wanted


def select_batches(block: Block, wanted: OffsetRange) -> Block:
    """The block with only the batches that can hold a wanted offset."""
    batches = block.batches
    keep = np.ones(len(batches), np.bool_)
    if wanted.first is not None:
        keep &= batches["last_offset"] >= wanted.first
    if wanted.last is not None:
        # The first offset of a wrapper that was not decoded is unknown: it may be any lower one.
        keep &= (batches["base_offset"] <= wanted.last) | (batches["has_base_offset"] == 0)
    if keep.all():
        return block
    return replace(block, batches=batches.select(keep))


def select_records(records: Records, wanted: OffsetRange) -> Records:
    """The records with wanted offsets, beneath the same batches."""
    offset = records.rows["offset"]
    keep = np.ones(len(offset), np.bool_)
    if wanted.first is not None:
        keep &= offset >= wanted.first
    if wanted.last is not None:
        keep &= offset <= wanted.last
    if keep.all():
        return records
    kept = np.concatenate([[0], np.cumsum(keep)])
    return replace(records, rows=records.rows.select(keep), ends=kept[records.ends])


def first_batches(block: Block, limit: int) -> Block:
    """The block with its first batches only, and nothing found behind them."""
    if len(block.batches) <= limit:
        return block
    end = int(block.batches["position"][limit])
    findings = [it for it in block.findings if it.position is None or it.position < end]
    return replace(block, batches=block.batches.select(slice(0, limit)), findings=findings)


def first_records(block: Block, records: Records, limit: int) -> tuple[Block, Records]:
    """The first records and the batches that hold them."""
    if len(records.rows) <= limit:
        return block, records
    n_batches = int(np.searchsorted(records.ends, limit)) + 1
    rows = Table(records.rows.names, np.ascontiguousarray(records.rows.data[:, :limit]))
    ends = records.ends[:n_batches].clip(0, limit)
    batches = first_batches(block, n_batches)
    return batches, replace(records, rows=rows, ends=ends, findings=[])
