"""What the records of a batch must agree on with the batch before it.

Only decompression shows where a wrapper of magic 0 or 1 begins. It must lie behind the batch before
it, wherever that stands: in the same run of batches, at the end of the block before, or in what
another worker looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.finding import Finding
from kfmt_cli.files import codes
from kfmt_cli.files.block import Block
from kfmt_cli.files.records import Records, batch_finding


@dataclass(frozen=True, slots=True)
class _Start:
    """The first batch of a stretch that holds records. block: nothing but that batch. offset: that
    of its first record."""

    block: Block
    offset: int
    is_wrapper: bool


@dataclass(slots=True)
class Neighbours:
    """A stretch of a log: what its first batch begins with and what its last one ends with.

    Each block that is looked at on its own, on whatever thread, has a stretch of its own; `join`
    puts them together in reading order.
    """

    _start: _Start | None = None
    _last: int | None = None

    def take(self, run: Block, records: Records) -> Iterator[Finding]:
        """Add a run of batches at the end of the stretch; findings in the run's order."""
        counts = np.diff(records.ends, prepend=0)
        filled = np.flatnonzero(counts)
        if not len(filled):
            return
        rows = records.ends[filled] - counts[filled]
        offset, batches = records.rows["offset"], run.batches
        first, before = offset[rows], offset[rows - 1]
        wrapper = (batches["is_v2"][filled] == 0) & (batches["compression"][filled] != 0)
        start = _Start(_header_of(run, int(filled[0])), int(first[0]), bool(wrapper[0]))
        yield from self.join(Neighbours(start, int(offset[-1])))
        wrong = wrapper & (first <= before)
        wrong[0] = False  # `before` is no row before it
        for i in np.flatnonzero(wrong).tolist():
            yield _backwards(run, int(filled[i]), int(first[i]), int(before[i]))

    def join(self, other: Neighbours) -> Iterator[Finding]:
        """Add another stretch at the end of this one."""
        start = other._start
        if start is None:
            return
        if self._last is not None and start.is_wrapper and start.offset <= self._last:
            yield _backwards(start.block, 0, start.offset, self._last)
        self._start = self._start or start
        self._last = other._last


def _header_of(run: Block, batch: int) -> Block:
    """One batch of the run without its bytes, so that these need not be kept."""
    return Block(run.name, b"", run.position, run.batches.select(slice(batch, batch + 1)))


def _backwards(block: Block, batch: int, first: int, before: int) -> Finding:
    return batch_finding(
        block,
        batch,
        codes.OFFSETS_BACKWARDS,
        f"begins at offset {first}, but offset {before} comes before it",
        expected=before + 1,
        found=first,
    )
