"""JSON and CSV templates built from row types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext

from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.template import Literals, Template, TemplateBuilder
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.section import HEADER_NAMES


def json_template(
    rows: RowType,
    files: Sequence[str],
    columns: Mapping[str, int],
    mode: str,
    literals: Literals | None = None,
    constants: Mapping[str, int] | None = None,
) -> Template:
    """One object per line: type, file, then the columns of the row type.

    files: one for all rows, or several that the column `file_number` chooses from.
    """
    builder = TemplateBuilder(columns, HEADER_NAMES, literals, constants)
    builder.literal(f'{{"type":{json_text(rows.name)}')
    if rows.front:
        _file(builder, [f",{json_text(_front(file, rows))[1:-1]}" for file in files])
    _json_members(builder, rows.columns, mode, ",")
    builder.literal("}\n")
    return builder.build()


def _front(file: str, rows: RowType) -> dict[str, object]:
    """The file and place of a row."""
    return with_place({"file": file}, rows.placed)


def _file(builder: TemplateBuilder, words: list[str]) -> None:
    """Write the beginning of each row: the constant one, or the one chosen by file number."""
    if len(words) == 1:
        builder.literal(words[0])
    else:
        builder.choice("file_number", words, ("", ""))


def _json_members(
    builder: TemplateBuilder, columns: Iterable[Column], mode: str, separator: str
) -> None:
    for column in columns:
        with builder.when(*column.only) if column.only else nullcontext():
            builder.literal(f"{separator}{json_text(column.name)}:")
            with builder.unless_none(column.given, 0, "null") if column.given else nullcontext():
                _json_value(builder, column, mode)
        separator = ","


def _json_value(builder: TemplateBuilder, column: Column, mode: str) -> None:
    if column.kind is ColumnKind.NUMBER:
        builder.number(column.at)
    elif column.kind is ColumnKind.FLAG:
        builder.choice(column.at, ["false", "true"], ("", ""))
    elif column.kind is ColumnKind.CHOICE:
        builder.choice(column.at, [f'"{word}"' for word in column.words], ('"UNKNOWN-', '"'))
    elif column.kind is ColumnKind.BYTES:
        builder.json_bytes(column.at, mode)
    elif column.kind is ColumnKind.TEXT:
        builder.json_bytes(column.at, "auto")
    elif column.kind in (ColumnKind.JSON, ColumnKind.REAL):
        builder.raw(column.at)
    elif column.kind is ColumnKind.GROUP:
        _json_members(builder, column.of, mode, "{")
        builder.literal("}")
    else:
        _json_headers(builder, mode)


def _json_headers(builder: TemplateBuilder, mode: str) -> None:
    builder.literal("[")
    with builder.each("headers", ","):
        builder.literal('{"key":')
        builder.json_bytes("key", mode)
        builder.literal(',"value":')
        builder.json_bytes("value", mode)
        builder.literal("}")
    builder.literal("]")


def csv_names(rows: RowType) -> list[str]:
    """The CSV columns: groups flattened, `_encoding` after each bytes column."""
    names = [*rows.front]
    for leaf in rows.leaves:
        names += (
            [leaf.name, f"{leaf.name}_encoding"] if leaf.kind is ColumnKind.BYTES else [leaf.name]
        )
    return names


def csv_template(
    rows: RowType,
    files: Sequence[str],
    columns: Mapping[str, int],
    mode: str,
) -> Template:
    """One line per row; null is an empty field, an empty value two quotes; headers are a JSON list.

    files: as in `json_template`.
    """
    builder = TemplateBuilder(columns, HEADER_NAMES)
    if rows.front:
        _file(builder, [csv_line(_front(file, rows).values()).rstrip("\n") for file in files])
    for i, leaf in enumerate(rows.leaves):
        builder.literal("," if i or rows.front else "")
        with ExitStack() as conditions:
            _enter(conditions, builder, leaf)
            _csv_value(builder, leaf, mode)
        if leaf.kind is ColumnKind.BYTES:
            builder.literal(",")
            with ExitStack() as conditions:
                _enter(conditions, builder, leaf)
                builder.encoding(leaf.at, mode)
    builder.literal("\n")
    return builder.build()


def _enter(conditions: ExitStack, builder: TemplateBuilder, column: Column) -> None:
    """Enter conditions that write a value only for rows that have one."""
    if column.only:
        conditions.enter_context(builder.when(*column.only))
    if column.given:
        conditions.enter_context(builder.when(column.given, 1))


def _csv_value(builder: TemplateBuilder, column: Column, mode: str) -> None:
    if column.kind is ColumnKind.BYTES:
        builder.csv_bytes(column.at, mode)
    elif column.kind in (ColumnKind.TEXT, ColumnKind.JSON):
        builder.csv_bytes(column.at, "utf8")
    elif column.kind is ColumnKind.HEADERS:
        with builder.quoted():
            _json_headers(builder, mode)
    elif column.kind is ColumnKind.CHOICE:
        builder.choice(column.at, list(column.words), ("UNKNOWN-", ""))
    else:
        _json_value(builder, column, mode)
