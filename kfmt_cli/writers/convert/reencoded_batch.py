"""Re-encodes the readable records of a damaged batch as a new batch, and marks each record.

No checksum verifies such records. Each gets an additional header that names the damage, so that
consumers can recognize them. Leader epochs, and producers without transactions, are not copied from
the damaged batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS, TRANSACTIONAL
from kfmt_cli.log.block import Block, is_legacy, slice_block
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import RecordColumns, build_expand_program, fill_columns_from_batches
from kfmt_cli.writers.batches import CODEC_MASK, EncodedBatches, encode_batches
from kfmt_cli.writers.build.batch_drafts import create_drafts, normalize_magic0_timestamps

SALVAGED_HEADER_KEY = b"kfmt.salvaged"  # the header's value is the finding code
_TIMESTAMP_TYPE_PROGRAM = build_expand_program(("timestamp_type", "timestamp_type", None, None))
ProducerIdAndEpoch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReencodedBatch:
    """The readable records of a damaged batch, encoded as a new batch."""

    damaged_position: int
    """The byte where the damaged batch begins in its log."""
    encoded_batch: EncodedBatches
    n_records: int
    producer: ProducerIdAndEpoch | None
    """The producer of the batch's transaction; None without one."""

    @property
    def base_offset(self) -> int:
        """The offset of the first record."""
        return int(self.encoded_batch.base_offset[0])

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return int(self.encoded_batch.last_offset[0])


def reencode_batch(
    run: Block, batch_index: int, limit: DecompressionLimit, findings: list[Finding]
) -> ReencodedBatch | None:
    """Re-encode the readable records of batch i of a run; None if there are none.

    findings: the run's findings. Control batches are never re-encoded: a partial marker is
    meaningless.
    """
    batch_block = slice_block(run, batch_index, batch_index + 1)
    batch_row = batch_block.batches.row(0)
    if batch_row.control:
        return None
    records = read_records(batch_block, limit)
    if not is_legacy(batch_block):
        fill_columns_from_batches(batch_block, records, _TIMESTAMP_TYPE_PROGRAM)
    base_offset, last_offset = (
        int(batch_block.batches.base_offset[0]),
        int(batch_block.batches.last_offset[0]),
    )
    offsets = records.rows.offset
    is_in_range = (offsets >= base_offset) & (offsets <= last_offset)
    previous_offsets = np.concatenate(
        [[base_offset - 1], np.where(is_in_range, offsets, base_offset - 1)]
    )
    rows = records.rows.select_rows(
        is_in_range & (offsets > np.maximum.accumulate(previous_offsets)[:-1])
    )
    if base_offset < 0 or not len(rows):
        return None
    normalize_magic0_timestamps(rows)
    end_position = batch_row.position + batch_row.size
    code_names = [
        finding.code.name
        for finding in findings
        if batch_row.position <= (finding.position or 0) < end_position
    ]
    marked_records = _add_salvaged_headers(
        RecordColumns(records.data, rows, records.headers, np.array([len(rows)])), code_names[0]
    )
    codec = batch_row.compression if batch_row.compression < len(CODECS) else 0
    drafts = create_drafts(rows, np.array([0]), codec)
    producer = None
    if batch_row.is_v2 and batch_row.transactional:
        producer = batch_row.producer_id, batch_row.producer_epoch
        drafts.attributes |= TRANSACTIONAL.mask
        drafts.producer_id, drafts.producer_epoch = producer
        drafts.base_sequence = batch_row.base_sequence + int(rows.offset[0]) - base_offset
    assert (drafts.attributes & CODEC_MASK == codec).all()
    encoded_batch = encode_batches(drafts, marked_records)
    return ReencodedBatch(batch_row.position, encoded_batch, len(rows), producer)


def _add_salvaged_headers(records: RecordColumns, code_name: str) -> RecordColumns:
    """Append the header that names the damage to the headers of each record."""
    rows = records.rows
    key_position, value_position = len(records.data), len(records.data) + len(SALVAGED_HEADER_KEY)
    salvaged_header = np.array(
        [[key_position], [len(SALVAGED_HEADER_KEY)], [value_position], [len(code_name)]]
    )
    header_arrays = []
    for first_header, n_headers in zip(
        rows.headers_first.tolist(), rows.headers.tolist(), strict=True
    ):
        header_arrays += [
            records.headers[:4, first_header : first_header + n_headers],
            salvaged_header,
        ]
    rows.headers += 1
    rows.headers_first = np.cumsum(rows.headers) - rows.headers
    extended_data = b"".join([records.data, SALVAGED_HEADER_KEY, code_name.encode()])
    return RecordColumns(
        extended_data, rows, np.ascontiguousarray(np.hstack(header_arrays)), records.row_ends
    )
