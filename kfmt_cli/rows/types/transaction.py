"""The row of a transaction in a partition."""

from __future__ import annotations

from kfmt_cli.core.layout.field import OFFSET_UNIT
from kfmt_cli.rows.column import (
    LocationSource,
    RowType,
    flag_column,
    milliseconds_column,
    number_column,
    text_column,
)

TRANSACTION_ROW = RowType(
    "transaction",
    "A transaction of a producer in a partition.",
    (
        text_column("outcome", "open, committed or aborted."),
        flag_column(
            "hanging",
            "Whether an open transaction is hanging (will never end); null if unknown.",
            can_be_null=True,
        ),
        number_column("producer_id", "The producer."),
        number_column("producer_epoch", "Its epoch."),
        text_column(
            "transactional_id",
            "Transactional id, if __transaction_state is in the same log directory.",
            can_be_null=True,
        ),
        number_column(
            "first_offset",
            "First offset; null if only the marker remains.",
            can_be_null=True,
            unit=OFFSET_UNIT,
        ),
        number_column(
            "last_offset", "Last offset of its records.", can_be_null=True, unit=OFFSET_UNIT
        ),
        number_column("records", "Remaining records."),
        number_column("batches", "Remaining batches.", is_minor=True),
        number_column(
            "marker_offset",
            "Offset of the marker that ended it; null while it is open.",
            can_be_null=True,
        ),
        number_column(
            "duration_ms",
            "From its first batch to its marker; null while it is open.",
            can_be_null=True,
        ),
        milliseconds_column(
            "start_timestamp", "Timestamp of its first batch.", can_be_null=True, is_minor=True
        ),
        milliseconds_column(
            "end_timestamp",
            "Timestamp of its marker; null while it is open.",
            can_be_null=True,
            is_minor=True,
        ),
        number_column(
            "open_for_ms",
            "For an open transaction: time from its start to the partition's newest record.",
            can_be_null=True,
        ),
        flag_column(
            "holds_last_stable_offset",
            "Whether read_committed consumers are waiting for it.",
            is_minor=True,
        ),
    ),
    LocationSource.PARTITION,
)
