"""Where the batches of a log are, without storing them: an anchor for each block read.

A log of 1 GiB has some 500 anchors. From an anchor the reader reads the same block again, so rows
are read only when they are shown. A thread builds the outline while its rows are already shown, and
extends it when the file grows.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from kfmt_cli.browse.wanted_batches import WantedBatches
from kfmt_cli.core.source import FileSource, Source
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import open_source
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.open_log import open_log
from kfmt_cli.log.reader import LogReader, ReadingState

AHEAD = 32 << 20  # bytes of a file at a URL to read ahead of the view
FIRST_LOOK = 1 << 16


@dataclass(frozen=True, slots=True)
class Anchor:
    """A block of a log, with the state needed to read it again."""

    state: ReadingState
    end: int
    """The position of the first byte after it."""
    row: int
    """The index of its first row."""
    n_rows: int
    last_offset: int
    """The greatest last offset of its batches; -1 without batches."""
    max_time: int
    """The greatest timestamp of its batches; -1 without batches."""
    is_plain: bool
    """Whether no batch is compressed and all have magic 2."""
    is_sound: bool
    """Whether all checksums match and no bytes were skipped."""


class Outline:
    """The anchors of a log. One thread extends it, any thread may read it."""

    def __init__(self, file: Input, wanted: WantedBatches | None = None) -> None:
        """Read the beginning of a log; raises InputError if the file is not a log."""
        self.file = file
        self.wanted = wanted or WantedBatches()
        self.anchors: list[Anchor] = []
        self.is_whole = False
        """Whether the end of the file was reached."""
        self.trouble = ""
        """Why reading ended early."""
        self.wanted_bytes: int | None = None
        """The number of bytes to outline; None for the whole file."""
        self._lock = threading.Lock()
        with open_log(file, read_ahead=False) as log:
            if log.size is None:
                words = "the file itself is compressed; unpack it to browse it"
                raise InputError(f"{file.name}: {words}")
            self.size = log.size
            self._base_offset = log.base_offset
        with closing(self.source()) as source:
            if not isinstance(source, FileSource):
                self.wanted_bytes = AHEAD
        self._state = ReadingState(0, 0, FIRST_LOOK, self._base_offset, False)
        self.grow(until=1)

    def source(self) -> Source:
        """Open the file; raises InputError."""
        return open_source(self.file.path, self.file.name)

    @property
    def n_rows(self) -> int:
        """The number of rows known."""
        anchors = self.anchors
        return anchors[-1].row + anchors[-1].n_rows if anchors else 0

    @property
    def n_batches(self) -> int:
        """The number of batches known, listed or not."""
        return self._state.n_batches

    @property
    def end(self) -> int:
        """The byte at which the outline ends."""
        return self._state.position

    def grow(
        self,
        until: int | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Extend the outline to the end of the file or to a byte. stop: returns True to cancel."""
        with self._lock:
            try:
                with closing(self.source()) as source:
                    self.size = max(source.size or 0, self.size)
                    reader = LogReader(source, self._base_offset)
                    for block in reader.resumed(self._state):
                        self.anchors.append(self._anchor(block, reader.state))
                        self._state = reader.state
                        if stop() or (until is not None and self.end >= until):
                            return
                self.is_whole = True
            except InputError as error:
                self.trouble, self.is_whole = str(error), True

    def cut_words(self) -> str:
        """Why the file cannot be followed: it is missing or has shrunk; empty otherwise."""
        try:
            with closing(self.source()) as source:
                size = source.size
        except InputError as error:
            return str(error)
        if size is not None and size < self.end:
            return f"{self.file.name}: shrank from {self.end} to {size} bytes"
        return ""

    def follow(self) -> bool:
        """Outline what was appended to the file; returns whether the outline has changed."""
        before = self.n_rows, self.end
        with self._lock:
            kept = list(self.anchors)
            while kept and self._may_change(kept[-1]):
                self._state = kept.pop().state
            self.anchors = kept  # other threads may still read the old list
        self.is_whole, self.trouble = False, ""
        self.grow()
        return (self.n_rows, self.end) != before

    def _may_change(self, anchor: Anchor) -> bool:
        """Whether a damaged block reaches the end of the outline and may be completed later."""
        return not anchor.is_sound and anchor.end >= self.end

    def _anchor(self, block: Block, after: ReadingState) -> Anchor:
        batches = block.batches
        n_rows = int(self.wanted.of(batches).sum()) if self.wanted else len(batches)
        has_any = len(batches) > 0
        plain = (batches.compression == 0) & (batches.is_v2 == 1)
        return Anchor(
            self._state,
            after.position,
            self.n_rows,
            n_rows,
            int(batches.last_offset.max()) if has_any else -1,
            int(batches.max_timestamp.max()) if has_any else -1,
            bool(plain.all()),
            bool(batches.crc_valid.all()) and not block.findings,
        )

    # Finding blocks.

    def of_row(self, row: int) -> Anchor | None:
        """The block that contains a row."""
        anchors = self.anchors
        i = bisect_right(anchors, row, key=lambda anchor: anchor.row) - 1
        while i >= 0 and not anchors[i].n_rows:
            i -= 1
        found = anchors[i] if i >= 0 else None
        return found if found is not None and row < found.row + found.n_rows else None

    def of_byte(self, position: int) -> Anchor | None:
        """The block that contains a byte of the file."""
        anchors = self.anchors
        i = bisect_right(anchors, position, key=lambda anchor: anchor.state.position) - 1
        return anchors[i] if i >= 0 and position < anchors[i].end else None

    def block(self, anchor: Anchor) -> Block:
        """Read a block again, with only the listed batches; raises InputError."""
        with closing(self.source()) as source:
            reader = LogReader(source, self._base_offset)
            block = next(reader.resumed(anchor.state), None)
        if block is None:
            raise InputError(f"{self.file.name}: the file has shrunk")
        batches = block.batches
        keep = batches.position < anchor.end  # the file may have grown since
        if self.wanted:
            keep &= self.wanted.of(batches)
        if not keep.all():
            block.batches = batches.select(np.flatnonzero(keep))
        return block
