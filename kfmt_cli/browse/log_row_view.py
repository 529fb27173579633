"""A log as displayed: rows by index, read from the file when they become visible."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from kfmt_cli.browse.block_index import BlockIndex, IndexedBlock
from kfmt_cli.browse.text_host import CapturingHost
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block, slice_block
from kfmt_cli.log.derived_columns import batch_rows
from kfmt_cli.render.sinks.sink import DisplayOptions, FileHeading
from kfmt_cli.render.sinks.table_rows import BatchRowWriter

MAX_CACHED_BLOCKS = 6
MAX_HEADING_BATCHES = 1 << 20


class LogRowView:
    """The rows of a log in a table of a given width."""

    def __init__(self, block_index: BlockIndex, width: int) -> None:
        self.block_index = block_index
        self._block_by_position: OrderedDict[int, Block] = OrderedDict()
        self._lock = threading.Lock()
        self.table_heading = ""
        self.resize(width)

    def resize(self, width: int) -> None:
        """Fit the table to a width."""
        file = self.block_index.file
        host = CapturingHost(width=width)
        file_heading = FileHeading(file.name, self.block_index.file_bytes, file.base_offset)
        self._row_writer = BatchRowWriter(file_heading, DisplayOptions(), host)
        first_block = self.block_index.find_block_by_row(0)
        if first_block is not None:
            block = self.read_cached_block(first_block)
            chunks = self._row_writer.render(
                batch_rows(slice_block(block, 0, MAX_HEADING_BATCHES)), 0, first_block.n_rows
            )
            self.table_heading = bytes(next(chunks)).decode().rstrip("\n")

    def clear_cache(self) -> None:
        """Drop the cached blocks, as the file has changed."""
        with self._lock:
            self._block_by_position.clear()

    def read_cached_block(self, indexed_block: IndexedBlock) -> Block:
        """A block, cached; raises InputError."""
        block_position = indexed_block.reader_state.position
        with self._lock:
            block_in_cache = self._block_by_position.get(block_position)
            if block_in_cache is not None and len(block_in_cache.batches) == indexed_block.n_rows:
                self._block_by_position.move_to_end(block_position)
                return block_in_cache
        block = self.block_index.read_block(indexed_block)
        with self._lock:
            self._block_by_position[block_position] = block
            while len(self._block_by_position) > MAX_CACHED_BLOCKS:
                self._block_by_position.popitem(last=False)
        return block

    def locate_batch(self, row_index: int) -> tuple[Block, int]:
        """The block that contains a row, and the index of the row's batch in it; raises
        InputError."""
        indexed_block = self.block_index.find_block_by_row(row_index)
        if indexed_block is not None:
            block = self.read_cached_block(indexed_block)
            if row_index - indexed_block.first_row < len(block.batches):
                return block, row_index - indexed_block.first_row
        raise InputError(f"{self.block_index.file.name}: the file has changed; no such batch")

    def render_lines(self, start_row: int, end_row: int) -> list[str]:
        """Rows first..last-1, coloured with escape sequences; raises InputError."""
        lines: list[str] = []
        row_index = start_row
        while row_index < end_row:
            indexed_block = self.block_index.find_block_by_row(row_index)
            if indexed_block is None:
                break
            block = self.read_cached_block(indexed_block)
            start_index = row_index - indexed_block.first_row
            end_index = min(start_index + end_row - row_index, len(block.batches))
            if start_index >= end_index:
                break
            lines += self._render_rows(block, start_index, end_index).split("\n")[
                -(end_index - start_index) - 1 : -1
            ]
            row_index += end_index - start_index
        return lines

    def _render_rows(self, block: Block, start_index: int, end_index: int) -> str:
        rows = batch_rows(slice_block(block, start_index, end_index))
        chunks = self._row_writer.render(rows, 0, end_index - start_index)
        return "".join(bytes(chunk).decode("utf-8", "replace") for chunk in chunks)

    def batch_fields(self, row_index: int) -> FieldDict:
        """The fields of a row's batch; raises InputError."""
        block, batch_index = self.locate_batch(row_index)
        return block.batches.row(batch_index)

    # Finding rows; None if the index does not reach the target yet.

    def find_row_by_byte(self, position: int) -> int | None:
        """The row of the batch that contains a byte, or of the next one."""
        block_index = self.block_index
        if position >= block_index.end_position:
            return max(block_index.n_rows - 1, 0) if block_index.is_complete else None
        return self._find_row_in_block(
            block_index.find_block_by_byte(position), "end_position", position + 1
        )

    def find_row_by_offset(self, offset: int) -> int | None:
        """The row of the first batch whose last offset is at least this offset."""
        return self._find_first_row("last_offset", offset)

    def find_row_by_time(self, timestamp_ms: int) -> int | None:
        """The row of the first batch with this timestamp or a later one."""
        return self._find_first_row("max_timestamp", timestamp_ms)

    def _find_first_row(self, attribute: str, min_value: int) -> int | None:
        candidate_blocks = (
            block
            for block in self.block_index.blocks
            if block.n_rows > 0 and getattr(block, attribute) >= min_value
        )
        indexed_block = next(candidate_blocks, None)
        if indexed_block is None:
            return max(self.block_index.n_rows - 1, 0) if self.block_index.is_complete else None
        return self._find_row_in_block(indexed_block, attribute, min_value)

    def _find_row_in_block(
        self, indexed_block: IndexedBlock | None, column: str, min_value: int
    ) -> int:
        if indexed_block is None:
            return 0
        batches = self.read_cached_block(indexed_block).batches
        column_values = (
            batches.position + batches.size if column == "end_position" else batches[column]
        )
        matching_indexes = np.flatnonzero(column_values >= min_value)
        row_index = indexed_block.first_row + (
            int(matching_indexes[0]) if len(matching_indexes) else indexed_block.n_rows
        )
        return max(min(row_index, self.block_index.n_rows - 1), 0)
