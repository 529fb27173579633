"""Files in layouts that no broker writes, selected by name (`--layout`).

`notes-v0` is the simplified message with which some articles explain magic 0.
"""

from __future__ import annotations

import zlib

from kfmt_cli.core.layout.field import BYTE_UNIT
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.location import BufferOrigin, DecodeError
from kfmt_cli.disk.kinds.kind import FileContents, FileKind, FileLevel, InputFile, read_small_file
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS, COMPRESSION
from kfmt_cli.formats.legacy import NOTES_V0 as LAYOUT
from kfmt_cli.rows.column import Column, ColumnKind, RowType, field_column
from kfmt_cli.rows.columnar_rows import build_columnar_rows

MAX_NOTES_BYTES = 256 << 20
NOTES_ROW = RowType(
    "notes_message",
    LAYOUT.doc,
    (
        Column("position", doc="Byte position in the file.", unit=BYTE_UNIT, heading="entry at"),
        Column("size", doc="Bytes of the message."),
        field_column(LAYOUT.field("crc")),
        Column("crc_valid", ColumnKind.FLAG, "Whether the checksum matches the value."),
        Column("crc_computed", doc="The checksum of the value.", present_if=("crc_valid", 0)),
        field_column(LAYOUT.field("magic")),
        field_column(LAYOUT.field("attributes")),
        Column("compression", ColumnKind.CHOICE, "Decoded attributes.", choices=CODECS),
        Column(
            "key_size", doc="Size of the key in bytes; -1 for null.", source="key_length", n_bits=32
        ),
        field_column(LAYOUT.field("key")),
        Column(
            "value_size",
            doc="Size of the value in bytes; -1 for null.",
            source="value_length",
            n_bits=32,
        ),
        field_column(LAYOUT.field("value")),
    ),
)


def notes_checksum(value: bytes | None) -> int:
    """The checksum of a message: CRC-32 of its value."""
    return zlib.crc32(value or b"")


def read_notes(file: InputFile) -> FileContents:
    """The messages of a file, in sequence; raises InputError."""
    file_bytes = read_small_file(file, MAX_NOTES_BYTES)
    origin = BufferOrigin(file.name)
    findings: list[Finding] = []
    rows: list[tuple[int | bytes | None, ...]] = []
    position = 0
    while position < len(file_bytes):
        try:
            message_fields, next_position = LAYOUT.read_row(
                file_bytes, position, len(file_bytes), origin, (f"message {len(rows)}",)
            )
        except DecodeError as error:
            message = f"{' › '.join(error.location.structure_names)}: {error.reason}"
            findings.append(
                Finding(file.name, codes.NOTES_MALFORMED, error.location.file_position, message)
            )
            break
        value = message_fields.value
        stored_crc, computed_crc = message_fields.crc, notes_checksum(value)
        if stored_crc != computed_crc:
            message = (
                f"message {len(rows)}: stored {stored_crc!s}, computed {computed_crc} "
                "over its value"
            )
            code = codes.NOTES_CRC_MISMATCH
            finding = Finding(
                file.name,
                code,
                position,
                message,
                expected=computed_crc,
                found=int(stored_crc or 0),
            )
            findings.append(finding)
        attributes = int(message_fields.attributes or 0)
        leading_values = (
            position,
            next_position - position,
            stored_crc,
            int(stored_crc == computed_crc),
            computed_crc,
            message_fields.magic,
        )
        attribute_values = (attributes, COMPRESSION.extract_value(attributes))
        key_and_value_size = (_size_or_minus_one(message_fields.key), _size_or_minus_one(value))
        rows.append(
            (
                *leading_values,
                *attribute_values,
                key_and_value_size[0],
                message_fields.key,
                key_and_value_size[1],
                value,
            )
        )
        position = next_position
    return FileContents(len(file_bytes), [build_columnar_rows(NOTES_ROW, rows)], findings)


def _size_or_minus_one(value: object) -> int:
    return len(value) if isinstance(value, bytes) else -1


NOTES_KIND = FileKind("notes_v0", FileLevel.SEGMENT, row_types=(NOTES_ROW,), reader=read_notes)
# The choices of --layout, and the structure repeated in such a file.
NOTES_LAYOUTS: dict[str, tuple[FileKind, Layout]] = {"notes-v0": (NOTES_KIND, LAYOUT)}
