"""State kept from batch to batch while the log of a partition is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.formats.batch import MAX_SEQUENCE
from kfmt_cli.writing.build.drafts import MAX_OFFSET
from kfmt_cli.writing.build.jsonl import Batch, Record, wrong


@dataclass(slots=True)
class OpenPartition:
    """The state of a partition.

    last_offset: the last batch's, -1 before the first; last_record: its last record's. start: the
    default offset of the first record. sequences: the next sequence number per producer. facts: the
    last loose record's, see `writing/build/loose.py`.
    """

    last_offset: int = -1
    last_record: int = -1
    start: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    facts: IntArray | None = None

    @property
    def next_offset(self) -> int:
        """The default offset of the next record."""
        return max(self.last_offset + 1, self.start)

    def count(self, producer: int, n: int) -> int:
        """Count a producer's next n records; the first one's sequence number, -1 if no producer."""
        if producer < 0:
            return -1
        first = self.sequences.get(producer, 0)
        self.sequences[producer] = (first + n) & MAX_SEQUENCE
        return first

    def count_each(self, producers: IntArray, control: BoolArray, counts: IntArray) -> IntArray:
        """The base sequence of each batch; control batches have none."""
        each = zip(producers.tolist(), control.tolist(), counts.tolist(), strict=True)
        done = [-1 if of_control else self.count(producer, n) for producer, of_control, n in each]
        return np.array(done, np.int64)


def check_offsets(lines: Sequence[Record], offsets: IntArray, before: int) -> None:
    """Raise LineError unless the offsets increase. before: the previous offset, -1 without one."""
    if not len(offsets):
        return
    # Not by their difference, which may be more than an offset can be.
    steps = np.flatnonzero(offsets <= np.concatenate([[before], offsets[:-1]]))
    negative = np.flatnonzero(offsets < 0)
    if len(negative):
        i = int(negative[0])
        raise wrong(lines[i], f"offset {offsets[i]} is negative")
    if len(steps):
        i = int(steps[0])
        earlier = int(offsets[i - 1]) if i else before
        raise wrong(
            lines[i], f"offset {offsets[i]} is not greater than the previous offset {earlier}"
        )
    if offsets[-1] == MAX_OFFSET:
        raise wrong(lines[-1], f"offset {MAX_OFFSET} leaves no room for the next offset")


def check_base_offset(line: Batch, base: int, before: int) -> None:
    """Raise LineError unless a batch begins after the previous offset."""
    if base < 0:
        raise wrong(line, f"base_offset {base} is negative")
    if base <= before:
        raise wrong(line, f"base_offset {base} is not greater than the previous offset {before}")
