"""Check the records of a batch against its header.

Compaction may leave gaps anywhere inside a batch, so only order and bounds are checked, not that
offsets are consecutive.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.checks.base import LogCheck
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.damage import CONTROL_MALFORMED
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, batch_finding
from kfmt_cli.log.control import read_control
from kfmt_cli.log.records import Records


class RecordOffsets(LogCheck):
    """Record offsets are inside their batch and increase."""

    codes = (codes.RECORD_OFFSETS_BACKWARDS, codes.RECORD_OFFSET_OUT_OF_BATCH)

    def take(self, run: Block, records: Records | None) -> Iterator[Finding]:
        if records is None or not len(records):
            return
        filled, spans, batches = records.filled, records.spans, run.batches
        for i in filled[spans.rises == 0].tolist():
            offset = records.rows.offset[records.ends[i] - records.counts[i] : records.ends[i]]
            steps = np.flatnonzero(np.diff(offset) <= 0)
            before, after = offset[steps[0] : steps[0] + 2].tolist()
            yield batch_finding(
                run,
                i,
                codes.RECORD_OFFSETS_BACKWARDS,
                f"offset {after} follows offset {before}"
                + (f" (first of {len(steps)} occurrences in the batch)" if len(steps) > 1 else ""),
                expected=f"greater than {before}",
                found=after,
                offset=after,
            )
        last = batches.last_offset[filled]
        base = np.where(batches.has_base_offset == 1, batches.base_offset, -1)[filled]
        largest, least = spans.largest_offset, spans.least_offset
        for i in np.flatnonzero((largest > last) | (least < base)).tolist():
            found = int(largest[i] if largest[i] > last[i] else least[i])
            yield batch_finding(
                run,
                int(filled[i]),
                codes.RECORD_OFFSET_OUT_OF_BATCH,
                f"record offset {found}, batch {base[i]}–{last[i]}",
                expected=f"{base[i]}–{last[i]}",
                found=found,
                offset=found,
            )


class MaxTimestamps(LogCheck):
    """A batch's max timestamp is the largest of its records, if the producer set both."""

    codes = (codes.MAX_TIMESTAMP_MISMATCH,)

    def take(self, run: Block, records: Records | None) -> Iterator[Finding]:
        if records is None or not len(records):
            return
        filled, batches = records.filled, run.batches
        largest = records.spans.largest_timestamp
        stored = batches.max_timestamp[filled]
        wrong = (largest != stored) & (batches.timestamp_type[filled] == 0)
        # A batch that could not be read to its end may have the largest in the missing records.
        wrong &= records.spans.has_timestamps == 1
        counts = records.counts[filled]
        whole = (counts == batches.records_count[filled]) | (batches.is_v2[filled] == 0)
        for i in np.flatnonzero(wrong & whole).tolist():
            yield batch_finding(
                run,
                int(filled[i]),
                codes.MAX_TIMESTAMP_MISMATCH,
                f"max timestamp {stored[i]}, but the largest record timestamp is {largest[i]}",
                expected=int(largest[i]),
                found=int(stored[i]),
            )


class ControlRecords(LogCheck):
    """A control record has a valid key and value."""

    codes = (CONTROL_MALFORMED,)

    def take(self, run: Block, records: Records | None) -> Iterator[Finding]:
        if records is not None:
            yield from read_control(run, records)
