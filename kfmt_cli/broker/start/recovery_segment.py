"""A segment as a starting broker opens, recovers and measures it.

Source: `org.apache.kafka.storage.internals.log.LogSegment` (`recover`, `readNextOffset`,
`translateOffset`), `OffsetIndex`, `TimeIndex`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kfmt_cli.broker.log_reading.batch_walker import BatchWalker
from kfmt_cli.broker.log_reading.consumer import read_base_offset, read_wrapper_first_offset
from kfmt_cli.broker.log_reading.lookup import WARM_SECTION_BYTES, find_floor_row
from kfmt_cli.broker.log_reading.not_files import Access, check_access
from kfmt_cli.broker.log_reading.stored_batches import (
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
from kfmt_cli.disk.directory_listing import DirectoryListing
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

    stored_values: the values before the zeros. n: the number of values with the zeros. fill: the
    value of a zero.
    """

    def __init__(self, stored_values: IntArray, n_values: int, zero_value: int) -> None:
        self.stored_values = stored_values
        self._n_values = n_values
        self._zero_value = zero_value

    def __len__(self) -> int:
        return self._n_values

    def __getitem__(self, entry_number: int) -> int:
        entry_number = entry_number if entry_number >= 0 else self._n_values + entry_number
        return (
            int(self.stored_values[entry_number])
            if entry_number < len(self.stored_values)
            else self._zero_value
        )


