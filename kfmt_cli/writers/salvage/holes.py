"""Reports the holes in a salvaged log, and selects the remains of damaged batches that fill them.

Remains are kept if their offsets continue the previous ones. A damaged batch may have any offset:
if offsets do not increase, the batch that contradicts its neighbours is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire_types import Buffer
from kfmt_cli.core.table import BoolArray
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.writers.convert.reencoded_batch import ProducerIdAndEpoch, ReencodedBatch

MAX_PENDING_REMAINS_BYTES = 8 << 20  # bytes of remains that wait for the next batches
MAX_LOOKAHEAD_BATCHES = 256  # batches examined to decide about one that jumps forward
NO_NEXT_OFFSET = (1 << 63) - 1  # the next base offset if no segment follows
WriteBytes = Callable[[Buffer], None]


@dataclass(frozen=True, slots=True)
class LogHole:
    """A dropped byte range."""

    position: int
    size: int
    batches: int
    """Dropped batches with a readable header."""
    first_offset: int | None
    """The first missing offset; None if no offset is missing."""
    last_offset: int | None
    """The last missing offset; None if no offset is missing, or if nothing follows the hole."""
    reencoded: int
    """Records of damaged batches that were kept with these offsets."""
    codes: tuple[str, ...]
    """The codes of the findings in the range."""


@dataclass(slots=True)
class SalvageCounts:
    """The result for one log."""

    last_offset: int
    """The last offset of the batches kept, in this log or earlier ones."""
    bytes: int = 0
    bytes_after: int = 0
    batches: int = 0
    batches_after: int = 0
    holes: int = 0
    reencoded: int = 0
    """Records kept from damaged batches."""


@dataclass(slots=True)
class HoleTracker:
    """Tracks the bytes dropped since the last batch kept, and reports them as a hole."""

    salvage_counts: SalvageCounts
    on_hole: Callable[[LogHole], None]
    write_bytes: WriteBytes
    end_offset: int
    retained_producers: set[ProducerIdAndEpoch]
    """The producers of transactions in the batches kept."""
    hole_position: int = 0
    n_dropped_batches: int = 0
    """Dropped batches with a header."""
    n_reencoded_records: int = 0
    """Records written from remains."""
    code_names: set[str] = field(default_factory=set)
    """Finding codes from earlier runs."""
    pending_codes: deque[tuple[int, str]] = field(default_factory=deque)
    """Position and finding code, in the last run."""
    remains: deque[ReencodedBatch] = field(default_factory=deque)
    """The remains of damaged batches, which are written once the next batches are known."""
    previous_offset: int = field(init=False)
    """The last offset before the hole."""

    def __post_init__(self) -> None:
        self.previous_offset = self.salvage_counts.last_offset

    def add_run(
        self,
        findings: list[Finding],
        omitted_batches: list[tuple[int, str]],
        remains: list[ReencodedBatch],
    ) -> None:
        """Add a run of batches. omitted_batches: position and code of the undamaged batches
        dropped."""
        self.code_names.update(code for _, code in self.pending_codes)
        errors = filter(is_error, findings)
        error_codes = ((error.position or 0, error.code.name) for error in errors)
        self.pending_codes = deque(sorted([*error_codes, *omitted_batches]))
        if (
            sum(len(reencoded_batch.encoded_batch.data) for reencoded_batch in self.remains)
            > MAX_PENDING_REMAINS_BYTES
        ):
            newer_half = list(self.remains)[len(self.remains) // 2 :]
            self._write_remains(
                newer_half[0].damaged_position,
                self.end_offset,
                [reencoded_batch.base_offset for reencoded_batch in newer_half],
            )
        self.remains.extend(remains)

    def close_hole(self, position: int, next_offset: int | None) -> None:
        """End the hole at a batch that is kept or at the end of the file, and report it."""
        while self.pending_codes and self.pending_codes[0][0] < position:
            error_position, code = self.pending_codes.popleft()
            if error_position >= self.hole_position:
                self.code_names.add(code)
        if position > self.hole_position:
            self._write_remains(
                position, self.end_offset if next_offset is None else next_offset, []
            )
            first_offset: int | None = self.previous_offset + 1
            last_offset = None if next_offset is None else next_offset - 1
            if last_offset is not None and first_offset is not None and first_offset > last_offset:
                first_offset = last_offset = None
            hole_bytes = position - self.hole_position
            self.salvage_counts.holes += 1
            missing_offsets = first_offset, last_offset
            finding_codes = tuple(sorted(self.code_names))
            self.on_hole(
                LogHole(
                    self.hole_position,
                    hole_bytes,
                    self.n_dropped_batches,
                    *missing_offsets,
                    self.n_reencoded_records,
                    finding_codes,
                )
            )
        self.code_names.clear()
        self.n_reencoded_records = 0

    def _write_remains(
        self, end_position: int, end_offset: int, following_base_offsets: list[int]
    ) -> None:
        """Write the remains of batches before a position if their offsets are free and ordered."""
        candidate_batches = []
        while self.remains and self.remains[0].damaged_position < end_position:
            remains_batch = self.remains.popleft()
            has_known_producer = (
                remains_batch.producer is None or remains_batch.producer in self.retained_producers
            )
            if has_known_producer and remains_batch.last_offset < end_offset:
                candidate_batches.append(remains_batch)
        base_offsets = np.array(
            [reencoded_batch.base_offset for reencoded_batch in candidate_batches], np.int64
        )
        last_offsets = np.array(
            [reencoded_batch.last_offset for reencoded_batch in candidate_batches], np.int64
        )
        is_retained = increasing_offsets_mask(
            base_offsets, last_offsets, self.salvage_counts.last_offset, following_base_offsets
        )
        for i in np.flatnonzero(is_retained).tolist():
            self.write_bytes(candidate_batches[i].encoded_batch.data)
            self.salvage_counts.batches_after += 1
            self.salvage_counts.bytes_after += len(candidate_batches[i].encoded_batch.data)
            self.salvage_counts.reencoded += candidate_batches[i].n_records
            self.salvage_counts.last_offset = candidate_batches[i].last_offset
            self.n_reencoded_records += candidate_batches[i].n_records


@dataclass(slots=True)
class OffsetGaps:
    """The offset ranges of a partition that no batch contains, both ends inclusive."""

    last_offset: int
    """The last offset so far; initially the offset before the first."""
    intervals: list[tuple[int, int]] = field(default_factory=list)

    def add_batches(self, batches: BatchTable) -> None:
        """Add the next batches. The gap before a wrapper without a base offset is unknown."""
        base_offsets, last_offsets = batches.base_offset, batches.last_offset
        previous_offsets = np.append(np.int64(self.last_offset), last_offsets[:-1])
        has_base_offset = (batches.has_base_offset == 1) | (batches.is_v2 == 1)
        for i in np.flatnonzero(has_base_offset & (base_offsets > previous_offsets + 1)).tolist():
            self.intervals.append((int(previous_offsets[i]) + 1, int(base_offsets[i]) - 1))
        self.last_offset = int(last_offsets[-1])


def increasing_offsets_mask(
    base_offsets: IntArray,
    last_offsets: IntArray,
    previous_offset: int,
    following_base_offsets: list[int],
) -> BoolArray:
    """The mask of the batches whose offsets increase.

    A batch that jumps forward is dropped if most of the following batches continue the previous one
    instead. following_base_offsets: base offsets of the batches after these.
    """
    is_retained = np.ones(len(base_offsets), np.bool_)
    if not len(base_offsets):
        return is_retained
    if (base_offsets > np.append(previous_offset, last_offsets[:-1])).all() and (
        not following_base_offsets or following_base_offsets[0] > last_offsets[-1]
    ):
        return is_retained
    all_base_offsets = np.append(base_offsets, np.array(following_base_offsets, np.int64))
    min_following_offsets = np.append(
        np.minimum.accumulate(all_base_offsets[::-1])[::-1][1:], NO_NEXT_OFFSET
    )
    for batch_index, (base_offset, last_offset) in enumerate(
        zip(base_offsets.tolist(), last_offsets.tolist(), strict=True)
    ):
        if base_offset <= previous_offset:
            is_retained[batch_index] = False
            continue
        if min_following_offsets[batch_index] <= last_offset:
            next_offsets = all_base_offsets[
                batch_index + 1 : batch_index + 1 + MAX_LOOKAHEAD_BATCHES
            ]
            next_offsets = next_offsets[next_offsets > previous_offset]
            if 2 * int((next_offsets <= last_offset).sum()) > len(next_offsets):
                is_retained[batch_index] = False
                continue
        previous_offset = last_offset
    return is_retained
