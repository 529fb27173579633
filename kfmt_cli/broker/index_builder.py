"""The indexes of a log as a broker rebuilds them in log recovery.

Source: `org.apache.kafka.storage.internals.log.LogSegment.recover`: a batch gets an entry if it
begins more than the interval after the last indexed one. The time index gets the largest timestamp
so far with each entry, and once more at the end.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.core.layout.layout import IntArray, Layout
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.block import NO_TIMESTAMP


class IndexBuilder:
    """Builds the two indexes of a log from its batches, added in order.

    n_offset_entries: the number of entries in the offset index so far. The running maximum of the
    timestamps only grows, so any change of it is an increase, even if the difference overflows an
    int64.
    """

    def __init__(
        self, base_offset: int, interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES
    ) -> None:
        self.base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._last_indexed_position = 0
        self._largest_timestamp = NO_TIMESTAMP
        self._largest_timestamp_offset = -1
        self._offset_entries: list[IntArray] = []
        self._time_entries: list[IntArray] = []
        self.n_offset_entries = 0
        self._n_time_entries = 0
        self._last_entry_timestamp = NO_TIMESTAMP

    def add(self, positions: IntArray, last_offsets: IntArray, max_timestamps: IntArray) -> None:
        """Add the next batches, by their positions in the log; a max_timestamp of -1 means none."""
        if not len(positions):
            return
        rows = self._indexed_rows(positions)
        if len(rows):
            self._last_indexed_position = int(positions[rows[-1]])
        timestamps = np.concatenate([[self._largest_timestamp], max_timestamps])
        running_max_timestamps = np.maximum.accumulate(timestamps)
        # The rows of the batches that first had the largest timestamp so far.
        first_rows = np.flatnonzero(
            np.diff(running_max_timestamps, prepend=running_max_timestamps[:1] - 1) != 0
        )
        offsets = np.concatenate([[self._largest_timestamp_offset], last_offsets])
        running_max_offsets = offsets[
            first_rows[
                np.searchsorted(first_rows, np.arange(len(running_max_timestamps)), "right") - 1
            ]
        ]
        if len(rows):
            self._offset_entries.append(np.array([last_offsets[rows], positions[rows]]))
            entry_timestamps = running_max_timestamps[rows + 1]
            self._time_entries.append(np.array([entry_timestamps, running_max_offsets[rows + 1]]))
            self.n_offset_entries += len(rows)
            self._n_time_entries += int(
                (np.diff(entry_timestamps, prepend=self._last_entry_timestamp) != 0).sum()
            )
            self._last_entry_timestamp = int(entry_timestamps[-1])
        self._largest_timestamp = int(running_max_timestamps[-1])
        self._largest_timestamp_offset = int(running_max_offsets[-1])

    def _indexed_rows(self, positions: IntArray) -> IntArray:
        """The rows of the next batches that get an entry: each the first that begins more than the
        interval after the last indexed one."""
        position_list = positions.tolist()
        last_position, rows = self._last_indexed_position, list[int]()
        row = bisect_right(position_list, last_position + self._interval_bytes)
        while row < len(position_list):
            rows.append(row)
            last_position = position_list[row]
            row = bisect_right(position_list, last_position + self._interval_bytes, row + 1)
        return np.array(rows, np.int64)

    def count_fitting_batches(
        self, positions: IntArray, max_timestamps: IntArray, index_bytes: int
    ) -> int:
        """The number of the next batches that fit before an index of `index_bytes` is full.

        Source: `AbstractIndex.isFull`, `TimeIndex.isFull`, which reserves one entry for the end.
        """
        free_offset_entries = (
            index_bytes // OFFSET_INDEX_ENTRY.dtype.itemsize - self.n_offset_entries
        )
        max_time_entries = index_bytes // TIME_INDEX_ENTRY.dtype.itemsize - 1
        if free_offset_entries <= 0 or max_time_entries <= self._n_time_entries:
            return 0
        if len(positions) < min(free_offset_entries, max_time_entries - self.n_offset_entries):
            return len(positions)
        rows = self._indexed_rows(positions)
        running_max_timestamps = np.maximum.accumulate(
            np.concatenate([[self._largest_timestamp], max_timestamps])
        )
        new_time_entry_counts = np.cumsum(
            np.diff(running_max_timestamps[rows + 1], prepend=self._last_entry_timestamp) != 0
        )
        is_full = (np.arange(1, len(rows) + 1) >= free_offset_entries) | (
            new_time_entry_counts + self._n_time_entries >= max_time_entries
        )
        full_indexes = np.flatnonzero(is_full)
        return int(rows[full_indexes[0]]) + 1 if len(full_indexes) else len(positions)

    def offset_index(self) -> bytes:
        """The content of `.index`."""
        offsets, positions = _concat_columns(self._offset_entries)
        columns = {"relative_offset": self._to_relative_offsets(offsets), "log_position": positions}
        return encode_fixed_rows(OFFSET_INDEX_ENTRY, columns)

    def time_index(self) -> bytes:
        """The content of `.timeindex`."""
        times, offsets = _concat_columns(
            [
                *self._time_entries,
                np.array([[self._largest_timestamp], [self._largest_timestamp_offset]]),
            ]
        )
        # Only a timestamp larger than the last entry's adds an entry.
        is_new = np.diff(times, prepend=NO_TIMESTAMP) != 0
        columns = {
            "timestamp": times[is_new],
            "relative_offset": self._to_relative_offsets(offsets[is_new]),
        }
        return encode_fixed_rows(TIME_INDEX_ENTRY, columns)

    def _to_relative_offsets(self, offsets: IntArray) -> IntArray:
        relative = offsets - self.base_offset
        if (
            len(relative)
            and not 0 <= int(relative.min()) <= int(relative.max()) <= MAX_RELATIVE_OFFSET
        ):
            raise InputError(
                f"offsets {offsets.min()}–{offsets.max()} are out of range for the index of a "
                f"segment with base offset {self.base_offset}"
            )
        return relative


def encode_fixed_rows(layout: Layout, columns: dict[str, IntArray]) -> bytes:
    """The concatenated rows of a fixed-size Layout."""
    rows = np.empty(len(next(iter(columns.values()))), layout.dtype)
    for name, values in columns.items():
        rows[name] = values
    return rows.tobytes()


def _concat_columns(entry_arrays: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty((2, 0), np.int64), *entry_arrays], axis=1)
