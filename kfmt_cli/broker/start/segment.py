"""A segment as a starting broker opens, recovers and measures it.

Source: `org.apache.kafka.storage.internals.log.LogSegment` (`recover`, `readNextOffset`,
`translateOffset`), `OffsetIndex`, `TimeIndex`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kfmt_cli.broker.offsets.lookup import WARM_BYTES, greatest
from kfmt_cli.broker.start.consumer import base_offset_of, first_of_wrapper
from kfmt_cli.broker.start.stored import (
    CorruptError,
    LogBytes,
    StartFailed,
    StoredBatch,
    batches,
    is_valid,
    wrapped,
)
from kfmt_cli.broker.start.walk import Walk
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.kinds.kind import Input, read_filled
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY

NO_TIME = (-1, -1)
MOST_INDEX_BYTES = 1 << 30


class OffsetOverflow(Exception):  # noqa: N818 (Kafka's LogSegmentOffsetOverflowException)
    """An offset is out of range for the segment's indexes."""


class InvalidOffset(Exception):  # noqa: N818 (Kafka's InvalidOffsetException)
    """An entry's offset is not greater than the previous entry's."""


class Entries:
    """A column of an index, including the zeros of its preallocated end, which use no memory.

    filled: the values before the zeros. fill: the value of a zero.
    """

    def __init__(self, filled: IntArray, n: int, fill: int) -> None:
        self.filled = filled
        self._n = n
        self._fill = fill

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: int) -> int:
        i = i if i >= 0 else self._n + i
        return int(self.filled[i]) if i < len(self.filled) else self._fill


