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
        header = FileHeading(file.name, self.index.size, file.base_offset)
        self._writer = BatchRowWriter(header, DisplayOptions(), host)
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

    def cached_block(self, indexed: IndexedBlock) -> Block:
        """A block, cached; raises InputError."""
        key = indexed.state.position
        with self._lock:
            cached = self._blocks.get(key)
            if cached is not None and len(cached.batches) == indexed.n_rows:
                self._blocks.move_to_end(key)
                return cached
        block = self.index.read_block(indexed)
        with self._lock:
            self._blocks[key] = block
            while len(self._blocks) > MAX_CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        return block

    def find_batch(self, row: int) -> tuple[Block, int]:
        """The block that contains a row, and the index of the row's batch in it; raises
        InputError."""
        indexed = self.index.find_by_row(row)
        block = None if indexed is None else self.cached_block(indexed)
        if indexed is None or block is None or row - indexed.first_row >= len(block.batches):
            raise InputError(f"{self.index.file.name}: the file has changed; no such batch")
        return block, row - indexed.first_row

    def lines(self, first: int, last: int) -> list[str]:
        """Rows first..last-1, coloured with escape sequences; raises InputError."""
        lines: list[str] = []
        row = first
        while row < last:
            indexed = self.index.find_by_row(row)
            if indexed is None:
                break
            block = self.cached_block(indexed)
            start = row - indexed.first_row
            end = min(start + last - row, len(block.batches))
            if start >= end:
                break
            lines += self._render_rows(block, start, end).split("\n")[-(end - start) - 1 : -1]
            row += end - start
        return lines

    def _render_rows(self, block: Block, first: int, last: int) -> str:
        rows = batch_rows(slice_block(block, first, last))
        chunks = self._writer.render(rows, 0, last - first)
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
        indexed = next(candidates, None)
        if indexed is None:
            return max(self.index.n_rows - 1, 0) if self.index.is_complete else None
        column = "max_timestamp" if attribute == "max_timestamp" else attribute
        return self._row_in_block(indexed, column, minimum)

    def _row_in_block(self, indexed: IndexedBlock | None, column: str, minimum: int) -> int:
        if indexed is None:
            return 0
        batches = self.cached_block(indexed).batches
        values = batches.position + batches.size if column == "end_position" else batches[column]
        matches = np.flatnonzero(values >= minimum)
        row = indexed.first_row + (int(matches[0]) if len(matches) else indexed.n_rows)
        return max(min(row, self.index.n_rows - 1), 0)
