"""JSON and CSV templates out of what is shown; see `render/shown.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from kfmt_cli.formats.batch import RECORD_HEADER
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.shown import Kind, Shown
from kfmt_cli.render.template import Builder, Literals, Template

HEADER_COLUMNS = {"key": 0, "key_size": 1, "value": 2, "value_size": 3}
assert [field.name for field in RECORD_HEADER.fields] == ["key", "value"]


def json_template(
    type_name: str,
    file: str,
    shown: Iterable[Shown],
    columns: Mapping[str, int],
    mode: str,
    literals: Literals | None = None,
    constants: Mapping[str, int] | None = None,
) -> Template:
    """One object a line: type, file, then what is shown."""
    builder = Builder(columns, HEADER_COLUMNS, literals, constants)
    builder.literal(f'{{"type":{json_text(type_name)},"file":{json_text(file)}')
    _json_members(builder, shown, mode, ",")
    builder.literal("}\n")
    return builder.build()


def _json_members(builder: Builder, shown: Iterable[Shown], mode: str, separator: str) -> None:
    for it in shown:
        if it.only:
            with builder.when(*it.only):
                _json_member(builder, it, mode, separator)
        else:
            _json_member(builder, it, mode, separator)
        separator = ","


def _json_member(builder: Builder, it: Shown, mode: str, separator: str) -> None:
    builder.literal(f'{separator}"{it.name}":')
    if not it.given:
        _json_value(builder, it, mode)
        return
    with builder.when(it.given, 1):
        _json_value(builder, it, mode)
    with builder.when(it.given, 0):
        builder.literal("null")


def _json_value(builder: Builder, it: Shown, mode: str) -> None:
    if it.kind is Kind.NUMBER:
        builder.number(it.source)
    elif it.kind is Kind.YES_NO:
        builder.choice(it.source, ["false", "true"], ("", ""))
    elif it.kind is Kind.CHOICE:
        builder.choice(it.source, [f'"{word}"' for word in it.words], ('"UNKNOWN-', '"'))
    elif it.kind is Kind.BYTES:
        builder.json_bytes(it.source, mode)
    elif it.kind is Kind.GROUP:
        _json_members(builder, it.of, mode, "{")
        builder.literal("}")
    else:
        _json_headers(builder, mode)


def _json_headers(builder: Builder, mode: str) -> None:
    builder.literal("[")
    with builder.each("headers", ","):
        builder.literal('{"key":')
        builder.json_bytes("key", mode)
        builder.literal(',"value":')
        builder.json_bytes("value", mode)
        builder.literal("}")
    builder.literal("]")


def csv_names(shown: Iterable[Shown]) -> list[str]:
    """The columns of the CSV: groups opened up, `_encoding` behind each bytes column."""
    names = ["file"]
    for it in shown:
        if it.kind is Kind.GROUP:
            names += [_csv_member_name(it, member) for member in it.of]
        elif it.kind is Kind.BYTES:
            names += [it.name, f"{it.name}_encoding"]
        else:
            names.append(it.name)
    return names


def _csv_member_name(group: Shown, member: Shown) -> str:
    if group.name == "attributes":
        return "attributes" if member.name == "raw" else member.name
    return f"{group.name}_{member.name}"


def csv_template(
    file: str,
    shown: Iterable[Shown],
    columns: Mapping[str, int],
    mode: str,
    constants: Mapping[str, int] | None = None,
) -> Template:
    """One line a row; null is nothing, empty is two quotes; headers are a JSON list."""
    builder = Builder(columns, HEADER_COLUMNS, None, constants)
    builder.literal(csv_line([file]).rstrip("\n"))
    for it in shown:
        if it.kind is not Kind.GROUP:
            _csv_value(builder, it, mode, it.only)
        for member in it.of:
            _csv_value(builder, member, mode, it.only)
    builder.literal("\n")
    return builder.build()


def _csv_value(builder: Builder, it: Shown, mode: str, only: tuple[str, int] | None) -> None:
    builder.literal(",")
    with ExitStack() as conditions:
        if only:
            conditions.enter_context(builder.when(*only))
        if it.given:
            conditions.enter_context(builder.when(it.given, 1))
        _csv_value_itself(builder, it, mode)


def _csv_value_itself(builder: Builder, it: Shown, mode: str) -> None:
    if it.kind is Kind.BYTES:
        builder.csv_bytes(it.source, mode)
        builder.literal(",")
        builder.encoding(it.source, mode)
    elif it.kind is Kind.HEADERS:
        with builder.quoted():
            _json_headers(builder, mode)
    elif it.kind is Kind.CHOICE:
        builder.choice(it.source, list(it.words), ("UNKNOWN-", ""))
    else:
        _json_value(builder, it, mode)
