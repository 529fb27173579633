"""Files in layouts that no broker writes, selected by name (`--layout`).

`notes-v0` is the simplified message with which some articles explain magic 0.
"""

from __future__ import annotations

import zlib

from kfmt_cli.core.layout.field import BYTE
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.place import DecodeError, Origin
from kfmt_cli.disk.kinds.kind import Contents, Input, Kind, Level, read_whole
from kfmt_cli.findings import files as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS, COMPRESSION
from kfmt_cli.formats.legacy import NOTES_V0 as LAYOUT
from kfmt_cli.rows.column import Column, ColumnKind, RowType, column_of
from kfmt_cli.rows.section import section_of

MOST_BYTES = 256 << 20
ROWS = RowType(
    "notes_message",
    LAYOUT.doc,
    (
        Column("position", doc="Byte position in the file.", unit=BYTE, heading="entry at"),
        Column("size", doc="Bytes of the message."),
        column_of(LAYOUT.field("crc")),
        Column("crc_valid", ColumnKind.FLAG, "Whether the checksum matches the value."),
        Column("crc_computed", doc="The checksum of the value.", only=("crc_valid", 0)),
        column_of(LAYOUT.field("magic")),
        column_of(LAYOUT.field("attributes")),
        Column("compression", ColumnKind.CHOICE, "Decoded attributes.", words=CODECS),
        Column(
            "key_size", doc="Size of the key in bytes; -1 for null.", source="key_length", bits=32
        ),
        column_of(LAYOUT.field("key")),
        Column(
            "value_size",
            doc="Size of the value in bytes; -1 for null.",
            source="value_length",
            bits=32,
        ),
        column_of(LAYOUT.field("value")),
    ),
)


def checksum(value: bytes | None) -> int:
    """The checksum of a message: CRC-32 of its value."""
    return zlib.crc32(value or b"")


def read_notes(file: Input) -> Contents:
    """The messages of a file, in sequence; raises InputError."""
    data = read_whole(file, MOST_BYTES)
    origin = Origin(file.name)
    findings: list[Finding] = []
    rows: list[tuple[int | bytes | None, ...]] = []
    at = 0
    while at < len(data):
        try:
            values, after = LAYOUT.read(data, at, len(data), origin, (f"message {len(rows)}",))
        except DecodeError as error:
            words = f"{' › '.join(error.place.path)}: {error.reason}"
            findings.append(Finding(file.name, codes.NOTES_MALFORMED, error.place.position, words))
            break
        value = values.value
        stored, computed = values.crc, checksum(value)
        if stored != computed:
            words = f"message {len(rows)}: stored {stored!s}, computed {computed} over its value"
            code = codes.NOTES_CRC_MISMATCH
            found = Finding(file.name, code, at, words, expected=computed, found=int(stored or 0))
            findings.append(found)
        attributes = int(values.attributes or 0)
        front = (at, after - at, stored, int(stored == computed), computed, values.magic)
        bits = (attributes, COMPRESSION.of(attributes))
        sizes = (_length(values.key), _length(value))
        rows.append((*front, *bits, sizes[0], values.key, sizes[1], value))
        at = after
    return Contents(len(data), [section_of(ROWS, rows)], findings)


def _length(value: object) -> int:
    return len(value) if isinstance(value, bytes) else -1


NOTES = Kind("notes_v0", Level.SEGMENT, row_types=(ROWS,), read=read_notes)
# The choices of --layout, and the structure repeated in such a file.
LAYOUTS: dict[str, tuple[Kind, Layout]] = {"notes-v0": (NOTES, LAYOUT)}
