"""A format as a table for people with a wrapped last column."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.types.format_entries import describe_size, iter_format_entries


def draw_layout(layout: Layout, theme: Theme, width: int | None) -> Iterator[str]:
    """Draw a format as a table with a wrapped last column."""
    size_text = describe_size(layout)
    yield theme.paint("bold", layout.name) + (f"   {size_text}" if size_text else "") + "\n"
    yield from (f" {line}\n" for line in textwrap.wrap(layout.doc, (width or 100) - 2))
    yield theme.paint("dim", f" Source: {layout.source}") + "\n\n"
    format_entries = list(iter_format_entries(layout))
    cells_by_title = {
        "offset": ["" if entry.start is None else str(entry.start) for entry in format_entries],
        "field": ["  " * (len(entry.path) - 1) + entry.path[-1] for entry in format_entries],
        "type": [entry.bits or entry.type for entry in format_entries],
        "versions": [entry.versions for entry in format_entries],
    }
    aligned_columns = []
    for title, cells in cells_by_title.items():
        if any(cells) or title in ("field", "type"):
            column_width = max(map(len, (title, *cells)))
            align_cell = str.rjust if title == "offset" else str.ljust
            aligned_columns.append(
                [title.ljust(column_width), *(align_cell(cell, column_width) for cell in cells)]
            )
    heading, *rows = map("  ".join, zip(*aligned_columns, strict=True))
    indent_width = len(f" {heading}  ")
    meaning_width = max((width or 120) - indent_width, 24)
    yield theme.paint("bold", f" {heading}  meaning") + "\n"
    for row, format_entry in zip(rows, format_entries, strict=True):
        first_line, *more_lines = textwrap.wrap(format_entry.meaning, meaning_width) or [""]
        yield f" {row}  {first_line}".rstrip() + "\n"
        yield from (" " * indent_width + line + "\n" for line in more_lines)
    yield "\n"
