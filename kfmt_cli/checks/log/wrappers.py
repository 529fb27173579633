"""Check where compressed messages of magic 0 and 1 begin.

Only decompression shows where a wrapper begins. A wrapper's first inner offset must be greater than
the previous batch's last offset, wherever that batch is: in the same run of batches, at the end of
the previous block, or in another worker's stretch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.base import Facts, LogCheck
from kfmt_cli.checks.log.headers import backwards, facts_of, header_from, header_of
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records


class WrapperOffsets(LogCheck):
    """The messages inside a wrapper come after the previous batch."""

    codes = (codes.OFFSETS_BACKWARDS,)
    looks_back = True
    magics = frozenset({0, 1})

    def __init__(self, base_offset: int | None = None) -> None:
        super().__init__(base_offset)
        self._first: Block | None = None  # the first batch with records
        self._first_offset: int | None = None
        self._begins_with_wrapper = False
        self._last_offset: int | None = None

    def take(self, run: Block, records: Records | None) -> Iterator[Finding]:
        if records is None:
            return
        counts = records.counts
        filled = np.flatnonzero(counts)
        if not len(filled):
            return
        rows = records.ends[filled] - counts[filled]
        offset, batches = records.rows.offset, run.batches
        first, before = offset[rows], offset[rows - 1]
        wrapper = (batches.is_v2[filled] == 0) & (batches.compression[filled] != 0)
        here = WrapperOffsets()
        here._first = header_of(run, int(filled[0]))
        here._first_offset, here._last_offset = int(first[0]), int(offset[-1])
        here._begins_with_wrapper = bool(wrapper[0])
        yield from self.join(here)
        wrong = wrapper & (first <= before)
        wrong[0] = False  # the first batch has no previous row here
        for i in np.flatnonzero(wrong).tolist():
            yield backwards(run, int(filled[i]), int(first[i]), int(before[i]))

    def join(self, later: WrapperOffsets) -> Iterator[Finding]:
        if later._first is None:
            return
        first, before = later._first_offset, self._last_offset
        assert first is not None
        if before is not None and later._begins_with_wrapper and first <= before:
            yield backwards(later._first, 0, first, before)
        if self._first is None:
            self._first, self._first_offset = later._first, first
            self._begins_with_wrapper = later._begins_with_wrapper
        self._last_offset = later._last_offset

    def facts(self) -> Facts:
        return {
            **facts_of(self._first),
            "first_offset": self._first_offset,
            "begins_with_wrapper": int(self._begins_with_wrapper),
            "last_offset": self._last_offset,
        }

    def recall(self, facts: Facts) -> None:
        self._first = header_from(facts)
        self._first_offset = facts["first_offset"]
        self._begins_with_wrapper = facts["begins_with_wrapper"] == 1
        self._last_offset = facts["last_offset"]
