"""JSON and CSV templates built from row types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext

from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.partition_path import with_location
from kfmt_cli.render.csv_text import format_csv_line
from kfmt_cli.render.template import Template, TemplateBuilder, TemplateLiterals
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import HEADER_COLUMN_BY_NAME


def json_template(
    row_type: RowType,
    file_names: Sequence[str],
    column_indexes: Mapping[str, int],
    bytes_mode: str,
    literals: TemplateLiterals | None = None,
    constant_by_column: Mapping[str, int] | None = None,
) -> Template:
    """One object per line: type, file, then the columns of the row type.

    file_names: one file for all rows, or several from which the column `file_number` selects.
    """
    builder = TemplateBuilder(column_indexes, HEADER_COLUMN_BY_NAME, literals, constant_by_column)
    builder.write_literal(f'{{"type":{json_text(row_type.name)}')
    if row_type.leading_members:
        _write_row_start(
            builder,
            [
                f",{json_text(_leading_members(file_name, row_type))[1:-1]}"
                for file_name in file_names
            ],
        )
    _write_json_members(builder, row_type.columns, bytes_mode, ",")
    builder.write_literal("}\n")
    return builder.build_template()


def _leading_members(file_name: str, row_type: RowType) -> dict[str, object]:
    """The file of a row, and its topic and partition."""
    return with_location({"file": file_name}, row_type.location_source)


def _write_row_start(builder: TemplateBuilder, row_starts: list[str]) -> None:
    """Write the beginning of each row: the only one, or the one with the row's file number."""
    if len(row_starts) == 1:
        builder.write_literal(row_starts[0])
    else:
        builder.write_choice("file_number", row_starts, ("", ""))


def _write_json_members(
    builder: TemplateBuilder, columns: Iterable[Column], bytes_mode: str, separator: str
) -> None:
    for column in columns:
        with builder.when_equal(*column.present_if) if column.present_if else nullcontext():
            builder.write_literal(f"{separator}{json_text(column.name)}:")
            with (
                builder.unless_null(column.presence_column, 0, "null")
                if column.presence_column
                else nullcontext()
            ):
                _write_json_value(builder, column, bytes_mode)
        separator = ","


def _write_json_value(builder: TemplateBuilder, column: Column, bytes_mode: str) -> None:
    if column.kind is ColumnKind.NUMBER:
        builder.write_number(column.table_column)
    elif column.kind is ColumnKind.FLAG:
        builder.write_choice(column.table_column, ["false", "true"], ("", ""))
    elif column.kind is ColumnKind.CHOICE:
        builder.write_choice(
            column.table_column, [f'"{choice}"' for choice in column.choices], ('"UNKNOWN-', '"')
        )
    elif column.kind is ColumnKind.BYTES:
        builder.write_json_bytes(column.table_column, bytes_mode)
    elif column.kind is ColumnKind.TEXT:
        builder.write_json_bytes(column.table_column, "auto")
    elif column.kind in (ColumnKind.JSON, ColumnKind.REAL):
        builder.write_raw_bytes(column.table_column)
    elif column.kind is ColumnKind.GROUP:
        _write_json_members(builder, column.members, bytes_mode, "{")
        builder.write_literal("}")
    else:
        _write_json_headers(builder, bytes_mode)


def _write_json_headers(builder: TemplateBuilder, bytes_mode: str) -> None:
    builder.write_literal("[")
    with builder.for_each_child("headers", ","):
        builder.write_literal('{"key":')
        builder.write_json_bytes("key", bytes_mode)
        builder.write_literal(',"value":')
        builder.write_json_bytes("value", bytes_mode)
        builder.write_literal("}")
    builder.write_literal("]")


def csv_column_names(row_type: RowType) -> list[str]:
    """The CSV columns: groups flattened, `_encoding` after each bytes column."""
    column_names = [*row_type.leading_members]
    for leaf in row_type.leaves:
        column_names += (
            [leaf.name, f"{leaf.name}_encoding"] if leaf.kind is ColumnKind.BYTES else [leaf.name]
        )
    return column_names


def csv_template(
    row_type: RowType,
    file_names: Sequence[str],
    column_indexes: Mapping[str, int],
    bytes_mode: str,
) -> Template:
    """One line per row; null is an empty field, an empty value two quotes; headers are a JSON list.

    file_names: as in `json_template`.
    """
    builder = TemplateBuilder(column_indexes, HEADER_COLUMN_BY_NAME)
    if row_type.leading_members:
        _write_row_start(
            builder,
            [
                format_csv_line(_leading_members(file_name, row_type).values()).rstrip("\n")
                for file_name in file_names
            ],
        )
    for leaf_index, leaf in enumerate(row_type.leaves):
        builder.write_literal("," if leaf_index or row_type.leading_members else "")
        with ExitStack() as condition_stack:
            _enter_presence_conditions(condition_stack, builder, leaf)
            _write_csv_value(builder, leaf, bytes_mode)
        if leaf.kind is ColumnKind.BYTES:
            builder.write_literal(",")
            with ExitStack() as condition_stack:
                _enter_presence_conditions(condition_stack, builder, leaf)
                builder.write_encoding(leaf.table_column, bytes_mode)
    builder.write_literal("\n")
    return builder.build_template()


def _enter_presence_conditions(
    condition_stack: ExitStack, builder: TemplateBuilder, column: Column
) -> None:
    """Enter conditions that write a value only for rows that have one."""
    if column.present_if:
        condition_stack.enter_context(builder.when_equal(*column.present_if))
    if column.presence_column:
        condition_stack.enter_context(builder.when_equal(column.presence_column, 1))


def _write_csv_value(builder: TemplateBuilder, column: Column, bytes_mode: str) -> None:
    if column.kind is ColumnKind.BYTES:
        builder.write_csv_bytes(column.table_column, bytes_mode)
    elif column.kind in (ColumnKind.TEXT, ColumnKind.JSON):
        builder.write_csv_bytes(column.table_column, "utf8")
    elif column.kind is ColumnKind.HEADERS:
        with builder.quote_csv_field():
            _write_json_headers(builder, bytes_mode)
    elif column.kind is ColumnKind.CHOICE:
        builder.write_choice(column.table_column, list(column.choices), ("UNKNOWN-", ""))
    else:
        _write_json_value(builder, column, bytes_mode)
