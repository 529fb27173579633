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

INDEX_AHEAD_BYTES = 32 << 20  # bytes of a file at a URL to read ahead of the view
FIRST_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class IndexedBlock:
    """A block of a log, with the state needed to read it again."""

    state: ReaderState
    end_position: int
    """The position of the first byte after the block."""
    first_row: int
    """The index of the block's first row."""
    n_rows: int
    last_offset: int
    """The greatest last offset of its batches; -1 without batches."""
    max_timestamp: int
    """The greatest timestamp of its batches; -1 without batches."""
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
            self.size = log.size
            self._base_offset = log.base_offset
        with closing(self.open_file()) as source:
            if not isinstance(source, FileSource):
                self.target_bytes = INDEX_AHEAD_BYTES
        self._reading_state = ReaderState(0, 0, FIRST_READ_BYTES, self._base_offset, False)
        self.extend(to_byte=1)

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
        return self._reading_state.n_batches

    @property
    def end_position(self) -> int:
        """The byte at which the index ends."""
        return self._reading_state.position

    def extend(
        self,
        to_byte: int | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Extend the index to the end of the file or to a byte. is_cancelled: returns True to
        cancel."""
        with self._lock:
            try:
                with closing(self.open_file()) as source:
                    self.size = max(source.size or 0, self.size)
                    reader = LogReader(source, self._base_offset)
                    for block in reader.resume(self._reading_state):
                        self.blocks.append(self._index_block(block, reader.state))
                        self._reading_state = reader.state
                        if is_cancelled() or (to_byte is not None and self.end_position >= to_byte):
                            return
                self.is_complete = True
            except InputError as error:
                self.read_error, self.is_complete = str(error), True

    def tail_error(self) -> str:
        """Why the file cannot be followed: it is missing or has shrunk; empty otherwise."""
        try:
            with closing(self.open_file()) as source:
                size = source.size
        except InputError as error:
            return str(error)
        if size is not None and size < self.end_position:
            return f"{self.file.name}: shrank from {self.end_position} to {size} bytes"
        return ""

    def tail(self) -> bool:
        """Index what was appended to the file; returns whether the index has changed."""
        previous_end = self.n_rows, self.end_position
        with self._lock:
            blocks = list(self.blocks)
            while blocks and self._may_be_completed(blocks[-1]):
                self._reading_state = blocks.pop().state
            self.blocks = blocks  # other threads may still read the old list
        self.is_complete, self.read_error = False, ""
        self.extend()
        return (self.n_rows, self.end_position) != previous_end

    def _may_be_completed(self, indexed_block: IndexedBlock) -> bool:
        """Whether a damaged block reaches the end of the index and may be completed later."""
        return not indexed_block.is_undamaged and indexed_block.end_position >= self.end_position

    def _index_block(self, block: Block, next_state: ReaderState) -> IndexedBlock:
        batches = block.batches
        n_rows = int(self.batch_filter.mask(batches).sum()) if self.batch_filter else len(batches)
        has_batches = len(batches) > 0
        is_uncompressed_v2 = (batches.compression == 0) & (batches.is_v2 == 1)
        return IndexedBlock(
            self._reading_state,
            next_state.position,
            self.n_rows,
            n_rows,
            int(batches.last_offset.max()) if has_batches else -1,
            int(batches.max_timestamp.max()) if has_batches else -1,
            bool(is_uncompressed_v2.all()),
            bool(batches.crc_valid.all()) and not block.findings,
        )

    # Finding blocks.

    def find_by_row(self, row: int) -> IndexedBlock | None:
        """The block that contains a row."""
        blocks = self.blocks
        i = bisect_right(blocks, row, key=lambda block: block.first_row) - 1
        while i >= 0 and not blocks[i].n_rows:
            i -= 1
        indexed_block = blocks[i] if i >= 0 else None
        return (
            indexed_block
            if indexed_block is not None and row < indexed_block.first_row + indexed_block.n_rows
            else None
        )

    def find_by_byte(self, position: int) -> IndexedBlock | None:
        """The block that contains a byte of the file."""
        blocks = self.blocks
        i = bisect_right(blocks, position, key=lambda block: block.state.position) - 1
        return blocks[i] if i >= 0 and position < blocks[i].end_position else None

    def read_block(self, indexed_block: IndexedBlock) -> Block:
        """Read a block again, with only the listed batches; raises InputError."""
        with closing(self.open_file()) as source:
            reader = LogReader(source, self._base_offset)
            block = next(reader.resume(indexed_block.state), None)
        if block is None:
            raise InputError(f"{self.file.name}: the file has shrunk")
        batches = block.batches
        mask = batches.position < indexed_block.end_position  # the file may have grown since
        if self.batch_filter:
            mask &= self.batch_filter.mask(batches)
        if not mask.all():
            block.batches = batches.select_rows(np.flatnonzero(mask))
        return block
