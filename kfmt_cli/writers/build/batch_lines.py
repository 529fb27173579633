"""Plans batches from batch lines: the grouping of records, and the header fields.

Fields missing from a line are derived from its records. Options override the line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.table import BoolArray
from kfmt_cli.formats.batch import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    MAX_SEQUENCE,
    TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
)
from kfmt_cli.log.block import NO_TIMESTAMP
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.writers.batches import CODEC_MASK, DraftTable
from kfmt_cli.writers.build.batch_drafts import (
    MAX_OFFSET_DELTA,
    OpenBatch,
    find_batch_starts,
)
from kfmt_cli.writers.build.json_columns import field_values, integer_column, parse_records
from kfmt_cli.writers.build.jsonl import AttributesJson, BatchLine, RecordLine, line_error
from kfmt_cli.writers.build.open_partition import (
    PartitionBuildState,
    require_increasing_base_offset,
    require_increasing_offsets,
)
from kfmt_cli.writers.build.options import BatchOptions
from kfmt_cli.writers.build.unbatched_records import BatchPlan, record_offsets

NO_TIMESTAMP_TYPE = "NoTimestampType"  # in a dump of magic 0


def plan_batches(
    batch_lines: Sequence[BatchLine],
    record_lines: Sequence[RecordLine],
    record_counts: IntArray,
    build_options: BatchOptions,
    partition_state: PartitionBuildState,
) -> BatchPlan:
    """Plan the batches of batch lines; raises LineError. record_counts: the record lines of
    each."""
    _require_no_producers(record_lines)
    base_offsets, offsets = _base_and_record_offsets(
        batch_lines, record_lines, record_counts.tolist(), partition_state.next_offset
    )
    require_increasing_offsets(record_lines, offsets, -1)
    batch_index = np.repeat(np.arange(len(batch_lines)), record_counts)
    timestamps = integer_column(
        record_lines, "timestamp", lambda i: _default_timestamp(batch_lines[int(batch_index[i])])
    )
    records = parse_records(record_lines, offsets, timestamps, 0)
    records.row_ends = np.cumsum(record_counts)
    drafts = _create_line_drafts(batch_lines, base_offsets, records, record_counts, build_options)
    previous_offset = partition_state.last_offset
    last_offsets = drafts.base_offset + drafts.last_offset_delta
    for batch_line, base_offset, last_offset in zip(
        batch_lines, base_offsets.tolist(), last_offsets.tolist(), strict=True
    ):
        require_increasing_base_offset(batch_line, base_offset, previous_offset)
        previous_offset = last_offset
    partition_state.last_offset = previous_offset
    partition_state.last_record_offset = int(offsets[-1]) if len(offsets) else previous_offset
    if build_options.explicit_bounds is None:
        _require_valid_offset_deltas(records.rows, base_offsets[batch_index])
    else:
        drafts, records = _split_batches_to_bounds(drafts, records, batch_index, build_options)
    _set_base_sequences(drafts, records.row_counts, build_options, partition_state)
    return BatchPlan(None, drafts, records)


def plan_more_records(
    batch_line: BatchLine,
    record_lines: Sequence[RecordLine],
    open_batch: OpenBatch,
    build_options: BatchOptions,
    partition_state: PartitionBuildState,
) -> BatchPlan:
    """Plan more records of a batch line whose batches are already planned; raises LineError.

    open_batch: the line's last batch, which the records may extend.
    """
    draft = open_batch.draft
    _require_no_producers(record_lines)
    offsets = record_offsets(record_lines, partition_state.last_record_offset + 1)
    require_increasing_offsets(record_lines, offsets, partition_state.last_record_offset)
    timestamps = integer_column(record_lines, "timestamp", lambda _: _default_timestamp(batch_line))
    records = parse_records(record_lines, offsets, timestamps, 0)
    rows, n_records = records.rows, len(record_lines)
    is_control = bool(draft.attributes[0] & CONTROL.mask)
    start_rows: IntArray = np.zeros(0, np.int64)
    if build_options.explicit_bounds is None:
        _require_valid_offset_deltas(rows, draft.base_offset)
    else:
        is_bounded_row = np.full(n_records, not is_control)
        start_rows = find_batch_starts(
            rows,
            np.zeros(n_records, np.bool_),
            is_bounded_row,
            build_options.explicit_bounds,
            open_batch,
        )
    partition_state.last_record_offset = int(offsets[-1])
    partition_state.last_offset = max(
        partition_state.last_offset, partition_state.last_record_offset
    )
    n_continuing_records = int(start_rows[0]) if len(start_rows) else n_records
    continuation = None
    if n_continuing_records:
        continuing_rows = rows.select_rows(slice(0, n_continuing_records))
        continuation = RecordColumns(
            records.data, continuing_rows, records.headers, np.array([n_continuing_records])
        )
        if build_options.producer_id is not None and not is_control:
            partition_state.allocate_sequences(build_options.producer_id, n_continuing_records)
    records.rows = rows.select_rows(slice(n_continuing_records, None))
    records.row_ends = (
        np.append(start_rows[1:], n_records)[: len(start_rows)] - n_continuing_records
    )
    begins_original = np.zeros(len(start_rows), np.bool_)
    drafts = _adjust_split_drafts(
        draft.select_rows(np.zeros(len(start_rows), np.int64)), records, begins_original
    )
    _set_base_sequences(drafts, records.row_counts, build_options, partition_state)
    return BatchPlan(continuation, drafts, records)


def _require_no_producers(record_lines: Sequence[RecordLine]) -> None:
    for field_name in ("producer_id", "transactional"):
        for line, field_value in zip(
            record_lines, field_values(record_lines, field_name), strict=True
        ):
            if field_value is not None:
                raise line_error(line, f"{field_name} belongs in the batch line before the record")


def _default_timestamp(batch_line: BatchLine) -> int:
    """The default timestamp of a batch line's records."""
    return NO_TIMESTAMP if batch_line.max_timestamp is None else batch_line.max_timestamp


