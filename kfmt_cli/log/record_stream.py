"""The records of logs one by one, for replaying a topic: plain objects in offset order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, split_runs
from kfmt_cli.log.derived_columns import read_complete_records
from kfmt_cli.log.log_opening import OpenLog
from kfmt_cli.log.records import RecordColumns


@dataclass(frozen=True, slots=True)
class StreamedRecord:
    offset: int
    key: bytes | None
    value: bytes | None
    control_type: int | None = None
    """The type of a control record, None for any other."""
    producer_id: int | None = None
    """None unless it is part of a transaction."""


_STREAMED_COLUMNS = ("offset", "key", "key_size", "value", "value_size", "control", "control_type")


def iter_records_and_findings(
    log: OpenLog,
    limit: DecompressionLimit,
    select_rows: Callable[[Block, RecordColumns], BoolArray] | None = None,
) -> Iterator[StreamedRecord | Finding]:
    """The records and findings of a log; records of damaged batches are skipped.

    select_rows: returns a mask of the records to include, by a run of batches and their records.
    """
    for block in log.blocks:
        yield from iter_block_records(block, limit, select_rows)


def iter_block_records(
    block: Block,
    limit: DecompressionLimit,
    select_rows: Callable[[Block, RecordColumns], BoolArray] | None = None,
) -> Iterator[StreamedRecord | Finding]:
    """As `iter_records_and_findings`, for one block."""
    yield from block.findings
    for run in split_runs(block):
        records = read_complete_records(run, limit)
        yield from records.findings
        is_included = run.batches.crc_valid[records.batch_of_row] == 1
        if select_rows is not None:
            is_included &= select_rows(run, records)
        yield from _iter_selected_records(run, records, np.flatnonzero(is_included))


def _iter_selected_records(
    run: Block, records: RecordColumns, selected_rows: IntArray
) -> Iterator[StreamedRecord]:
    batches, data = run.batches, records.data
    batch_of_row = records.batch_of_row[selected_rows]
    batch_columns = (
        batches[name][batch_of_row].tolist() for name in ("transactional", "producer_id")
    )
    record_columns = (records.rows[name][selected_rows].tolist() for name in _STREAMED_COLUMNS)
    for is_transactional, producer_id, *row_values in zip(
        *batch_columns, *record_columns, strict=True
    ):
        offset, key_start, key_size, value_start, value_size, is_control, control_type = row_values
        yield StreamedRecord(
            offset,
            None if key_size < 0 else data[key_start : key_start + key_size],
            None if value_size < 0 else data[value_start : value_start + value_size],
            control_type if is_control else None,
            producer_id if is_transactional else None,
        )
