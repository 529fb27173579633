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
    columns = {
        "offset": ["" if entry.at is None else str(entry.at) for entry in entries],
        "field": ["  " * (len(entry.path) - 1) + entry.path[-1] for entry in entries],
        "type": [entry.bits or entry.type for entry in entries],
        "versions": [entry.versions for entry in entries],
    }
    shown = []
    for title, cells in columns.items():
        if any(cells) or title in ("field", "type"):
            width = max(map(len, (title, *cells)))
            aligned = str.rjust if title == "offset" else str.ljust
            shown.append([title.ljust(width), *(aligned(cell, width) for cell in cells)])
    heading, *rows = map("  ".join, zip(*shown, strict=True))
    left = len(f" {heading}  ")
    room = max((screen or 120) - left, 24)
    yield theme.paint("bold", f" {heading}  meaning") + "\n"
    for row, entry in zip(rows, entries, strict=True):
        first, *more = textwrap.wrap(entry.meaning, room) or [""]
        yield f" {row}  {first}".rstrip() + "\n"
        yield from (" " * left + line + "\n" for line in more)
    yield "\n"
