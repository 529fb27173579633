"""The columns of a record: its stored fields, and values derived from its batch."""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.formats.batch import RECORD as LAYOUT
from kfmt_cli.formats.control import CONTROL_RECORD_KEY, CONTROL_TYPES, END_TXN_MARKER
from kfmt_cli.rows.column import Column, ColumnKind, LocationSource, RowType, field_column
from kfmt_cli.rows.types.batch import TIMESTAMP_TYPE_NAMES


def _size_and_value_columns(name: str) -> tuple[Column, Column]:
    """A bytes field, with its length (-1 for null) before it."""
    size = Column(f"{name}_size", doc=f"Size of the {name} in bytes; -1 for null.", n_bits=32)
    return size, field_column(LAYOUT.field(name))


CONTROL_COLUMN = Column(
    "control",
    ColumnKind.GROUP,
    "Contents of a control record.",
    present_if=("control", 1),
    members=(
        field_column(
            CONTROL_RECORD_KEY.field("type"),
            source="control_type",
            explicit_flat_name="control_type",
            choices=CONTROL_TYPES,
        ),
        field_column(
            CONTROL_RECORD_KEY.field("version"),
            source="control_version",
            explicit_flat_name="control_version",
        ),
        field_column(
            END_TXN_MARKER.field("coordinator_epoch"),
            presence_column="has_marker",
            explicit_flat_name="control_coordinator_epoch",
        ),
        Column(
            "data",
            ColumnKind.JSON,
            "Contents of a KRaft control record.",
            source="control_data",
            present_if=("has_control_data", 1),
            explicit_flat_name="control_data",
        ),
    ),
)

RECORD_ROW = RowType(
    "record",
    "A record, or a magic 0 or 1 message, including messages inside a compressed message set.",
    (
        Column("batch_position", doc="Position of its batch in the file."),
        Column(
            "position",
            doc="Position in the file; null inside a compressed batch.",
            presence_column="has_position",
        ),
        Column("offset", doc="Offset."),
        Column(
            "timestamp",
            doc="Timestamp.",
            presence_column="has_timestamp",
            unit=MS_UNIT,
            null_value=-1,
        ),
        Column(
            "timestamp_type",
            ColumnKind.CHOICE,
            "CreateTime, LogAppendTime or NoTimestampType.",
            choices=TIMESTAMP_TYPE_NAMES,
        ),
        Column(
            "sequence",
            doc="Sequence number of the record.",
            presence_column="is_v2",
            null_value=-1,
            n_bits=32,
        ),
        *_size_and_value_columns("key"),
        *_size_and_value_columns("value"),
        field_column(LAYOUT.field("headers"), presence_column="is_v2"),
        CONTROL_COLUMN,
    ),
    LocationSource.FILE,
)

# Text from the topic's decoder, for key and value, comes last.
DECODED_COLUMNS = ("decoded_key", "decoded_value")
DECODED_RECORD_ROW = replace(
    RECORD_ROW,
    columns=(
        *RECORD_ROW.columns,
        *(
            Column(
                name,
                ColumnKind.JSON,
                f"The {name.removeprefix('decoded_')}, decoded by the topic's decoder.",
                present_if=(f"has_{name}", 1),
            )
            for name in DECODED_COLUMNS
        ),
    ),
)
