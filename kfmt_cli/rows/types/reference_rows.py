"""The objects of commands that explain formats and findings, and of small helpers."""

from __future__ import annotations

from kfmt_cli.rows.column import (
    LocationSource,
    RowType,
    json_column,
    number_column,
    text_column,
)
from kfmt_cli.rows.documents import CODE_COLUMN, CONSEQUENCE_COLUMNS, SEVERITY_COLUMN

CODE_ROW = RowType(
    "code",
    "A kind of finding.",
    (
        CODE_COLUMN,
        SEVERITY_COLUMN,
        text_column("about", "Section of the list of findings."),
        text_column("meaning", "Its meaning."),
        *CONSEQUENCE_COLUMNS,
    ),
)


EXPLAIN_PAGE_ROW = RowType(
    "topic",
    "A page of kfmt explain.",
    (
        text_column("topic", "Its name."),
        text_column("title", "Its title."),
        json_column(
            "parts", "Its paragraphs, and its tables as lists of lines.", can_be_absent=True
        ),
    ),
)


WHEEL_STEP_ROW = RowType(
    "step",
    "A step of a timing wheel.",
    (
        number_column("at", "The time in milliseconds."),
        text_column("kind", "What happens: a timer is added, moved or expires."),
        text_column("timer", "The timer."),
        number_column("level", "Level of the wheel; 0 is the finest.", can_be_null=True),
        number_column("bucket", "The bucket of the wheel.", can_be_null=True),
        number_column("looked_at", "When the bucket expires.", can_be_null=True),
    ),
)


FORMAT_ROW = RowType(
    "format",
    "A format that kfmt reads.",
    (
        text_column("name", "Its name."),
        text_column("chapter", "Chapter of the list of formats."),
        number_column("size", "Its size in bytes; null if it varies.", can_be_null=True),
        json_column("versions", "The first and the last version of a message.", can_be_null=True),
        number_column("flexible_since", "The first version with tagged fields.", can_be_null=True),
        text_column("meaning", "Its description."),
        text_column("source", "Where Kafka defines it."),
    ),
)


FORMAT_FIELD_ROW = RowType(
    "format_field",
    "A field of a format.",
    (
        text_column("format", "The format."),
        number_column(
            "offset", "Byte position where it starts; null if it varies.", can_be_null=True
        ),
        text_column("field", "Its name, after the names of the structures that contain it."),
        text_column("wire_type", "Its type."),
        text_column("bits", "Which bits of the field it is.", can_be_null=True),
        text_column("versions", "Versions that have it, if not all.", can_be_null=True),
        text_column("meaning", "Its meaning."),
    ),
)


VARINT_ROW = RowType(
    "varint",
    "A varint.",
    (
        text_column("encoding", "Its type."),
        number_column("value", "The number."),
        number_column("zigzag", "The number after zigzag; null without it.", can_be_null=True),
        text_column("hex", "Its bytes."),
        number_column("size", "Number of bytes."),
    ),
)


UNKNOWN_FILE_ROW = RowType(
    "unknown_file",
    "A file in a directory that kfmt does not recognise.",
    (
        text_column("file", "The file."),
        number_column("bytes", "Its size.", can_be_null=True),
    ),
)


QUERY_ROW = RowType(
    "row",
    "A row of the result of `kfmt sql`: the columns of the query under their names.",
    (),
    LocationSource.NO_FILE,
)
