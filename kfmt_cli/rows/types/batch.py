"""The columns of a batch: its header fields in order, and the columns derived from them.

They have the names and order of the JSON contract. Fields that magic 0 and 1 lack are null.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.formats.batch import RECORD_BATCH, TIMESTAMP_TYPES
from kfmt_cli.rows.column import Column, ColumnKind, Placed, RowType, column_of

TIMESTAMP_WORDS = (*TIMESTAMP_TYPES, "NoTimestampType")
POSITION = Column("position", doc="Position of the batch in the file.")

# The column that says whether a batch has a field; fields without an entry exist only in magic 2.
_GIVEN = {
    "base_offset": "has_base_offset",
    "max_timestamp": "has_timestamp",
    "batch_length": "",
    "magic": "",
    "crc": "",
}
_FIRST = "magic"
# Derived columns come after their field.
_BEHIND = {
    "base_offset": (Column("last_offset", doc="Offset of the last record."),),
    "crc": (
        Column("crc_valid", ColumnKind.FLAG, "Whether the checksum matches."),
        Column("crc_computed", doc="Checksum computed from the bytes.", only=("crc_valid", 0)),
    ),
    "max_timestamp": (
        Column(
            "delete_horizon_ms",
            source="base_timestamp",
            given="delete_horizon",
            doc="When tombstones and markers in the batch can be removed.",
            unit=MILLISECONDS,
            none=-1,
        ),
    ),
    "base_sequence": (
        Column(
            "last_sequence",
            given="is_v2",
            doc="Sequence number of the last record; -1 for none.",
            none=-1,
            bits=32,
        ),
    ),
}


def _attributes(field: Field) -> Column:
    """The bits as an object; its first member is the stored number."""
    members = [Column("raw", doc=field.doc, source=field.name, flat=field.name)]
    for bits in field.flags:
        if bits.name == "timestamp_type":
            members.append(Column(bits.name, ColumnKind.CHOICE, bits.doc, words=TIMESTAMP_WORDS))
        elif bits.symbols:
            members.append(Column(bits.name, ColumnKind.CHOICE, bits.doc, words=bits.words))
        else:
            members.append(Column(bits.name, ColumnKind.FLAG, bits.doc, given="is_v2"))
    return Column(field.name, ColumnKind.GROUP, of=tuple(members))


def _columns() -> Iterator[Column]:
    yield POSITION
    yield Column("size", doc="Size of the whole batch in bytes.")
    first = RECORD_BATCH.field(_FIRST)
    for field in (first, *(field for field in RECORD_BATCH.fields if field is not first)):
        if field.flags:
            yield _attributes(field)
        else:
            yield column_of(field, given=_GIVEN.get(field.name, "is_v2"))
        yield from _BEHIND.get(field.name, ())


BATCH = RowType(
    "batch",
    "A batch, or a magic 0 or 1 message described by its own header.",
    (*_columns(),),
    Placed.FILE,
)
