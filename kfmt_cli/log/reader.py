"""Read logs: batches of every magic in bounded blocks, continuing after damage.

Follows `org.apache.kafka.common.record.FileLogInputStream` for an intact file. At damage, the
reader looks for the next header with a matching checksum and describes the bytes in between; see
`log/damages/damage.py`. It reports only what stopped it: the checks (`checks/log/`) report what is
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
from kfmt_cli.log.block import HEADER_SIZE, LOG_OVERHEAD, Block, read_batches
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC, MINIMUMS
from kfmt_cli.rows.log_tables import BatchTable

if TYPE_CHECKING:
    from kfmt_cli.log.damages.damage import Damage

BLOCK = 1 << 21
FIRST_BLOCK = 1 << 16  # so that the first rows of a huge file are there at once
LARGE_BATCH = 64 << 20  # checked in pieces before it is read into memory

_MORE, _FULL = (scan.WALKS[name] for name in ("MORE", "FULL"))


@dataclass(frozen=True, slots=True)
class ReadingState:
    """A reader's position and state between two blocks; another reader that resumes from it yields
    the same blocks."""

    position: int
    n_batches: int
    length: int
    """Bytes to read next."""
    next_offset: int | None
    seen_sets: bool


class LogReader:
    """Reads the batches of one log from front to back.

    base_offset: from the file name, None if it has none. checked: compute checksums; without them,
    a wrong length is followed if a batch can be there. first_block: bytes of the first block, small
    for callers that wait for the first rows. After `blocks`, `plausible` tells whether anything in
    the file looked like a batch.
    """

    def __init__(
        self,
        source: Source,
        base_offset: int | None = None,
        read_ahead: bool = False,
        checked: bool = True,
        first_block: int = FIRST_BLOCK,
    ) -> None:
        self._checked = checked
        self._first_block = first_block
        self._source = source
        self._read_ahead = read_ahead
        self._next_offset = base_offset
        self._seen_sets = False
        self._found = np.empty((3, 1024), np.int64)
        self.n_batches = 0
        self.state = ReadingState(0, 0, first_block, base_offset, False)
        self.plausible = False
        self.bytes_read = 0

    def resumed(self, state: ReadingState) -> Iterator[Block]:
        """The blocks from a state onward, taken from this or another reader of the file; raises
        InputError."""
        self.n_batches, self._first_block = state.n_batches, state.length
        self._next_offset, self._seen_sets = state.next_offset, state.seen_sets
        return self.blocks(state.position)

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """The blocks in order; raises InputError if the file cannot be read.

        start: a byte where a batch begins.
        """
        at = start
        length = self._first_block
        least = 1
        while True:
            data = self._source.block(at, max(length, least), least)
            if not data:
                self.bytes_read = at
                return
            starts, ends, reason = self._walk(data)
            length = min(2 * length, BLOCK)
            if len(starts):
                if self._read_ahead:
                    self._source.prefetch(at + int(ends[-1]), length)
                block, at = self._block(data, at, starts, ends)
                self.plausible = True
            elif reason == _MORE and len(data) < (need := self._need(data, at)):
                if least < need:
                    least = need
                    continue
                block, at = self._damaged(at, reason)
            else:
                block, at = self._damaged(at, reason)
            self._source.release(at - LOG_OVERHEAD)  # a batch cut short may share bytes
            self.state = ReadingState(
                at, self.n_batches, length, self._next_offset, self._seen_sets
            )
            yield block
            least = 1

    @cached_property
    def _damage(self) -> Damage:
        """Judges unreadable bytes; most logs never need it."""
        from kfmt_cli.log.damages.damage import Damage

        return Damage(self._source)

    def _need(self, data: bytes, at: int) -> int:
        """The size of the batch at the start of `data`; 0 if it is not credible."""
        if len(data) < HEADER_UP_TO_MAGIC:
            return HEADER_UP_TO_MAGIC
        need = LOG_OVERHEAD + int.from_bytes(data[8:12], "big")
        size = self._source.size
        if size is not None and at + need > size and not self._source.block(at + need - 1, 1, 1):
            return 0  # and the file has not grown since it was opened
        if need > self._source.largest:
            return 0
        if need > LARGE_BATCH and not self._damage.confirmed(at):
            return 0
        return need

    def _walk(self, data: bytes) -> tuple[IntArray, IntArray, int]:
        regions = np.array([[0], [len(data)], [0], [0]], np.int64)
        while True:
            n = scan.walk(data, regions, MINIMUMS, self._found)
            reason = int(regions[3, 0])
            if reason != _FULL:
                return self._found[0, :n].copy(), self._found[1, :n].copy(), reason
            self._found = np.empty((3, len(data) // HEADER_UP_TO_MAGIC + 1), np.int64)

    def _block(self, data: bytes, at: int, starts: IntArray, ends: IntArray) -> tuple[Block, int]:
        """The block of these batches, and where reading continues."""
        batches = read_batches(data, at, self.n_batches, starts, ends, self._checked)
        block = Block(self._source.name, data, at, batches)
        after = at + int(ends[-1])
        if not batches.crc_valid.all():
            after = self._judge(block, after)
        self._note_offsets(block)
        self.n_batches += len(block.batches)
        return block, after

    def _judge(self, block: Block, after: int) -> int:
        """Decide for each batch that fails its checksum whether its length is credible.

        Returns where reading continues."""
        batches = block.batches
        going_on = self._going_on(batches)
        for i in np.flatnonzero(batches.crc_valid == 0).tolist():
            position, size = int(batches.position[i]), int(batches.size[i])
            self._damage.sets = self._seen_sets
            verdict = self._damage.judge(
                position, size, i + 1 < len(batches), self._known_end(batches, going_on, i)
            )
            if verdict is None:
                continue
            # The length is wrong: drop this batch and the batches found by following it.
            block.batches = batches.select(slice(0, i))
            block.findings.append(verdict.finding)
            if verdict.intact:
                self._append_mended(block, position, verdict.end)
            return verdict.end
        return after

    def _going_on(self, batches: BatchTable) -> IntArray:
        """The rows of undamaged batches that continue from the previous undamaged batch.

        The checksum does not cover offsets: a single jump is not trusted.
        """
        good = np.flatnonzero(batches.crc_valid == 1)
        base, last = batches.base_offset[good], batches.last_offset[good]
        before = np.concatenate([[(self._next_offset or 0) - 1], last[:-1]])
        rows: IntArray = good[base == before + 1]
        return rows

    def _known_end(self, batches: BatchTable, going_on: IntArray, n: int) -> int | None:
        """The lowest offset that batch n can have, None if unknown."""
        earlier = int(np.searchsorted(going_on, n))
        if not earlier:
            return self._next_offset
        return int(batches.last_offset[going_on[earlier - 1]]) + 1

    def _append_mended(self, block: Block, position: int, end: int) -> None:
        """Add the batch at position..end, which has only a wrong length field."""
        data = self._source.block(position, end - position, end - position)
        number = self.n_batches + len(block.batches)
        starts, ends = np.array([0]), np.array([len(data)])
        batch = read_batches(data, position, number, starts, ends)
        shift = len(block.data)
        batch.start += shift
        batch.end += shift
        block.batches = type(batch)(
            batch.names, np.concatenate([block.batches.data, batch.data], axis=1)
        )
        # A message is decoded by its own length field; the table keeps the stored length.
        block.data += data[:8] + (end - position - LOG_OVERHEAD).to_bytes(4, "big") + data[12:]

    def _damaged(self, at: int, reason: int) -> tuple[Block, int]:
        """The block for a byte where no batch begins, and where reading continues."""
        self._damage.sets = self._seen_sets
        verdict = self._damage.look(at, reason, self._next_offset)
        self.plausible |= verdict.plausible
        block = Block(self._source.name, b"", at, BatchTable.zeros(0))
        block.findings.append(verdict.finding)
        if verdict.intact:
            self._append_mended(block, at, verdict.end)
            self._note_offsets(block)
            self.n_batches += 1
        return block, verdict.end

    def cut_short(self, position: int, size: int) -> Block | None:
        """The batch of magic 2 of which only `size` bytes are there, with the records they hold;
        None if its header is cut, too. Raises InputError."""
        data = self._source.block(position, size, size)
        if len(data) <= HEADER_SIZE or data[HEADER_UP_TO_MAGIC - 1] != 2:
            return None
        data = data[:8] + (len(data) - LOG_OVERHEAD).to_bytes(4, "big") + data[12:]
        starts, ends = np.array([0]), np.array([len(data)])
        return Block(
            self._source.name, data, position, read_batches(data, position, 0, starts, ends)
        )

    def _note_offsets(self, block: Block) -> None:
        """Note the next batch's expected offset, and whether there were message sets."""
        batches = block.batches
        if not len(batches):
            return
        base, last = batches.base_offset, batches.last_offset
        if len(base) > 1 and batches.crc_valid[-2:].all() and base[-1] == int(last[-2]) + 1:
            self._next_offset = int(last[-1]) + 1  # as it nearly always is
        else:
            self._next_offset = self._known_end(batches, self._going_on(batches), len(batches))
        legacy = batches.is_v2 == 0
        if legacy.any():
            self._seen_sets |= bool((legacy & (batches.compression != 0)).any())
