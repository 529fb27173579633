"""JSON and CSV templates built from row types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext

from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.partition_path import with_location
from kfmt_cli.render.csv_text import format_csv_line
from kfmt_cli.render.template import Template, TemplateBuilder, TemplateLiterals
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import HEADER_NAMES


def json_template(
    row_type: RowType,
    files: Sequence[str],
    column_indexes: Mapping[str, int],
    bytes_mode: str,
    literals: TemplateLiterals | None = None,
    constants: Mapping[str, int] | None = None,
) -> Template:
    """One object per line: type, file, then the columns of the row type.

    files: one file for all rows, or several from which the column `file_number` selects.
    """
    builder = TemplateBuilder(column_indexes, HEADER_NAMES, literals, constants)
    builder.literal(f'{{"type":{json_text(row_type.name)}')
    if row_type.leading_members:
        _write_row_start(
            builder, [f",{json_text(_leading_members(file, row_type))[1:-1]}" for file in files]
        )
    _write_json_members(builder, row_type.columns, bytes_mode, ",")
    builder.literal("}\n")
    return builder.build()


def _leading_members(file: str, row_type: RowType) -> dict[str, object]:
    """The file of a row, and its topic and partition."""
    return with_location({"file": file}, row_type.location_source)


def _write_row_start(builder: TemplateBuilder, row_starts: list[str]) -> None:
    """Write the beginning of each row: the only one, or the one with the row's file number."""
    if len(row_starts) == 1:
        builder.literal(row_starts[0])
    else:
        builder.choice("file_number", row_starts, ("", ""))


def _write_json_members(
    builder: TemplateBuilder, columns: Iterable[Column], bytes_mode: str, separator: str
) -> None:
    for column in columns:
        with builder.when(*column.present_if) if column.present_if else nullcontext():
            builder.literal(f"{separator}{json_text(column.name)}:")
            with (
                builder.unless_none(column.presence_column, 0, "null")
                if column.presence_column
                else nullcontext()
            ):
                _write_json_value(builder, column, bytes_mode)
        separator = ","


def _write_json_value(builder: TemplateBuilder, column: Column, bytes_mode: str) -> None:
    if column.kind is ColumnKind.NUMBER:
        builder.number(column.table_column)
    elif column.kind is ColumnKind.FLAG:
        builder.choice(column.table_column, ["false", "true"], ("", ""))
    elif column.kind is ColumnKind.CHOICE:
        builder.choice(
            column.table_column, [f'"{choice}"' for choice in column.choices], ('"UNKNOWN-', '"')
        )
    elif column.kind is ColumnKind.BYTES:
        builder.json_bytes(column.table_column, bytes_mode)
    elif column.kind is ColumnKind.TEXT:
        builder.json_bytes(column.table_column, "auto")
    elif column.kind in (ColumnKind.JSON, ColumnKind.REAL):
        builder.raw(column.table_column)
    elif column.kind is ColumnKind.GROUP:
        _write_json_members(builder, column.members, bytes_mode, "{")
        builder.literal("}")
    else:
        _write_json_headers(builder, bytes_mode)


def _write_json_headers(builder: TemplateBuilder, bytes_mode: str) -> None:
    builder.literal("[")
    with builder.for_each("headers", ","):
        builder.literal('{"key":')
        builder.json_bytes("key", bytes_mode)
        builder.literal(',"value":')
        builder.json_bytes("value", bytes_mode)
        builder.literal("}")
    builder.literal("]")


def csv_column_names(row_type: RowType) -> list[str]:
    """The CSV columns: groups flattened, `_encoding` after each bytes column."""
    names = [*row_type.leading_members]
    for leaf in row_type.leaves:
        names += (
            [leaf.name, f"{leaf.name}_encoding"] if leaf.kind is ColumnKind.BYTES else [leaf.name]
        )
    return names


def csv_template(
    row_type: RowType,
    files: Sequence[str],
    column_indexes: Mapping[str, int],
    bytes_mode: str,
) -> Template:
    """One line per row; null is an empty field, an empty value two quotes; headers are a JSON list.

    files: as in `json_template`.
    """
    builder = TemplateBuilder(column_indexes, HEADER_NAMES)
    if row_type.leading_members:
        _write_row_start(
            builder,
            [
                format_csv_line(_leading_members(file, row_type).values()).rstrip("\n")
                for file in files
            ],
        )
    for i, leaf in enumerate(row_type.leaves):
        builder.literal("," if i or row_type.leading_members else "")
        with ExitStack() as conditions:
            _enter_conditions(conditions, builder, leaf)
            _write_csv_value(builder, leaf, bytes_mode)
        if leaf.kind is ColumnKind.BYTES:
            builder.literal(",")
            with ExitStack() as conditions:
                _enter_conditions(conditions, builder, leaf)
                builder.encoding(leaf.table_column, bytes_mode)
    builder.literal("\n")
    return builder.build()


def _enter_conditions(conditions: ExitStack, builder: TemplateBuilder, column: Column) -> None:
    """Enter conditions that write a value only for rows that have one."""
    if column.present_if:
        conditions.enter_context(builder.when(*column.present_if))
    if column.presence_column:
        conditions.enter_context(builder.when(column.presence_column, 1))


def _write_csv_value(builder: TemplateBuilder, column: Column, bytes_mode: str) -> None:
    if column.kind is ColumnKind.BYTES:
        builder.csv_bytes(column.table_column, bytes_mode)
    elif column.kind in (ColumnKind.TEXT, ColumnKind.JSON):
        builder.csv_bytes(column.table_column, "utf8")
    elif column.kind is ColumnKind.HEADERS:
        with builder.quoted():
            _write_json_headers(builder, bytes_mode)
    elif column.kind is ColumnKind.CHOICE:
        builder.choice(column.table_column, list(column.choices), ("UNKNOWN-", ""))
    else:
        _write_json_value(builder, column, bytes_mode)
