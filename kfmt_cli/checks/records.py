"""What the records of a batch must agree on with its header.

Compaction may leave gaps anywhere inside a batch, so only order and bounds are checked, not that
offsets are consecutive.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.finding import Finding
from kfmt_cli.files import codes
from kfmt_cli.files.block import Block
from kfmt_cli.files.records import Records, batch_finding


def check_records(block: Block, records: Records) -> Iterator[Finding]:
    """Offsets inside their batch and increasing; the max timestamp the largest."""
    rows = records.rows
    if not len(rows):
        return
    batch, offset = rows["batch"], rows["offset"]
    batches = block.batches
    backwards = (np.diff(offset) <= 0) & (np.diff(batch) == 0)
    if backwards.any():
        for row in np.flatnonzero(backwards).tolist():
            yield batch_finding(
                block,
                int(batch[row]),
                codes.RECORD_OFFSETS_BACKWARDS,
                f"offset {offset[row + 1]} follows offset {offset[row]}",
                offset=int(offset[row + 1]),
            )
    outside = offset > batches["last_offset"][batch]
    outside |= (offset < batches["base_offset"][batch]) & (batches["is_v2"][batch] == 1)
    if outside.any():
        for row in np.flatnonzero(outside).tolist():
            i = int(batch[row])
            bounds = f"{batches['base_offset'][i]}–{batches['last_offset'][i]}"
            yield batch_finding(
                block,
                i,
                codes.RECORD_OFFSET_OUT_OF_BATCH,
                f"a record has offset {offset[row]}, the batch {bounds}",
                expected=bounds,
                found=int(offset[row]),
                offset=int(offset[row]),
            )
    yield from _check_timestamps(block, records)


def _check_timestamps(block: Block, records: Records) -> Iterator[Finding]:
    """The header's max timestamp against the records', where the producer set both."""
    rows, batches = records.rows, block.batches
    per_batch = np.diff(records.ends, prepend=0)
    filled = np.flatnonzero(per_batch)
    firsts = records.ends[filled] - per_batch[filled]
    largest = np.maximum.reduceat(rows["timestamp"], firsts)
    stored = batches["max_timestamp"][filled]
    wrong = (largest != stored) & (batches["timestamp_type"][filled] == 0)
    # A batch that could not be read to its end may hold the largest in what is missing.
    declared = batches["records_count"][filled]
    wrong &= (per_batch[filled] == declared) | (batches["is_v2"][filled] == 0)
    for i in np.flatnonzero(wrong).tolist():
        yield batch_finding(
            block,
            int(filled[i]),
            codes.MAX_TIMESTAMP_MISMATCH,
            f"max timestamp {stored[i]}, the largest of its records is {largest[i]}",
            expected=int(largest[i]),
            found=int(stored[i]),
        )
