"""Reads row types from a page next to the code: a table for each type, a line for each column.

`documents.md` says what its headings and kinds mean.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from kfmt_cli.core.layout.field import BYTE_UNIT, BYTES_UNIT, OFFSET_UNIT
from kfmt_cli.rows.column import (
    Column,
    LocationSource,
    RowType,
    flag_column,
    json_column,
    milliseconds_column,
    number_column,
    real_column,
    text_column,
)

_COLUMN_FUNCTION_BY_KIND = {
    "number": number_column,
    "real": real_column,
    "time": milliseconds_column,
    "flag": flag_column,
    "text": text_column,
    "json": json_column,
}
_ATTRIBUTES_BY_WORD: dict[str, dict[str, Any]] = {
    "nullable": {"can_be_null": True},
    "optional": {"can_be_absent": True},
    "minor": {"is_minor": True},
    "32 bits": {"n_bits": 32},
    "offset": {"unit": OFFSET_UNIT},
    "byte": {"unit": BYTE_UNIT},
    "bytes": {"unit": BYTES_UNIT},
}
_LOCATION_SOURCE_BY_WORD = {
    "of a partition": LocationSource.PARTITION,
    "of a file": LocationSource.FILE,
    "without a file": LocationSource.NO_FILE,
}
_HEADING = re.compile(r"(\w+)(?: \((.+)\))?")
_KEY_COLUMNS = re.compile(r"(\d+) key columns?")


def read_row_types(page: str) -> dict[str, dict[str, RowType]]:
    """The types of each chapter of a page, by their names. Raises ValueError for a line that is not
    understood. page: its text."""
    chapters = page.split("\n## ")[1:]
    row_types: dict[str, dict[str, RowType]] = {}
    for chapter in chapters:
        title, *entries = chapter.split("\n### ")
        chapter_types = map(_parse_row_type, entries)
        row_types[title.strip()] = {row_type.name: row_type for row_type in chapter_types}
    return row_types


def _parse_row_type(entry: str) -> RowType:
    heading, _, doc, *rows = entry.rstrip("\n").split("\n")
    match = _HEADING.fullmatch(heading)
    if match is None:
        raise ValueError(f"not the heading of a type: {heading}")
    location_source, n_key_columns = LocationSource.NO_LOCATION, 0
    for word in (match[2] or "").split(", "):
        if key_match := _KEY_COLUMNS.fullmatch(word):
            n_key_columns = int(key_match[1])
        elif word:
            location_source = _LOCATION_SOURCE_BY_WORD[word]
    columns = tuple(map(_parse_column, rows[3:]))  # after an empty line and the head of the table
    return RowType(match[1], doc, columns, location_source, n_key_columns)


def _parse_column(row: str) -> Column:
    name, kind_text, doc = row.removeprefix("| ").removesuffix(" |").split(" | ", 2)
    kind, *words = kind_text.split(", ")
    attributes: dict[str, Any] = {}
    condition = ""
    for word in words:
        if word in _ATTRIBUTES_BY_WORD:
            attributes |= _ATTRIBUTES_BY_WORD[word]
        elif word.startswith("from "):
            attributes["source"] = word.removeprefix("from ")
        elif word.startswith("heading "):
            attributes["heading"] = word.removeprefix("heading ")
        elif word.startswith("if "):
            condition = word.removeprefix("if ")
        else:
            raise ValueError(f"{name}: an unknown word in a kind: {word}")
    column: Column = _COLUMN_FUNCTION_BY_KIND[kind](name, doc, **attributes)
    return replace(column, present_if=(condition, 1)) if condition else column
