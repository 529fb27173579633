"""The offsets in a range of a log."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.log.block import Block
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.offset_order import in_order_mask


@dataclass(slots=True)
class OffsetRange:
    """The offsets of the undamaged batches in a range of a log.

    first, last: None if there are no such batches. has_holes: some offsets between the two have no
    record, for example after compaction.
    """

    first: int | None = None
    last: int | None = None
    has_holes: bool = False

    def add_batches(self, run: Block, records: RecordColumns | None) -> None:
        """Add a run of batches. records: the run's records, if decoded."""
        batches = run.batches
        base_offsets, last_offsets = batches.base_offset, batches.last_offset
        is_in_order = in_order_mask(batches, 0 if self.last is None else self.last + 1)
        if not is_in_order.any():
            return
        record_counts = batches.records_count if records is None else records.row_counts
        if not is_in_order.all():
            base_offsets = base_offsets[is_in_order]
            last_offsets = last_offsets[is_in_order]
            record_counts = record_counts[is_in_order]
        has_gaps = bool(
            (record_counts < last_offsets - base_offsets + 1).any()
            or (base_offsets[1:] > last_offsets[:-1] + 1).any()
        )
        self.merge_later_range(OffsetRange(int(base_offsets[0]), int(last_offsets[-1]), has_gaps))

    def merge_later_range(self, later_range: OffsetRange) -> None:
        """Add the offsets of the following range."""
        if later_range.first is None:
            return
        if self.last is not None and later_range.first > self.last + 1:
            self.has_holes = True
        self.has_holes |= later_range.has_holes
        self.first = later_range.first if self.first is None else self.first
        self.last = later_range.last
