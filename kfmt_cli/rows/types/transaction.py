"""The row of a transaction in a partition."""

from __future__ import annotations

from kfmt_cli.core.layout.field import OFFSET
from kfmt_cli.rows.column import Placed, RowType, flag, milliseconds, number, text

TRANSACTION = RowType(
    "transaction",
    "A transaction of a producer in a partition.",
    (
        text("outcome", "open, committed or aborted."),
        flag(
            "hanging",
            "Whether an open transaction is hanging (will never end); null if unknown.",
            null=True,
        ),
        number("producer_id", "The producer."),
        number("producer_epoch", "Its epoch."),
        text(
            "transactional_id",
            "Transactional id, if __transaction_state is in the same log directory.",
            null=True,
        ),
        number(
            "first_offset",
            "First offset; null if only the marker remains.",
            null=True,
            unit=OFFSET,
        ),
        number("last_offset", "Last offset of its records.", null=True, unit=OFFSET),
        number("records", "Remaining records."),
        number("batches", "Remaining batches.", minor=True),
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
        flag(
            "holds_last_stable_offset",
            "Whether read_committed consumers are waiting for it.",
            minor=True,
        ),
    ),
    Placed.PARTITION,
)