class OpenSegment:
    """A log and its offset index, in memory only: nothing is changed on the disk.

    name: the log file's. begin, size: the start and end of the remaining bytes in the file.
    sound_end: the end offset of a log that recovery leaves unchanged, None if it must be read batch
    by batch. index: its file. is_recovered: the index has been rebuilt. times: the entries of the
    rebuilt time index, each a timestamp and an offset.
    """

    def __init__(
        self,
        base: int,
        name: str,
        path: str,
        size: int,
        sound_end: int | None,
        version: KafkaVersion,
    ) -> None:
        self.base = base
        self.name = name
        self.path = path
        self.begin = 0
        self.size = self.given_size = size
        self.sound_end = sound_end
        self.version = version
        self.index: Input | None = None
        self.has_folder = False  # in place of its index
        self.is_recovered = False
        self.times: list[tuple[int, int]] = []
        self._entries: tuple[Entries, Entries] | None = None
        self._bytes: LogBytes | None = None

    @classmethod
    def made(cls, base: int, name: str, version: KafkaVersion) -> OpenSegment:
        """An empty segment that the broker creates."""
        segment = cls(base, name, "", 0, base, version)
        segment.is_recovered = True
        return segment

    def part(self, base: int, begin: int) -> OpenSegment:
        """A new segment that begins at a byte of this one."""
        segment = OpenSegment(base, self.name, self.path, begin, None, self.version)
        segment.begin = begin
        segment.given_size = self.given_size if base == self.base else begin
        return segment

    @property
    def bytes(self) -> LogBytes:
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
    def entries(self) -> tuple[Entries, Entries]:
        """Offsets and positions of the index, including the zeros at its end.

        Raises InputError, and StartFailed if a directory has its name.
        """
        if self.has_folder:
            words = f"{self.name}: a directory has the name of its index"
            raise StartFailed(words, is_offline=True)
        if self._entries is None:
            data, size = b"", 0
            if self.index is not None:
                data, size = read_filled(self.index, MOST_INDEX_BYTES)
            width = OFFSET_INDEX_ENTRY.dtype.itemsize
            data = data.rstrip(b"\0")
            data += bytes(-len(data) % width)
            n = size // width
            rows = np.frombuffer(data, OFFSET_INDEX_ENTRY.dtype, min(len(data) // width, n))
            offsets = rows["relative_offset"].astype(np.int64) + self.base
            positions = rows["log_position"].astype(np.int64)
            self._entries = Entries(offsets, n, self.base), Entries(positions, n, 0)
        return self._entries

    def batches(
        self, start: int | None = None, *, is_recovery: bool = False
    ) -> Iterator[StoredBatch]:
        """The batches from a byte onward, as a broker steps over them."""
        start = self.begin if start is None else start
        if start >= self.size:
            return iter(())
        return batches(self.bytes, start, self.size, is_recovery=is_recovery)

    @property
    def is_legacy(self) -> bool:
        """Whether it has only messages of magic 0 and 1, which recovery does not count in the
        producer state."""
        first = next(self.batches(), None)
        if first is None or first.magic >= 2:
            return False
        return all(batch.magic < 2 for batch in self.batches())

    def recover(self, interval: int, take: Callable[[StoredBatch], None]) -> int:
        """Recover the segment like a broker; returns the number of bytes truncated.

        take: called with each batch of magic 2 that is kept. Raises OffsetOverflow, InvalidOffset.
        """
        if self.has_folder:
            _ = self.entries
        entries: list[tuple[int, int]] = []
        self.times = []
        largest = NO_TIME
        valid = indexed = self.begin
        try:
            for batch in self.batches(is_recovery=True):
                if not is_valid(self.bytes, batch):
                    break
                if not self.fits(batch):
                    raise OffsetOverflow
                if batch.max_timestamp > largest[0]:
                    largest = batch.max_timestamp, batch.last_offset
                if valid - indexed > interval:
                    if entries and batch.last_offset <= entries[-1][0]:
                        raise InvalidOffset(_backwards(self.name, batch.position))
                    entries.append((batch.last_offset, valid))
                    self._add_time(largest)
                    indexed = valid
                valid += batch.size
                if batch.magic >= 2:
                    take(batch)
        except CorruptError:
            pass
        finally:
            self._set_entries(entries)
        cut = self.size - valid
        self.size = valid
        self._add_time(largest)
        return cut

    def fits(self, batch: StoredBatch) -> bool:
        """Whether a batch's last offset is in range for the segment's index."""
        return 0 <= wrapped(batch.last_offset - self.base) <= MAX_RELATIVE_OFFSET

    def _add_time(self, new: tuple[int, int]) -> None:
        """Add an entry to the time index if it is later than the last one."""
        last = self.times[-1] if self.times else (-1, self.base)
        if self.times and new[1] < last[1]:
            raise InvalidOffset(_backwards(self.name, None))
        if self.times and new[0] < last[0]:
            raise StartFailed(f"{self.name}: timestamps decrease")
        if new[0] > last[0]:
            self.times.append(new)

    def first_offset(self, batch: StoredBatch) -> int:
        """The first offset of a batch; for a wrapper, its first message's."""
        if batch.magic >= 2:
            return batch.base_offset
        last = batch.last_offset
        first = first_of_wrapper(self.bytes.read(batch.position, batch.size), last)
        return last if first is None else first

    def _set_entries(self, entries: list[tuple[int, int]]) -> None:
        rows = np.array(entries, np.int64).reshape(-1, 2)
        self._entries = Entries(rows[:, 0], len(rows), 0), Entries(rows[:, 1], len(rows), 0)

    def empty(self) -> int:
        """Truncate at the batch found for the base offset, if any; returns the bytes truncated."""
        found = self.translate(self.base)
        if found is None:
            return 0
        cut = self.size - found.position
        self.size = found.position
        self._set_entries([])
        self.times = []
        return cut

    def lookup(self, offset: int) -> int:
        """The byte that the index returns for an offset."""
        warm = WARM_BYTES // OFFSET_INDEX_ENTRY.dtype.itemsize
        offsets, positions = self.entries
        entry = greatest(offsets, offset, warm)
        return self.begin if entry is None else max(positions[entry], self.begin)

    def translate(self, offset: int) -> StoredBatch | None:
        """The batch that a broker finds for an offset, from the index entry onward.

        Raises CorruptError and StartFailed.
        """
        walk = self.walk(self.lookup(offset))
        row, error = walk.answer(offset)
        if error is not None:
            raise error
        return None if row is None else walk.batches[row]

    def walk(self, start: int) -> Walk:
        """The search for offsets from a byte onward."""
        of = self.batches(start)
        return Walk(of, self.version, lambda batch: base_offset_of(self.bytes, batch))

    @property
    def end(self) -> int:
        """The segment's end offset for a broker; raises CorruptError."""
        if self.sound_end is not None and self.is_recovered:
            return self.sound_end
        return self.next_offset

    @property
    def next_offset(self) -> int:
        """The end offset that a broker reads from the segment's batches; raises CorruptError."""
        offsets, _ = self.entries
        if self.begin >= self.size:
            return self.base
        last_entry = offsets[-1] if len(offsets) else self.base
        found = self.translate(last_entry)
        if found is None:
            return self.base
        end = self.base
        for batch in self.batches(found.position):
            end = wrapped(batch.last_offset + 1)
        return end


def _backwards(name: str, position: int | None) -> str:
    place = "" if position is None else f" byte {position}"
    return f"{name}{place}: an offset not greater than the last index entry's"