def _base_and_record_offsets(
    batch_lines: Sequence[BatchLine],
    record_lines: Sequence[RecordLine],
    record_counts: Sequence[int],
    next_offset: int,
) -> tuple[IntArray, IntArray]:
    """The base offsets and the records' offsets; a missing one follows the previous offset.

    A missing base offset is the first record's offset, if that is set. next_offset: the first free
    offset.
    """
    has_base_offsets = None not in field_values(batch_lines, "base_offset")
    if has_base_offsets and None not in field_values(record_lines, "offset"):
        return integer_column(batch_lines, "base_offset", 0), integer_column(
            record_lines, "offset", 0
        )
    base_offsets: list[int] = []
    default_offsets: list[int] = []
    record_row = 0
    for batch_line, n_records in zip(batch_lines, record_counts, strict=True):
        first_offset = record_lines[record_row].offset if n_records else None
        base_offset = batch_line.base_offset
        if base_offset is None:
            base_offset = next_offset if first_offset is None else first_offset
        base_offsets.append(base_offset)
        next_offset = base_offset
        for record_line in record_lines[record_row : record_row + n_records]:
            default_offsets.append(next_offset)
            next_offset = (next_offset if record_line.offset is None else record_line.offset) + 1
        next_offset = max(next_offset, base_offset + max(batch_line.last_offset_delta or 0, 0) + 1)
        record_row += n_records
    return (
        integer_column(batch_lines, "base_offset", lambda i: base_offsets[i]),
        integer_column(record_lines, "offset", lambda i: default_offsets[i]),
    )


def _create_line_drafts(
    batch_lines: Sequence[BatchLine],
    base_offsets: IntArray,
    records: RecordColumns,
    record_counts: IntArray,
    options: BatchOptions,
) -> DraftTable:
    """The headers from the lines; missing fields are derived from the records."""
    drafts = DraftTable.zeros(len(batch_lines))
    rows = records.rows
    nonempty_batches = np.flatnonzero(record_counts)
    first_rows = (records.row_ends - record_counts)[nonempty_batches]
    last_offsets = base_offsets.copy()
    max_timestamps = np.full(len(base_offsets), -1)
    first_timestamps = max_timestamps.copy()
    last_offsets[nonempty_batches] = rows.offset[records.row_ends[nonempty_batches] - 1]
    max_timestamps[nonempty_batches] = np.maximum.reduceat(rows.timestamp, first_rows)
    first_timestamps[nonempty_batches] = rows.timestamp[first_rows]
    early_batch_indexes = np.flatnonzero(rows.offset[first_rows] < base_offsets[nonempty_batches])
    if len(early_batch_indexes):
        row = int(first_rows[early_batch_indexes[0]])
        base_offset = base_offsets[nonempty_batches[early_batch_indexes[0]]]
        message = f"offset {rows.offset[row]} is before its batch's base_offset {base_offset}"
        raise line_error(int(rows["line"][row]), message)
    drafts.line_number = np.array([line.number for line in batch_lines], np.int64)
    drafts.magic = integer_column(batch_lines, "magic", 2)
    if options.magic is not None:
        drafts.magic = options.magic
    invalid_indexes = np.flatnonzero((drafts.magic < 0) | (drafts.magic > 2))
    if len(invalid_indexes):
        row = int(invalid_indexes[0])
        raise line_error(batch_lines[row], f"magic {drafts.magic[row]} is not 0, 1 or 2")
    drafts.base_offset = base_offsets
    # Keep the declared offset range, which compaction keeps. More records extend it. A batch split
    # to new bounds ends with its last record.
    declared_deltas = integer_column(batch_lines, "last_offset_delta", -1, 32)
    offset_deltas = last_offsets - base_offsets
    min_deltas = (
        declared_deltas
        if options.explicit_bounds is None
        else np.where(record_counts == 0, declared_deltas, -1)
    )
    drafts.last_offset_delta = np.maximum(offset_deltas, min_deltas)
    overflow_indexes = np.flatnonzero(base_offsets > MAX_OFFSET - drafts.last_offset_delta)
    if len(overflow_indexes):
        line = batch_lines[int(overflow_indexes[0])]
        raise line_error(line, f"its last offset is larger than {MAX_OFFSET}")
    drafts.base_timestamp = integer_column(
        batch_lines, "base_timestamp", lambda i: int(first_timestamps[i])
    )
    drafts.max_timestamp = integer_column(
        batch_lines, "max_timestamp", lambda i: int(max_timestamps[i])
    )
    drafts.has_explicit_max = np.array([line.max_timestamp is not None for line in batch_lines])
    drafts.partition_leader_epoch = integer_column(batch_lines, "partition_leader_epoch", -1, 32)
    drafts.base_sequence = integer_column(batch_lines, "base_sequence", -1, 32)
    drafts.declared_count = integer_column(batch_lines, "records_count", -1)
    drafts.attributes = np.array([_attribute_bits(line, options) for line in batch_lines], np.int64)
    _set_producer_columns(drafts, batch_lines, options)
    return drafts


