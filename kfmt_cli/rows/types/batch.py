"""The columns of a batch: its header fields in order, and the columns derived from them.

They have the names and order of the JSON contract. Fields that magic 0 and 1 lack are null.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.layout.field import MS_UNIT, Field
from kfmt_cli.formats.batch import RECORD_BATCH, TIMESTAMP_TYPES
from kfmt_cli.rows.column import Column, ColumnKind, LocationSource, RowType, field_column

TIMESTAMP_TYPE_NAMES = (*TIMESTAMP_TYPES, "NoTimestampType")
POSITION_COLUMN = Column("position", doc="Position of the batch in the file.")

# The column that is 1 if a batch has the field; fields without an entry exist only in magic 2.
_PRESENCE_COLUMN_BY_FIELD = {
    "base_offset": "has_base_offset",
    "max_timestamp": "has_timestamp",
    "batch_length": "",
    "magic": "",
    "crc": "",
}
_FIRST_FIELD = "magic"
# Derived columns come after their field.
_DERIVED_COLUMNS = {
    "base_offset": (Column("last_offset", doc="Offset of the last record."),),
    "crc": (
        Column("crc_valid", ColumnKind.FLAG, "Whether the checksum matches."),
        Column(
            "crc_computed", doc="Checksum computed from the bytes.", present_if=("crc_valid", 0)
        ),
    ),
    "max_timestamp": (
        Column(
            "delete_horizon_ms",
            source="base_timestamp",
            presence_column="delete_horizon",
            doc="When tombstones and markers in the batch can be removed.",
            unit=MS_UNIT,
            null_value=-1,
        ),
    ),
    "base_sequence": (
        Column(
            "last_sequence",
            presence_column="is_v2",
            doc="Sequence number of the last record; -1 for none.",
            null_value=-1,
            n_bits=32,
        ),
    ),
}


def _attributes_column(field: Field) -> Column:
    """The bits as an object; its first member is the stored number."""
    bit_columns = [Column("raw", doc=field.doc, source=field.name, explicit_flat_name=field.name)]
    for bit_field in field.flags:
        if bit_field.name == "timestamp_type":
            bit_columns.append(
                Column(
                    bit_field.name, ColumnKind.CHOICE, bit_field.doc, choices=TIMESTAMP_TYPE_NAMES
                )
            )
        elif bit_field.symbols:
            bit_columns.append(
                Column(
                    bit_field.name, ColumnKind.CHOICE, bit_field.doc, choices=bit_field.value_names
                )
            )
        else:
            bit_columns.append(
                Column(bit_field.name, ColumnKind.FLAG, bit_field.doc, presence_column="is_v2")
            )
    return Column(field.name, ColumnKind.GROUP, members=tuple(bit_columns))


def _iter_batch_columns() -> Iterator[Column]:
    yield POSITION_COLUMN
    yield Column("size", doc="Size of the whole batch in bytes.")
    first_field = RECORD_BATCH.field(_FIRST_FIELD)
    for field in (
        first_field,
        *(field for field in RECORD_BATCH.fields if field is not first_field),
    ):
        if field.flags:
            yield _attributes_column(field)
        else:
            yield field_column(
                field, presence_column=_PRESENCE_COLUMN_BY_FIELD.get(field.name, "is_v2")
            )
        yield from _DERIVED_COLUMNS.get(field.name, ())


BATCH_ROW = RowType(
    "batch",
    "A batch, or a magic 0 or 1 message described by its own header.",
    (*_iter_batch_columns(),),
    LocationSource.FILE,
)
