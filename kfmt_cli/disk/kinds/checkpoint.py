"""The checkpoint files of brokers and of Kafka Streams, see `formats/checkpoint.py`.

Follows `org.apache.kafka.server.common.CheckpointFile`, but continues after a malformed line.
"""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import PurePath

from kfmt_cli.core.integers import parse_java_int
from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import IntegerWireType
from kfmt_cli.disk.kinds.fixed_size_rows import POSITION_COLUMN
from kfmt_cli.disk.kinds.kind import (
    MAX_QUOTED_CHARS,
    TRANSIENT_SUFFIXES,
    FileContents,
    FileKind,
    FileLevel,
    InputFile,
    quote_content,
    read_small_file,
)
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.checkpoint import CHECKPOINTS, STREAMS_CHECKPOINT
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import build_columnar_rows

_WHITESPACE_PATTERN = re.compile(r"[ \t\n\x0b\f\r]+")
MAX_CHECKPOINT_BYTES = 64 << 20
_LAYOUT_BY_NAME = {**CHECKPOINTS, STREAMS_CHECKPOINT.name: STREAMS_CHECKPOINT}
REMOTE_CHECKPOINT_SUFFIX = ".leader_epoch_checkpoint"  # a file in remote storage


def _field_column(field: Field) -> Column:
    column_kind = ColumnKind.NUMBER if isinstance(field.type, IntegerWireType) else ColumnKind.TEXT
    return Column(field.name, column_kind, field.doc, unit=field.unit, null_value=field.none_value)


def _build_row_types() -> dict[str, RowType]:
    """The row type of each checkpoint; those with the same fields share one."""
    docs_by_fields: dict[tuple[Field, ...], list[str]] = {}
    for checkpoint in CHECKPOINTS.values():
        docs_by_fields.setdefault(checkpoint.fields, []).append(
            f"`{checkpoint.name}`: {checkpoint.doc}"
        )
    row_type_by_fields = {
        fields: RowType(
            "checkpoint_entry", " ".join(entry_docs), (POSITION_COLUMN, *map(_field_column, fields))
        )
        for fields, entry_docs in docs_by_fields.items()
    }
    row_types = {name: row_type_by_fields[layout.fields] for name, layout in CHECKPOINTS.items()}
    row_types[STREAMS_CHECKPOINT.name] = RowType(
        "streams_checkpoint_entry",
        STREAMS_CHECKPOINT.doc,
        (POSITION_COLUMN, *map(_field_column, STREAMS_CHECKPOINT.fields)),
    )
    return row_types


ROW_TYPE_BY_CHECKPOINT = _build_row_types()


def checkpoint_name(file_name: str) -> str:
    """The name of the checkpoint that a file is, or is a copy of. file_name: its name alone."""
    base_name, _, suffix = file_name.rpartition(".")
    name_without_suffix = base_name if suffix in TRANSIENT_SUFFIXES else file_name
    return (
        "leader-epoch-checkpoint"
        if name_without_suffix.endswith(REMOTE_CHECKPOINT_SUFFIX)
        else name_without_suffix
    )


def read_checkpoint(file: InputFile) -> FileContents:
    """The entries of a checkpoint file; raises InputError."""
    file_bytes = read_small_file(file, MAX_CHECKPOINT_BYTES)
    raw_lines = file_bytes.splitlines(keepends=True)
    positions = accumulate(map(len, raw_lines), initial=0)
    lines = [_decode_line(line.rstrip(b"\r\n")) for line in raw_lines]
    findings: list[Finding] = []

    def report_malformed(position: int, message: str) -> None:
        findings.append(Finding(file.name, codes.CHECKPOINT_MALFORMED, position, message))

    name = checkpoint_name(PurePath(file.path).name)
    if file_bytes and not file_bytes.strip(b"\0"):
        report_malformed(
            0,
            (
                f"{quote_content(_decode_line(file_bytes))} instead of a version, as after a "
                "power loss"
            ),
        )
        return FileContents(
            len(file_bytes), [build_columnar_rows(ROW_TYPE_BY_CHECKPOINT[name], [])], findings
        )
    try:
        file_bytes.decode()
    except UnicodeDecodeError as error:
        report_malformed(error.start, "not valid UTF-8")
    is_streams = name == STREAMS_CHECKPOINT.name
    if len(lines) < 2 and (file_bytes or is_streams):  # brokers create them empty
        report_malformed(len(file_bytes), "the file ends before the entry count")
    rows = []
    for line_number, (position, line) in enumerate(zip(positions, lines, strict=False), 1):
        if line_number == 1:
            if parse_java_int(line) != 0:
                report_malformed(0, f"version {quote_content(line)}; only 0 is supported")
        elif line_number == 2:
            count_position = position
        elif (values := _parse_line(_LAYOUT_BY_NAME[name], line)) is not None:
            rows.append([position, *values])
        else:
            line_format = " ".join(field.name for field in _LAYOUT_BY_NAME[name].fields)
            message = f"line {line_number} is not of the form {line_format}"
            report_malformed(position, f"{message}: {quote_content(line)}")
    if len(lines) > 1 and parse_java_int(lines[1]) != len(lines) - 2:
        message = f"{lines[1][:MAX_QUOTED_CHARS]} entries declared, {len(lines) - 2} lines found"
        report_malformed(count_position, message)
    return FileContents(
        len(file_bytes), [build_columnar_rows(ROW_TYPE_BY_CHECKPOINT[name], rows)], findings
    )


def split_checkpoint_line(line: str) -> list[str]:
    """The values of a line as Java's `String.split` leaves them: without empty ones at the end,
    but with one before leading white space."""
    values = _WHITESPACE_PATTERN.split(line)
    while values and not values[-1]:
        values.pop()
    return values


def _decode_line(line: bytes) -> str:
    return line.decode(errors="replace")


def _parse_line(layout: Layout, line: str) -> list[str | int] | None:
    """The columns of a line, or None if it is malformed."""
    value_texts = split_checkpoint_line(line)
    if len(value_texts) != len(layout.fields):
        return None
    column_values: list[str | int] = []
    for field, value_text in zip(layout.fields, value_texts, strict=True):
        if not isinstance(field.type, IntegerWireType):
            column_values.append(value_text)
            continue
        number = parse_java_int(value_text, 8 * field.type.size)
        if number is None:
            return None
        column_values.append(number)
    return column_values


CHECKPOINT_KIND = FileKind(
    "checkpoint",
    FileLevel.LOG_DIRECTORY,
    suffix=REMOTE_CHECKPOINT_SUFFIX,
    names=frozenset(CHECKPOINTS),
    row_types=tuple(dict.fromkeys(ROW_TYPE_BY_CHECKPOINT[name] for name in CHECKPOINTS)),
    layouts=tuple(CHECKPOINTS.values()),
    reader=read_checkpoint,
)
STREAMS_CHECKPOINT_KIND = FileKind(
    "streams_checkpoint",
    FileLevel.PARTITION,
    names=frozenset({STREAMS_CHECKPOINT.name}),
    row_types=(ROW_TYPE_BY_CHECKPOINT[STREAMS_CHECKPOINT.name],),
    layouts=(STREAMS_CHECKPOINT,),
    reader=read_checkpoint,
)
