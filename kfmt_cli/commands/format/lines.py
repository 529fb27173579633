"""A format as a table for people with a wrapped last column."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.types.format_entries import entries_of, size_words


def drawn(layout: Layout, theme: Theme, screen: int | None) -> Iterator[str]:
    """Draw a format as a table with a wrapped last column."""
    size = size_words(layout)
    yield theme.paint("bold", layout.name) + (f"   {size}" if size else "") + "\n"
    yield from (f" {line}\n" for line in textwrap.wrap(layout.doc, (screen or 100) - 2))
    yield theme.paint("dim", f" Source: {layout.source}") + "\n\n"
    entries = list(entries_of(layout))
    names = ["  " * (len(entry.path) - 1) + entry.path[-1] for entry in entries]
    kinds = [entry.bits or entry.type for entry in entries]
    columns = [
        ["" if entry.at is None else str(entry.at) for entry in entries],
        names,
        kinds,
        [entry.versions for entry in entries],
    ]
    titles = ["offset", "field", "type", "versions"]
    if not any(columns[3]):
        del columns[3], titles[3]
    if not any(columns[0]):
        del columns[0], titles[0]
    widths = [max(map(len, [title, *of])) for title, of in zip(titles, columns, strict=True)]
    left = 1 + sum(width + 2 for width in widths)
    room = max((screen or 120) - left, 24)
    heading = "  ".join(f"{title:<{width}}" for title, width in zip(titles, widths, strict=True))
    yield theme.paint("bold", f" {heading}  meaning".rstrip()) + "\n"
    for i, entry in enumerate(entries):
        cells = [column[i] for column in columns]
        if titles[0] == "offset":
            cells[0] = cells[0].rjust(widths[0])
        first = " " + "  ".join(
            f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)
        )
        lines = textwrap.wrap(entry.meaning, room) or [""]
        yield f"{first}  {lines[0]}".rstrip() + "\n"
        yield from (" " * left + line + "\n" for line in lines[1:])
    yield "\n"
