"""Read logs: batches of every magic in bounded blocks, continuing after damage.

Follows `org.apache.kafka.common.record.FileLogInputStream` for an intact file. At damage, the
reader looks for the next header with a matching checksum and describes the bytes in between; see
`log/damage/analyzer.py`. It reports only what stopped it: the checks (`checks/log/`) report what is
wrong with a batch that it could read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import scan
from kfmt_cli.core.source import Source
from kfmt_cli.log.block import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, Block, read_batches
from kfmt_cli.log.damage.batch_candidates import (
    BYTES_UP_TO_MAGIC,
    MIN_LENGTH_BY_MAGIC,
    NO_MESSAGE_SET,
)
from kfmt_cli.rows.log_tables import BatchTable

if TYPE_CHECKING:
    from kfmt_cli.log.damage.analyzer import DamageAnalyzer

MAX_BLOCK_BYTES = 1 << 21
FIRST_BLOCK_BYTES = 1 << 16  # small, so that the first rows of a huge file appear at once
LARGE_BATCH_BYTES = 64 << 20  # a larger batch is checked in chunks before it is read into memory

_MAX_REREADS = 8  # of the end of a file that is being written
_NEEDS_MORE, _BUFFER_FULL = (scan.WALK_STOP_REASONS[name] for name in ("MORE", "FULL"))


@dataclass(frozen=True, slots=True)
class ReaderState:
    """A reader's position and state between two blocks; another reader that resumes from it yields
    the same blocks."""

    position: int
    n_batches: int
    next_block_bytes: int
    """Bytes to read next."""
    next_offset: int | None
    message_set_offset: int
    """The offset of the last compressed message set of magic 0 and 1, or NO_MESSAGE_SET."""


class LogReader:
    """Reads the batches of one log from front to back.

    base_offset: the base offset in the file name, None if it has none. read_ahead: prefetch the
    next block.
    check_crcs: compute checksums; without them, a wrong length is followed if it leads to a
    possible batch. first_block_bytes: size of the first block, small for callers that wait for the
    first rows. After `iter_blocks`, `has_plausible_batch` is whether anything in the file looked
    like a batch.
    """

    def __init__(
        self,
        source: Source,
        base_offset: int | None = None,
        read_ahead: bool = False,
        check_crcs: bool = True,
        first_block_bytes: int = FIRST_BLOCK_BYTES,
    ) -> None:
        self._check_crcs = check_crcs
        self._first_block_bytes = first_block_bytes
        self._source = source
        self._read_ahead = read_ahead
        self._next_offset = base_offset
        self._message_set_offset = NO_MESSAGE_SET
        self._walk_buffer = np.empty((3, 1024), np.int64)
        self._n_rereads = 0
        self.n_batches = 0
        self.reader_state = ReaderState(0, 0, first_block_bytes, base_offset, NO_MESSAGE_SET)
        self.has_plausible_batch = False
        self.bytes_read = 0

    def iter_blocks_from_state(self, reader_state: ReaderState) -> Iterator[Block]:
        """The blocks from a state onward; the state may be another reader's of the same file.
        Raises InputError."""
        self.n_batches, self._first_block_bytes = (
            reader_state.n_batches,
            reader_state.next_block_bytes,
        )
        self._next_offset = reader_state.next_offset
        self._message_set_offset = reader_state.message_set_offset
        return self.iter_blocks(reader_state.position)

    def iter_blocks(self, start_position: int = 0) -> Iterator[Block]:
        """The blocks in order; raises InputError if the file cannot be read.

        start_position: a byte where a batch begins.
        """
        position = start_position
        block_bytes = self._first_block_bytes
        min_read_bytes = 1
        while True:
            data = self._source.read_block(
                position, max(block_bytes, min_read_bytes), min_read_bytes
            )
            if not data:
                self.bytes_read = position
                return
            batch_starts, batch_ends, stop_reason = self._find_batch_ranges(data)
            block_bytes = min(2 * block_bytes, MAX_BLOCK_BYTES)
            if len(batch_starts):
                if self._read_ahead:
                    self._source.prefetch_block(position + int(batch_ends[-1]), block_bytes)
                block, position = self._build_block(data, position, batch_starts, batch_ends)
                self.has_plausible_batch = True
            elif stop_reason == _NEEDS_MORE and max(min_read_bytes, len(data)) < (
                batch_bytes := self._credible_batch_bytes(data, position)
            ):
                min_read_bytes = batch_bytes
                continue
            elif stop_reason == _NEEDS_MORE and self._has_file_grown(position + len(data)):
                continue
            else:
                block, position = self._read_damaged_block(position, stop_reason)
            self._source.release_bytes_before(
                position - LOG_OVERHEAD_BYTES
            )  # a truncated batch may share bytes
            self.reader_state = ReaderState(
                position, self.n_batches, block_bytes, self._next_offset, self._message_set_offset
            )
            yield block
            min_read_bytes = 1
            self._n_rereads = 0

    @cached_property
    def _damage_analyzer(self) -> DamageAnalyzer:
        """Classifies unreadable bytes; created on first use, as most logs never need it."""
        from kfmt_cli.log.damage.analyzer import DamageAnalyzer

        return DamageAnalyzer(self._source)

    def _credible_batch_bytes(self, data: bytes, position: int) -> int:
        """The size of the batch at the start of `data`; 0 if it is not credible."""
        if len(data) < BYTES_UP_TO_MAGIC:
            return BYTES_UP_TO_MAGIC
        batch_bytes = LOG_OVERHEAD_BYTES + int.from_bytes(data[8:12], "big")
        source_bytes = self._source.size
        if (
            source_bytes is not None
            and position + batch_bytes > source_bytes
            and not self._source.read_block(position + batch_bytes - 1, 1, 1)
        ):
            return 0  # and the file has not grown since it was opened
        if batch_bytes > self._source.max_block_bytes:
            return 0
        if batch_bytes > LARGE_BATCH_BYTES and not self._damage_analyzer.is_batch_start(position):
            return 0
        return batch_bytes

    def _has_file_grown(self, end_position: int) -> bool:
        """Whether a file that ended with a part of a batch has more bytes now: a broker was writing
        this batch."""
        source_bytes = self._source.size
        if source_bytes is None or end_position < source_bytes or self._n_rereads >= _MAX_REREADS:
            return False
        self._n_rereads += 1
        return self._source.has_grown(end_position)

    def _find_batch_ranges(self, data: bytes) -> tuple[IntArray, IntArray, int]:
        walk_regions = np.array([[0], [len(data)], [0], [0]], np.int64)
        while True:
            n_batches = scan.walk_batches(
                data, walk_regions, MIN_LENGTH_BY_MAGIC, self._walk_buffer
            )
            stop_reason = int(walk_regions[3, 0])
            if stop_reason != _BUFFER_FULL:
                return (
                    self._walk_buffer[0, :n_batches].copy(),
                    self._walk_buffer[1, :n_batches].copy(),
                    stop_reason,
                )
            self._walk_buffer = np.empty((3, len(data) // BYTES_UP_TO_MAGIC + 1), np.int64)

    def _build_block(
        self, data: bytes, position: int, batch_starts: IntArray, batch_ends: IntArray
    ) -> tuple[Block, int]:
        """The block of these batches, and where reading continues."""
        batches = read_batches(
            data, position, self.n_batches, batch_starts, batch_ends, self._check_crcs
        )
        block = Block(self._source.name, data, position, batches)
        next_position = position + int(batch_ends[-1])
        if not batches.crc_valid.all():
            next_position = self._resolve_batch_lengths(block, next_position)
        self._update_next_offset(block)
        self.n_batches += len(block.batches)
        return block, next_position

    def _resolve_batch_lengths(self, block: Block, next_position: int) -> int:
        """Decide for each batch that fails its checksum whether its length is credible.

        Returns where reading continues."""
        batches = block.batches
        continuing_rows = self._continuing_rows(batches)
        for row in np.flatnonzero(batches.crc_valid == 0).tolist():
            position, size = int(batches.position[row]), int(batches.size[row])
            self._damage_analyzer.message_set_offset = self._message_set_offset
            verdict = self._damage_analyzer.classify_batch_length(
                position,
                size,
                row + 1 < len(batches),
                self._min_offset(batches, continuing_rows, row),
            )
            if verdict is None:
                continue
            # The length is wrong: drop this batch and the batches found by following it.
            block.batches = batches.select_rows(slice(0, row))
            block.findings.append(verdict.finding)
            if verdict.is_intact:
                self._append_fixed_batch(block, position, verdict.next_position)
            return verdict.next_position
        return next_position

    def _continuing_rows(self, batches: BatchTable) -> IntArray:
        """The rows of undamaged batches that continue from the previous undamaged batch.

        The checksum does not cover offsets: a single jump is not trusted.
        """
        valid_rows = np.flatnonzero(batches.crc_valid == 1)
        base_offsets = batches.base_offset[valid_rows]
        last_offsets = batches.last_offset[valid_rows]
        previous_last_offsets = np.concatenate([[(self._next_offset or 0) - 1], last_offsets[:-1]])
        continuing_rows: IntArray = valid_rows[base_offsets == previous_last_offsets + 1]
        return continuing_rows

    def _min_offset(self, batches: BatchTable, continuing_rows: IntArray, row: int) -> int | None:
        """The lowest offset that the batch at `row` can have, None if unknown."""
        n_earlier_rows = int(np.searchsorted(continuing_rows, row))
        if not n_earlier_rows:
            return self._next_offset
        return int(batches.last_offset[continuing_rows[n_earlier_rows - 1]]) + 1

    def _append_fixed_batch(self, block: Block, position: int, batch_end: int) -> None:
        """Append the batch at position..end, which is intact except for its length field."""
        batch_data = self._source.read_block(position, batch_end - position, batch_end - position)
        batch_number = self.n_batches + len(block.batches)
        batch_starts, batch_ends = np.array([0]), np.array([len(batch_data)])
        fixed_batches = read_batches(batch_data, position, batch_number, batch_starts, batch_ends)
        data_shift = len(block.data)
        fixed_batches.start += data_shift
        fixed_batches.end += data_shift
        block.batches = type(fixed_batches)(
            fixed_batches.index_by_name,
            np.concatenate([block.batches.data, fixed_batches.data], axis=1),
        )
        # A message is decoded by its own length field; the table keeps the stored length.
        block.data += (
            batch_data[:8]
            + (batch_end - position - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
            + batch_data[12:]
        )

    def _read_damaged_block(self, position: int, stop_reason: int) -> tuple[Block, int]:
        """The block for a byte where no batch begins, and where reading continues."""
        self._damage_analyzer.message_set_offset = self._message_set_offset
        verdict = self._damage_analyzer.classify_damage(position, stop_reason, self._next_offset)
        self.has_plausible_batch |= verdict.is_plausible
        block = Block(self._source.name, b"", position, BatchTable.zeros(0))
        block.findings.append(verdict.finding)
        if verdict.is_intact:
            self._append_fixed_batch(block, position, verdict.next_position)
            self._update_next_offset(block)
            self.n_batches += 1
        return block, verdict.next_position

    def read_truncated_batch(self, position: int, n_available_bytes: int) -> Block | None:
        """The batch of magic 2 at `position` that ends early, after `n_available_bytes` bytes; None
        if its header is truncated as well. Raises InputError."""
        batch_data = self._source.read_block(position, n_available_bytes, n_available_bytes)
        if len(batch_data) <= BATCH_HEADER_BYTES or batch_data[BYTES_UP_TO_MAGIC - 1] != 2:
            return None
        batch_data = (
            batch_data[:8]
            + (len(batch_data) - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
            + batch_data[12:]
        )
        batch_starts, batch_ends = np.array([0]), np.array([len(batch_data)])
        return Block(
            self._source.name,
            batch_data,
            position,
            read_batches(batch_data, position, 0, batch_starts, batch_ends),
        )

    def _update_next_offset(self, block: Block) -> None:
        """Update the next batch's lowest offset, and the last compressed message set's offset."""
        batches = block.batches
        if not len(batches):
            return
        base_offsets, last_offsets = batches.base_offset, batches.last_offset
        if (
            len(base_offsets) > 1
            and batches.crc_valid[-2:].all()
            and base_offsets[-1] == int(last_offsets[-2]) + 1
        ):
            self._next_offset = int(last_offsets[-1]) + 1  # nearly always
        else:
            self._next_offset = self._min_offset(
                batches, self._continuing_rows(batches), len(batches)
            )
        is_legacy = batches.is_v2 == 0
        if is_legacy.any():
            set_offsets = last_offsets[is_legacy & (batches.compression != 0)]
            if len(set_offsets):
                self._message_set_offset = max(int(set_offsets[-1]), 0)
