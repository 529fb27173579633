"""Groups records without batch lines into batches, according to the options.

The shared values of a record are those that all records of a batch must have in common. A batch
ends where they change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.formats.batch import CONTROL, TRANSACTIONAL
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.writers.batches import DraftTable
from kfmt_cli.writers.build.batch_drafts import (
    LOG_APPEND_TIME_TYPE,
    OpenBatch,
    create_drafts,
    find_batch_starts,
)
from kfmt_cli.writers.build.json_columns import integer_column, parse_records
from kfmt_cli.writers.build.jsonl import RecordLine, line_error
from kfmt_cli.writers.build.open_partition import PartitionBuildState, require_increasing_offsets
from kfmt_cli.writers.build.options import BatchOptions


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Records and their planned batches, as arguments of `BatchAssembler`."""

    continuation: RecordColumns | None
    """The records that continue the open batch, for `extend`; None if there are none."""
    drafts: DraftTable
    """The new batches, for `add`."""
    records: RecordColumns
    """The records of the new batches, for `add`."""


def plan_unbatched_records(
    unbatched_lines: Sequence[RecordLine],
    options: BatchOptions,
    partition_state: PartitionBuildState,
    open_batch: OpenBatch | None,
) -> BatchPlan:
    """Plan the batches of records without batch lines; raises LineError. open_batch: the previous
    batch, None if it is complete."""
    record_lines = list(unbatched_lines)
    offsets = record_offsets(record_lines, partition_state.next_offset)
    require_increasing_offsets(record_lines, offsets, partition_state.last_offset)
    timestamps = integer_column(record_lines, "timestamp", options.now)
    records = parse_records(record_lines, offsets, timestamps, options.timestamp_type or 0)
    rows = records.rows
    if options.timestamp_type is not None:
        rows.timestamp_type = options.timestamp_type
    producer_columns = _producer_columns(record_lines, options)
    producer_ids, producer_epochs, is_control, is_transactional = producer_columns
    # A batch has only one LogAppendTime.
    append_times = np.where(rows.timestamp_type == LOG_APPEND_TIME_TYPE, rows.timestamp, 0)
    shared_values = np.array([rows.timestamp_type, append_times, *producer_columns])
    starts_batch = np.ones(len(rows), np.bool_)
    starts_batch[1:] = (shared_values[:, 1:] != shared_values[:, :-1]).any(axis=0)
    if open_batch is not None and partition_state.last_shared_values is not None:
        starts_batch[0] = (shared_values[:, 0] != partition_state.last_shared_values).any()
    starts_batch |= is_control == 1
    partition_state.last_shared_values = shared_values[:, -1].copy()
    partition_state.last_offset = partition_state.last_record_offset = int(offsets[-1])
    start_rows = find_batch_starts(
        rows, starts_batch, is_control == 0, options.bounds, None if starts_batch[0] else open_batch
    )
    n_continuing_records = int(start_rows[0]) if len(start_rows) else len(rows)
    continuation = None
    if n_continuing_records:
        continuation = _first_records(records, n_continuing_records)
        records.rows = rows.select_rows(slice(n_continuing_records, None))
        partition_state.allocate_sequences(int(producer_ids[0]), n_continuing_records)
    end_rows = np.append(start_rows[1:], len(rows))[: len(start_rows)]
    records.row_ends = end_rows - n_continuing_records
    is_control_batch = is_control[start_rows] == 1
    codecs = np.where(is_control_batch, 0, options.codec or 0)
    drafts = create_drafts(records.rows, start_rows - n_continuing_records, codecs)
    drafts.magic = 2 if options.magic is None else options.magic
    drafts.producer_id = producer_ids[start_rows]
    drafts.producer_epoch = producer_epochs[start_rows]
    has_producer = producer_ids[start_rows] >= 0
    # Markers end transactions; the control records of KRaft do not.
    is_marker = np.array(
        [_is_transaction_marker(record_lines[row]) for row in start_rows], np.bool_
    )
    in_transaction = is_marker | ((is_transactional[start_rows] == 1) & has_producer)
    drafts.attributes |= in_transaction * TRANSACTIONAL.mask | is_control_batch * CONTROL.mask
    drafts.base_sequence = partition_state.allocate_base_sequences(
        producer_ids[start_rows], is_control_batch, records.row_counts
    )
    drafts.line_number = rows["line"][start_rows]
    drafts.declared_count = -1
    return BatchPlan(continuation, drafts, records)


def _first_records(records: RecordColumns, n_records: int) -> RecordColumns:
    """The first records, as those of one batch."""
    rows = records.rows.select_rows(slice(0, n_records))
    return RecordColumns(records.data, rows, records.headers, np.array([n_records]))


def _producer_columns(
    lines: Sequence[RecordLine], options: BatchOptions
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """For each record: producer id, epoch, whether it is a control record and transactional."""
    n_lines = len(lines)
    default_epoch = options.producer_epoch or 0
    producer_ids = integer_column(lines, "producer_id", -1)
    if options.producer_id is not None:
        producer_ids = np.full(n_lines, options.producer_id)
    producer_epochs = integer_column(
        lines, "producer_epoch", lambda i: default_epoch if producer_ids[i] >= 0 else -1, 16
    )
    if options.producer_epoch is not None:
        producer_epochs = np.where(producer_ids >= 0, options.producer_epoch, producer_epochs)
    is_control = np.array([line.control is not None for line in lines], np.int64)
    is_transactional = np.array([bool(line.transactional) for line in lines], np.int64)
    if options.transactional:
        is_transactional[:] = 1
    rows_without_producer = np.flatnonzero((is_transactional == 1) & (producer_ids < 0))
    if len(rows_without_producer):
        raise line_error(
            lines[int(rows_without_producer[0])],
            "the record is transactional, but has no producer_id",
        )
    return producer_ids, producer_epochs, is_control, is_transactional


def _is_transaction_marker(line: RecordLine) -> bool:
    return line.control is not None and line.control.type in ("ABORT", "COMMIT", ABORT, COMMIT)


def record_offsets(lines: Sequence[RecordLine], next_offset: int) -> IntArray:
    """The records' offsets; a missing offset follows the previous one, the first is
    `next_offset`."""
    default_offsets = []
    for line in lines:
        default_offsets.append(next_offset)
        next_offset = (next_offset if line.offset is None else line.offset) + 1
    return integer_column(lines, "offset", lambda i: default_offsets[i])
