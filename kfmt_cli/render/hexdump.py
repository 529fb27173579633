"""The annotated hexdump: bytes on the left; field, value and meaning on the right in the same
colour."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.render.style import Theme, grouped, safe
from kfmt_cli.rows.types.anatomy import AnatomyLine

COLOURS = ("offset", "flag", "good", "warn")  # used in turn
NARROW, WIDE = 8, 16  # bytes per line
ROOM_FOR_WIDE = 130
NAME, VALUE = 26, 14
MOST_LINES = 4  # per field


class Hexdump:
    """Writes lines of text for the fields of structures.

    screen: columns of the terminal, None if unlimited. whole: show all bytes of long fields.
    """

    def __init__(self, theme: Theme, screen: int | None, whole: bool) -> None:
        self._theme = theme
        self._screen = screen
        self._whole = whole
        self._per_line = WIDE if screen is None or screen >= ROOM_FOR_WIDE else NARROW
        self._n = 0

    def title(self, words: str) -> str:
        """The line above a buffer's fields."""
        return self._theme.paint("bold", _clip(f" {safe(words)}", self._screen)) + "\n"

    def text(self, line: AnatomyLine, data: bytes, base: int) -> Iterator[str]:
        """The lines of a field. base: number of the buffer's first byte."""
        style = "bad" if line.is_bad else "bold" if not line.has_bytes else ""
        if line.is_bit:
            style = "dim"
        elif not style:
            style = COLOURS[self._n % len(COLOURS)]
            self._n += 1
        pieces = list(self._pieces(line, data)) or [b""]
        words = self._words(line)
        place = base + line.start
        for i in range(max(len(pieces), len(words))):
            piece = pieces[i] if i < len(pieces) else b""
            shown = f"{place:08x}" if piece or (i == 0 and not line.is_bit) else ""
            yield self._row(shown, piece, words[i] if i < len(words) else "", style)
            place += len(piece)
        hidden = base + line.end - place if line.has_bytes else 0
        if hidden > 0:
            more = f"{grouped(hidden)} more bytes; use --whole to show them"
            yield self._row("", b"", more, "dim")
        if line.fault is not None:
            yield self._row("", b"", f"✗ {' › '.join(line.path)}: {safe(line.fault)}", "bad")

    def _words(self, line: AnatomyLine) -> list[str]:
        """Name, value and meaning; on a narrow screen, the meaning continues on lines below."""
        name = f"{line.path[-2]} {line.name}" if line.name.isdigit() else line.name
        depth = len(line.path) - 1
        first = f"{'  ' * depth + safe(name):<{NAME}}"
        if line.has_bytes or line.is_bit:
            first += f" {safe(line.shown):<{VALUE}}"
        if not line.meaning:
            return [first.rstrip()]
        aligned = f"{first} {safe(line.meaning)}"
        close = f"{first.rstrip()}  {safe(line.meaning)}"
        room = len(aligned) if self._screen is None else self._screen - self._left
        for whole in (aligned, close):
            if len(whole) <= room:
                return [whole]
        return [first.rstrip(), f"{'  ' * (depth + 1)}{safe(line.meaning)}"]

    @property
    def _left(self) -> int:
        """Columns taken by place and bytes."""
        return 1 + 8 + 2 + 3 * self._per_line + 1

    def _pieces(self, line: AnatomyLine, data: bytes) -> Iterator[bytes]:
        """The bytes of a field, split by line."""
        if not line.has_bytes:
            return
        end = line.end
        if not self._whole:
            end = min(end, line.start + MOST_LINES * self._per_line)
        for at in range(line.start, end, self._per_line):
            yield data[at : min(at + self._per_line, end)]

    def _row(self, place: str, piece: bytes, words: str, style: str) -> str:
        theme = self._theme
        width = 3 * self._per_line
        hexed = piece.hex(" ")
        if self._screen is not None:
            words = _clip(words, max(self._screen - self._left, 8))
        painted = theme.paint(style, f"{hexed:<{width}}") if hexed else " " * width
        line = f" {theme.paint('dim', f'{place:<8}')}  {painted} "
        return (line + (theme.paint(style, words) if words else "")).rstrip() + "\n"


def _clip(words: str, width: int | None) -> str:
    return words if width is None or len(words) <= width else words[: max(width - 1, 0)] + "…"
