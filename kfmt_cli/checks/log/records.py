"""Check the records of a batch against its header.

Compaction may leave gaps anywhere inside a batch, so only order and bounds are checked, not that
offsets are consecutive.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.base import LogCheck
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, batch_finding
from kfmt_cli.log.control import fill_control_columns
from kfmt_cli.log.records import RecordColumns


class RecordOffsetsCheck(LogCheck):
    """Record offsets are inside their batch and increase."""

    facts_key = "RecordOffsets"

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        if records is None or not len(records):
            return
        nonempty_batches, record_ranges, batches = (
            records.nonempty_batch_indexes,
            records.record_ranges,
            run.batches,
        )
        for i in nonempty_batches[record_ranges.is_increasing == 0].tolist():
            offsets = records.rows.offset[
                records.row_ends[i] - records.row_counts[i] : records.row_ends[i]
            ]
            backward_rows = np.flatnonzero(np.diff(offsets) <= 0)
            previous_offset, next_offset = offsets[backward_rows[0] : backward_rows[0] + 2].tolist()
            yield batch_finding(
                run,
                i,
                codes.RECORD_OFFSETS_BACKWARDS,
                f"offset {next_offset} follows offset {previous_offset}"
                + (
                    f" (first of {len(backward_rows)} occurrences in the batch)"
                    if len(backward_rows) > 1
                    else ""
                ),
                expected=f"greater than {previous_offset}",
                found=next_offset,
                offset=next_offset,
            )
        last_offsets = batches.last_offset[nonempty_batches]
        base_offsets = np.where(batches.has_base_offset == 1, batches.base_offset, -1)[
            nonempty_batches
        ]
        max_offsets, min_offsets = record_ranges.max_offset, record_ranges.min_offset
        for i in np.flatnonzero(
            (max_offsets > last_offsets) | (min_offsets < base_offsets)
        ).tolist():
            invalid_offset = int(
                max_offsets[i] if max_offsets[i] > last_offsets[i] else min_offsets[i]
            )
            yield batch_finding(
                run,
                int(nonempty_batches[i]),
                codes.RECORD_OFFSET_OUT_OF_BATCH,
                f"record offset {invalid_offset}, batch {base_offsets[i]}–{last_offsets[i]}",
                expected=f"{base_offsets[i]}–{last_offsets[i]}",
                found=invalid_offset,
                offset=invalid_offset,
            )


class MaxTimestampCheck(LogCheck):
    """A batch's max timestamp is the largest of its records, if the producer set both."""

    facts_key = "MaxTimestamps"

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        if records is None or not len(records):
            return
        nonempty_batches, batches = records.nonempty_batch_indexes, run.batches
        record_max_timestamps = records.record_ranges.max_timestamp
        header_max_timestamps = batches.max_timestamp[nonempty_batches]
        is_mismatch = (record_max_timestamps != header_max_timestamps) & (
            batches.timestamp_type[nonempty_batches] == 0
        )
        # A batch that could not be read to its end may have the largest in the missing records.
        is_mismatch &= records.record_ranges.all_have_timestamp == 1
        record_counts = records.row_counts[nonempty_batches]
        is_complete = (record_counts == batches.records_count[nonempty_batches]) | (
            batches.is_v2[nonempty_batches] == 0
        )
        for i in np.flatnonzero(is_mismatch & is_complete).tolist():
            yield batch_finding(
                run,
                int(nonempty_batches[i]),
                codes.MAX_TIMESTAMP_MISMATCH,
                (
                    f"max timestamp {header_max_timestamps[i]}, but the largest record "
                    "timestamp is "
                    f"{record_max_timestamps[i]}"
                ),
                expected=int(record_max_timestamps[i]),
                found=int(header_max_timestamps[i]),
            )


class ControlRecordsCheck(LogCheck):
    """A control record has a valid key and value."""

    facts_key = "ControlRecords"

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        if records is not None:
            yield from fill_control_columns(run, records)
