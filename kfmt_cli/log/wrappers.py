"""Messages of magic 0 and 1, unbatched or inside compressed wrappers.

Follows `org.apache.kafka.common.record.AbstractLegacyRecordBatch`: a wrapper's value is a
compressed message set. Inside a wrapper of magic 0 offsets are absolute. Inside one of magic 1 they
are relative and end at the wrapper's offset, with gaps left by compaction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32_POLYNOMIAL, compute_region_crcs
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.location import BufferOrigin, ByteLocation
from kfmt_cli.core.native import kernel, scan
from kfmt_cli.core.table import Table, TableColumn
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import COMPRESSION
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.block import CHECKSUMMED_START_BY_MAGIC, NO_TIMESTAMP_TYPE, Block, batch_finding
from kfmt_cli.log.damage.batch_candidates import BYTES_UP_TO_MAGIC, MIN_LENGTH_BY_MAGIC
from kfmt_cli.log.decompression import decompress_batch
from kfmt_cli.log.records import RecordColumns, unreadable_record_finding
from kfmt_cli.rows.log_tables import BatchTable, RecordTable

STATUS_OK = kernel.STATUSES["OK"]
_REACHED_END, _NEEDS_MORE = (scan.WALK_STOP_REASONS[name] for name in ("END", "MORE"))
MAGIC_POSITION_IN_BATCH = BYTES_UP_TO_MAGIC - 1


class MessageTable(Table):
    """Messages as stored. batch: the row of each message's batch or wrapper."""

    __slots__ = ()

    batch = TableColumn()
    at = TableColumn()
    offset = TableColumn()
    crc = TableColumn()
    attributes = TableColumn()
    timestamp = TableColumn()
    has_timestamp = TableColumn()
    key = TableColumn()
    key_size = TableColumn()
    value = TableColumn()
    value_size = TableColumn()


def read_messages(block: Block, limit: DecompressionLimit) -> RecordColumns:
    """The messages of a block of magic 0 and 1; wrappers are replaced by their messages."""
    batches = block.batches
    findings: list[Finding] = []
    data = block.data
    outer_messages, failed_batch_indexes = _decode_messages(data, batches.start, batches.end)
    # The position in the file of the data's byte 0; a fixed batch is at the data's end.
    file_shifts = batches.position - batches.start
    for batch_index in failed_batch_indexes:
        message_start, message_end = int(batches.start[batch_index]), int(batches.end[batch_index])
        location = ByteLocation(
            BufferOrigin(block.file_name, int(file_shifts[batch_index])), message_start
        )
        findings.append(
            unreadable_record_finding(
                block, batch_index, data[:message_end], location, "the message"
            )
        )
    uncompressed_messages = outer_messages.select_rows(
        batches.compression[outer_messages.batch] == 0
    )
    wrappers = outer_messages.select_rows(batches.compression[outer_messages.batch] != 0)
    rows = _messages_to_records(uncompressed_messages, batches, 0)
    rows.position = uncompressed_messages.at + file_shifts[uncompressed_messages.batch]
    rows.has_position = 1
    batch_of_row = uncompressed_messages.batch
    if len(wrappers):
        inner_data, inner_messages = _read_inner_messages(block, wrappers, limit, findings)
        merged_columns = np.concatenate(
            [rows.data, _messages_to_records(inner_messages, batches, len(data)).data], axis=1
        )
        batch_of_row = np.concatenate([batch_of_row, inner_messages.batch])
        row_order = np.argsort(batch_of_row, kind="stable")
        batch_of_row = batch_of_row[row_order]
        rows = RecordTable(rows.index_by_name, merged_columns).select_rows(row_order)
        data += inner_data
    row_ends = np.searchsorted(batch_of_row, np.arange(len(batches)), side="right")
    return RecordColumns(data, rows, np.empty((4, 0), np.int64), row_ends, findings)


def _decode_messages(
    data: bytes, starts: IntArray, ends: IntArray
) -> tuple[MessageTable, list[int]]:
    """Decode the messages at starts..ends, with their indexes in `batch`; also the indexes of
    messages that fail, which are not in the table."""
    message_tables: list[MessageTable] = []
    failed_indexes: list[int] = []
    magics = (
        np.frombuffer(data, np.uint8)[starts + MAGIC_POSITION_IN_BATCH] if len(starts) else starts
    )
    for magic, layout in enumerate(MESSAGE_LAYOUTS):
        message_indexes = np.flatnonzero(magics == magic)
        if not len(message_indexes):
            continue
        columns = layout.decode_columns(
            data, starts[message_indexes], ends[message_indexes], len(message_indexes)
        )
        table = MessageTable.zeros(columns.rows.shape[1])
        for column in table.index_by_name.keys() & columns.index_by_name:
            table[column] = columns[column]
        is_valid = columns.regions[3] == STATUS_OK
        table.batch = message_indexes[is_valid]
        table.has_timestamp = int(magic == 1)
        message_tables.append(table)
        failed_indexes += message_indexes[~is_valid].tolist()
    if not message_tables:
        return MessageTable.zeros(0), failed_indexes
    merged_table = MessageTable(
        message_tables[0].index_by_name,
        np.concatenate([table.data for table in message_tables], axis=1),
    )
    if len(message_tables) > 1:
        merged_table = merged_table.select_rows(np.argsort(merged_table.batch, kind="stable"))
    return merged_table, failed_indexes


