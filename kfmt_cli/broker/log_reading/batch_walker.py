"""The batch that a broker finds for an offset, from the byte that the index returns onward.

Source: `org.apache.kafka.common.record.FileRecords`: `searchForOffsetWithSize` in 3.9 and 4.0,
`searchForOffsetFromPosition` since 4.1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    PartialHeaderError,
    StartError,
    StoredBatch,
)
from kfmt_cli.broker.version import KafkaVersion


class BatchWalker:
    """The batches from a byte onward, read on demand.

    read_base_offset: returns the base offset of a batch; raises StartError. error: why the batches,
    or the search, end before the end of the segment.
    """

    def __init__(
        self,
        stored_batches: Iterator[StoredBatch],
        kafka_version: KafkaVersion,
        read_base_offset: Callable[[StoredBatch], int],
    ) -> None:
        self.batches: list[StoredBatch] = []
        self.error: CorruptError | StartError | None = None
        self._remaining_batches = stored_batches
        self._kafka_version = kafka_version
        self._read_base_offset = read_base_offset
        # The search compares the target with these: for each batch, the highest offset up to it.
        self._running_max_offsets: list[int] = []

    def find_row_and_last_target(self, offset: int) -> tuple[int, int] | None:
        """The row of the batch found for an offset, and the last offset with the same result.

        None if no batch is found, or if the search fails: see `error`.
        """
        row = self._find_first_row(offset)
        if not self._kafka_version.searches_by_base_offset:
            return None if row is None else (row, self.batches[row].last_offset)
        next_base_offset = None if row is None else self._running_max_offsets[row]
        if row is None and self.error is not None:
            if not isinstance(self.error, PartialHeaderError) or self.error.base_offset < offset:
                return None
            next_base_offset = self.error.base_offset
        if row is not None and next_base_offset == offset:
            return row, offset
        previous_row = (len(self._running_max_offsets) if row is None else row) - 1
        if (
            previous_row >= 0
            and (previous_last_offset := self.batches[previous_row].last_offset) >= offset
        ):
            return previous_row, previous_last_offset if next_base_offset is None else min(
                previous_last_offset, next_base_offset - 1
            )
        return None if row is None or next_base_offset is None else (row, next_base_offset - 1)

    def find_row_or_error(self, offset: int) -> tuple[int | None, CorruptError | StartError | None]:
        """The row of the batch that a broker finds for an offset, and the error that it returns
        instead."""
        row_and_last_target = self.find_row_and_last_target(offset)
        if row_and_last_target is None:
            return None, self.error
        return row_and_last_target[0], self.find_answer_error(row_and_last_target[0])

    def find_answer_error(self, row: int) -> StartError | None:
        """The error that a broker returns instead of a batch that it has found; None if it returns
        the batch."""
        if not self._kafka_version.reads_base_offset:
            return None
        try:
            self._read_base_offset(self.batches[row])
        except StartError as error:
            return error
        return None

    def read_batch(self, row: int) -> StoredBatch | None:
        """The batch in a row; None after the last batch, or if a broker fails to read it."""
        while len(self.batches) <= row:
            try:
                batch = next(self._remaining_batches, None)
            except (CorruptError, StartError) as error:
                self.error = error
                return None
            if batch is None:
                return None
            self.batches.append(batch)
        return self.batches[row]

    def _find_first_row(self, offset: int) -> int | None:
        """The row of the first batch that begins, or ends, at or after an offset."""
        while not self._running_max_offsets or self._running_max_offsets[-1] < offset:
            batch = self.read_batch(len(self._running_max_offsets))
            if batch is None:
                return None
            search_key = batch.last_offset
            if self._kafka_version.searches_by_base_offset:
                try:
                    search_key = self._read_base_offset(batch)
                except StartError as error:
                    self.error = error
                    return None
            self._running_max_offsets.append(
                max(search_key, self._running_max_offsets[-1])
                if self._running_max_offsets
                else search_key
            )
        return bisect_left(self._running_max_offsets, offset)
