"""Assembles batches whose records arrive in chunks: the last batch stays open for more records.

Records are encoded on arrival, so that memory and time are proportional to the encoded bytes, even
for a batch of millions of records.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.formats.batch import CODECS, CONTROL, TRANSACTIONAL
from kfmt_cli.log.block import BATCH_HEADER_BYTES
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.writers.batches import (
    CODEC_MASK,
    DraftTable,
    EncodedBatches,
    complete_batch,
    encode_batches,
    encode_records,
)
from kfmt_cli.writers.build.batch_drafts import OpenBatch, estimated_record_bytes
from kfmt_cli.writers.build.jsonl import line_error
from kfmt_cli.writers.legacy_batches import encode_legacy_batches, encode_messages, encode_wrapper

MAX_BATCH_BYTES = (1 << 31) - 1
V2_ATTRIBUTES_MASK = TRANSACTIONAL.mask | CONTROL.mask


class BatchAssembler:
    """Accepts batches and records, and passes complete batches to `emit_batches`.

    n_accepted_records: the number of records accepted. n_count_mismatches: the number of batches
    whose lines declare another record count.
    """

    def __init__(self, emit_batches: Callable[[EncodedBatches], None]) -> None:
        self._emit_batches = emit_batches
        self.open_batch: OpenBatch | None = None
        self.n_accepted_records = 0
        self.n_count_mismatches = 0

    def add_batches(self, drafts: DraftTable, records: RecordColumns) -> None:
        """Add batches; the last one stays open. Raises LineError."""
        self.close_open_batch()
        _require_legacy_compatible(drafts, records)
        last_index, magic = len(drafts) - 1, int(drafts.magic[0])
        n_complete_records = int(records.row_ends[last_index - 1]) if last_index else 0
        if last_index:
            rows = records.rows.select_rows(slice(0, n_complete_records))
            complete_records = RecordColumns(
                records.data, rows, records.headers, records.row_ends[:-1]
            )
            complete_drafts = drafts.select_rows(slice(0, last_index))
            self._count_record_mismatches(complete_drafts, complete_records.row_counts)
            self._emit_batches(
                encode_batches(complete_drafts, complete_records)
                if magic == 2
                else encode_legacy_batches(complete_drafts, complete_records, magic)
            )
            self.n_accepted_records += n_complete_records
        open_rows = (
            records.rows.select_rows(slice(n_complete_records, None))
            if n_complete_records
            else records.rows
        )
        open_draft = drafts.select_rows(slice(last_index, None))
        encoded_records = bytearray(BATCH_HEADER_BYTES if magic == 2 else 0)
        self.open_batch = OpenBatch(open_draft, encoded_records)
        if len(open_rows):
            self.extend_open_batch(
                RecordColumns(records.data, open_rows, records.headers, np.array([len(open_rows)]))
            )

    def extend_open_batch(self, records: RecordColumns) -> None:
        """Add records to the open batch; raises LineError."""
        open_batch = self.open_batch
        assert open_batch is not None
        rows, draft = records.rows, open_batch.draft
        _require_legacy_compatible(draft, records)
        last_offset_delta = int(rows.offset[-1] - draft.base_offset[0])
        draft.last_offset_delta = np.maximum(draft.last_offset_delta, last_offset_delta)
        if not draft.has_explicit_max[0]:
            max_timestamp = int(rows.timestamp.max())
            draft.max_timestamp = np.maximum(draft.max_timestamp, max_timestamp)
        magic = int(draft.magic[0])
        batch_index = np.zeros(len(rows), np.int64)
        if magic == 2:
            open_batch.encoded_bytes += encode_records(draft, batch_index, records)[0]
        elif draft.attributes[0] & CODEC_MASK:
            open_batch.encoded_bytes += encode_messages(draft, batch_index, records, magic)[0]
        else:
            records.row_ends = np.array([len(rows)])
            open_batch.encoded_messages.append(encode_legacy_batches(draft, records, magic))
        if len(open_batch.encoded_bytes) > MAX_BATCH_BYTES:
            message = f"its batch would be larger than {MAX_BATCH_BYTES} bytes"
            raise line_error(int(draft.line_number[0]), message)
        open_batch.estimated_bytes += int(estimated_record_bytes(rows).sum())
        open_batch.n_records += len(rows)
        self.n_accepted_records += len(rows)

    def close_open_batch(self) -> None:
        """Write the open batch; raises LineError if its line declares records but none follow."""
        closed_batch, self.open_batch = self.open_batch, None
        if closed_batch is None:
            return
        self._count_record_mismatches(closed_batch.draft, np.array([closed_batch.n_records]))
        magic = int(closed_batch.draft["magic"][0])
        if magic == 2:
            self._emit_batches(
                complete_batch(
                    closed_batch.draft, closed_batch.encoded_bytes, closed_batch.n_records
                )
            )
        elif closed_batch.encoded_bytes:
            self._emit_batches(
                encode_wrapper(closed_batch.draft, closed_batch.encoded_bytes, magic)
            )
        for encoded_messages in closed_batch.encoded_messages:
            self._emit_batches(encoded_messages)

    def _count_record_mismatches(self, drafts: DraftTable, record_counts: IntArray) -> None:
        """Count batches that declare another record count; raises LineError if one is empty."""
        declared_counts = drafts.declared_count
        is_mismatch = (declared_counts >= 0) & (declared_counts != record_counts)
        if not is_mismatch.any():
            return
        empty_indexes = np.flatnonzero(is_mismatch & (record_counts == 0))
        if len(empty_indexes):
            batch_index = int(empty_indexes[0])
            count_text = (
                f"{declared_counts[batch_index]} "
                f"record{'s' if declared_counts[batch_index] > 1 else ''}"
            )
            message = f"{count_text} declared, but no record lines follow; run dump with --records"
            raise line_error(int(drafts.line_number[batch_index]), message)
        self.n_count_mismatches += int(is_mismatch.sum())


def _require_legacy_compatible(drafts: DraftTable, records: RecordColumns) -> None:
    """Raise LineError for content that messages of magic 0 and 1 cannot represent."""
    if not len(drafts) or drafts.magic[0] == 2:
        return
    line_numbers = drafts.line_number
    rows_with_headers = np.flatnonzero(records.rows.headers)
    if len(rows_with_headers):
        line_number = int(records.rows["line"][rows_with_headers[0]])
        raise line_error(line_number, "messages of magic 0 and 1 have no headers")
    attributes = drafts.attributes
    for is_unsupported, support_text in (
        (attributes & V2_ATTRIBUTES_MASK != 0, "neither transactions nor control records"),
        (attributes & CODEC_MASK == CODECS.index("zstd"), "no zstd"),
        (drafts.producer_id >= 0, "no producers"),
    ):
        if is_unsupported.any():
            raise line_error(
                int(line_numbers[is_unsupported.argmax()]), f"magic 0 and 1 support {support_text}"
            )
