"""A list that creates only its visible lines, with a heading and a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

FetchLines = Callable[[int, int], Sequence[Text | str]]
MAX_CACHED_STRIPS = 2000
SCROLL_COLUMNS = 8  # columns per key press


class _LineEvent(Message):
    """An event in a list. row_index: the index of the line under the cursor."""

    def __init__(self, line_list: LineList, row_index: int) -> None:
        super().__init__()
        self.line_list = line_list
        self.row_index = row_index

    @property
    def control(self) -> LineList:
        return self.line_list


class LineList(ScrollView, can_focus=True):
    """Lines by index, fetched when they become visible; escape sequences keep their colours."""

    DEFAULT_CSS = """
    LineList { height: 1fr; background: $background; scrollbar-size-horizontal: 0;
        scrollbar-size-vertical: 1; }
    LineList > .line-list--heading { background: $surface; color: $text-muted; text-style: bold; }
    LineList:focus > .line-list--heading { background: $primary; color: $text; }
    LineList > .line-list--cursor { background: $surface-lighten-2; }
    LineList:focus > .line-list--cursor { background: $primary-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"line-list--heading", "line-list--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home", "end(0)", show=False),
        Binding("end", "end(1)", show=False),
        Binding("enter", "choose", show=False),
        Binding("left", "aside(-1)", show=False),
        Binding("right", "aside(1)", show=False),
    ]

    class Resized(_LineEvent):
        """The size of the list has changed."""

    class Highlighted(_LineEvent):
        """The cursor has moved to another line."""

    class Selected(_LineEvent):
        """A line was selected with Enter or a double click."""

    def __init__(self, *, id: str, has_cursor: bool = True) -> None:  # noqa: A002 (Textual's)
        super().__init__(id=id)
        self.n_rows = 0
        self.cursor_row = 0
        self.heading = ""
        self._has_cursor = has_cursor
        self._fetch_lines: FetchLines = lambda _, __: ()
        self._strip_by_row: dict[int, Strip] = {}
        self._max_line_width = 0
        self._line_style = self._cursor_style = Style()

    # Content.

    def show_fetched_lines(
        self, n_rows: int, fetch_lines: FetchLines, heading: str = "", cursor_row: int = 0
    ) -> None:
        """Replace the lines; `fetch_lines` returns them when they become visible."""
        self._fetch_lines, self.heading = fetch_lines, heading
        self.cursor_row = min(cursor_row, max(n_rows - 1, 0))
        self._max_line_width = 0
        self.set_n_rows(n_rows)
        self._strip_by_row.clear()
        if cursor_row == 0:
            self.scroll_to(0, 0, animate=False, immediate=True)
        else:
            self.scroll_to_cursor()
        self.refresh()

    def show_lines(self, lines: Sequence[Text | str], heading: str = "") -> None:
        """Show lines that already exist."""
        self.show_fetched_lines(len(lines), lambda first, last: lines[first:last], heading)

    def clear_lines(self) -> None:
        """Show nothing."""
        self.show_lines(())

    def set_n_rows(self, n_rows: int) -> None:
        """Change the number of lines without fetching the visible ones again."""
        if n_rows != self.n_rows:
            self._strip_by_row.pop(self.n_rows, None)
        self.n_rows = n_rows
        self.virtual_size = Size(self._max_line_width, n_rows + 1)

    def refetch_lines(self) -> None:
        """Fetch the lines again, as their text has changed."""
        self._strip_by_row.clear()
        self.refresh()

    @property
    def visible_row_range(self) -> tuple[int, int]:
        """The visible lines as [first, end)."""
        first_row = int(self.scroll_offset.y)
        return first_row, min(first_row + max(self.size.height - 1, 0), self.n_rows)

    # Drawing.

    def render_lines(self, crop: Region) -> list[Strip]:
        self._line_style = self.rich_style  # too expensive to compute for each line
        self._cursor_style = self._line_style + self.get_component_rich_style(
            "line-list--cursor", partial=True
        )
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            style = self.get_component_rich_style("line-list--heading")
            heading_text = Text(self._to_text(self.heading).plain)
            strip = Strip(heading_text.render(self.app.console)).crop(int(self.scroll_offset.x))
            return strip.crop_extend(0, width, style).apply_style(style)
        row_index = int(self.scroll_offset.y) + y - 1
        if row_index >= self.n_rows:
            return Strip.blank(width, self._line_style)
        strip = self._strip_by_row.get(row_index) or self._fetch_strip(row_index)
        first_column = int(self.scroll_offset.x)
        is_cursor_row = row_index == self.cursor_row and self._has_cursor
        style = self._cursor_style if is_cursor_row else self._line_style
        return strip.crop_extend(first_column, first_column + width, Style()).apply_style(style)

    def _fetch_strip(self, row_index: int) -> Strip:
        """The strip of a line; fetches all visible lines with it."""
        first_row, end_row = self.visible_row_range
        first_row, end_row = (
            (first_row, end_row) if first_row <= row_index < end_row else (row_index, row_index + 1)
        )
        if len(self._strip_by_row) > MAX_CACHED_STRIPS:
            self._strip_by_row.clear()
        lines = self._fetch_lines(first_row, end_row)
        console = self.app.console
        for i, line in enumerate(lines):
            strip = Strip(self._to_text(line).render(console))
            self._strip_by_row[first_row + i] = strip
            if strip.cell_length > self._max_line_width:
                self._max_line_width = strip.cell_length
                self.call_later(self._update_virtual_width)
        return self._strip_by_row.get(row_index) or Strip([Segment("")])

    def _update_virtual_width(self) -> None:
        self.virtual_size = Size(self._max_line_width, self.n_rows + 1)

    @staticmethod
    def _to_text(line: Text | str) -> Text:
        text = line if isinstance(line, Text) else Text.from_ansi(line)
        text.end = ""
        if not text.spans and text.style:
            text.stylize(text.style)  # without spans, Rich leaves the style to its console
        return text

    # Moving.

    def move_cursor(self, row_index: int) -> None:
        """Move the cursor to a line, and post `Highlighted`."""
        self.set_cursor(row_index)
        self.post_message(self.Highlighted(self, self.cursor_row))

    def set_cursor(self, row_index: int) -> None:
        """Move the cursor to a line without posting a message."""
        row_index = max(min(row_index, self.n_rows - 1), 0)
        if row_index != self.cursor_row:
            previous_row, self.cursor_row = self.cursor_row, row_index
            self._refresh_row(previous_row)
            self._refresh_row(row_index)
        self.scroll_to_cursor()

    def _refresh_row(self, row_index: int) -> None:
        y = row_index - int(self.scroll_offset.y) + 1
        self.refresh(Region(0, y, self.size.width, 1))

    def scroll_to_cursor(self) -> None:
        """Scroll until the line under the cursor is visible."""
        first_row, n_visible_rows = int(self.scroll_offset.y), max(self.size.height - 1, 1)
        if self.cursor_row < first_row:
            self.scroll_to(y=self.cursor_row, animate=False, force=True)
        elif self.cursor_row >= first_row + n_visible_rows:
            self.scroll_to(y=self.cursor_row - n_visible_rows + 1, animate=False, force=True)

    def action_move(self, step: int) -> None:
        if self._has_cursor:
            self.move_cursor(self.cursor_row + step)
        else:
            self.scroll_relative(y=step, animate=False)

    def action_page(self, step: int) -> None:
        step *= max(self.size.height - 2, 1)
        self.scroll_relative(y=step, animate=False, force=self._has_cursor)
        if self._has_cursor:
            self.move_cursor(self.cursor_row + step)

    def action_end(self, is_last: int) -> None:
        if self._has_cursor:
            self.move_cursor(self.n_rows - 1 if is_last else 0)
        else:
            self.scroll_to(y=self.n_rows if is_last else 0, animate=False)

    def action_aside(self, step: int) -> None:
        self.scroll_relative(x=step * SCROLL_COLUMNS, animate=False, force=True)

    def action_choose(self) -> None:
        if self.n_rows:
            self.post_message(self.Selected(self, self.cursor_row))

    def on_click(self, event: events.Click) -> None:
        if event.y < 1:
            return
        row_index = int(self.scroll_offset.y) + event.y - 1
        if row_index < self.n_rows:
            self.move_cursor(row_index)
            if event.chain == 2:
                self.post_message(self.Selected(self, row_index))

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """Move the thumb to where the list was scrolled to without a scrollbar, which Textual does
        not do."""
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y

    def on_resize(self) -> None:
        self._strip_by_row.clear()
        self.scroll_to_cursor()
        if self.size.width:
            self.post_message(self.Resized(self, self.cursor_row))
