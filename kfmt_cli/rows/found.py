"""The row of a match in a log."""

from __future__ import annotations

from kfmt_cli.core.layout.field import BYTE, BYTES, MILLISECONDS, OFFSET
from kfmt_cli.rows.column import Column, ColumnKind, Placed, RowType

FOUND = RowType(
    "found",
    "A match in a log.",
    (
        Column(
            "position",
            doc="Position of the batch in the file.",
            unit=BYTE,
            heading="batch at",
        ),
        Column("size", doc="Size of the batch in bytes.", unit=BYTES, minor=True),
        Column(
            "base_offset", doc="First offset of the batch.", given="has_base_offset", unit=OFFSET
        ),
        Column("last_offset", doc="Last offset of the batch.", unit=OFFSET),
        Column(
            "offset",
            doc="Offset of the record; null if the batch no longer contains it.",
            given="has_offset",
            unit=OFFSET,
        ),
        Column(
            "record_position",
            doc="Position of the record in the file; null inside a compressed batch.",
            given="has_record_position",
            unit=BYTE,
            heading="record at",
        ),
        Column(
            "timestamp",
            doc="Timestamp of the record, or the batch's max timestamp.",
            given="has_timestamp",
            unit=MILLISECONDS,
            none=-1,
        ),
        Column("via", ColumnKind.TEXT, "How it was found: index or scan."),
    ),
    Placed.FILE,
)