class RecoverySegment:
    """A log and its offset index, in memory only: nothing is changed on the disk.

    log_name: the name of the log file. start_position, size: the start and end of the remaining
    bytes in the file. unchanged_end_offset: the end offset of a log that recovery leaves unchanged,
    None if it must be read batch by batch. index_file: the file of the offset index, None if
    missing. directory: the directory in which its indexes are opened, None for unfinished
    replacements. is_recovered: whether the index has been rebuilt. time_entries: the entries of the
    rebuilt time index, each a timestamp and an offset. aborted_transactions: those of the rebuilt
    transaction index.
    """

    def __init__(
        self,
        base_offset: int,
        log_name: str,
        path: str,
        size: int,
        unchanged_end_offset: int | None,
        kafka_version: KafkaVersion,
    ) -> None:
        self.base_offset = base_offset
        self.log_name = log_name
        self.path = path
        self.start_position = 0
        self.size = self.original_size = size
        self.unchanged_end_offset = unchanged_end_offset
        self.kafka_version = kafka_version
        self.index_file: InputFile | None = None
        self.directory: DirectoryListing | None = None
        self.is_recovered = False
        self.time_entries: list[tuple[int, int]] = []
        self.aborted_transactions: list[dict[str, int]] = []
        self._index_columns: tuple[IndexColumn, IndexColumn] | None = None
        self._log_bytes: LogBytes | None = None

    @classmethod
    def create_empty(
        cls, directory: DirectoryListing, base_offset: int, kafka_version: KafkaVersion
    ) -> RecoverySegment:
        """An empty segment that the broker creates; raises FileAccessError if it cannot."""
        log_name = f"{base_offset:020}.log"
        check_access(directory, log_name, Access.OPEN)
        display_name = directory.input_file(log_name).name
        segment = cls(base_offset, display_name, "", 0, base_offset, kafka_version)
        segment.directory = directory
        segment.is_recovered = True
        return segment

    def create_part(self, base_offset: int, start_position: int) -> RecoverySegment:
        """A new segment that begins at a byte of this one."""
        segment = RecoverySegment(
            base_offset, self.log_name, self.path, start_position, None, self.kafka_version
        )
        segment.directory = self.directory
        segment.start_position = start_position
        segment.original_size = (
            self.original_size if base_offset == self.base_offset else start_position
        )
        return segment

    @property
    def log_bytes(self) -> LogBytes:
        """The log's bytes; raises InputError."""
        if self._log_bytes is None:
            self._log_bytes = LogBytes(self.path, self.log_name)
        return self._log_bytes

    def close(self) -> None:
        """Close the file."""
        if self._log_bytes is not None:
            self._log_bytes.close()
            self._log_bytes = None

    @property
    def index_columns(self) -> tuple[IndexColumn, IndexColumn]:
        """Offsets and positions of the index, including the zeros at its end.

        Raises InputError, and StartError if it cannot be opened.
        """
        if self.directory is not None:
            check_access(self.directory, f"{self.base_offset:020}.index", Access.OPEN)
        if self._index_columns is None:
            index_bytes, index_size = b"", 0
            if self.index_file is not None:
                index_bytes, index_size = read_without_padding(self.index_file, MAX_INDEX_BYTES)
            entry_bytes = OFFSET_INDEX_ENTRY.dtype.itemsize
            index_bytes = index_bytes.rstrip(b"\0")
            index_bytes += bytes(-len(index_bytes) % entry_bytes)
            n_entries = index_size // entry_bytes
            index_entries = np.frombuffer(
                index_bytes,
                OFFSET_INDEX_ENTRY.dtype,
                min(len(index_bytes) // entry_bytes, n_entries),
            )
            offsets = index_entries["relative_offset"].astype(np.int64) + self.base_offset
            positions = index_entries["log_position"].astype(np.int64)
            self._index_columns = (
                IndexColumn(offsets, n_entries, self.base_offset),
                IndexColumn(positions, n_entries, 0),
            )
        return self._index_columns

    def iter_batches(
        self, first_position: int | None = None, *, is_recovery: bool = False
    ) -> Iterator[StoredBatch]:
        """The batches from a byte onward, as a broker steps over them."""
        first_position = self.start_position if first_position is None else first_position
        if first_position >= self.size:
            return iter(())
        return iter_stored_batches(
            self.log_bytes, first_position, self.size, is_recovery=is_recovery
        )

    @property
    def is_legacy(self) -> bool:
        """Whether it has only messages of magic 0 and 1, which recovery does not count in the
        producer state."""
        first_batch = next(self.iter_batches(), None)
        if first_batch is None or first_batch.magic >= 2:
            return False
        return all(batch.magic < 2 for batch in self.iter_batches())

    def open_indexes(self) -> None:
        """Open both indexes; raises FileAccessError if one is not a file."""
        if self.directory is None:
            return
        for suffix in (".index", ".timeindex"):
            check_access(self.directory, f"{self.base_offset:020}{suffix}", Access.OPEN)

    def recover(self, index_interval_bytes: int, on_batch: Callable[[StoredBatch], None]) -> int:
        """Recover the segment like a broker; returns the number of bytes truncated.

        Batch by batch, with the result of a broker for all offsets; `broker/log_recovery.py` is the
        fast way for logs whose offsets increase. on_batch: called with each batch of magic 2 that
        is kept. Raises OffsetOverflow, InvalidOffset.
        """
        self.open_indexes()
        offset_entries: list[tuple[int, int]] = []
        self.time_entries = []
        self.aborted_transactions = []
        largest_time_entry = NO_TIME_ENTRY
        valid_end_position = last_indexed_position = self.start_position
        try:
            for batch in self.iter_batches(is_recovery=True):
                if not is_batch_valid(self.log_bytes, batch):
                    break
                if not self.can_hold_batch(batch):
                    raise OffsetOverflow
                if batch.max_timestamp > largest_time_entry[0]:
                    largest_time_entry = batch.max_timestamp, batch.last_offset
                if valid_end_position - last_indexed_position > index_interval_bytes:
                    if offset_entries and batch.last_offset <= offset_entries[-1][0]:
                        raise InvalidOffset(
                            _decreasing_offset_message(self.log_name, batch.position)
                        )
                    offset_entries.append((batch.last_offset, valid_end_position))
                    self._append_time_entry(largest_time_entry)
                    last_indexed_position = valid_end_position
                valid_end_position += batch.size
                if batch.magic >= 2:
                    on_batch(batch)
        except CorruptError:
            pass
        finally:
            self._set_index_columns(offset_entries)
        truncated_bytes = self.size - valid_end_position
        self.size = valid_end_position
        self._append_time_entry(largest_time_entry)
        return truncated_bytes

    def can_hold_batch(self, batch: StoredBatch) -> bool:
        """Whether a batch's last offset is in range for the segment's index."""
        return 0 <= wrap_int64(batch.last_offset - self.base_offset) <= MAX_RELATIVE_OFFSET

    def _append_time_entry(self, time_entry: tuple[int, int]) -> None:
        """Add an entry to the time index if its timestamp is greater than the last one's. Raises
        InvalidOffset, StartError."""
        last_entry = self.time_entries[-1] if self.time_entries else (-1, self.base_offset)
        if self.time_entries and time_entry[1] < last_entry[1]:
            raise InvalidOffset(_decreasing_offset_message(self.log_name, None))
        if self.time_entries and time_entry[0] < last_entry[0]:
            raise StartError(f"{self.log_name}: timestamps decrease")
        if time_entry[0] > last_entry[0]:
            self.time_entries.append(time_entry)

    def add_aborted_transaction(self, aborted_transaction: dict[str, int], position: int) -> None:
        """Add an entry to the transaction index; raises StartError. position: the marker's
        position."""
        if self.directory is not None:
            check_access(self.directory, f"{self.base_offset:020}.txnindex", Access.OPEN)
        last_entry = self.aborted_transactions[-1:]
        if last_entry and aborted_transaction["last_offset"] <= last_entry[0]["last_offset"]:
            message = "an aborted transaction ends before the previous one"
            raise StartError(f"{self.log_name} byte {position}: {message}")
        self.aborted_transactions.append(aborted_transaction)

    def read_first_offset(self, batch: StoredBatch) -> int:
        """The first offset of a batch; for a wrapper, its first message's."""
        if batch.magic >= 2:
            return batch.base_offset
        last_offset = batch.last_offset
        first_message_offset = read_wrapper_first_offset(
            self.log_bytes.read_bytes(batch.position, batch.size), last_offset
        )
        return last_offset if first_message_offset is None else first_message_offset

    def _set_index_columns(self, entries: list[tuple[int, int]]) -> None:
        entry_rows = np.array(entries, np.int64).reshape(-1, 2)
        self._index_columns = (
            IndexColumn(entry_rows[:, 0], len(entry_rows), 0),
            IndexColumn(entry_rows[:, 1], len(entry_rows), 0),
        )

    def truncate_to_base(self) -> int:
        """Truncate at the batch found for the base offset, if any; returns the bytes truncated.
        Raises FileAccessError if an index is not a file."""
        self.open_indexes()
        self.unchanged_end_offset = None
        self.aborted_transactions = []
        first_batch = self.translate_offset(self.base_offset)
        if first_batch is None:
            return 0
        truncated_bytes = self.size - first_batch.position
        self.size = first_batch.position
        self._set_index_columns([])
        self.time_entries = []
        return truncated_bytes

    def find_indexed_position(self, offset: int) -> int:
        """The byte that the index returns for an offset."""
        n_warm_entries = WARM_SECTION_BYTES // OFFSET_INDEX_ENTRY.dtype.itemsize
        offsets, positions = self.index_columns
        entry_row = find_floor_row(offsets, offset, n_warm_entries)
        return (
            self.start_position
            if entry_row is None
            else max(positions[entry_row], self.start_position)
        )

    def translate_offset(self, offset: int) -> StoredBatch | None:
        """The batch that a broker finds for an offset, from the index entry onward.

        Raises CorruptError, StartError.
        """
        walker = self.create_batch_walker(self.find_indexed_position(offset))
        row, error = walker.find_row_or_error(offset)
        if error is not None:
            raise error
        return None if row is None else walker.batches[row]

    def create_batch_walker(self, first_position: int) -> BatchWalker:
        """A walker over the batches from a byte onward."""
        stored_batches = self.iter_batches(first_position)
        return BatchWalker(
            stored_batches,
            self.kafka_version,
            lambda batch: read_base_offset(self.log_bytes, batch),
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
        offsets, _ = self.index_columns
        if self.start_position >= self.size:
            return self.base_offset
        last_indexed_offset = offsets[-1] if len(offsets) else self.base_offset
        last_indexed_batch = self.translate_offset(last_indexed_offset)
        if last_indexed_batch is None:
            return self.base_offset
        next_offset = self.base_offset
        for batch in self.iter_batches(last_indexed_batch.position):
            next_offset = wrap_int64(batch.last_offset + 1)
        return next_offset


def _decreasing_offset_message(log_name: str, position: int | None) -> str:
    location = "" if position is None else f" byte {position}"
    return f"{log_name}{location}: an offset not greater than the last index entry's"
