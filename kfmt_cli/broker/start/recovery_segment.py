"""A segment as a starting broker opens, recovers and measures it.

Source: `org.apache.kafka.storage.internals.log.LogSegment` (`recover`, `readNextOffset`,
`translateOffset`), `OffsetIndex`, `TimeIndex`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kfmt_cli.broker.offsets.lookup import WARM_SECTION_BYTES, find_floor_entry
from kfmt_cli.broker.start.batch_walker import BatchWalker
from kfmt_cli.broker.start.consumer import read_base_offset, wrapper_first_offset
from kfmt_cli.broker.start.stored_batches import (
    CorruptError,
    LogBytes,
    StartError,
    StoredBatch,
    is_batch_valid,
    iter_stored_batches,
    wrap_int64,
)
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.kinds.kind import InputFile, read_without_padding
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY

NO_TIME_ENTRY = (-1, -1)
MAX_INDEX_BYTES = 1 << 30


class OffsetOverflow(Exception):  # noqa: N818 (Kafka's LogSegmentOffsetOverflowException)
    """An offset is out of range for the segment's indexes."""


class InvalidOffset(Exception):  # noqa: N818 (Kafka's InvalidOffsetException)
    """An entry's offset is not greater than the previous entry's."""


class IndexColumn:
    """A column of an index, including the zeros of its preallocated end, which use no memory.

    filled: the values before the zeros. n: the number of values with the zeros. fill: the value of
    a zero.
    """

    def __init__(self, filled: IntArray, n_values: int, zero_value: int) -> None:
        self.filled = filled
        self._n_values = n_values
        self._zero_value = zero_value

    def __len__(self) -> int:
        return self._n_values

    def __getitem__(self, i: int) -> int:
        i = i if i >= 0 else self._n_values + i
        return int(self.filled[i]) if i < len(self.filled) else self._zero_value


