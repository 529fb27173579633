"""The row of a match in a log."""

from __future__ import annotations

from kfmt_cli.core.layout.field import BYTE, BYTES, OFFSET
from kfmt_cli.rows.column import Placed, RowType, milliseconds, number, text

FOUND = RowType(
    "found",
    "A match in a log.",
    (
        number("position", "Position of the batch in the file.", unit=BYTE, heading="batch at"),
        number("size", "Size of the batch in bytes.", unit=BYTES, minor=True),
        number("base_offset", "First offset of the batch.", null=True, unit=OFFSET),
        number("last_offset", "Last offset of the batch.", unit=OFFSET),
        number(
            "offset",
            "Offset of the record; null if the batch no longer contains it.",
            null=True,
            unit=OFFSET,
        ),
        number(
            "record_position",
            "Position of the record in the file; null inside a compressed batch.",
            null=True,
            unit=BYTE,
            heading="record at",
        ),
        milliseconds(
            "timestamp", "Timestamp of the record, or the batch's max timestamp.", null=True
        ),
        text("via", "How it was found: index or scan."),
    ),
    Placed.FILE,
)
