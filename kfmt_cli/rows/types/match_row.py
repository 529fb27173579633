"""The row of a match in a log."""

from __future__ import annotations

from kfmt_cli.core.layout.field import BYTE_UNIT, BYTES_UNIT, OFFSET_UNIT
from kfmt_cli.rows.column import (
    LocationSource,
    RowType,
    milliseconds_column,
    number_column,
    text_column,
)

MATCH_ROW = RowType(
    "found",
    "A match in a log.",
    (
        number_column(
            "position", "Position of the batch in the file.", unit=BYTE_UNIT, heading="batch at"
        ),
        number_column("size", "Size of the batch in bytes.", unit=BYTES_UNIT, is_minor=True),
        number_column(
            "base_offset", "First offset of the batch.", can_be_null=True, unit=OFFSET_UNIT
        ),
        number_column("last_offset", "Last offset of the batch.", unit=OFFSET_UNIT),
        number_column(
            "offset",
            "Offset of the record; null if the batch no longer contains it.",
            can_be_null=True,
            unit=OFFSET_UNIT,
        ),
        number_column(
            "record_position",
            "Position of the record in the file; null inside a compressed batch.",
            can_be_null=True,
            unit=BYTE_UNIT,
            heading="record at",
        ),
        milliseconds_column(
            "timestamp", "Timestamp of the record, or the batch's max timestamp.", can_be_null=True
        ),
        text_column("via", "How it was found: index or scan."),
    ),
    LocationSource.FILE,
)
