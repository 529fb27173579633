"""The annotated hexdump: bytes on the left; field, value and meaning on the right in the same
colour."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.render.style import Theme, escape_terminal, format_grouped
from kfmt_cli.rows.types.anatomy import AnatomyLine

PART_STYLES = ("offset", "flag", "good", "warn")  # of fields, in turn
NARROW_BYTES, WIDE_BYTES = 8, 16  # bytes per line
MIN_WIDE_COLUMNS = 130
NAME_WIDTH, VALUE_WIDTH = 26, 14
MAX_FIELD_LINES = 4  # lines of bytes per field


class HexDumper:
    """Writes lines of text for the fields of structures.

    width: columns of the terminal, None if unlimited. shows_all_bytes: show all bytes of long
    fields.
    """

    def __init__(self, theme: Theme, width: int | None, shows_all_bytes: bool) -> None:
        self._theme = theme
        self._width = width
        self._shows_all_bytes = shows_all_bytes
        self._bytes_per_line = (
            WIDE_BYTES if width is None or width >= MIN_WIDE_COLUMNS else NARROW_BYTES
        )
        self._n_coloured = 0

    def format_title(self, text: str) -> str:
        """The line above a buffer's fields."""
        return self._theme.paint("bold", _truncate(f" {escape_terminal(text)}", self._width)) + "\n"

    def field_lines(self, line: AnatomyLine, data: bytes, base_position: int) -> Iterator[str]:
        """The lines of a field. data: the buffer that contains the field. base_position: the
        position shown for the buffer's first byte."""
        style = "bad" if line.is_invalid else "bold" if not line.has_bytes else ""
        if line.is_bit:
            style = "dim"
        elif not style:
            style = PART_STYLES[self._n_coloured % len(PART_STYLES)]
            self._n_coloured += 1
        chunks = list(self._split_bytes(line, data)) or [b""]
        descriptions = self._describe_field(line)
        position = base_position + line.start
        for i in range(max(len(chunks), len(descriptions))):
            chunk = chunks[i] if i < len(chunks) else b""
            position_text = f"{position:08x}" if chunk or (i == 0 and not line.is_bit) else ""
            yield self._format_line(
                position_text, chunk, descriptions[i] if i < len(descriptions) else "", style
            )
            position += len(chunk)
        n_hidden_bytes = base_position + line.end - position if line.has_bytes else 0
        if n_hidden_bytes > 0:
            hidden_text = f"{format_grouped(n_hidden_bytes)} more bytes; use --whole to show them"
            yield self._format_line("", b"", hidden_text, "dim")
        if line.fault is not None:
            yield self._format_line(
                "", b"", f"✗ {' › '.join(line.path)}: {escape_terminal(line.fault)}", "bad"
            )

    def _describe_field(self, line: AnatomyLine) -> list[str]:
        """Lines with name, value and meaning; on a narrow screen, the meaning is on a line of its
        own."""
        name = f"{line.path[-2]} {line.name}" if line.name.isdigit() else line.name
        depth = len(line.path) - 1
        prefix = f"{'  ' * depth + escape_terminal(name):<{NAME_WIDTH}}"
        if line.has_bytes or line.is_bit:
            prefix += f" {escape_terminal(line.display_text):<{VALUE_WIDTH}}"
        if not line.meaning:
            return [prefix.rstrip()]
        aligned_line = f"{prefix} {escape_terminal(line.meaning)}"
        unaligned_line = f"{prefix.rstrip()}  {escape_terminal(line.meaning)}"
        available_width = (
            len(aligned_line) if self._width is None else self._width - self._prefix_width
        )
        for line_text in (aligned_line, unaligned_line):
            if len(line_text) <= available_width:
                return [line_text]
        return [prefix.rstrip(), f"{'  ' * (depth + 1)}{escape_terminal(line.meaning)}"]

    @property
    def _prefix_width(self) -> int:
        """Columns before the description: position and bytes."""
        return 1 + 8 + 2 + 3 * self._bytes_per_line + 1

    def _split_bytes(self, line: AnatomyLine, data: bytes) -> Iterator[bytes]:
        """The bytes of a field, split by line."""
        if not line.has_bytes:
            return
        end = line.end
        if not self._shows_all_bytes:
            end = min(end, line.start + MAX_FIELD_LINES * self._bytes_per_line)
        for start in range(line.start, end, self._bytes_per_line):
            yield data[start : min(start + self._bytes_per_line, end)]

    def _format_line(self, position_text: str, chunk: bytes, description: str, style: str) -> str:
        theme = self._theme
        width = 3 * self._bytes_per_line
        hex_text = chunk.hex(" ")
        if self._width is not None:
            description = _truncate(description, max(self._width - self._prefix_width, 8))
        painted_hex = theme.paint(style, f"{hex_text:<{width}}") if hex_text else " " * width
        line = f" {theme.paint('dim', f'{position_text:<8}')}  {painted_hex} "
        return (line + (theme.paint(style, description) if description else "")).rstrip() + "\n"


def _truncate(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else text[: max(width - 1, 0)] + "…"
