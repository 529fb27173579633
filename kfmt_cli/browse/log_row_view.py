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

    def __init__(self, index: BlockIndex, width: int) -> None:
        self.index = index
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._lock = threading.Lock()
        self.heading = ""
        self.resize(width)

    def resize(self, width: int) -> None:
        """Fit the table to a width."""
        file = self.index.file
        host = CapturingHost(width=width)
        file_heading = FileHeading(file.name, self.index.size, file.base_offset)
        self._writer = BatchRowWriter(file_heading, DisplayOptions(), host)
        first_block = self.index.find_by_row(0)
        if first_block is not None:
            block = self.cached_block(first_block)
            chunks = self._writer.render(
                batch_rows(slice_block(block, 0, MAX_HEADING_BATCHES)), 0, first_block.n_rows
            )
            self.heading = bytes(next(chunks)).decode().rstrip("\n")

    def clear_cache(self) -> None:
        """Drop the cached blocks, as the file has changed."""
        with self._lock:
            self._blocks.clear()

    def cached_block(self, indexed_block: IndexedBlock) -> Block:
        """A block, cached; raises InputError."""
        key = indexed_block.state.position
        with self._lock:
            block_in_cache = self._blocks.get(key)
            if block_in_cache is not None and len(block_in_cache.batches) == indexed_block.n_rows:
                self._blocks.move_to_end(key)
                return block_in_cache
        block = self.index.read_block(indexed_block)
        with self._lock:
            self._blocks[key] = block
            while len(self._blocks) > MAX_CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        return block

    def find_batch(self, row: int) -> tuple[Block, int]:
        """The block that contains a row, and the index of the row's batch in it; raises
        InputError."""
        indexed_block = self.index.find_by_row(row)
        block = None if indexed_block is None else self.cached_block(indexed_block)
        if (
            indexed_block is None
            or block is None
            or row - indexed_block.first_row >= len(block.batches)
        ):
            raise InputError(f"{self.index.file.name}: the file has changed; no such batch")
        return block, row - indexed_block.first_row

    def lines(self, first_row: int, end_row: int) -> list[str]:
        """Rows first..last-1, coloured with escape sequences; raises InputError."""
        lines: list[str] = []
        row = first_row
        while row < end_row:
            indexed_block = self.index.find_by_row(row)
            if indexed_block is None:
                break
            block = self.cached_block(indexed_block)
            start = row - indexed_block.first_row
            end = min(start + end_row - row, len(block.batches))
            if start >= end:
                break
            lines += self._render_rows(block, start, end).split("\n")[-(end - start) - 1 : -1]
            row += end - start
        return lines

    def _render_rows(self, block: Block, first_row: int, end_row: int) -> str:
        rows = batch_rows(slice_block(block, first_row, end_row))
        chunks = self._writer.render(rows, 0, end_row - first_row)
        return "".join(bytes(chunk).decode("utf-8", "replace") for chunk in chunks)

    def batch_fields(self, row: int) -> FieldDict:
        """The fields of a row's batch; raises InputError."""
        block, i = self.find_batch(row)
        return block.batches.row(i)

    # Finding rows; None if the index does not reach the target yet.

    def find_row_by_byte(self, position: int) -> int | None:
        """The row of the batch that contains a byte, or of the next one."""
        index = self.index
        if position >= index.end_position:
            return max(index.n_rows - 1, 0) if index.is_complete else None
        return self._row_in_block(index.find_by_byte(position), "end_position", position + 1)

    def find_row_by_offset(self, offset: int) -> int | None:
        """The row of the first batch whose last offset is at least this offset."""
        return self._find_first_row("last_offset", offset)

    def find_row_by_time(self, timestamp: int) -> int | None:
        """The row of the first batch with this timestamp or a later one."""
        return self._find_first_row("max_timestamp", timestamp)

    def _find_first_row(self, attribute: str, minimum: int) -> int | None:
        candidates = (
            block
            for block in self.index.blocks
            if block.n_rows > 0 and getattr(block, attribute) >= minimum
        )
        indexed_block = next(candidates, None)
        if indexed_block is None:
            return max(self.index.n_rows - 1, 0) if self.index.is_complete else None
        column = "max_timestamp" if attribute == "max_timestamp" else attribute
        return self._row_in_block(indexed_block, column, minimum)

    def _row_in_block(self, indexed_block: IndexedBlock | None, column: str, minimum: int) -> int:
        if indexed_block is None:
            return 0
        batches = self.cached_block(indexed_block).batches
        values = batches.position + batches.size if column == "end_position" else batches[column]
        matches = np.flatnonzero(values >= minimum)
        row = indexed_block.first_row + (int(matches[0]) if len(matches) else indexed_block.n_rows)
        return max(min(row, self.index.n_rows - 1), 0)
