"""The offsets in a stretch of a log."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records


@dataclass(slots=True)
class Extent:
    """first, last: offsets of its batches, None if it has no undamaged ones. has_holes: some
    offsets between the two have no record, for example after compaction."""

    first: int | None = None
    last: int | None = None
    has_holes: bool = False

    def take(self, run: Block, records: Records | None) -> None:
        """Add a run of batches. records: the run's records, if decoded."""
        batches = run.batches
        base, last = batches.base_offset, batches.last_offset
        # The checksum does not cover the offset: a batch that ends before it begins is damaged.
        sane = (batches.crc_valid == 1) & (last >= base)
        if not sane.any():
            return
        counts = batches.records_count if records is None else records.counts
        if not sane.all():
            base, last, counts = base[sane], last[sane], counts[sane]
        holes = bool((counts < last - base + 1).any() or (base[1:] > last[:-1] + 1).any())
        self.join(Extent(int(base[0]), int(last[-1]), holes))

    def join(self, other: Extent) -> None:
        """Add the extent of the following stretch."""
        if other.first is None:
            return
        if self.last is not None and other.first > self.last + 1:
            self.has_holes = True
        self.has_holes |= other.has_holes
        self.first = other.first if self.first is None else self.first
        self.last = other.last
