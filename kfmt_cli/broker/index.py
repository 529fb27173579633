"""The indexes of a log as a broker rebuilds them in log recovery.

Source: `org.apache.kafka.storage.internals.log.LogSegment.recover`: a batch gets an entry if it
begins more than the interval after the last indexed one. The time index gets the largest timestamp
so far with each entry, and once more at the end.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.core.layout.layout import IntArray, Layout
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.block import NO_TIMESTAMP


class IndexBuilder:
    """Builds the two indexes of a log from its batches, added in order.

    n_entries: entries in the offset index so far. The largest timestamp so far never decreases, so
    that it grows where it changes; by how much may be more than an int64 can be.
    """

    def __init__(self, base_offset: int, interval: int = INDEX_INTERVAL_BYTES) -> None:
        self.base_offset = base_offset
        self._interval = interval
        self._indexed = 0
        self._largest = NO_TIMESTAMP
        self._largest_offset = -1
        self._offsets: list[IntArray] = []
        self._times: list[IntArray] = []
        self.n_entries = 0
        self._n_times = 0
        self._last_time = NO_TIMESTAMP

    def add(self, positions: IntArray, last_offset: IntArray, max_timestamp: IntArray) -> None:
        """Add the next batches, by their positions in the log; a max_timestamp of -1 means none."""
        if not len(positions):
            return
        rows = np.array(self._choose(positions), np.int64)
        earlier = np.concatenate([[self._largest], max_timestamp])
        largest = np.maximum.accumulate(earlier)
        # The batch that first had the largest timestamp so far.
        first = np.flatnonzero(np.diff(largest, prepend=largest[:1] - 1) != 0)
        offsets = np.concatenate([[self._largest_offset], last_offset])
        of_largest = offsets[first[np.searchsorted(first, np.arange(len(largest)), "right") - 1]]
        if len(rows):
            self._offsets.append(np.array([last_offset[rows], positions[rows]]))
            times = largest[rows + 1]
            self._times.append(np.array([times, of_largest[rows + 1]]))
            self.n_entries += len(rows)
            self._n_times += int((np.diff(times, prepend=self._last_time) != 0).sum())
            self._last_time = int(times[-1])
        self._largest = int(largest[-1])
        self._largest_offset = int(of_largest[-1])

    def _choose(self, positions: IntArray) -> list[int]:
        """The rows of the batches that get an entry."""
        places = positions.tolist()
        rows: list[int] = []
        row = bisect_right(places, self._indexed + self._interval)
        while row < len(places):
            rows.append(row)
            self._indexed = places[row]
            row = bisect_right(places, self._indexed + self._interval, row + 1)
        return rows

    def room(self, positions: IntArray, max_timestamp: IntArray, index_bytes: int) -> int:
        """The number of next batches that fit before an index of `index_bytes` is full.

        Source: `AbstractIndex.isFull`, `TimeIndex.isFull`, which reserves one entry for the end.
        """
        most_offsets = index_bytes // OFFSET_INDEX_ENTRY.dtype.itemsize - self.n_entries
        most_times = index_bytes // TIME_INDEX_ENTRY.dtype.itemsize - 1
        if most_offsets <= 0 or most_times <= self._n_times:
            return 0
        if len(positions) < min(most_offsets, most_times - self.n_entries):
            return len(positions)
        indexed = self._indexed
        rows = np.array(self._choose(positions), np.int64)
        self._indexed = indexed
        largest = np.maximum.accumulate(np.concatenate([[self._largest], max_timestamp]))
        times = np.cumsum(np.diff(largest[rows + 1], prepend=self._last_time) != 0)
        full = (np.arange(1, len(rows) + 1) >= most_offsets) | (times + self._n_times >= most_times)
        first = np.flatnonzero(full)
        return int(rows[first[0]]) + 1 if len(first) else len(positions)

    def offset_index(self) -> bytes:
        """The content of `.index`."""
        offsets, positions = _joined(self._offsets)
        columns = {"relative_offset": self._relative(offsets), "log_position": positions}
        return fixed_rows(OFFSET_INDEX_ENTRY, columns)

    def time_index(self) -> bytes:
        """The content of `.timeindex`."""
        times, offsets = _joined(
            [*self._times, np.array([[self._largest], [self._largest_offset]])]
        )
        # Only a timestamp larger than the last entry's adds an entry.
        new = np.diff(times, prepend=NO_TIMESTAMP) != 0
        columns = {"timestamp": times[new], "relative_offset": self._relative(offsets[new])}
        return fixed_rows(TIME_INDEX_ENTRY, columns)

    def _relative(self, offsets: IntArray) -> IntArray:
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


def fixed_rows(layout: Layout, columns: dict[str, IntArray]) -> bytes:
    """The concatenated rows of a fixed-size Layout."""
    rows = np.empty(len(next(iter(columns.values()))), layout.dtype)
    for name, values in columns.items():
        rows[name] = values
    return rows.tobytes()


def _joined(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty((2, 0), np.int64), *parts], axis=1)
