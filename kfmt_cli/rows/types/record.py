"""The columns of a record: its stored fields, and values derived from its batch."""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.formats.batch import RECORD as LAYOUT
from kfmt_cli.formats.control import CONTROL_RECORD_KEY, CONTROL_TYPES, END_TXN_MARKER
from kfmt_cli.rows.column import Column, ColumnKind, Placed, RowType, column_of
from kfmt_cli.rows.types.batch import TIMESTAMP_WORDS


def _sized(name: str) -> tuple[Column, Column]:
    """A bytes field, with its length (-1 for null) before it."""
    size = Column(f"{name}_size", doc=f"Size of the {name} in bytes; -1 for null.", bits=32)
    return size, column_of(LAYOUT.field(name))


CONTROL = Column(
    "control",
    ColumnKind.GROUP,
    "Contents of a control record.",
    only=("control", 1),
    of=(
        column_of(
            CONTROL_RECORD_KEY.field("type"),
            source="control_type",
            flat="control_type",
            words=CONTROL_TYPES,
        ),
        column_of(
            CONTROL_RECORD_KEY.field("version"), source="control_version", flat="control_version"
        ),
        column_of(
            END_TXN_MARKER.field("coordinator_epoch"),
            given="has_marker",
            flat="control_coordinator_epoch",
        ),
        Column(
            "data",
            ColumnKind.JSON,
            "Contents of a KRaft control record.",
            source="control_data",
            only=("has_control_data", 1),
            flat="control_data",
        ),
    ),
)

RECORD = RowType(
    "record",
    "A record, or a magic 0 or 1 message, including messages inside a compressed message set.",
    (
        Column("batch_position", doc="Position of its batch in the file."),
        Column(
            "position",
            doc="Position in the file; null inside a compressed batch.",
            given="has_position",
        ),
        Column("offset", doc="Offset."),
        Column("timestamp", doc="Timestamp.", given="has_timestamp", unit=MILLISECONDS, none=-1),
        Column(
            "timestamp_type",
            ColumnKind.CHOICE,
            "CreateTime, LogAppendTime or NoTimestampType.",
            words=TIMESTAMP_WORDS,
        ),
        Column("sequence", doc="Sequence number of the record.", given="is_v2", none=-1, bits=32),
        *_sized("key"),
        *_sized("value"),
        column_of(LAYOUT.field("headers"), given="is_v2"),
        CONTROL,
    ),
    Placed.FILE,
)

# Text from the topic's decoder, for key and value, comes last.
DECODED = ("decoded_key", "decoded_value")
DECODED_RECORD = replace(
    RECORD,
    columns=(
        *RECORD.columns,
        *(
            Column(
                name,
                ColumnKind.JSON,
                f"The {name.removeprefix('decoded_')}, decoded by the topic's decoder.",
                only=(f"has_{name}", 1),
            )
            for name in DECODED
        ),
    ),
)
