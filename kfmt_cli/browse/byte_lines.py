"""Bytes and fields as lines, each field in the colour of its bytes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import cycle, groupby
from operator import itemgetter

from rich.text import Text

from kfmt_cli.browse.batch_content import ShownPart
from kfmt_cli.render.hexdump import COLOURS, NARROW, WIDE
from kfmt_cli.render.style import grouped, safe
from kfmt_cli.rows.types.anatomy import AnatomyLine

RICH_STYLES = {"offset": "cyan", "flag": "magenta", "good": "green", "warn": "yellow"}
BAD = "bold red"
PLACE, GAPS = 8, 3
MOST_VALUE = 4000  # characters per value


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field in the list of fields."""

    part: int
    line: AnatomyLine
    style: str


def field_rows(parts: list[ShownPart]) -> list[FieldRow]:
    """The fields of some parts; fields with bytes cycle through the colours."""
    rows = []
    colours = cycle(RICH_STYLES[colour] for colour in COLOURS)
    for i, part in enumerate(parts):
        for line in part.lines:
            plain = "" if line.has_bytes else "bold"
            style = "dim" if line.is_bit else plain or next(colours)
            rows.append(FieldRow(i, line, BAD if line.is_bad else style))
    return rows


def field_text(row: FieldRow) -> Text:
    """A field's text: name, value and meaning."""
    line = row.line
    name = f"{line.path[-2]} {line.name}" if line.name.isdigit() else line.name
    words = f" {'  ' * (len(line.path) - 1)}{safe(name)}"
    text = Text(f"{words:<26} ", style=row.style)
    text.append(safe(line.shown[:MOST_VALUE]))
    if line.meaning:
        text.append(f"  {safe(line.meaning)}", style=BAD if line.is_bad else "dim")
    if line.fault is not None:
        text.append(f"  ✗ {safe(line.fault)}", style=BAD)
    return text


@dataclass(slots=True)
class ByteLines:
    """The bytes of a part, `per_line` bytes per line."""

    part: ShownPart
    rows: list[FieldRow]
    per_line: int = NARROW
    selected: AnatomyLine | None = None
    """The field whose bytes are highlighted."""
    _spans: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spans = sorted(
            (row.line.start, row.line.end, row.style) for row in self.rows if row.line.has_bytes
        )

    @property
    def n_lines(self) -> int:
        """The number of lines."""
        return -(-len(self.part.data) // self.per_line)

    @property
    def heading(self) -> str:
        """The heading above the bytes."""
        size = grouped(len(self.part.data))
        if self.part.codec:
            return f" {size} bytes decompressed with {self.part.codec}, counted from 0"
        return f" {size} bytes from byte {grouped(self.part.base)} of the file"

    def lines(self, first: int, last: int) -> list[Text]:
        """Lines first..last-1."""
        return [self._line(number) for number in range(first, min(last, self.n_lines))]

    def _line(self, number: int) -> Text:
        start = number * self.per_line
        data = self.part.data[start : start + self.per_line]
        place = f"{self.part.base + start:0{PLACE}x}  "
        digits = f"{data.hex(' '):<{3 * self.per_line}} "
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
        text = Text(f"{place}{digits}{shown}", end="")
        text.stylize("dim", 0, len(place))
        of_digits, of_shown = len(place), len(place) + len(digits)
        at = 0
        for style, run in groupby(range(start, start + len(data)), self._style):
            end = at + sum(1 for _ in run)
            text.stylize(style, of_digits + 3 * at, of_digits + 3 * end - 1)
            text.stylize(style, of_shown + at, of_shown + end)
            at = end
        return text

    def _style(self, at: int) -> str:
        i = bisect_right(self._spans, at, key=itemgetter(0)) - 1
        is_inside = i >= 0 and at < self._spans[i][1]
        style = self._spans[i][2] if is_inside else "dim"
        chosen = self.selected
        if chosen is not None and chosen.start <= at < chosen.end:
            return f"{style.replace('dim', '')} reverse".strip()
        return style


def bytes_per_line(width: int) -> int:
    """The number of bytes that fit in a line of this width."""
    sizes = (WIDE, NARROW, NARROW // 2)
    return next((size for size in sizes if width >= PLACE + GAPS + 4 * size), sizes[-1])
