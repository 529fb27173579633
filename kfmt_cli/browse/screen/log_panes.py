"""The panes of a log: its batches, a batch's records, a record's fields, and the bytes."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message

from kfmt_cli.browse.byte_lines import ByteLines, FieldRow, bytes_per_line, field_label, field_rows
from kfmt_cli.browse.command_line import ViewKind, ViewState
from kfmt_cli.browse.screen.line_list import FetchLines, LineList
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.browse.text_host import wrap_lines
from kfmt_cli.errors import KfmtError
from kfmt_cli.findings.finding import is_error
from kfmt_cli.render.style import escape_terminal, format_count, format_grouped

MIN_WIDE_COLUMNS = 110  # columns; on a narrower screen, bytes are below the lists
MIN_TALL_LINES = 34  # lines; on a shorter screen, records and fields alternate


class LogPanes(Container):
    """The panes of batches, records and fields, one above the other, and the pane of bytes next to
    or below them."""

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

    class SelectionChanged(Message):
        """The selection has changed."""

    def __init__(self, session: BrowserSession) -> None:
        super().__init__(id="panes")
        self.batches = LineList(id="batches")
        self.records = LineList(id="records")
        self.fields = LineList(id="fields")
        """The fields, or a record's content."""
        self.bytes = LineList(id="bytes", has_cursor=False)
        self.session = session
        self.shows_payload = False
        self._field_rows: list[FieldRow] = []
        self._byte_lines: list[ByteLines] = []
        self._bytes_requested: bool | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="lists"):
            yield from (self.batches, self.records, self.fields)
        yield self.bytes

    # Layout.

    @property
    def is_narrow(self) -> bool:
        """Whether the screen is too narrow to show bytes next to lists."""
        return self.app.size.width < MIN_WIDE_COLUMNS

    def update_layout(self, focused_pane: LineList | None = None) -> None:
        """Show the panes that fit on the screen. focused_pane: the pane to keep visible, by default
        the focused one."""
        focused_pane = focused_pane or self._focused_pane
        self.set_class(self.is_narrow, "-slim")
        is_short = self.app.size.height < MIN_TALL_LINES
        shows_fields = focused_pane is self.fields or (
            focused_pane is self.bytes and self.fields.display
        )
        self.fields.display = not is_short or shows_fields
        self.records.display = not is_short or not shows_fields
        bytes_requested = self._bytes_requested
        self.bytes.display = (not self.is_narrow) if bytes_requested is None else bytes_requested

    @property
    def _focused_pane(self) -> LineList | None:
        focused_widget = self.app.focused
        return focused_widget if isinstance(focused_widget, LineList) else None

    def toggle_bytes(self) -> None:
        """Show or hide the bytes."""
        self._bytes_requested = not self.bytes.display
        self.update_layout()
        self.call_after_refresh(self._show_bytes)

    def focus_on(self, pane: LineList) -> None:
        """Show a pane and focus it."""
        self.update_layout(pane)
        pane.focus()

    def focus_inner_pane(self) -> None:
        """Move the focus from batches to records, or from records to fields."""
        if self._focused_pane is self.batches:
            has_records = (
                self.session.selected_batch is not None and self.session.selected_batch.n_records
            )
            self.focus_on(self.records if has_records else self.fields)
        elif self._focused_pane is self.records:
            self.focus_on(self.fields)

    def focus_outer_pane(self) -> bool:
        """Move the focus back; returns False if it was on the batches already."""
        focused_pane = self._focused_pane
        if focused_pane is self.batches or focused_pane is None:
            return False
        has_records = self.records.n_rows > 0
        outer_panes = {self.records: self.batches, self.bytes: self.fields}
        outer_panes[self.fields] = self.records if has_records else self.batches
        if focused_pane in outer_panes:
            self.focus_on(outer_panes[focused_pane])
            if outer_panes[focused_pane] is self.batches:  # selects the batch header
                self.session.record_index = None
                self._show_fields()
        return True

    # Showing.

    def show_log(self) -> None:
        """Show the open log."""
        log = self.session.log_view
        if log is None or not log.index.n_rows:
            text = f"\x1b[1m {self._empty_text()}"
            self.batches.show_lines(wrap_lines(text, self._list_width))
            self.records.clear()
            self._show_fields()
            return
        log.resize(self._list_width)
        self.batches.show(log.index.n_rows, self._batch_lines, log.heading)
        self.select_row(0)

    def _empty_text(self) -> str:
        log = self.session.log_view
        if log is None:
            return self.session.open_error
        if self.session.batch_filter:
            return f"no batches match the filter {self.session.batch_filter.text}"
        return "the log is empty" if not log.index.end_position else "no batches left"

    @property
    def _list_width(self) -> int:
        return max(self.batches.size.width - 2, 20) if self.batches.size.width else 78

    def _batch_lines(self, first: int, last: int) -> list[str]:
        log = self.session.log_view
        if log is None:
            return []
        try:
            return log.lines(first, last)
        except KfmtError as error:
            return [f" {escape_terminal(str(error))}"] * (last - first)

    def show_new_batches(self) -> None:
        """Show the batches indexed since the last update."""
        log = self.session.log_view
        if log is None or not log.index.n_rows:
            return
        self.batches.set_n_rows(log.index.n_rows)
        if self.session.batch_fields is None:
            self.show_log()

    def select_row(self, row: int, offset: int | None = None) -> None:
        """Select a row's batch, and the batch's record with an offset."""
        self.batches.set_cursor(row)
        self._show_batch(offset)

    @on(LineList.Highlighted, "#batches")
    def batch_moved(self, event: LineList.Highlighted) -> None:
        """Show the batch."""
        event.stop()
        if event.row == self.batches.cursor:  # the cursor has not moved on
            self._show_batch()

    def _show_batch(self, offset: int | None = None) -> None:
        """Show the batch under the cursor, and select the record with an offset."""
        session = self.session
        if session.log_view is None:
            return
        session.select_batch(self.batches.cursor)
        batch = session.selected_batch
        record_index = 0 if batch is None or offset is None else batch.find_record(offset)
        self.records.show(*self._record_list(), cursor=record_index)
        if offset is not None and batch is not None and batch.n_records:
            session.record_index = record_index
        self._show_fields()

    def _record_list(self) -> tuple[int, FetchLines, str]:
        batch = self.session.selected_batch
        width = max((self.records.size.width or self.batches.size.width) - 1, 40)
        if batch is not None and batch.n_records:
            fetch_lines = partial(batch.record_lines, width=width)
            return batch.n_records, fetch_lines, batch.records_heading(width)
        findings = batch.findings if batch is not None else ()
        errors = [escape_terminal(finding.message) for finding in findings] or [
            self.session.open_error
        ]
        lines = [Text(f" {error}", style="bold red") for error in errors if error]
        lines = lines or [Text(" no readable records", style="dim")]
        return len(lines), lambda first, last: lines[first:last], ""

    @on(LineList.Highlighted, "#records")
    def record_moved(self, event: LineList.Highlighted) -> None:
        """Show the record."""
        event.stop()
        batch = self.session.selected_batch
        if batch is not None and event.row < batch.n_records:
            self.session.record_index = event.row
            self._show_fields()

    @on(LineList.Selected)
    def row_selected(self, event: LineList.Selected) -> None:
        """Open the selected line."""
        event.stop()
        if event.line_list is self.records and self.session.record_index is None:
            self.record_moved(LineList.Highlighted(self.records, self.records.cursor))
        self.focus_inner_pane()

    def on_descendant_focus(self) -> None:
        """Update the records and the command line after the focus has moved to another pane."""
        focused_pane = self._focused_pane
        batch = self.session.selected_batch
        self.update_layout()
        is_header_selected = self.session.record_index is None
        if (
            focused_pane is self.records
            and is_header_selected
            and batch is not None
            and batch.n_records
        ):
            self.session.record_index = min(self.records.cursor, batch.n_records - 1)
            self._show_fields()
        self.post_message(self.SelectionChanged())

    def toggle_payload(self) -> None:
        """Toggle a record's content and its fields."""
        self.shows_payload = not self.shows_payload
        if self.session.record_index is None and self.session.selected_batch is not None:
            self.session.record_index = (
                self.records.cursor if self.session.selected_batch.n_records else None
            )
        self._show_fields()
        self.focus_on(self.fields)

    def _show_fields(self) -> None:
        """Show the fields of the selected header or record."""
        session, batch = self.session, self.session.selected_batch
        if batch is None:
            self.fields.clear()
            self.bytes.clear()
            self._field_rows, self._byte_lines = [], []
        else:
            parts = batch.anatomy(session.record_index)
            self._field_rows = field_rows(parts)
            line_size = bytes_per_line(self._bytes_width)
            self._byte_lines = [
                ByteLines(part, [row for row in self._field_rows if row.part_index == i], line_size)
                for i, part in enumerate(parts)
            ]
            if self.shows_payload and session.record_index is not None:
                self._show_payload()
            else:
                title = f" {parts[0].title}" if parts else ""
                if session.record_index is not None:
                    codec = parts[0].codec
                    origin_text = f", decompressed with {codec}" if codec else f" in{title}"
                    title = f" offset {batch.record_offset(session.record_index)}{origin_text}"
                self.fields.show(
                    len(self._field_rows),
                    lambda first, last: [field_label(row) for row in self._field_rows[first:last]],
                    title,
                )
            self._show_bytes()
        self.post_message(self.SelectionChanged())

    @property
    def _bytes_width(self) -> int:
        # A pane without a size yet: assume the width it will have; `Resized` corrects it.
        width = self.bytes.size.width if self.bytes.display else 0
        return (width or (self.app.size.width if self.is_narrow else 45)) - 1  # for the scrollbar

    @on(LineList.Resized, "#bytes")
    def bytes_resized(self, event: LineList.Resized) -> None:
        """Fit the number of bytes per line to the new width."""
        event.stop()
        line_size = bytes_per_line(self._bytes_width)
        if any(byte_lines.line_size != line_size for byte_lines in self._byte_lines):
            for byte_lines in self._byte_lines:
                byte_lines.line_size = line_size
            self._show_bytes(with_highlight=self._focused_pane is self.fields)

    @on(LineList.Resized, "#batches")
    def batches_resized(self, event: LineList.Resized) -> None:
        """Fit the columns of batches to the new width."""
        event.stop()
        log = self.session.log_view
        if log is not None and self.batches.n_rows:
            log.resize(self._list_width)
            self.batches.heading = log.heading
            self.batches.refetch()
        self.post_message(self.SelectionChanged())

    @on(LineList.Resized, "#records")
    def records_resized(self, event: LineList.Resized) -> None:
        """Fit the columns of records to the new width."""
        event.stop()
        batch = self.session.selected_batch
        if batch is not None and batch.n_records == self.records.n_rows:
            self.records.show(*self._record_list(), cursor=self.records.cursor)

    def _show_payload(self) -> None:
        batch, record_index = self.session.selected_batch, self.session.record_index
        assert batch is not None
        assert record_index is not None
        lines = []
        for name, text in batch.record_content(record_index):
            style = "cyan" if name == "offset" else ""
            for i, line in enumerate(text.split("\n")):
                label = escape_terminal(name) if i == 0 else ""
                lines.append(
                    Text.assemble((f" {label:<12} ", "bold"), (escape_terminal(line), style))
                )
        title = f" offset {batch.record_offset(record_index)}: content   y copies it as JSON"
        self.fields.show_lines(lines, title)

    @on(LineList.Highlighted, "#fields")
    def field_moved(self, event: LineList.Highlighted) -> None:
        """Highlight the bytes of the field."""
        event.stop()
        self._show_bytes(with_highlight=True)

    def _show_bytes(self, *, with_highlight: bool = False) -> None:
        """Show the bytes, starting at the selected field or record."""
        rows = self._field_rows
        if not self._byte_lines:
            return
        field_index = self.fields.cursor if not self.shows_payload else 0
        selected_row = rows[field_index] if field_index < len(rows) else None
        byte_lines = self._byte_lines[selected_row.part_index if selected_row is not None else 0]
        highlights_field = (
            with_highlight and selected_row is not None and selected_row.line.has_bytes
        )
        byte_lines.selected_field = (
            selected_row.line if highlights_field and selected_row is not None else None
        )
        self.bytes.show(byte_lines.n_lines, byte_lines.lines, byte_lines.heading)
        start = selected_row.line.start if selected_row is not None else 0
        line = max(start // byte_lines.line_size - 1, 0)
        self.bytes.scroll_to(y=line, animate=False, force=True)

    # Description.

    @property
    def view_kind(self) -> ViewKind:
        """The kind of content in the focused pane."""
        focused_pane = self._focused_pane
        if focused_pane is self.records:
            return ViewKind.RECORDS
        if focused_pane is self.fields or focused_pane is self.bytes:
            has_payload = self.shows_payload and self.session.record_index is not None
            return (
                ViewKind.PAYLOAD if has_payload and focused_pane is self.fields else ViewKind.FIELDS
            )
        return ViewKind.BATCHES

    def view_state(self) -> ViewState:
        """The state of the screen."""
        pane = self.records if self.view_kind is ViewKind.RECORDS else self.batches
        first_row, end_row = pane.visible_rows
        return self.session.view_state(self.view_kind, first_row, max(end_row, first_row + 1))

    def status_text(self) -> str:
        """The selected batch and the number of batches, in one line."""
        session = self.session
        log, batch_fields = session.log_view, session.batch_fields
        if log is None:
            return session.open_error
        index = log.index
        totals = format_count(index.n_rows, "batch", "batches")
        if session.batch_filter:
            totals += f" of {format_grouped(index.n_batches)} with {session.batch_filter.text}"
        if not index.is_complete and index.size:
            totals += f" so far; {index.end_position * 100 // index.size}% of the file scanned"
        if index.read_error:
            totals += f"; {escape_terminal(index.read_error)}"
        if batch_fields is None:
            return totals
        location = (
            f"batch {format_grouped(batch_fields.number)} at byte "
            f"{format_grouped(batch_fields.position)}"
        )
        checksum_note = "" if batch_fields.crc_valid else " ✗ bad checksum"
        errors = list(
            filter(is_error, session.selected_batch.findings if session.selected_batch else ())
        )
        error_note = f" ✗ {escape_terminal(errors[0].message)}" if errors else ""
        return f"{location}{checksum_note}{error_note}   {totals}"
