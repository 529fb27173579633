"""The checkpoint files of brokers, see `formats/checkpoint.py`.

Follows `org.apache.kafka.server.common.CheckpointFile`, but continues after a malformed line.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import PurePath

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import IntegerWireType
from kfmt_cli.disk.kinds.fixed_size_rows import POSITION_COLUMN
from kfmt_cli.disk.kinds.kind import (
    MAX_QUOTED_CHARS,
    TRANSIENT_SUFFIXES,
    FileContents,
    FileLevel,
    InputFile,
    Kind,
    quote_content,
    read_small_file,
)
from kfmt_cli.findings import files as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.checkpoint import CHECKPOINTS
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import build_columnar_rows

MAX_CHECKPOINT_BYTES = 64 << 20
REMOTE_CHECKPOINT_SUFFIX = ".leader_epoch_checkpoint"  # a file in remote storage


def _field_column(field: Field) -> Column:
    kind = ColumnKind.NUMBER if isinstance(field.type, IntegerWireType) else ColumnKind.TEXT
    return Column(field.name, kind, field.doc, unit=field.unit)


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
    return {name: row_type_by_fields[checkpoint.fields] for name, checkpoint in CHECKPOINTS.items()}


ROW_TYPE_BY_NAME = _build_row_types()


def checkpoint_name(file_name: str) -> str:
    """The name of the checkpoint that a file is, or is a copy of. file_name: its name alone."""
    base_name, _, suffix = file_name.rpartition(".")
    name = base_name if suffix in TRANSIENT_SUFFIXES else file_name
    return "leader-epoch-checkpoint" if name.endswith(REMOTE_CHECKPOINT_SUFFIX) else name


def read_checkpoint(file: InputFile) -> FileContents:
    """The entries of a checkpoint file; raises InputError."""
    data = read_small_file(file, MAX_CHECKPOINT_BYTES)
    raw_lines = data.splitlines(keepends=True)
    line_starts = accumulate(map(len, raw_lines), initial=0)
    lines = [(start, line.strip()) for start, line in zip(line_starts, raw_lines, strict=False)]
    findings: list[Finding] = []

    def report_malformed(position: int, message: str) -> None:
        findings.append(Finding(file.name, codes.CHECKPOINT_MALFORMED, position, message))

    name = checkpoint_name(PurePath(file.path).name)
    if data and not data.strip(b"\0"):
        report_malformed(
            0,
            (
                f"{quote_content(_decode_line(data))} instead of a version, as a power loss leaves "
                "them"
            ),
        )
        return FileContents(len(data), [build_columnar_rows(ROW_TYPE_BY_NAME[name], [])], findings)
    if data and len(lines) < 2:  # brokers create them empty
        report_malformed(len(data), "the file ends before the entry count")
    if lines and lines[0][1] != b"0":
        report_malformed(
            0, f"version {quote_content(_decode_line(lines[0][1]))}; only 0 is supported"
        )
    rows = []
    for line_number, (position, line) in enumerate(lines[2:], 3):
        values = _parse_line(CHECKPOINTS[name], line)
        if values is None:
            line_format = " ".join(field.name for field in CHECKPOINTS[name].fields)
            message = f"line {line_number} is not of the form {line_format}"
            report_malformed(position, f"{message}: {quote_content(_decode_line(line))}")
        else:
            rows.append([position, *values])
    if len(lines) > 1 and lines[1][1] != str(len(lines) - 2).encode():
        message = (
            f"{_decode_line(lines[1][1])[:MAX_QUOTED_CHARS]} entries declared, {len(lines) - 2}"
        )
        report_malformed(lines[1][0], f"{message} lines found")
    return FileContents(len(data), [build_columnar_rows(ROW_TYPE_BY_NAME[name], rows)], findings)


def _decode_line(line: bytes) -> str:
    return line.decode(errors="replace")


def _parse_line(checkpoint: Layout, line: bytes) -> list[str | int] | None:
    """The columns of a line, or None if it is malformed."""
    parts = _decode_line(line).split()
    if len(parts) != len(checkpoint.fields):
        return None
    values: list[str | int] = []
    for field, part in zip(checkpoint.fields, parts, strict=True):
        if not isinstance(field.type, IntegerWireType):
            values.append(part)
            continue
        try:
            values.append(int(part))
            field.type.write(values[-1])
        except (ValueError, OverflowError):  # not a number, or too large
            return None
    return values


CHECKPOINT_KIND = Kind(
    "checkpoint",
    FileLevel.LOG_DIRECTORY,
    suffix=REMOTE_CHECKPOINT_SUFFIX,
    names=frozenset(CHECKPOINTS),
    row_types=tuple(dict.fromkeys(ROW_TYPE_BY_NAME.values())),
    codes=(codes.CHECKPOINT_MALFORMED,),
    layouts=tuple(CHECKPOINTS.values()),
    read=read_checkpoint,
)
