"""The row of a transaction in a partition."""

from __future__ import annotations

from kfmt_cli.core.layout.field import OFFSET
from kfmt_cli.rows.column import Column, ColumnKind, Placed, RowType, milliseconds, number

TRANSACTION = RowType(
    "transaction",
    "A transaction of a producer in a partition.",
    (
        Column("outcome", ColumnKind.TEXT, "open, committed or aborted."),
        Column(
            "hanging",
            ColumnKind.FLAG,
            "Whether an open transaction is hanging (will never end); null if unknown.",
            given="has_hanging",
        ),
        Column("producer_id", doc="The producer."),
        Column("producer_epoch", doc="Its epoch."),
        Column(
            "transactional_id",
            ColumnKind.TEXT,
            "Transactional id, if __transaction_state is in the same log directory.",
            given="has_transactional_id",
        ),
        number(
            "first_offset",
            "First offset; null if only the marker remains.",
            null=True,
            unit=OFFSET,
        ),
        number("last_offset", "Last offset of its records.", null=True, unit=OFFSET),
        Column("records", doc="Remaining records."),
        Column("batches", doc="Remaining batches.", minor=True),
        number(
            "marker_offset", "Offset of the marker that ended it; null while it is open.", null=True
        ),
        number(
            "duration_ms", "From its first batch to its marker; null while it is open.", null=True
        ),
        milliseconds("start_timestamp", "Timestamp of its first batch.", null=True, minor=True),
        milliseconds(
            "end_timestamp",
            "Timestamp of its marker; null while it is open.",
            null=True,
            minor=True,
        ),
        number(
            "open_for_ms",
            "For an open transaction: time from its start to the partition's newest record.",
            null=True,
        ),
        Column(
            "holds_last_stable_offset",
            ColumnKind.FLAG,
            "Whether read_committed consumers are waiting for it.",
            minor=True,
        ),
    ),
    Placed.PARTITION,
)
