"""Bytes and fields as lines, each field in the colour of its bytes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import cycle, groupby
from operator import itemgetter

from rich.text import Text

from kfmt_cli.browse.selected_batch import DisplayedPart
from kfmt_cli.render.hexdump import FIELD_STYLES, NARROW_BYTES, WIDE_BYTES
from kfmt_cli.render.style import escape_unprintable, format_thousands
from kfmt_cli.rows.types.anatomy import AnatomyLine

RICH_STYLE_BY_COLOUR = {"offset": "cyan", "flag": "magenta", "good": "green", "warn": "yellow"}
INVALID_STYLE = "bold red"
ADDRESS_DIGITS, GAP_COLUMNS = 8, 3
MAX_VALUE_CHARS = 4000  # characters per value


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field in the list of fields."""

    part_index: int
    anatomy_line: AnatomyLine
    rich_style: str


def field_rows(parts: list[DisplayedPart]) -> list[FieldRow]:
    """The fields of some parts; fields with bytes cycle through the colours."""
    rows = []
    field_styles = cycle(RICH_STYLE_BY_COLOUR[colour] for colour in FIELD_STYLES)
    for part_index, part in enumerate(parts):
        for anatomy_line in part.field_lines:
            heading_style = "" if anatomy_line.has_bytes else "bold"
            style = "dim" if anatomy_line.is_bit else heading_style or next(field_styles)
            rows.append(
                FieldRow(
                    part_index, anatomy_line, INVALID_STYLE if anatomy_line.is_invalid else style
                )
            )
    return rows


def format_field_row(row: FieldRow) -> Text:
    """A field's text: name, value and meaning."""
    anatomy_line = row.anatomy_line
    field_name = (
        f"{anatomy_line.path[-2]} {anatomy_line.name}"
        if anatomy_line.name.isdigit()
        else anatomy_line.name
    )
    indented_name = f" {'  ' * (len(anatomy_line.path) - 1)}{escape_unprintable(field_name)}"
    row_text = Text(f"{indented_name:<26} ", style=row.rich_style)
    row_text.append(escape_unprintable(anatomy_line.display_text[:MAX_VALUE_CHARS]))
    if anatomy_line.meaning:
        row_text.append(
            f"  {escape_unprintable(anatomy_line.meaning)}",
            style=INVALID_STYLE if anatomy_line.is_invalid else "dim",
        )
    if anatomy_line.fault is not None:
        row_text.append(f"  ✗ {escape_unprintable(anatomy_line.fault)}", style=INVALID_STYLE)
    return row_text


@dataclass(slots=True)
class ByteLines:
    """The bytes of a part, `n_bytes_per_line` bytes per line."""

    part: DisplayedPart
    field_rows: list[FieldRow]
    n_bytes_per_line: int = NARROW_BYTES
    selected_field: AnatomyLine | None = None
    """The field whose bytes are highlighted."""
    _styled_intervals: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._styled_intervals = sorted(
            (row.anatomy_line.start, row.anatomy_line.end, row.rich_style)
            for row in self.field_rows
            if row.anatomy_line.has_bytes
        )

    @property
    def n_lines(self) -> int:
        """The number of lines."""
        return -(-len(self.part.data) // self.n_bytes_per_line)

    @property
    def heading(self) -> str:
        """The heading above the bytes."""
        formatted_size = format_thousands(len(self.part.data))
        if self.part.codec:
            return f" {formatted_size} bytes decompressed with {self.part.codec}, counted from 0"
        return (
            f" {formatted_size} bytes from byte {format_thousands(self.part.base_position)} "
            "of the file"
        )

    def render_lines(self, first_line: int, end_line: int) -> list[Text]:
        """Lines first..last-1."""
        return [
            self._render_line(line_index)
            for line_index in range(first_line, min(end_line, self.n_lines))
        ]

    def _render_line(self, line_index: int) -> Text:
        start_index = line_index * self.n_bytes_per_line
        line_data = self.part.data[start_index : start_index + self.n_bytes_per_line]
        address = f"{self.part.base_position + start_index:0{ADDRESS_DIGITS}x}  "
        hex_text = f"{line_data.hex(' '):<{3 * self.n_bytes_per_line}} "
        ascii_text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in line_data)
        line_text = Text(f"{address}{hex_text}{ascii_text}", end="")
        line_text.stylize("dim", 0, len(address))
        hex_column, ascii_column = len(address), len(address) + len(hex_text)
        run_start_index = 0
        for style, style_run in groupby(
            range(start_index, start_index + len(line_data)), self._byte_style
        ):
            run_end_index = run_start_index + sum(1 for _ in style_run)
            line_text.stylize(
                style, hex_column + 3 * run_start_index, hex_column + 3 * run_end_index - 1
            )
            line_text.stylize(style, ascii_column + run_start_index, ascii_column + run_end_index)
            run_start_index = run_end_index
        return line_text

    def _byte_style(self, byte_index: int) -> str:
        interval_index = bisect_right(self._styled_intervals, byte_index, key=itemgetter(0)) - 1
        is_in_field = interval_index >= 0 and byte_index < self._styled_intervals[interval_index][1]
        style = self._styled_intervals[interval_index][2] if is_in_field else "dim"
        selected_field = self.selected_field
        if selected_field is not None and selected_field.start <= byte_index < selected_field.end:
            return f"{style.replace('dim', '')} reverse".strip()
        return style


def bytes_per_line(width: int) -> int:
    """The number of bytes that fit in a line of this width."""
    line_sizes = (WIDE_BYTES, NARROW_BYTES, NARROW_BYTES // 2)
    return next(
        (
            line_size
            for line_size in line_sizes
            if width >= ADDRESS_DIGITS + GAP_COLUMNS + 4 * line_size
        ),
        line_sizes[-1],
    )
