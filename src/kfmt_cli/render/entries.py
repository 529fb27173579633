"""What `dump` writes for files that are no logs: one row an entry, names from the Layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kfmt_cli.core.field import MILLISECONDS
from kfmt_cli.core.table import Table
from kfmt_cli.files.checkpoint import Entries
from kfmt_cli.files.fixed import FixedKind, Rows, columns_of
from kfmt_cli.render.bulk import csv_names, csv_template, json_template
from kfmt_cli.render.columns import Column, digits, fit, heading, write_line
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.json_text import json_text
from kfmt_cli.render.shown import Shown
from kfmt_cli.render.style import Theme, safe
from kfmt_cli.render.template import Builder
from kfmt_cli.render.write import NO_CHILDREN, write_rows

TIME_WIDTH = 23
HEADINGS = {
    "position": "entry at",
    "log_position": "byte of log",
    "current_txn_first_offset": "open transaction from",
}
OFFSETS = ("offset", "first_offset", "last_offset", "last_stable_offset")


def shown(kind: FixedKind) -> list[Shown]:
    """The names of a kind's rows."""
    return [Shown(name) for name in columns_of(kind.layout)]


def write_entries(
    file: str, kind: FixedKind, rows: Rows, format_: str, theme: Theme, screen: int | None
) -> Iterator[memoryview]:
    """The rows in one of the formats; CSV without its heading."""
    table = rows.table
    if format_ == "table":
        chosen = _fitting(kind, table, screen)
        yield memoryview(heading(chosen, theme).encode())
        builder = Builder(table.names)
        write_line(builder, chosen, theme, cut=False)
        template = builder.build()
    elif format_ == "json":
        template = json_template(kind.type, file, shown(kind), table.names, "auto")
    else:
        template = csv_template(file, shown(kind), table.names, "auto")
    yield from write_rows(template, b"", table, NO_CHILDREN, 0, len(table))


def hidden_columns(kind: FixedKind, rows: Rows, screen: int | None) -> int:
    """How many columns of the table a narrow screen hides."""
    return len(_columns(kind)) - len(_fitting(kind, rows.table, screen))


def _fitting(kind: FixedKind, table: Table, screen: int | None) -> list[tuple[Column, int]]:
    columns = _columns(kind)
    return fit(columns, [max(len(it.heading), it.width(table)) for it in columns], screen)


def csv_heading(kind: FixedKind) -> str:
    """The first line of the CSV."""
    return ",".join(csv_names(shown(kind))) + "\n"


def _columns(kind: FixedKind) -> list[Column]:
    """All of the Layout's fields; an offset that is counted from the base is shown itself."""
    fields = {it.name: it for it in kind.layout.fields}
    names = [it for it in columns_of(kind.layout) if it != "relative_offset"]
    columns = []
    for place, name in enumerate(names):
        style = "dim" if name.endswith("position") else "offset" if name in OFFSETS else ""
        times = name in fields and fields[name].unit == MILLISECONDS
        title = HEADINGS.get(name, name.replace("_", " "))
        if times:
            columns.append(_time_column(name, f"{title} (UTC)", place))
        else:
            columns.append(_number_column(name, title, place, style))
    return columns


def _number_column(name: str, title: str, place: int, style: str) -> Column:
    apart = name.endswith("position")

    def write(builder: Builder, theme: Theme) -> None:
        del theme
        if apart:
            builder.grouped(name)
        else:
            builder.number(name)

    def width(table: Table) -> int:
        return digits(table[name], apart)

    return Column(name, title, width, write, place, right=True, style=style)


def _time_column(name: str, title: str, place: int) -> Column:
    def write(builder: Builder, theme: Theme) -> None:
        del theme
        with builder.when(name, -1):
            builder.literal("–")
        with builder.unless(name, -1):
            builder.time(name)

    def width(table: Table) -> int:
        far = np.abs(table[name]) >= 253402300800000  # year 10000
        return 32 if far.any() else TIME_WIDTH

    return Column(name, title, width, write, place)


def write_checkpoint(file: str, entries: Entries, format_: str, theme: Theme) -> Iterator[str]:
    """The entries of a checkpoint file; CSV without its heading."""
    names = entries.kind.columns
    if format_ == "json":
        for position, values in entries.rows:
            row = {"type": "checkpoint_entry", "file": file, "position": position}
            yield json_text({**row, **dict(zip(names, values, strict=True))}) + "\n"
    elif format_ == "csv":
        for position, values in entries.rows:
            yield csv_line([file, position, *values])
    else:
        lines: list[Sequence[str | int]] = [[name.replace("_", " ") for name in names]]
        lines += [values for _, values in entries.rows]
        cells = [[safe(str(value)) for value in line] for line in lines]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for number, line in enumerate(cells):
            words = "  ".join(
                cell.ljust(width) if name == "topic" else cell.rjust(width)
                for cell, width, name in zip(line, widths, names, strict=True)
            )
            yield (theme.paint("bold", f" {words}") if number == 0 else f" {words}") + "\n"


def checkpoint_csv_heading(entries: Entries) -> str:
    """The first line of the CSV."""
    return ",".join(["file", "position", *entries.kind.columns]) + "\n"
