"""A log as shown: rows by number, read from the file when they become visible."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from kfmt_cli.browse.batch_positions import Anchor, Outline
from kfmt_cli.browse.text_host import TextHost
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block, part_of
from kfmt_cli.log.derived_columns import batch_rows
from kfmt_cli.render.sinks.sink import Head, Look
from kfmt_cli.render.sinks.table_rows import BatchRows

MOST_BLOCKS = 6  # kept in memory
MOST_BATCHES = 1 << 20


class ShownLog:
    """The rows of a log in a table of a given width."""

    def __init__(self, outline: Outline, width: int) -> None:
        self.outline = outline
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._lock = threading.Lock()
        self.heading = ""
        self.resize(width)

    def resize(self, width: int) -> None:
        """Fit the table to a width."""
        file = self.outline.file
        host = TextHost(width=width)
        head = Head(file.name, self.outline.size, file.base_offset)
        self._writer = BatchRows(head, Look(), host)
        first = self.outline.of_row(0)
        if first is not None:
            block = self.block(first)
            pieces = self._writer.text(batch_rows(part_of(block, 0, MOST_BATCHES)), 0, first.n_rows)
            self.heading = bytes(next(pieces)).decode().rstrip("\n")

    def forget(self) -> None:
        """Drop the cached blocks, as the file has changed."""
        with self._lock:
            self._blocks.clear()

    def block(self, anchor: Anchor) -> Block:
        """A block, cached; raises InputError."""
        key = anchor.state.position
        with self._lock:
            held = self._blocks.get(key)
            if held is not None and len(held.batches) == anchor.n_rows:
                self._blocks.move_to_end(key)
                return held
        block = self.outline.block(anchor)
        with self._lock:
            self._blocks[key] = block
            while len(self._blocks) > MOST_BLOCKS:
                self._blocks.popitem(last=False)
        return block

    def find(self, row: int) -> tuple[Block, int]:
        """The block that contains a row, and its batch's index in the block; raises InputError."""
        anchor = self.outline.of_row(row)
        block = None if anchor is None else self.block(anchor)
        if anchor is None or block is None or row - anchor.row >= len(block.batches):
            raise InputError(f"{self.outline.file.name}: the file has changed; no such batch")
        return block, row - anchor.row

    def lines(self, first: int, last: int) -> list[str]:
        """Rows first..last-1, coloured with escape sequences; raises InputError."""
        found: list[str] = []
        row = first
        while row < last:
            anchor = self.outline.of_row(row)
            if anchor is None:
                break
            block = self.block(anchor)
            start = row - anchor.row
            end = min(start + last - row, len(block.batches))
            if start >= end:
                break
            found += self._text(block, start, end).split("\n")[-(end - start) - 1 : -1]
            row += end - start
        return found

    def _text(self, block: Block, first: int, last: int) -> str:
        rows = batch_rows(part_of(block, first, last))
        pieces = self._writer.text(rows, 0, last - first)
        return "".join(bytes(piece).decode("utf-8", "replace") for piece in pieces)

    def place(self, row: int) -> Fields:
        """The numbers of a row's batch; raises InputError."""
        block, i = self.find(row)
        return block.batches.row(i)

    # Finding rows; None if the outline does not reach the place yet.

    def row_at(self, position: int) -> int | None:
        """The row of the batch that contains a byte, or of the next one."""
        outline = self.outline
        if position >= outline.end:
            return max(outline.n_rows - 1, 0) if outline.is_whole else None
        return self._row_in(outline.of_byte(position), "end_position", position + 1)

    def row_of_offset(self, offset: int) -> int | None:
        """The row of the first batch whose last offset is at least this offset."""
        return self._row_with("last_offset", offset)

    def row_of_time(self, timestamp: int) -> int | None:
        """The row of the first batch with this timestamp or a later one."""
        return self._row_with("max_time", timestamp)

    def _row_with(self, name: str, least: int) -> int | None:
        found = (a for a in self.outline.anchors if a.n_rows > 0 and getattr(a, name) >= least)
        anchor = next(found, None)
        if anchor is None:
            return max(self.outline.n_rows - 1, 0) if self.outline.is_whole else None
        column = "max_timestamp" if name == "max_time" else name
        return self._row_in(anchor, column, least)

    def _row_in(self, anchor: Anchor | None, column: str, least: int) -> int:
        if anchor is None:
            return 0
        batches = self.block(anchor).batches
        values = batches.position + batches.size if column == "end_position" else batches[column]
        found = np.flatnonzero(values >= least)
        row = anchor.row + (int(found[0]) if len(found) else anchor.n_rows)
        return max(min(row, self.outline.n_rows - 1), 0)
