"""Log recovery, block by block: the part of a log that it keeps, and the indexes that it rebuilds.

The broker reads batch after batch and truncates the log at the first one it refuses; a batch gets
an index entry if it begins more than the interval after the last indexed one. The time index gets
the largest timestamp so far with each entry, and once more at the end. This is the fast way, for
writing indexes: a log with decreasing offsets, which a broker may keep, ends before them.
`RecoverySegment.recover` is the exact one, for predictions, and takes ten times as long for small
batches. Source: `org.apache.kafka.storage.internals.log.LogSegment.recover`, `LogLoader`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import numpy as np

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.core.layout.layout import IntArray, Layout
from kfmt_cli.core.table import BoolArray
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import has_errors, is_error
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.block import NO_TIMESTAMP, Block
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
        _refused_batch_mask(batches, last_offset_before_block, segment_base_offset)
    )
    return min(n_recovered, int(refused_rows[0])) if len(refused_rows) else n_recovered


def _refused_batch_mask(
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


class IndexBuilder:
    """Builds the two indexes of a log from its batches, added in order.

    n_offset_entries: the number of entries in the offset index so far. The running maximum of the
    timestamps only grows, so any change of it is an increase, even if the difference overflows an
    int64.
    """

    def __init__(
        self, base_offset: int, index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES
    ) -> None:
        self.base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._last_indexed_position = 0
        self._largest_timestamp = NO_TIMESTAMP
        self._largest_timestamp_offset = -1
        self._offset_entry_arrays: list[IntArray] = []
        self._time_entry_arrays: list[IntArray] = []
        self.n_offset_entries = 0
        self._n_time_entries = 0
        self._last_time_entry_timestamp = NO_TIMESTAMP

    def add_batches(
        self, positions: IntArray, last_offsets: IntArray, max_timestamps: IntArray
    ) -> None:
        """Add the next batches, by their positions in the log; a max_timestamp of -1 means none."""
        if not len(positions):
            return
        indexed_rows = self._indexed_rows(positions)
        if len(indexed_rows):
            self._last_indexed_position = int(positions[indexed_rows[-1]])
        timestamps = np.concatenate([[self._largest_timestamp], max_timestamps])
        running_max_timestamps = np.maximum.accumulate(timestamps)
        # The rows of the batches that first had the largest timestamp so far.
        new_max_rows = np.flatnonzero(
            np.diff(running_max_timestamps, prepend=running_max_timestamps[:1] - 1) != 0
        )
        timestamp_offsets = np.concatenate([[self._largest_timestamp_offset], last_offsets])
        max_timestamp_offsets = timestamp_offsets[
            new_max_rows[
                np.searchsorted(new_max_rows, np.arange(len(running_max_timestamps)), "right") - 1
            ]
        ]
        if len(indexed_rows):
            self._offset_entry_arrays.append(
                np.array([last_offsets[indexed_rows], positions[indexed_rows]])
            )
            entry_timestamps = running_max_timestamps[indexed_rows + 1]
            self._time_entry_arrays.append(
                np.array([entry_timestamps, max_timestamp_offsets[indexed_rows + 1]])
            )
            self.n_offset_entries += len(indexed_rows)
            self._n_time_entries += int(
                (np.diff(entry_timestamps, prepend=self._last_time_entry_timestamp) != 0).sum()
            )
            self._last_time_entry_timestamp = int(entry_timestamps[-1])
        self._largest_timestamp = int(running_max_timestamps[-1])
        self._largest_timestamp_offset = int(max_timestamp_offsets[-1])

    def _indexed_rows(self, positions: IntArray) -> IntArray:
        """The rows of the next batches that get an entry: each the first that begins more than the
        interval after the last indexed one."""
        position_list = positions.tolist()
        last_indexed_position, indexed_rows = self._last_indexed_position, list[int]()
        row = bisect_right(position_list, last_indexed_position + self._index_interval_bytes)
        while row < len(position_list):
            indexed_rows.append(row)
            last_indexed_position = position_list[row]
            row = bisect_right(
                position_list, last_indexed_position + self._index_interval_bytes, row + 1
            )
        return np.array(indexed_rows, np.int64)

    def count_fitting_batches(
        self, positions: IntArray, max_timestamps: IntArray, max_index_bytes: int
    ) -> int:
        """The number of the next batches that fit before an index of `max_index_bytes` is full.

        Source: `AbstractIndex.isFull`, `TimeIndex.isFull`, which reserves one entry for the end.
        """
        n_free_offset_entries = (
            max_index_bytes // OFFSET_INDEX_ENTRY.dtype.itemsize - self.n_offset_entries
        )
        max_time_entries = max_index_bytes // TIME_INDEX_ENTRY.dtype.itemsize - 1
        if n_free_offset_entries <= 0 or max_time_entries <= self._n_time_entries:
            return 0
        if len(positions) < min(n_free_offset_entries, max_time_entries - self.n_offset_entries):
            return len(positions)
        indexed_rows = self._indexed_rows(positions)
        running_max_timestamps = np.maximum.accumulate(
            np.concatenate([[self._largest_timestamp], max_timestamps])
        )
        new_time_entry_counts = np.cumsum(
            np.diff(
                running_max_timestamps[indexed_rows + 1], prepend=self._last_time_entry_timestamp
            )
            != 0
        )
        is_index_full = (np.arange(1, len(indexed_rows) + 1) >= n_free_offset_entries) | (
            new_time_entry_counts + self._n_time_entries >= max_time_entries
        )
        filling_entry_numbers = np.flatnonzero(is_index_full)
        return (
            int(indexed_rows[filling_entry_numbers[0]]) + 1
            if len(filling_entry_numbers)
            else len(positions)
        )

    def encode_offset_index(self) -> bytes:
        """The content of `.index`."""
        offsets, positions = _concat_entries(self._offset_entry_arrays)
        values_by_column = {
            "relative_offset": self._to_relative_offsets(offsets),
            "log_position": positions,
        }
        return encode_fixed_size_rows(OFFSET_INDEX_ENTRY, values_by_column)

    def encode_time_index(self) -> bytes:
        """The content of `.timeindex`."""
        timestamps, offsets = _concat_entries(
            [
                *self._time_entry_arrays,
                np.array([[self._largest_timestamp], [self._largest_timestamp_offset]]),
            ]
        )
        # Only a timestamp larger than the last entry's adds an entry.
        is_increase = np.diff(timestamps, prepend=NO_TIMESTAMP) != 0
        values_by_column = {
            "timestamp": timestamps[is_increase],
            "relative_offset": self._to_relative_offsets(offsets[is_increase]),
        }
        return encode_fixed_size_rows(TIME_INDEX_ENTRY, values_by_column)

    def _to_relative_offsets(self, offsets: IntArray) -> IntArray:
        relative_offsets = offsets - self.base_offset
        if (
            len(relative_offsets)
            and not 0
            <= int(relative_offsets.min())
            <= int(relative_offsets.max())
            <= MAX_RELATIVE_OFFSET
        ):
            raise InputError(
                f"offsets {offsets.min()}–{offsets.max()} are out of range for the index of a "
                f"segment with base offset {self.base_offset}"
            )
        return relative_offsets


def encode_fixed_size_rows(layout: Layout, values_by_column: dict[str, IntArray]) -> bytes:
    """The concatenated rows of a fixed-size Layout."""
    rows = np.empty(len(next(iter(values_by_column.values()))), layout.dtype)
    for column_name, column_values in values_by_column.items():
        rows[column_name] = column_values
    return rows.tobytes()


def _concat_entries(entry_arrays: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty((2, 0), np.int64), *entry_arrays], axis=1)