def _attribute_bits(line: BatchLine, options: BatchOptions) -> int:
    """The attributes as a signed 16-bit number; raises LineError.

    Named attributes override the bits of `raw`; options override both.
    """
    attributes = line.attributes or AttributesJson()
    if not -(1 << 15) <= attributes.raw < 1 << 16:
        raise line_error(line, f"raw attributes {attributes.raw} do not fit in 16 bits")
    attribute_bits = attributes.raw & 0xFFFF
    if attributes.compression is not None:
        if attributes.compression not in CODECS:
            raise line_error(
                line, f"compression {attributes.compression!r}: choose from {', '.join(CODECS)}"
            )
        attribute_bits = attribute_bits & ~CODEC_MASK | CODECS.index(attributes.compression)
    for flag_field in (TRANSACTIONAL, CONTROL, DELETE_HORIZON):
        is_flag_set = getattr(attributes, flag_field.name)
        if is_flag_set is not None:
            attribute_bits = attribute_bits & ~flag_field.mask | (
                flag_field.mask if is_flag_set else 0
            )
    if attributes.timestamp_type not in (None, NO_TIMESTAMP_TYPE, *TIMESTAMP_TYPES):
        message = (
            f"timestamp_type {attributes.timestamp_type!r}: choose from "
            f"{', '.join(TIMESTAMP_TYPES)}"
        )
        raise line_error(line, message)
    if attributes.timestamp_type in TIMESTAMP_TYPES:
        attribute_bits = _with_timestamp_type(
            attribute_bits, TIMESTAMP_TYPES.index(attributes.timestamp_type)
        )
    if options.timestamp_type is not None:
        attribute_bits = _with_timestamp_type(attribute_bits, options.timestamp_type)
    if options.codec is not None and not attribute_bits & CONTROL.mask:
        attribute_bits = attribute_bits & ~CODEC_MASK | options.codec
    if options.transactional:
        attribute_bits |= TRANSACTIONAL.mask
    if attribute_bits & CODEC_MASK >= len(CODECS):
        raise line_error(line, f"codec {attribute_bits & CODEC_MASK} does not exist")
    return attribute_bits - (1 << 16) if attribute_bits & 0x8000 else attribute_bits


def _with_timestamp_type(attribute_bits: int, timestamp_type: int) -> int:
    return attribute_bits & ~TIMESTAMP_TYPE.mask | TIMESTAMP_TYPE.mask * timestamp_type


def _set_producer_columns(
    drafts: DraftTable, batch_lines: Sequence[BatchLine], options: BatchOptions
) -> None:
    drafts.producer_id = integer_column(batch_lines, "producer_id", -1)
    producer_epochs = integer_column(batch_lines, "producer_epoch", -1, 16)
    if options.producer_id is not None:
        drafts.producer_id = options.producer_id
        producer_epochs = producer_epochs.clip(0)
    if options.producer_epoch is not None:
        producer_epochs = np.where(drafts.producer_id >= 0, options.producer_epoch, producer_epochs)
    drafts.producer_epoch = producer_epochs


