"""Cells and columns of the tables of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from kfmt_cli.commands.report.page.page_data import PageRow
from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.core.times import format_interval_end
from kfmt_cli.render.style import format_bytes, format_thousands
from kfmt_cli.rows.column import ColumnKind, RowType

NO_VALUE_TEXT = "–"


@dataclass(frozen=True, slots=True)
class HtmlTableCell:
    """A cell: its text, sort value and link target."""

    text: str
    sort_value: float | str | None = None
    link: str | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class HtmlTableColumn:
    """A column: its heading, and the function that makes its cells."""

    title: str
    create_cell: Callable[[Any], HtmlTableCell]
    is_number: bool = False


def text_column(title: str, get_value: Callable[[Any], object]) -> HtmlTableColumn:
    """A column of text."""

    def create_cell(row: Any) -> HtmlTableCell:
        value = get_value(row)
        return HtmlTableCell(NO_VALUE_TEXT if value is None else str(value))

    return HtmlTableColumn(title, create_cell)


def _number_column(
    title: str, get_value: Callable[[Any], Any], format_value: Callable[[Any], str], style: str = ""
) -> HtmlTableColumn:
    def create_cell(row: Any) -> HtmlTableCell:
        value = get_value(row)
        return (
            HtmlTableCell(NO_VALUE_TEXT)
            if value is None
            else HtmlTableCell(format_value(value), value, style=style)
        )

    return HtmlTableColumn(title, create_cell, True)


def integer_column(title: str, get_value: Callable[[Any], Any]) -> HtmlTableColumn:
    """A column of whole numbers."""
    return _number_column(title, get_value, format_thousands)


def decimal_column(title: str, get_value: Callable[[Any], Any]) -> HtmlTableColumn:
    """A column of numbers with a fraction."""
    return _number_column(title, get_value, _format_tenths)


def _format_tenths(value: float) -> str:
    integer_text, _, tenths_text = f"{value:.1f}".partition(".")
    return f"{format_thousands(int(integer_text))}.{tenths_text}"


def size_column(title: str, get_value: Callable[[Any], Any]) -> HtmlTableColumn:
    """A column of bytes."""
    return _number_column(title, get_value, format_bytes)


def time_column(title: str, get_value: Callable[[Any], Any]) -> HtmlTableColumn:
    """A column of times."""
    return _number_column(title, get_value, format_interval_end, "time")


_BYTE_COUNT_MEMBERS = frozenset({"bytes", "disk_bytes", "freed_now", "freed_later"})


_BYTE_COUNT_MEMBERS |= {"sample_bytes", "stored_bytes", "would_be_bytes"}


def member_columns(row_type: RowType, *member_specs: str) -> Iterator[HtmlTableColumn]:
    """Columns for members of a type, formatted by their kinds. member_specs: member names, or
    `member=heading` for a heading other than the name."""
    for member_spec in member_specs:
        member, _, heading = member_spec.partition("=")
        column, get_value = row_type[member], attrgetter(member)
        heading = heading or member.replace("_", " ")
        if column.unit == MS_UNIT:
            yield time_column(f"{heading} (UTC)", get_value)
        elif column.kind is ColumnKind.REAL:
            yield decimal_column(heading, get_value)
        elif column.kind is not ColumnKind.NUMBER:
            yield text_column(heading, get_value)
        else:
            yield (
                size_column(heading, get_value)
                if member in _BYTE_COUNT_MEMBERS
                else integer_column(heading, get_value)
            )


def file_column(rows: Sequence[PageRow], title: str) -> HtmlTableColumn:
    """A column of files or directories, relative to the log directory if all share one."""
    log_directories = {row.log_dir for row in rows}
    directory_prefix = f"{log_directories.pop()}/" if len(log_directories) == 1 else ""

    def create_cell(row: Any) -> HtmlTableCell:
        return HtmlTableCell(row.file.removeprefix(directory_prefix))

    return HtmlTableColumn(title, create_cell)
