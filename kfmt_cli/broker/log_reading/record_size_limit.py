"""Records that are larger than max.decompressed.message.bytes, at which a broker stops reading.

Source: from Kafka 4.4 on, `org.apache.kafka.storage.internals.log.Cleaner` and
`LogSegment.findOffsetByTimestamp`; both limit only records of compressed batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.log.block import Block
from kfmt_cli.log.records import RecordColumns


@dataclass(frozen=True, slots=True)
class OversizedRecord:
    """The first record that is larger than the limit."""

    row: int
    """Its row among the records."""
    reason: str
    """Why a broker stops at it."""


def find_oversized_record(
    batch_run: Block, records: RecordColumns, max_record_bytes: int
) -> OversizedRecord | None:
    """The first record of a compressed batch that is larger; None if there is none.

    A broker counts a record without its length or, in a wrapper, without its offset and size.
    """
    rows = records.rows
    magics = batch_run.batches.magic[records.batch_of_row]
    payload_sizes = rows.key_size.clip(0) + rows.value_size.clip(0)
    sizes = np.where(magics == 2, rows.length, payload_sizes + np.where(magics == 1, 22, 14))
    is_compressed = batch_run.batches.compression[records.batch_of_row] != 0
    oversized_rows = np.flatnonzero(is_compressed & (sizes > max_record_bytes))
    if not len(oversized_rows):
        return None
    row = int(oversized_rows[0])
    reason = (
        f"max.decompressed.message.bytes is {max_record_bytes} and the record at offset "
        f"{rows.offset[row]} has {sizes[row]} bytes"
    )
    return OversizedRecord(row, reason)
