"""The state of a partition whose log is being built, kept from batch to batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.table import BoolArray
from kfmt_cli.formats.batch import MAX_SEQUENCE
from kfmt_cli.writers.build.jsonl import BatchLine, RecordLine, line_error


@dataclass(slots=True)
class PartitionBuildState:
    """The state of a partition.

    last_offset: the last batch's last offset, -1 before the first batch. last_record_offset: the
    last record's offset. default_start_offset: the default offset of the first record.
    next_sequence_by_producer: the next sequence number by producer id. last_shared_values: the last
    unbatched record's, see `writers/build/unbatched_records.py`.
    """

    last_offset: int = -1
    last_record_offset: int = -1
    default_start_offset: int = 0
    next_sequence_by_producer: dict[int, int] = field(default_factory=dict)
    last_shared_values: IntArray | None = None

    @property
    def next_offset(self) -> int:
        """The default offset of the next record."""
        return max(self.last_offset + 1, self.default_start_offset)

    def allocate_sequences(self, producer_id: int, n_records: int) -> int:
        """Allocate sequence numbers for records; returns the first one, -1 without a producer."""
        if producer_id < 0:
            return -1
        first_sequence = self.next_sequence_by_producer.get(producer_id, 0)
        self.next_sequence_by_producer[producer_id] = (first_sequence + n_records) & MAX_SEQUENCE
        return first_sequence

    def allocate_base_sequences(
        self, producer_ids: IntArray, is_control_batch: BoolArray, record_counts: IntArray
    ) -> IntArray:
        """Allocate the base sequence of each batch, -1 for control batches. record_counts: of
        records."""
        batch_values = zip(
            producer_ids.tolist(), is_control_batch.tolist(), record_counts.tolist(), strict=True
        )
        base_sequences = [
            -1 if is_control else self.allocate_sequences(producer_id, n_records)
            for producer_id, is_control, n_records in batch_values
        ]
        return np.array(base_sequences, np.int64)


def require_increasing_offsets(
    record_lines: Sequence[RecordLine], offsets: IntArray, previous_offset: int
) -> None:
    """Raise LineError unless the offsets increase and are valid. previous_offset: the offset before
    them, -1 if none."""
    if not len(offsets):
        return
    # Compare the offsets, as their difference may overflow.
    nonincreasing_rows = np.flatnonzero(
        offsets <= np.concatenate([[previous_offset], offsets[:-1]])
    )
    negative_rows = np.flatnonzero(offsets < 0)
    if len(negative_rows):
        row = int(negative_rows[0])
        raise line_error(record_lines[row], f"offset {offsets[row]} is negative")
    if len(nonincreasing_rows):
        row = int(nonincreasing_rows[0])
        preceding_offset = int(offsets[row - 1]) if row else previous_offset
        raise line_error(
            record_lines[row],
            f"offset {offsets[row]} is not greater than the previous offset {preceding_offset}",
        )
    if offsets[-1] == MAX_OFFSET:
        raise line_error(
            record_lines[-1], f"offset {MAX_OFFSET} leaves no room for the next offset"
        )


def require_increasing_base_offset(
    batch_line: BatchLine, base_offset: int, previous_offset: int
) -> None:
    """Raise LineError unless the base offset is greater than the previous offset."""
    if base_offset < 0:
        raise line_error(batch_line, f"base_offset {base_offset} is negative")
    if base_offset <= previous_offset:
        raise line_error(
            batch_line,
            f"base_offset {base_offset} is not greater than the previous offset {previous_offset}",
        )
