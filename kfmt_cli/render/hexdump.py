"""The annotated hexdump: bytes on the left; field, value and meaning on the right in the same
colour."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.render.style import Theme, escape_unprintable, format_thousands
from kfmt_cli.rows.types.anatomy import AnatomyLine

FIELD_STYLES = ("offset", "flag", "good", "warn")  # of fields, in turn
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
        self._n_coloured_fields = 0

    def format_title(self, title: str) -> str:
        """The line above a buffer's fields."""
        return (
            self._theme.paint("bold", _truncate_text(f" {escape_unprintable(title)}", self._width))
            + "\n"
        )

    def format_field_lines(
        self, anatomy_line: AnatomyLine, buffer_bytes: bytes, base_position: int
    ) -> Iterator[str]:
        """The lines of a field. buffer_bytes: the buffer that contains the field. base_position:
        the position shown for the buffer's first byte."""
        field_style = (
            "bad" if anatomy_line.is_invalid else "bold" if not anatomy_line.has_bytes else ""
        )
        if anatomy_line.is_bit:
            field_style = "dim"
        elif not field_style:
            field_style = FIELD_STYLES[self._n_coloured_fields % len(FIELD_STYLES)]
            self._n_coloured_fields += 1
        line_chunks = list(self._split_bytes(anatomy_line, buffer_bytes)) or [b""]
        descriptions = self._describe_field(anatomy_line)
        position = base_position + anatomy_line.start
        for line_index in range(max(len(line_chunks), len(descriptions))):
            chunk = line_chunks[line_index] if line_index < len(line_chunks) else b""
            position_text = (
                f"{position:08x}" if chunk or (line_index == 0 and not anatomy_line.is_bit) else ""
            )
            yield self._format_line(
                position_text,
                chunk,
                descriptions[line_index] if line_index < len(descriptions) else "",
                field_style,
            )
            position += len(chunk)
        n_hidden_bytes = (
            base_position + anatomy_line.end - position if anatomy_line.has_bytes else 0
        )
        if n_hidden_bytes > 0:
            hidden_text = f"{format_thousands(n_hidden_bytes)} more bytes; use --whole to show them"
            yield self._format_line("", b"", hidden_text, "dim")
        if anatomy_line.fault is not None:
            yield self._format_line(
                "",
                b"",
                f"✗ {' › '.join(anatomy_line.path)}: {escape_unprintable(anatomy_line.fault)}",
                "bad",
            )

    def _describe_field(self, anatomy_line: AnatomyLine) -> list[str]:
        """Lines with name, value and meaning; on a narrow screen, the meaning is on a line of its
        own."""
        field_name = (
            f"{anatomy_line.path[-2]} {anatomy_line.name}"
            if anatomy_line.name.isdigit()
            else anatomy_line.name
        )
        depth = len(anatomy_line.path) - 1
        name_and_value = f"{'  ' * depth + escape_unprintable(field_name):<{NAME_WIDTH}}"
        if anatomy_line.has_bytes or anatomy_line.is_bit:
            name_and_value += f" {escape_unprintable(anatomy_line.display_text):<{VALUE_WIDTH}}"
        if not anatomy_line.meaning:
            return [name_and_value.rstrip()]
        aligned_line = f"{name_and_value} {escape_unprintable(anatomy_line.meaning)}"
        unaligned_line = f"{name_and_value.rstrip()}  {escape_unprintable(anatomy_line.meaning)}"
        available_width = (
            len(aligned_line) if self._width is None else self._width - self._columns_before_text
        )
        for line_text in (aligned_line, unaligned_line):
            if len(line_text) <= available_width:
                return [line_text]
        return [
            name_and_value.rstrip(),
            f"{'  ' * (depth + 1)}{escape_unprintable(anatomy_line.meaning)}",
        ]

    @property
    def _columns_before_text(self) -> int:
        """Columns before the description: position and bytes."""
        return 1 + 8 + 2 + 3 * self._bytes_per_line + 1

    def _split_bytes(self, anatomy_line: AnatomyLine, buffer_bytes: bytes) -> Iterator[bytes]:
        """The bytes of a field, split by line."""
        if not anatomy_line.has_bytes:
            return
        end_index = anatomy_line.end
        if not self._shows_all_bytes:
            end_index = min(end_index, anatomy_line.start + MAX_FIELD_LINES * self._bytes_per_line)
        for start_index in range(anatomy_line.start, end_index, self._bytes_per_line):
            yield buffer_bytes[start_index : min(start_index + self._bytes_per_line, end_index)]

    def _format_line(self, position_text: str, chunk: bytes, description: str, style: str) -> str:
        theme = self._theme
        hex_width = 3 * self._bytes_per_line
        hex_text = chunk.hex(" ")
        if self._width is not None:
            description = _truncate_text(
                description, max(self._width - self._columns_before_text, 8)
            )
        painted_hex = (
            theme.paint(style, f"{hex_text:<{hex_width}}") if hex_text else " " * hex_width
        )
        line_prefix = f" {theme.paint('dim', f'{position_text:<8}')}  {painted_hex} "
        return (
            line_prefix + (theme.paint(style, description) if description else "")
        ).rstrip() + "\n"


def _truncate_text(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else text[: max(width - 1, 0)] + "…"