class RecoverySegment:
    """A log and its offset index, in memory only: nothing is changed on the disk.

    name: the name of the log file. start_position, size: the start and end of the remaining bytes
    in the file. unchanged_end_offset: the end offset of a log that recovery leaves unchanged, None
    if it must be read batch by batch. index_file: the file of the offset index, None if missing.
    is_recovered: whether the index has been rebuilt. time_entries: the entries of the rebuilt time
    index, each a timestamp and an offset.
    """

    def __init__(
        self,
        base: int,
        name: str,
        path: str,
        size: int,
        unchanged_end_offset: int | None,
        version: KafkaVersion,
    ) -> None:
        self.base = base
        self.name = name
        self.path = path
        self.start_position = 0
        self.size = self.original_size = size
        self.unchanged_end_offset = unchanged_end_offset
        self.version = version
        self.index_file: InputFile | None = None
        self.has_index_directory = False  # a directory has the name of the index
        self.is_recovered = False
        self.time_entries: list[tuple[int, int]] = []
        self._entries: tuple[IndexColumn, IndexColumn] | None = None
        self._bytes: LogBytes | None = None

    @classmethod
    def create_empty(cls, base: int, name: str, version: KafkaVersion) -> RecoverySegment:
        """An empty segment that the broker creates."""
        segment = cls(base, name, "", 0, base, version)
        segment.is_recovered = True
        return segment

    def split_at(self, base: int, start_position: int) -> RecoverySegment:
        """A new segment that begins at a byte of this one."""
        segment = RecoverySegment(base, self.name, self.path, start_position, None, self.version)
        segment.start_position = start_position
        segment.original_size = self.original_size if base == self.base else start_position
        return segment

    @property
    def log_bytes(self) -> LogBytes:
        """The log's bytes; raises InputError."""
        if self._bytes is None:
            self._bytes = LogBytes(self.path, self.name)
        return self._bytes

    def close(self) -> None:
        """Close the file."""
        if self._bytes is not None:
            self._bytes.close()
            self._bytes = None

    @property
    def entries(self) -> tuple[IndexColumn, IndexColumn]:
        """Offsets and positions of the index, including the zeros at its end.

        Raises InputError, and StartError if a directory has its name.
        """
        if self.has_index_directory:
            message = f"{self.name}: a directory has the name of its index"
            raise StartError(message, is_offline=True)
        if self._entries is None:
            data, size = b"", 0
            if self.index_file is not None:
                data, size = read_without_padding(self.index_file, MAX_INDEX_BYTES)
            entry_bytes = OFFSET_INDEX_ENTRY.dtype.itemsize
            data = data.rstrip(b"\0")
            data += bytes(-len(data) % entry_bytes)
            n_entries = size // entry_bytes
            rows = np.frombuffer(
                data, OFFSET_INDEX_ENTRY.dtype, min(len(data) // entry_bytes, n_entries)
            )
            offsets = rows["relative_offset"].astype(np.int64) + self.base
            positions = rows["log_position"].astype(np.int64)
            self._entries = (
                IndexColumn(offsets, n_entries, self.base),
                IndexColumn(positions, n_entries, 0),
            )
        return self._entries

    def iter_batches(
        self, start: int | None = None, *, is_recovery: bool = False
    ) -> Iterator[StoredBatch]:
        """The batches from a byte onward, as a broker steps over them."""
        start = self.start_position if start is None else start
        if start >= self.size:
            return iter(())
        return iter_stored_batches(self.log_bytes, start, self.size, is_recovery=is_recovery)

    @property
    def is_legacy(self) -> bool:
        """Whether it has only messages of magic 0 and 1, which recovery does not count in the
        producer state."""
        first_batch = next(self.iter_batches(), None)
        if first_batch is None or first_batch.magic >= 2:
            return False
        return all(batch.magic < 2 for batch in self.iter_batches())

    def recover(self, index_interval_bytes: int, on_batch: Callable[[StoredBatch], None]) -> int:
        """Recover the segment like a broker; returns the number of bytes truncated.

        on_batch: called with each batch of magic 2 that is kept. Raises OffsetOverflow,
        InvalidOffset.
        """
        if self.has_index_directory:
            _ = self.entries
        entries: list[tuple[int, int]] = []
        self.time_entries = []
        largest_time_entry = NO_TIME_ENTRY
        valid_bytes = last_index_position = self.start_position
        try:
            for batch in self.iter_batches(is_recovery=True):
                if not is_batch_valid(self.log_bytes, batch):
                    break
                if not self.can_hold(batch):
                    raise OffsetOverflow
                if batch.max_timestamp > largest_time_entry[0]:
                    largest_time_entry = batch.max_timestamp, batch.last_offset
                if valid_bytes - last_index_position > index_interval_bytes:
                    if entries and batch.last_offset <= entries[-1][0]:
                        raise InvalidOffset(_decreasing_offset_message(self.name, batch.position))
                    entries.append((batch.last_offset, valid_bytes))
                    self._append_time_entry(largest_time_entry)
                    last_index_position = valid_bytes
                valid_bytes += batch.size
                if batch.magic >= 2:
                    on_batch(batch)
        except CorruptError:
            pass
        finally:
            self._set_entries(entries)
        truncated_bytes = self.size - valid_bytes
        self.size = valid_bytes
        self._append_time_entry(largest_time_entry)
        return truncated_bytes

    def can_hold(self, batch: StoredBatch) -> bool:
        """Whether a batch's last offset is in range for the segment's index."""
        return 0 <= wrap_int64(batch.last_offset - self.base) <= MAX_RELATIVE_OFFSET

    def _append_time_entry(self, entry: tuple[int, int]) -> None:
        """Add an entry to the time index if its timestamp is greater than the last one's. Raises
        InvalidOffset, StartError."""
        last_entry = self.time_entries[-1] if self.time_entries else (-1, self.base)
        if self.time_entries and entry[1] < last_entry[1]:
            raise InvalidOffset(_decreasing_offset_message(self.name, None))
        if self.time_entries and entry[0] < last_entry[0]:
            raise StartError(f"{self.name}: timestamps decrease")
        if entry[0] > last_entry[0]:
            self.time_entries.append(entry)

    def first_offset(self, batch: StoredBatch) -> int:
        """The first offset of a batch; for a wrapper, its first message's."""
        if batch.magic >= 2:
            return batch.base_offset
        last_offset = batch.last_offset
        first = wrapper_first_offset(self.log_bytes.read(batch.position, batch.size), last_offset)
        return last_offset if first is None else first

    def _set_entries(self, entries: list[tuple[int, int]]) -> None:
        rows = np.array(entries, np.int64).reshape(-1, 2)
        self._entries = IndexColumn(rows[:, 0], len(rows), 0), IndexColumn(rows[:, 1], len(rows), 0)

    def truncate_to_base(self) -> int:
        """Truncate at the batch found for the base offset, if any; returns the bytes truncated."""
        first_batch = self.translate_offset(self.base)
        if first_batch is None:
            return 0
        truncated_bytes = self.size - first_batch.position
        self.size = first_batch.position
        self._set_entries([])
        self.time_entries = []
        return truncated_bytes

    def lookup_position(self, offset: int) -> int:
        """The byte that the index returns for an offset."""
        n_warm = WARM_SECTION_BYTES // OFFSET_INDEX_ENTRY.dtype.itemsize
        offsets, positions = self.entries
        entry = find_floor_entry(offsets, offset, n_warm)
        return self.start_position if entry is None else max(positions[entry], self.start_position)

    def translate_offset(self, offset: int) -> StoredBatch | None:
        """The batch that a broker finds for an offset, from the index entry onward.

        Raises CorruptError, StartError.
        """
        walker = self.walker_from(self.lookup_position(offset))
        row, error = walker.find_row_or_error(offset)
        if error is not None:
            raise error
        return None if row is None else walker.batches[row]

    def walker_from(self, start: int) -> BatchWalker:
        """A walker over the batches from a byte onward."""
        stored_batches = self.iter_batches(start)
        return BatchWalker(
            stored_batches, self.version, lambda batch: read_base_offset(self.log_bytes, batch)
        )

    @property
    def end_offset(self) -> int:
        """The segment's end offset for a broker; raises CorruptError."""
        if self.unchanged_end_offset is not None and self.is_recovered:
            return self.unchanged_end_offset
        return self.next_offset

    @property
    def next_offset(self) -> int:
        """The end offset that a broker reads from the segment's batches; raises CorruptError."""
        offsets, _ = self.entries
        if self.start_position >= self.size:
            return self.base
        last_indexed_offset = offsets[-1] if len(offsets) else self.base
        last_indexed_batch = self.translate_offset(last_indexed_offset)
        if last_indexed_batch is None:
            return self.base
        end = self.base
        for batch in self.iter_batches(last_indexed_batch.position):
            end = wrap_int64(batch.last_offset + 1)
        return end


def _decreasing_offset_message(name: str, position: int | None) -> str:
    location = "" if position is None else f" byte {position}"
    return f"{name}{location}: an offset not greater than the last index entry's"