def _messages_to_records(
    messages: MessageTable, batches: BatchTable, shift_bytes: int
) -> RecordTable:
    """Messages as records, with positions shifted by `shift_bytes` bytes."""
    rows = RecordTable.zeros(len(messages))
    for column in ("offset", "timestamp", "has_timestamp", "key_size", "value_size"):
        rows[column] = messages[column]
    for column in ("at", "key", "value"):
        rows[column] = messages[column] + shift_bytes
    timestamp_types = batches.timestamp_type[messages.batch]
    rows.timestamp_type = np.where(messages.has_timestamp == 1, timestamp_types, NO_TIMESTAMP_TYPE)
    return rows


def _decompress_message_sets(
    block: Block, wrappers: MessageTable, limit: DecompressionLimit, findings: list[Finding]
) -> Iterator[bytes]:
    """The message set of each wrapper; empty if it has none or cannot be decompressed."""
    batches = block.batches
    for batch_index, value_start, value_size in zip(
        *(wrappers[name].tolist() for name in ("batch", "value", "value_size")), strict=True
    ):
        wrapper_value = block.data[value_start : value_start + max(value_size, 0)]
        codec, magic = int(batches.compression[batch_index]), int(batches.magic[batch_index])
        message_set: bytes | None = b""
        if value_size >= 0:
            message_set = decompress_batch(
                block, batch_index, magic, codec, wrapper_value, limit, findings
            )
        if message_set == b"":
            message = f"a wrapper without {'a value' if value_size < 0 else 'messages'}"
            findings.append(batch_finding(block, batch_index, codes.INNER_SET_MALFORMED, message))
        yield message_set or b""


