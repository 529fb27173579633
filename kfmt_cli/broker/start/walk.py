"""The batch that a broker finds for an offset, from the byte that the index returns onward.

Source: `org.apache.kafka.common.record.FileRecords`: `searchForOffsetWithSize` in 3.9 and 4.0,
`searchForOffsetFromPosition` from 4.1 on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from kfmt_cli.broker.start.stored import CorruptError, PartialHeader, StartFailed, StoredBatch
from kfmt_cli.broker.version import KafkaVersion


class Walk:
    """The batches from a byte onward, read on demand.

    base_of: the base offset of a batch; raises StartFailed. error: why the batches, or the search,
    end before the end of the segment.
    """

    def __init__(
        self,
        batches: Iterator[StoredBatch],
        version: KafkaVersion,
        base_of: Callable[[StoredBatch], int],
    ) -> None:
        self.batches: list[StoredBatch] = []
        self.error: CorruptError | StartFailed | None = None
        self._rest = batches
        self._version = version
        self._base_of = base_of
        # What is compared with the target: the highest of it up to each batch.
        self._highest: list[int] = []

    def find(self, offset: int) -> tuple[int, int] | None:
        """The row of the batch found for an offset, and the last offset with the same answer.

        None if no batch is found, or if the search fails: see `error`.
        """
        row = self._first(offset)
        if not self._version.searches_by_base_offset:
            return None if row is None else (row, self.batches[row].last_offset)
        base = None if row is None else self._highest[row]
        if row is None and self.error is not None:
            if not isinstance(self.error, PartialHeader) or self.error.base_offset < offset:
                return None
            base = self.error.base_offset
        if row is not None and base == offset:
            return row, offset
        before = (len(self._highest) if row is None else row) - 1
        if before >= 0 and (last := self.batches[before].last_offset) >= offset:
            return before, last if base is None else min(last, base - 1)
        return None if row is None or base is None else (row, base - 1)

    def answer(self, offset: int) -> tuple[int | None, CorruptError | StartFailed | None]:
        """The row of the batch that a broker finds for an offset, and why it answers with an error
        instead."""
        found = self.find(offset)
        if found is None:
            return None, self.error
        return found[0], self.trouble(found[0])

    def trouble(self, row: int) -> StartFailed | None:
        """Why a broker does not answer with a batch that it has found; None if it does."""
        if not self._version.asks_base_offset:
            return None
        try:
            self._base_of(self.batches[row])
        except StartFailed as error:
            return error
        return None

    def at(self, row: int) -> StoredBatch | None:
        """The batch in a row; None at the end, or if a broker finds no batch."""
        while len(self.batches) <= row:
            try:
                batch = next(self._rest, None)
            except (CorruptError, StartFailed) as error:
                self.error = error
                return None
            if batch is None:
                return None
            self.batches.append(batch)
        return self.batches[row]

    def _first(self, offset: int) -> int | None:
        """The row of the first batch that begins, or ends, at or after an offset."""
        while not self._highest or self._highest[-1] < offset:
            batch = self.at(len(self._highest))
            if batch is None:
                return None
            key = batch.last_offset
            if self._version.searches_by_base_offset:
                try:
                    key = self._base_of(batch)
                except StartFailed as error:
                    self.error = error
                    return None
            self._highest.append(max(key, self._highest[-1]) if self._highest else key)
        return bisect_left(self._highest, offset)
