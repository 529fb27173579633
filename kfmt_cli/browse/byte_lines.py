"""Bytes and fields as lines, each field in the colour of its bytes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import cycle, groupby
from operator import itemgetter

from rich.text import Text

from kfmt_cli.browse.selected_batch import DisplayedPart
from kfmt_cli.render.hexdump import NARROW_BYTES, PART_STYLES, WIDE_BYTES
from kfmt_cli.render.style import escape_terminal, format_grouped
from kfmt_cli.rows.types.anatomy import AnatomyLine

RICH_STYLES = {"offset": "cyan", "flag": "magenta", "good": "green", "warn": "yellow"}
INVALID_STYLE = "bold red"
ADDRESS_DIGITS, GAP_COLUMNS = 8, 3
MAX_VALUE_CHARS = 4000  # characters per value


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field in the list of fields."""

    part_index: int
    line: AnatomyLine
    style: str


def field_rows(parts: list[DisplayedPart]) -> list[FieldRow]:
    """The fields of some parts; fields with bytes cycle through the colours."""
    rows = []
    colours = cycle(RICH_STYLES[colour] for colour in PART_STYLES)
    for i, part in enumerate(parts):
        for line in part.lines:
            heading_style = "" if line.has_bytes else "bold"
            style = "dim" if line.is_bit else heading_style or next(colours)
            rows.append(FieldRow(i, line, INVALID_STYLE if line.is_invalid else style))
    return rows


def field_label(row: FieldRow) -> Text:
    """A field's text: name, value and meaning."""
    line = row.line
    name = f"{line.path[-2]} {line.name}" if line.name.isdigit() else line.name
    label = f" {'  ' * (len(line.path) - 1)}{escape_terminal(name)}"
    text = Text(f"{label:<26} ", style=row.style)
    text.append(escape_terminal(line.display_text[:MAX_VALUE_CHARS]))
    if line.meaning:
        text.append(
            f"  {escape_terminal(line.meaning)}", style=INVALID_STYLE if line.is_invalid else "dim"
        )
    if line.fault is not None:
        text.append(f"  ✗ {escape_terminal(line.fault)}", style=INVALID_STYLE)
    return text


@dataclass(slots=True)
class ByteLines:
    """The bytes of a part, `line_size` bytes per line."""

    part: DisplayedPart
    rows: list[FieldRow]
    line_size: int = NARROW_BYTES
    selected_field: AnatomyLine | None = None
    """The field whose bytes are highlighted."""
    _styled_intervals: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._styled_intervals = sorted(
            (row.line.start, row.line.end, row.style) for row in self.rows if row.line.has_bytes
        )

    @property
    def n_lines(self) -> int:
        """The number of lines."""
        return -(-len(self.part.data) // self.line_size)

    @property
    def heading(self) -> str:
        """The heading above the bytes."""
        size = format_grouped(len(self.part.data))
        if self.part.codec:
            return f" {size} bytes decompressed with {self.part.codec}, counted from 0"
        return f" {size} bytes from byte {format_grouped(self.part.base_position)} of the file"

    def lines(self, first: int, last: int) -> list[Text]:
        """Lines first..last-1."""
        return [self._byte_line(index) for index in range(first, min(last, self.n_lines))]

    def _byte_line(self, index: int) -> Text:
        start = index * self.line_size
        data = self.part.data[start : start + self.line_size]
        address = f"{self.part.base_position + start:0{ADDRESS_DIGITS}x}  "
        hex_text = f"{data.hex(' '):<{3 * self.line_size}} "
        ascii_text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
        text = Text(f"{address}{hex_text}{ascii_text}", end="")
        text.stylize("dim", 0, len(address))
        hex_start, ascii_start = len(address), len(address) + len(hex_text)
        run_start = 0
        for style, run in groupby(range(start, start + len(data)), self._style_at):
            run_end = run_start + sum(1 for _ in run)
            text.stylize(style, hex_start + 3 * run_start, hex_start + 3 * run_end - 1)
            text.stylize(style, ascii_start + run_start, ascii_start + run_end)
            run_start = run_end
        return text

    def _style_at(self, index: int) -> str:
        i = bisect_right(self._styled_intervals, index, key=itemgetter(0)) - 1
        is_in_field = i >= 0 and index < self._styled_intervals[i][1]
        style = self._styled_intervals[i][2] if is_in_field else "dim"
        selected_field = self.selected_field
        if selected_field is not None and selected_field.start <= index < selected_field.end:
            return f"{style.replace('dim', '')} reverse".strip()
        return style


def bytes_per_line(width: int) -> int:
    """The number of bytes that fit in a line of this width."""
    sizes = (WIDE_BYTES, NARROW_BYTES, NARROW_BYTES // 2)
    return next(
        (size for size in sizes if width >= ADDRESS_DIGITS + GAP_COLUMNS + 4 * size), sizes[-1]
    )