def _read_inner_messages(
    block: Block, wrappers: MessageTable, limit: DecompressionLimit, findings: list[Finding]
) -> tuple[bytes, MessageTable]:
    """The messages inside wrappers, with the wrapper's `batch` and absolute offsets."""
    message_sets = list(_decompress_message_sets(block, wrappers, limit, findings))
    joined_sets = b"".join(message_sets)
    set_ends = np.cumsum([len(set_bytes) for set_bytes in message_sets])
    set_regions = np.zeros((4, len(message_sets)), np.int64)
    set_regions[0] = set_ends - [len(set_bytes) for set_bytes in message_sets]
    set_regions[1] = set_ends
    walk_buffer = np.empty((3, len(joined_sets) // BYTES_UP_TO_MAGIC + 1), np.int64)
    n_messages = scan.walk_batches(
        joined_sets, set_regions, MIN_LENGTH_BY_MAGIC[: len(MESSAGE_LAYOUTS)].copy(), walk_buffer
    )
    wrapper_of_message = wrappers.batch[walk_buffer[2, :n_messages]]
    findings += _iter_message_set_findings(block, wrappers.batch, set_regions)
    message_starts, message_ends = (
        walk_buffer[0, :n_messages].copy(),
        walk_buffer[1, :n_messages].copy(),
    )
    inner_table, failed_indexes = _decode_messages(joined_sets, message_starts, message_ends)
    for message_index in failed_indexes:
        batch_index = int(wrapper_of_message[message_index])
        first_index_in_set = int(
            np.searchsorted(walk_buffer[2, :n_messages], walk_buffer[2, message_index])
        )
        location = ByteLocation(
            BufferOrigin(
                block.file_name, int(block.batches.position[batch_index]), is_decompressed=True
            ),
            0,
        )
        message_bytes = joined_sets[
            int(message_starts[message_index]) : int(message_ends[message_index])
        ]
        findings.append(
            unreadable_record_finding(
                block,
                batch_index,
                message_bytes,
                location,
                f"message {message_index - first_index_in_set}",
            )
        )
    message_of_row = inner_table.batch.copy()
    inner_table.batch = wrapper_of_message[message_of_row]
    findings += _set_absolute_inner_offsets(block, inner_table)
    findings += _iter_inner_message_findings(
        block, joined_sets, inner_table, message_ends[message_of_row]
    )
    nested_codecs = inner_table.attributes & COMPRESSION.mask
    return joined_sets, inner_table.select_rows(
        nested_codecs == 0
    ) if nested_codecs.any() else inner_table


def _iter_message_set_findings(
    block: Block, wrapper_of_set: IntArray, set_regions: IntArray
) -> Iterator[Finding]:
    """Findings for message sets that do not end with a message."""
    stop_reasons = set_regions[3]
    for set_index in np.flatnonzero(stop_reasons != _REACHED_END).tolist():
        n_remaining_bytes = int(set_regions[1, set_index] - set_regions[2, set_index])
        code = codes.INNER_SET_MALFORMED
        if stop_reasons[set_index] == _NEEDS_MORE:
            code = codes.INNER_SET_TRUNCATED
        message = (
            f"the last {n_remaining_bytes} bytes of its message set are not a magic 0 or 1 message"
        )
        yield batch_finding(
            block, int(wrapper_of_set[set_index]), code, message, found=n_remaining_bytes
        )


def _iter_inner_message_findings(
    block: Block, data: bytes, messages: MessageTable, message_ends: IntArray
) -> Iterator[Finding]:
    """Check the checksums of messages inside wrappers, and that none is itself compressed."""
    crc_starts = np.where(
        messages.has_timestamp == 1, CHECKSUMMED_START_BY_MAGIC[1], CHECKSUMMED_START_BY_MAGIC[0]
    )
    computed_crcs = compute_region_crcs(
        CRC32_POLYNOMIAL, data, messages.at + crc_starts, message_ends
    )
    for row in np.flatnonzero(computed_crcs != messages.crc).tolist():
        stored_crc = int(messages.crc[row])
        yield batch_finding(
            block,
            int(messages.batch[row]),
            codes.INNER_CRC_MISMATCH,
            f"message at offset {messages.offset[row]}: stored {stored_crc:08x}, computed "
            f"{int(computed_crcs[row]):08x}",
            expected=f"{int(computed_crcs[row]):08x}",
            found=f"{stored_crc:08x}",
            offset=int(messages.offset[row]),
        )
    for row in np.flatnonzero(messages.attributes & COMPRESSION.mask).tolist():
        yield batch_finding(
            block,
            int(messages.batch[row]),
            codes.INNER_SET_MALFORMED,
            f"the inner message at offset {messages.offset[row]} is itself compressed; skipped",
        )


def _set_absolute_inner_offsets(block: Block, messages: MessageTable) -> Iterator[Finding]:
    """Convert stored inner offsets and timestamps to the ones that a consumer sees."""
    batches = block.batches
    if not len(messages):
        return
    wrapper_of_message = messages.batch
    last_rows = np.flatnonzero(np.diff(wrapper_of_message, append=-1))
    first_rows = np.concatenate([[0], last_rows[:-1] + 1])
    wrapper_indexes = wrapper_of_message[last_rows]
    last_inner_offsets = messages.offset[last_rows]
    wrapper_offsets = batches.last_offset[wrapper_indexes]
    is_relative = batches.magic[wrapper_indexes] == 1
    offset_shifts = np.where(
        is_relative & (wrapper_offsets != 0), wrapper_offsets - last_inner_offsets, 0
    )
    messages.offset += np.repeat(offset_shifts, last_rows - first_rows + 1)
    batches.base_offset[wrapper_indexes] = messages.offset[first_rows]
    batches.has_base_offset[wrapper_indexes] = 1
    is_append_time = (batches.timestamp_type[wrapper_of_message] == 1) & (
        messages.has_timestamp == 1
    )
    messages.timestamp = np.where(
        is_append_time, batches.max_timestamp[wrapper_of_message], messages.timestamp
    )
    # A wrapper of magic 1 with offset 0 is left unchanged (librdkafka wrote such wrappers).
    has_invalid_offset = np.where(
        is_relative, offset_shifts < 0, wrapper_offsets != last_inner_offsets
    )
    for wrapper_row in np.flatnonzero(has_invalid_offset).tolist():
        yield batch_finding(
            block,
            int(wrapper_indexes[wrapper_row]),
            codes.WRAPPER_OFFSET_INVALID,
            (
                f"the wrapper's offset is {wrapper_offsets[wrapper_row]}, but its last "
                "message's is "
                f"{last_inner_offsets[wrapper_row]}"
            ),
            expected=int(last_inner_offsets[wrapper_row]),
            found=int(wrapper_offsets[wrapper_row]),
        )
