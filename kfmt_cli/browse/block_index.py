"""The index of a log's batches: the position and reader state of each block, without its batches.

A log of 1 GiB has some 500 indexed blocks. The reader can read an indexed block again, so rows are
read only when they are shown. A thread builds the index while its rows are already shown, and
extends it when the file grows.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from kfmt_cli.browse.batch_filter import BatchFilter
from kfmt_cli.core.source import FileSource, Source
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.log.reader import LogReader, ReaderState
from kfmt_cli.rows.offset_order import in_order_mask

INDEX_AHEAD_BYTES = 32 << 20  # bytes of a file at a URL to read ahead of the view
FIRST_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class IndexedBlock:
    """A block of a log, with the state needed to read it again."""

    reader_state: ReaderState
    end_position: int
    """The position of the first byte after the block."""
    first_row: int
    """The index of the block's first row."""
    n_rows: int
    last_offset: int
    """The greatest last offset of its rows; -1 without rows."""
    max_timestamp: int
    """The greatest timestamp of its rows; -1 without rows."""
    is_uncompressed_v2: bool
    """Whether no batch is compressed and all have magic 2."""
    is_undamaged: bool
    """Whether all checksums match and no bytes were skipped."""


class BlockIndex:
    """The indexed blocks of a log. One thread extends the index, any thread may read it."""

    def __init__(self, file: InputFile, batch_filter: BatchFilter | None = None) -> None:
        """Read the beginning of a log; raises InputError if the file is not a log."""
        self.file = file
        self.batch_filter = batch_filter or BatchFilter()
        self.blocks: list[IndexedBlock] = []
        self.is_complete = False
        """Whether the end of the file was reached."""
        self.read_error = ""
        """Why reading ended early."""
        self.target_bytes: int | None = None
        """The number of bytes to index; None for the whole file."""
        self._lock = threading.Lock()
        with open_log(file, read_ahead=False) as log:
            if log.size is None:
                reason = "the file itself is compressed; unpack it to browse it"
                raise InputError(f"{file.name}: {reason}")
            self.file_bytes = log.size
            self._base_offset = log.base_offset
        with closing(self.open_file()) as source:
            if not isinstance(source, FileSource):
                self.target_bytes = INDEX_AHEAD_BYTES
        self._resume_state = ReaderState(0, 0, FIRST_READ_BYTES, self._base_offset, False)
        self.extend_index(target_position=1)

    def open_file(self) -> Source:
        """Open the file; raises InputError."""
        return open_source(self.file.path, self.file.name)

    @property
    def n_rows(self) -> int:
        """The number of rows indexed so far."""
        blocks = self.blocks
        return blocks[-1].first_row + blocks[-1].n_rows if blocks else 0

    @property
    def n_batches(self) -> int:
        """The number of batches indexed so far, listed or not."""
        return self._resume_state.n_batches

    @property
    def end_position(self) -> int:
        """The byte at which the index ends."""
        return self._resume_state.position

    def extend_index(
        self,
        target_position: int | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Extend the index to the end of the file or to a byte. is_cancelled: returns True to
        cancel."""
        with self._lock:
            try:
                with closing(self.open_file()) as source:
                    self.file_bytes = max(source.size or 0, self.file_bytes)
                    reader = LogReader(source, self._base_offset)
                    for block in reader.iter_blocks_from_state(self._resume_state):
                        self.blocks.append(self._index_block(block, reader.reader_state))
                        self._resume_state = reader.reader_state
                        if is_cancelled() or (
                            target_position is not None and self.end_position >= target_position
                        ):
                            return
                self.is_complete = True
            except InputError as error:
                self.read_error, self.is_complete = str(error), True

    def follow_error(self) -> str:
        """Why the file cannot be followed: it is missing or has shrunk; empty otherwise."""
        try:
            with closing(self.open_file()) as source:
                current_bytes = source.size
        except InputError as error:
            return str(error)
        if current_bytes is not None and current_bytes < self.end_position:
            return f"{self.file.name}: shrank from {self.end_position} to {current_bytes} bytes"
        return ""

    def index_appended_bytes(self) -> bool:
        """Index what was appended to the file; returns whether the index has changed."""
        previous_rows_and_end = self.n_rows, self.end_position
        with self._lock:
            blocks = list(self.blocks)
            while blocks and self._may_be_completed(blocks[-1]):
                self._resume_state = blocks.pop().reader_state
            self.blocks = blocks  # other threads may still read the old list
        self.is_complete, self.read_error = False, ""
        self.extend_index()
        return (self.n_rows, self.end_position) != previous_rows_and_end

    def _may_be_completed(self, indexed_block: IndexedBlock) -> bool:
        """Whether a damaged block reaches the end of the index and may be completed later."""
        return not indexed_block.is_undamaged and indexed_block.end_position >= self.end_position

    def _index_block(self, block: Block, next_state: ReaderState) -> IndexedBlock:
        batches = block.batches
        rows = batches
        if self.batch_filter:
            rows = batches.select_rows(np.flatnonzero(self.batch_filter.batch_mask(batches)))
        has_rows = len(rows) > 0
        # A damaged header must not draw the search for an offset to its block.
        is_in_order = in_order_mask(rows)
        last_offsets = rows.last_offset[is_in_order] if is_in_order.any() else rows.last_offset
        uncompressed_v2_mask = (batches.compression == 0) & (batches.is_v2 == 1)
        return IndexedBlock(
            self._resume_state,
            next_state.position,
            self.n_rows,
            len(rows),
            int(last_offsets.max()) if has_rows else -1,
            int(rows.max_timestamp.max()) if has_rows else -1,
            bool(uncompressed_v2_mask.all()),
            bool(batches.crc_valid.all()) and not block.findings,
        )

    # Finding blocks.

    def find_block_by_row(self, row_index: int) -> IndexedBlock | None:
        """The block that contains a row."""
        blocks = self.blocks
        i = bisect_right(blocks, row_index, key=lambda block: block.first_row) - 1
        while i >= 0 and not blocks[i].n_rows:
            i -= 1
        is_found = i >= 0 and row_index < blocks[i].first_row + blocks[i].n_rows
        return blocks[i] if is_found else None

    def find_block_by_byte(self, position: int) -> IndexedBlock | None:
        """The block that contains a byte of the file."""
        blocks = self.blocks
        i = bisect_right(blocks, position, key=lambda block: block.reader_state.position) - 1
        return blocks[i] if i >= 0 and position < blocks[i].end_position else None

    def read_block(self, indexed_block: IndexedBlock) -> Block:
        """Read a block again, with only the listed batches; raises InputError."""
        with closing(self.open_file()) as source:
            reader = LogReader(source, self._base_offset)
            block = next(reader.iter_blocks_from_state(indexed_block.reader_state), None)
        if block is None:
            raise InputError(f"{self.file.name}: the file has shrunk")
        batches = block.batches
        listed_mask = batches.position < indexed_block.end_position  # the file may have grown since
        if self.batch_filter:
            listed_mask &= self.batch_filter.batch_mask(batches)
        if not listed_mask.all():
            block.batches = batches.select_rows(np.flatnonzero(listed_mask))
        return block
