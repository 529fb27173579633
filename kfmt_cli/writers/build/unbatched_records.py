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
    APPEND_TIME,
    OpenBatch,
    draft_headers,
    find_batch_starts,
)
from kfmt_cli.writers.build.json_columns import integer_column, parse_records
from kfmt_cli.writers.build.jsonl import Record, line_error
from kfmt_cli.writers.build.open_partition import OpenPartition, check_offsets
from kfmt_cli.writers.build.options import BuildOptions


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Records and their planned batches, as arguments of `BatchAssembler`."""

    continuation: RecordColumns | None
    """The records that continue the open batch, for `extend`; None if there are none."""
    drafts: DraftTable
    """The new batches, for `add`."""
    records: RecordColumns
    """The records of the new batches, for `add`."""


def plan_unbatched(
    lines: Sequence[Record],
    options: BuildOptions,
    partition: OpenPartition,
    open_batch: OpenBatch | None,
) -> BatchPlan:
    """Plan the batches of records without batch lines; raises LineError. open_batch: the previous
    batch, None if it is complete."""
    record_lines = list(lines)
    offsets = record_offsets(record_lines, partition.next_offset)
    check_offsets(record_lines, offsets, partition.last_offset)
    times = integer_column(record_lines, "timestamp", options.now)
    records = parse_records(record_lines, offsets, times, options.timestamp_type or 0)
    rows = records.rows
    if options.timestamp_type is not None:
        rows.timestamp_type = options.timestamp_type
    producer_ids, epochs, is_control, is_transactional = _producer_columns(record_lines, options)
    # A batch has only one LogAppendTime.
    append_times = np.where(rows.timestamp_type == APPEND_TIME, rows.timestamp, 0)
    shared_values = np.array(
        [rows.timestamp_type, append_times, producer_ids, epochs, is_control, is_transactional]
    )
    previous_values = partition.shared_values if open_batch is not None else None
    starts_batch = np.ones(len(rows), np.bool_)
    starts_batch[1:] = (shared_values[:, 1:] != shared_values[:, :-1]).any(axis=0)
    if previous_values is not None:
        starts_batch[0] = (shared_values[:, 0] != previous_values).any()
    starts_batch |= is_control == 1
    partition.shared_values = shared_values[:, -1].copy()
    partition.last_offset = partition.last_record_offset = int(offsets[-1])
    start_rows = find_batch_starts(
        rows, starts_batch, is_control == 0, options.bounds, None if starts_batch[0] else open_batch
    )
    n_continuing = int(start_rows[0]) if len(start_rows) else len(rows)
    continuation = None
    if n_continuing:
        continuing_rows = rows.select_rows(slice(0, n_continuing))
        continuation = RecordColumns(
            records.data, continuing_rows, records.headers, np.array([n_continuing])
        )
        partition.allocate_sequences(int(producer_ids[0]), n_continuing)
    records.rows = rows.select_rows(slice(n_continuing, None)) if n_continuing else rows
    records.row_ends = np.append(start_rows[1:], len(rows))[: len(start_rows)] - n_continuing
    is_control_batch = is_control[start_rows] == 1
    codecs = np.where(is_control_batch, 0, options.codec or 0)
    drafts = draft_headers(records.rows, start_rows - n_continuing, codecs)
    drafts.magic = 2 if options.magic is None else options.magic
    drafts.producer_id = producer_ids[start_rows]
    drafts.producer_epoch = epochs[start_rows]
    has_producer = producer_ids[start_rows] >= 0
    # Markers end transactions; the control records of KRaft do not.
    is_marker = np.array([_is_transaction_marker(record_lines[i]) for i in start_rows], np.bool_)
    sets_transactional = is_marker | ((is_transactional[start_rows] == 1) & has_producer)
    drafts.attributes |= sets_transactional * TRANSACTIONAL.mask | is_control_batch * CONTROL.mask
    drafts.base_sequence = partition.allocate_base_sequences(
        producer_ids[start_rows], is_control_batch, records.row_counts
    )
    drafts.line_number = rows["line"][start_rows]
    drafts.declared_count = -1
    return BatchPlan(continuation, drafts, records)


def _producer_columns(
    lines: Sequence[Record], options: BuildOptions
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """For each record: producer id, epoch, whether it is a control record and transactional."""
    n = len(lines)
    epoch = options.producer_epoch or 0
    producer_ids = integer_column(lines, "producer_id", -1)
    if options.producer_id is not None:
        producer_ids = np.full(n, options.producer_id)
    epochs = integer_column(
        lines, "producer_epoch", lambda i: epoch if producer_ids[i] >= 0 else -1, 16
    )
    if options.producer_epoch is not None:
        epochs = np.where(producer_ids >= 0, options.producer_epoch, epochs)
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
    return producer_ids, epochs, is_control, is_transactional


def _is_transaction_marker(line: Record) -> bool:
    return line.control is not None and line.control.type in ("ABORT", "COMMIT", ABORT, COMMIT)


def record_offsets(lines: Sequence[Record], next_offset: int) -> IntArray:
    """The records' offsets; a missing offset follows the previous one, the first is
    `next_offset`."""
    default_offsets = []
    for line in lines:
        default_offsets.append(next_offset)
        next_offset = (next_offset if line.offset is None else line.offset) + 1
    return integer_column(lines, "offset", lambda i: default_offsets[i])
