"""What is shown of a transaction in a partition."""

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
            "Whether an open one is one that nobody will end; null where that is not known.",
            given="has_hanging",
        ),
        Column("producer_id", doc="The producer."),
        Column("producer_epoch", doc="Its epoch."),
        Column(
            "transactional_id",
            ColumnKind.TEXT,
            "The producer's name, where __transaction_state lies next to it.",
            given="has_transactional_id",
        ),
        number(
            "first_offset",
            "First offset; null where only the marker is left.",
            null=True,
            unit=OFFSET,
        ),
        number("last_offset", "Last offset of its records.", null=True, unit=OFFSET),
        Column("records", doc="Records that are left."),
        Column("batches", doc="Batches that are left.", minor=True),
        number(
            "marker_offset", "Offset of the marker that ended it; null while it is open.", null=True
        ),
        number(
            "duration_ms", "From its first batch to its marker; null while it is open.", null=True
        ),
        milliseconds("start_timestamp", "Of its first batch.", null=True, minor=True),
        milliseconds(
            "end_timestamp", "Of its marker; null while it is open.", null=True, minor=True
        ),
        number("open_for_ms", "How long before the newest record an open one began.", null=True),
        Column(
            "holds_last_stable_offset",
            ColumnKind.FLAG,
            "Whether consumers of committed records wait for it.",
            minor=True,
        ),
    ),
    Placed.PARTITION,
)
