"""The panes of a log: its batches, a batch's records, a record's fields, and the bytes."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message

from kfmt_cli.browse.byte_lines import ByteLines, FieldRow, bytes_per_line, field_rows, field_text
from kfmt_cli.browse.command_line import ViewKind, ViewState
from kfmt_cli.browse.screen.line_list import Fetch, LineList
from kfmt_cli.browse.session import Session
from kfmt_cli.browse.text_host import wrapped_lines
from kfmt_cli.errors import KfmtError
from kfmt_cli.findings.finding import is_error
from kfmt_cli.render.style import count, grouped, safe

NARROW = 110  # columns; on a narrower screen, bytes are under the lists
SHORT = 34  # lines; on a shorter screen, records and fields alternate


class LogPanes(Container):
    """Batches above records above fields, and bytes next to them or below."""

    DEFAULT_CSS = """
    LogPanes { layout: horizontal; width: 1fr; height: 1fr; }
    LogPanes #lists { width: 1fr; height: 1fr; }
    LogPanes #batches { height: 5fr; }
    LogPanes #records { height: 4fr; }
    LogPanes #fields { height: 5fr; }
    LogPanes #bytes { width: 45; border-left: vkey $surface-lighten-2; }
    LogPanes.-slim { layout: vertical; }
    LogPanes.-slim #bytes { width: 100%; height: 8; border-left: none; }
    """

    class Changed(Message):
        """The selection has changed."""

    def __init__(self, session: Session) -> None:
        super().__init__(id="panes")
        self.batches = LineList(id="batches")
        self.records = LineList(id="records")
        self.fields = LineList(id="fields")
        """The fields, or a record's content."""
        self.bytes = LineList(id="bytes", has_cursor=False)
        self.session = session
        self.is_payload = False
        self._rows: list[FieldRow] = []
        self._bytes: list[ByteLines] = []
        self._wants_bytes: bool | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="lists"):
            yield from (self.batches, self.records, self.fields)
        yield self.bytes

    # Layout.

    @property
    def is_narrow(self) -> bool:
        """Whether the screen is too narrow to show bytes next to lists."""
        return self.app.size.width < NARROW

    def lay_out(self, focused: LineList | None = None) -> None:
        """Show the panes that fit on the screen."""
        focused = focused or self._focused
        self.set_class(self.is_narrow, "-slim")
        is_short = self.app.size.height < SHORT
        on_fields = focused is self.fields or (focused is self.bytes and self.fields.display)
        self.fields.display = not is_short or on_fields
        self.records.display = not is_short or not on_fields
        wanted = self._wants_bytes
        self.bytes.display = (not self.is_narrow) if wanted is None else wanted

    @property
    def _focused(self) -> LineList | None:
        focused = self.app.focused
        return focused if isinstance(focused, LineList) else None

    def toggle_bytes(self) -> None:
        """Show or hide the bytes."""
        self._wants_bytes = not self.bytes.display
        self.lay_out()
        self.call_after_refresh(self._show_bytes)

    def focus_on(self, pane: LineList) -> None:
        """Show a pane and focus it."""
        self.lay_out(pane)
        pane.focus()

    def step_in(self) -> None:
        """Move the focus from batches to records, or from records to fields."""
        if self._focused is self.batches:
            has_records = self.session.content is not None and self.session.content.n_records
            self.focus_on(self.records if has_records else self.fields)
        elif self._focused is self.records:
            self.focus_on(self.fields)

    def step_out(self) -> bool:
        """Move the focus back; returns False if it was on the batches already."""
        focused = self._focused
        if focused is self.batches or focused is None:
            return False
        has_records = self.records.n_rows > 0
        steps = {self.records: self.batches, self.bytes: self.fields}
        steps[self.fields] = self.records if has_records else self.batches
        if focused in steps:
            self.focus_on(steps[focused])
            if steps[focused] is self.batches:  # its header is selected
                self.session.record = None
                self._show_fields()
        return True

    # Showing.

    def open(self) -> None:
        """Show the open log."""
        log = self.session.log
        if log is None or not log.outline.n_rows:
            words = f"\x1b[1m {self._nothing_words()}"
            self.batches.show_lines(wrapped_lines(words, self._list_width))
            self.records.clear()
            self._show_fields()
            return
        log.resize(self._list_width)
        self.batches.show(log.outline.n_rows, self._batch_lines, log.heading)
        self.select_row(0)

    def _nothing_words(self) -> str:
        log = self.session.log
        if log is None:
            return self.session.trouble
        if self.session.wanted:
            return f"no batches match the filter {self.session.wanted.words}"
        return "the log is empty" if not log.outline.end else "no batches left"

    @property
    def _list_width(self) -> int:
        return max(self.batches.size.width - 2, 20) if self.batches.size.width else 78

    def _batch_lines(self, first: int, last: int) -> list[str]:
        log = self.session.log
        if log is None:
            return []
        try:
            return log.lines(first, last)
        except KfmtError as error:
            return [f" {safe(str(error))}"] * (last - first)

    def grow(self) -> None:
        """Show newly added batches."""
        log = self.session.log
        if log is None or not log.outline.n_rows:
            return
        self.batches.resize_to(log.outline.n_rows)
        if self.session.place is None:
            self.open()

    def select_row(self, row: int, offset: int | None = None) -> None:
        """Select a row's batch, and in it the record with an offset."""
        self.batches.put_cursor(row)
        self._show_batch(offset)

    @on(LineList.Moved, "#batches")
    def batch_moved(self, event: LineList.Moved) -> None:
        """Show the batch."""
        event.stop()
        if event.row == self.batches.cursor:  # still the current row
            self._show_batch()

    def _show_batch(self, offset: int | None = None) -> None:
        """Show the batch under the cursor, and select the record with an offset."""
        session = self.session
        if session.log is None:
            return
        session.select_batch(self.batches.cursor)
        content = session.content
        at = 0 if content is None or offset is None else content.record_of(offset)
        self.records.show(*self._record_lines(), cursor=at)
        if offset is not None and content is not None and content.n_records:
            session.record = at
        self._show_fields()

    def _record_lines(self) -> tuple[int, Fetch, str]:
        content = self.session.content
        width = max((self.records.size.width or self.batches.size.width) - 1, 40)
        if content is not None and content.n_records:
            lines = partial(content.lines, width=width)
            return content.n_records, lines, content.heading(width)
        found = content.findings if content is not None else ()
        troubles = [safe(finding.message) for finding in found] or [self.session.trouble]
        words = [Text(f" {trouble}", style="bold red") for trouble in troubles if trouble]
        words = words or [Text(" no readable records", style="dim")]
        return len(words), lambda first, last: words[first:last], ""

    @on(LineList.Moved, "#records")
    def record_moved(self, event: LineList.Moved) -> None:
        """Show the record."""
        event.stop()
        content = self.session.content
        if content is not None and event.row < content.n_records:
            self.session.record = event.row
            self._show_fields()

    @on(LineList.Chosen)
    def chosen(self, event: LineList.Chosen) -> None:
        """Open the selected line."""
        event.stop()
        if event.lines is self.records and self.session.record is None:
            self.record_moved(LineList.Moved(self.records, self.records.cursor))
        self.step_in()

    def on_descendant_focus(self) -> None:
        """Update the records and the command line after the focus has moved to another pane."""
        focused = self._focused
        content = self.session.content
        self.lay_out()
        has_none = self.session.record is None
        if focused is self.records and has_none and content is not None and content.n_records:
            self.session.record = min(self.records.cursor, content.n_records - 1)
            self._show_fields()
        self.post_message(self.Changed())

    def toggle_payload(self) -> None:
        """Toggle a record's content and its fields."""
        self.is_payload = not self.is_payload
        if self.session.record is None and self.session.content is not None:
            self.session.record = self.records.cursor if self.session.content.n_records else None
        self._show_fields()
        self.focus_on(self.fields)

    def _show_fields(self) -> None:
        """Show the fields of the selected header or record."""
        session, content = self.session, self.session.content
        if content is None:
            self.fields.clear()
            self.bytes.clear()
            self._rows, self._bytes = [], []
        else:
            parts = content.anatomy(session.record)
            self._rows = field_rows(parts)
            per_line = bytes_per_line(self._bytes_width)
            self._bytes = [
                ByteLines(part, [row for row in self._rows if row.part == i], per_line)
                for i, part in enumerate(parts)
            ]
            if self.is_payload and session.record is not None:
                self._show_payload()
            else:
                title = f" {parts[0].title}" if parts else ""
                if session.record is not None:
                    codec = parts[0].codec
                    where = f", decompressed with {codec}" if codec else f" in{title}"
                    title = f" offset {content.offset(session.record)}{where}"
                self.fields.show(
                    len(self._rows),
                    lambda first, last: [field_text(row) for row in self._rows[first:last]],
                    title,
                )
            self._show_bytes()
        self.post_message(self.Changed())

    @property
    def _bytes_width(self) -> int:
        # A pane not shown yet gets the rest of the screen's width; `Resized` follows.
        room = self.bytes.size.width if self.bytes.display else 0
        return (room or (self.app.size.width if self.is_narrow else 45)) - 1  # its scrollbar

    @on(LineList.Resized, "#bytes")
    def bytes_resized(self, event: LineList.Resized) -> None:
        """Fit the number of bytes per line to the new width."""
        event.stop()
        per_line = bytes_per_line(self._bytes_width)
        if any(shown.per_line != per_line for shown in self._bytes):
            for shown in self._bytes:
                shown.per_line = per_line
            self._show_bytes(is_field=self._focused is self.fields)

    @on(LineList.Resized, "#batches")
    def batches_resized(self, event: LineList.Resized) -> None:
        """Fit the columns of batches to the new width."""
        event.stop()
        log = self.session.log
        if log is not None and self.batches.n_rows:
            log.resize(self._list_width)
            self.batches.heading = log.heading
            self.batches.renew()
        self.post_message(self.Changed())

    @on(LineList.Resized, "#records")
    def records_resized(self, event: LineList.Resized) -> None:
        """Fit the columns of records to the new width."""
        event.stop()
        content = self.session.content
        if content is not None and content.n_records == self.records.n_rows:
            self.records.show(*self._record_lines(), cursor=self.records.cursor)

    def _show_payload(self) -> None:
        content, record = self.session.content, self.session.record
        assert content is not None
        assert record is not None
        lines = []
        for name, text in content.said(record):
            style = "cyan" if name == "offset" else ""
            for i, line in enumerate(text.split("\n")):
                label = safe(name) if i == 0 else ""
                lines.append(Text.assemble((f" {label:<12} ", "bold"), (safe(line), style)))
        title = f" offset {content.offset(record)}: content   y copies it as JSON"
        self.fields.show_lines(lines, title)

    @on(LineList.Moved, "#fields")
    def field_moved(self, event: LineList.Moved) -> None:
        """Highlight the bytes of the field."""
        event.stop()
        self._show_bytes(is_field=True)

    def _show_bytes(self, *, is_field: bool = False) -> None:
        """Show the bytes, starting at the selected field or record."""
        rows = self._rows
        if not self._bytes:
            return
        at = self.fields.cursor if not self.is_payload else 0
        chosen = rows[at] if at < len(rows) else None
        shown = self._bytes[chosen.part if chosen is not None else 0]
        is_one = is_field and chosen is not None and chosen.line.has_bytes
        shown.selected = chosen.line if is_one and chosen is not None else None
        self.bytes.show(shown.n_lines, shown.lines, shown.heading)
        start = chosen.line.start if chosen is not None else 0
        line = max(start // shown.per_line - 1, 0)
        self.bytes.scroll_to(y=line, animate=False, force=True)

    # Description.

    @property
    def shown(self) -> ViewKind:
        """The kind of content in the focused pane."""
        focused = self._focused
        if focused is self.records:
            return ViewKind.RECORDS
        if focused is self.fields or focused is self.bytes:
            is_said = self.is_payload and self.session.record is not None
            return ViewKind.PAYLOAD if is_said and focused is self.fields else ViewKind.FIELDS
        return ViewKind.BATCHES

    def state(self) -> ViewState:
        """The state of the screen."""
        pane = self.records if self.shown is ViewKind.RECORDS else self.batches
        first, last = pane.seen
        return self.session.state(self.shown, first, max(last, first + 1))

    def words(self) -> str:
        """The selected batch and the number of batches, in one line."""
        session = self.session
        log, place = session.log, session.place
        if log is None:
            return session.trouble
        outline = log.outline
        number = count(outline.n_rows, "batch", "batches")
        if session.wanted:
            number += f" of {grouped(outline.n_batches)} with {session.wanted.words}"
        if not outline.is_whole and outline.size:
            number += f" so far; {outline.end * 100 // outline.size}% of the file scanned"
        if outline.trouble:
            number += f"; {safe(outline.trouble)}"
        if place is None:
            return number
        at = f"batch {grouped(place.number)} at byte {grouped(place.position)}"
        bad = "" if place.crc_valid else " ✗ bad checksum"
        errors = list(filter(is_error, session.content.findings if session.content else ()))
        more = f" ✗ {safe(errors[0].message)}" if errors else ""
        return f"{at}{bad}{more}   {number}"
