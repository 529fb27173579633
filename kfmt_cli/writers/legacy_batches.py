"""Encodes messages of magic 0 and 1, with or without compressed wrappers: the inverse of
`log/wrappers.py`.

Source: `org.apache.kafka.common.record.LegacyRecord`,
`MemoryRecordsBuilder.writeLegacyCompressedWrapperHeader`: a wrapper has the offset of its last
message; inner offsets are relative to the first one in magic 1, absolute in magic 0.
"""

from __future__ import annotations

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32_POLYNOMIAL, compute_crc, compute_region_crcs
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.layout.layout import IntArray, encode_rows
from kfmt_cli.core.layout.wire_types import Buffer, Value
from kfmt_cli.core.table import Table
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.block import CHECKSUMMED_START_BY_MAGIC, CRC_POSITION_BY_MAGIC
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.writers.batches import (
    APPEND_TIME_MASK,
    CODEC_MASK,
    DraftTable,
    EncodedBatches,
    concatenate_batches,
)

NO_NESTED_ROWS = np.zeros((4, 0), np.int64)
COPIED_COLUMNS = ("offset", "timestamp", "key", "key_size", "value", "value_size")


def encode_legacy_batches(drafts: DraftTable, records: RecordColumns, magic: int) -> EncodedBatches:
    """Encode batches as messages of magic 0 or 1: a batch with a codec becomes a wrapper, others
    become messages without a wrapper.

    drafts, records: as for `writers.batches.encode_batches`.
    """
    batch_index = np.repeat(np.arange(len(drafts)), records.row_counts)
    message_data, message_ends = encode_messages(drafts, batch_index, records, magic)
    offsets = records.rows.offset
    timestamps = records.rows.timestamp if magic else np.full(len(batch_index), -1)
    encoded_messages = EncodedBatches(message_data, message_ends, offsets, offsets, timestamps)
    codecs = drafts.attributes & CODEC_MASK
    if not codecs.any():
        return encoded_messages
    first_row, encoded_batches = 0, []
    for i, end_row in enumerate(records.row_ends.tolist()):
        if end_row > first_row:
            batch_messages = encoded_messages.select_range(first_row, end_row)
            draft = drafts.select_rows(slice(i, i + 1))
            encoded_batches.append(
                encode_wrapper(draft, batch_messages.data, magic) if codecs[i] else batch_messages
            )
        first_row = end_row
    return concatenate_batches(encoded_batches) if encoded_batches else encoded_messages


def encode_messages(
    drafts: DraftTable, batch_index: IntArray, records: RecordColumns, magic: int
) -> tuple[bytearray, IntArray]:
    """Encode messages consecutively, with or without a later wrapper; also returns their ends.

    batch_index: each record's batch in `drafts`.
    """
    layout, rows = MESSAGE_LAYOUTS[magic], records.rows
    message_rows = Table(layout.index_by_name, np.zeros((layout.n_columns, len(rows)), np.int64))
    for column in COPIED_COLUMNS:
        if column in layout.index_by_name:
            message_rows[column] = rows[column]
    message_rows["magic"] = magic
    if magic == 1:
        attributes = drafts.attributes[batch_index]
        is_wrapped = attributes & CODEC_MASK != 0
        relative_offsets = rows.offset - drafts.base_offset[batch_index]
        message_rows["offset"] = np.where(is_wrapped, relative_offsets, rows.offset)
        message_rows["attributes"] = np.where(is_wrapped, 0, attributes & APPEND_TIME_MASK)
    encoded_data, message_ends = encode_rows(
        layout.program, records.data, message_rows.data, NO_NESTED_ROWS
    )
    message_starts = np.append(0, message_ends)[:-1]
    crcs = compute_region_crcs(
        CRC32_POLYNOMIAL,
        memoryview(encoded_data),
        message_starts + CHECKSUMMED_START_BY_MAGIC[magic],
        message_ends,
    )
    encoded_bytes = np.frombuffer(encoded_data, np.uint8)
    stored_crcs = crcs.astype(">u4").view(np.uint8).reshape(-1, 4)
    encoded_bytes[(message_starts + CRC_POSITION_BY_MAGIC[magic])[:, None] + np.arange(4)] = (
        stored_crcs
    )
    return encoded_data, message_ends


def encode_wrapper(
    draft: DraftTable, encoded_messages: Buffer | bytearray, magic: int
) -> EncodedBatches:
    """Put encoded messages in one wrapper. draft: one row."""
    attributes = int(draft.attributes[0])
    codec = attributes & CODEC_MASK
    base_offset = draft.base_offset
    last_offset = base_offset + draft.last_offset_delta
    timestamp = int(draft.max_timestamp[0])
    field_values: dict[str, Value] = {
        "offset": int(last_offset[0]),
        "crc": 0,
        "magic": magic,
        "attributes": codec | (attributes & APPEND_TIME_MASK if magic else 0),
        "timestamp": timestamp,
        "key": None,
        "value": compress(CODECS[codec], bytes(encoded_messages), magic),
    }
    layout = MESSAGE_LAYOUTS[magic]
    checksummed_bytes = layout.encode_row(field_values)[CHECKSUMMED_START_BY_MAGIC[magic] :]
    wrapper_bytes = layout.encode_row(
        {**field_values, "crc": compute_crc(CRC32_POLYNOMIAL, checksummed_bytes)}
    )
    max_timestamps = np.array([timestamp if magic else -1])
    return EncodedBatches(
        wrapper_bytes, np.array([len(wrapper_bytes)]), base_offset, last_offset, max_timestamps
    )
