"""The undamaged batches of a log, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.broker.log_reading.offset_intervals import OffsetIntervals, merge_intervals
from kfmt_cli.core.layout.layout import IntArray


@dataclass(frozen=True, slots=True)
class UndamagedBatches:
    """The undamaged batches of a log, ordered by position; one array element per batch."""

    base_offset: int
    """The base offset in the file's name."""
    position: IntArray
    size: IntArray
    first_offset: IntArray
    last_offset: IntArray
    crc: IntArray
    leader_epoch: IntArray
    """Leader epochs, -1 if unknown."""
    is_replacement: bool = False
    """Whether the log is a completed replacement, which a broker swaps in for other segments."""

    def select_offset_range(self, min_last_offset: int, end_offset: int) -> UndamagedBatches:
        """The batches with last offsets in [low, end)."""
        mask = (self.last_offset >= min_last_offset) & (self.last_offset < end_offset)
        names = ("position", "size", "first_offset", "last_offset", "crc", "leader_epoch")
        return replace(self, **{column: getattr(self, column)[mask] for column in names})

    @property
    def offset_intervals(self) -> OffsetIntervals:
        """The first and last offset of each batch."""
        return list(zip(self.first_offset.tolist(), self.last_offset.tolist(), strict=True))

    def _rows_in_byte_range(self, position: int, n_bytes: int) -> IntArray:
        """The rows of the batches that begin in a byte range of the log."""
        return np.flatnonzero((self.position >= position) & (self.position < position + n_bytes))

    def offset_intervals_in_bytes(self, position: int, n_bytes: int) -> OffsetIntervals:
        """The offsets of the batches that begin in a byte range of the log, merged."""
        rows = self._rows_in_byte_range(position, n_bytes)
        return merge_intervals(
            zip(self.first_offset[rows].tolist(), self.last_offset[rows].tolist(), strict=True)
        )

    def epochs_in_byte_range(self, position: int, n_bytes: int) -> list[tuple[int, int]]:
        """The leader epochs in a byte range of the log, each with its first offset."""
        rows = self._rows_in_byte_range(position, n_bytes)
        first_rows = rows[np.diff(self.leader_epoch[rows], prepend=-2) != 0]
        epochs, first_offsets = self.leader_epoch[first_rows], self.first_offset[first_rows]
        return list(zip(epochs.tolist(), first_offsets.tolist(), strict=True))