def _set_base_sequences(
    drafts: DraftTable,
    record_counts: IntArray,
    options: BatchOptions,
    partition_state: PartitionBuildState,
) -> None:
    """Assign sequence numbers to the records of the requested producer."""
    if options.producer_id is not None and len(drafts):
        is_control = drafts.attributes & CONTROL.mask != 0
        drafts.base_sequence = partition_state.allocate_base_sequences(
            drafts.producer_id, is_control, record_counts
        )


def _require_valid_offset_deltas(rows: RecordTable, base_offsets: IntArray) -> None:
    overflow_rows = np.flatnonzero(rows.offset - base_offsets > MAX_OFFSET_DELTA)
    if len(overflow_rows):
        row = int(overflow_rows[0])
        message = (
            f"offset {rows.offset[row]} is more than {MAX_OFFSET_DELTA} above its "
            "batch's base_offset"
        )
        raise line_error(int(rows["line"][row]), message)


def _split_batches_to_bounds(
    drafts: DraftTable, records: RecordColumns, batch_index: IntArray, options: BatchOptions
) -> tuple[DraftTable, RecordColumns]:
    """Split the batches that exceed the requested bounds; returns the headers and records."""
    assert options.explicit_bounds is not None
    rows = records.rows
    record_counts = records.row_counts
    is_control = drafts.attributes & CONTROL.mask != 0
    starts_batch = np.diff(batch_index, prepend=-1) != 0
    start_rows = find_batch_starts(
        rows, starts_batch, ~is_control[batch_index], options.explicit_bounds
    )
    empty_batches = np.flatnonzero(record_counts == 0)
    original_batch_indexes = np.concatenate([batch_index[start_rows], empty_batches])
    first_rows = np.concatenate([start_rows, records.row_ends[empty_batches]])
    row_order = np.lexsort((first_rows, original_batch_indexes))
    original_batch_indexes, first_rows = original_batch_indexes[row_order], first_rows[row_order]
    records.row_ends = np.append(first_rows[1:], len(rows))
    begins_original = np.diff(original_batch_indexes, prepend=-1) != 0
    split_drafts = drafts.select_rows(original_batch_indexes)
    # Values that a line declares for all its records may not apply to some of them.
    split_drafts.declared_count = np.where(
        (split_drafts.declared_count > 0) & (record_counts[original_batch_indexes] == 0), 1, -1
    )
    split_drafts.has_explicit_max &= (split_drafts.attributes & TIMESTAMP_TYPE.mask != 0).astype(
        np.int64
    )
    return _adjust_split_drafts(split_drafts, records, begins_original), records


def _adjust_split_drafts(
    drafts: DraftTable, records: RecordColumns, begins_original: BoolArray
) -> DraftTable:
    """Adjust the headers of batches that were split from larger ones.

    drafts: for each batch, the header of its original. begins_original: mask of the batches that
    begin their original.
    """
    rows = records.rows
    record_counts = records.row_counts
    nonempty_batches = np.flatnonzero(record_counts)
    first_rows = (records.row_ends - record_counts)[nonempty_batches]
    is_continuation = ~begins_original[nonempty_batches]
    base_offsets = drafts.base_offset.copy()
    base_offsets[nonempty_batches] = np.where(
        is_continuation, rows.offset[first_rows], base_offsets[nonempty_batches]
    )
    shifted_sequences = drafts.base_sequence + (base_offsets - drafts.base_offset)
    has_sequence = drafts.base_sequence >= 0
    drafts.base_sequence = np.where(
        has_sequence, shifted_sequences & MAX_SEQUENCE, drafts.base_sequence
    )
    drafts.base_offset = base_offsets
    drafts.last_offset_delta[nonempty_batches] = (
        rows.offset[records.row_ends[nonempty_batches] - 1] - base_offsets[nonempty_batches]
    )
    uses_record_timestamp = is_continuation & (
        drafts.attributes[nonempty_batches] & DELETE_HORIZON.mask == 0
    )
    base_timestamps = drafts.base_timestamp[nonempty_batches]
    drafts.base_timestamp[nonempty_batches] = np.where(
        uses_record_timestamp, rows.timestamp[first_rows], base_timestamps
    )
    record_max_timestamps = np.maximum.reduceat(rows.timestamp, first_rows)
    keeps_declared_max = drafts.has_explicit_max[nonempty_batches] == 1
    declared_max_timestamps = drafts.max_timestamp[nonempty_batches]
    drafts.max_timestamp[nonempty_batches] = np.where(
        keeps_declared_max, declared_max_timestamps, record_max_timestamps
    )
    return drafts
