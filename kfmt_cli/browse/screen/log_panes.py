"""The panes of a log: its batches, a batch's records, a record's fields, and the bytes."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message

from kfmt_cli.browse.byte_lines import (
    ByteLines,
    FieldRow,
    bytes_per_line,
    field_rows,
    format_field_row,
)
from kfmt_cli.browse.command_line import ViewKind, ViewState
from kfmt_cli.browse.screen.line_list import FetchLines, LineList
from kfmt_cli.browse.selected_batch import SelectedBatch
from kfmt_cli.browse.session import BrowserSession, OpenedLog
from kfmt_cli.browse.text_host import wrap_lines
from kfmt_cli.errors import KfmtError
from kfmt_cli.findings.finding import is_error
from kfmt_cli.render.style import escape_unprintable, format_count, format_thousands

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
        self.batch_pane = LineList(id="batches")
        self.record_pane = LineList(id="records")
        self.field_pane = LineList(id="fields")
        """The fields, or a record's content."""
        self.byte_pane = LineList(id="bytes", has_cursor=False)
        self.session = session
        self.shows_payload = False
        self._field_rows: list[FieldRow] = []
        self._byte_lines: list[ByteLines] = []
        self._bytes_requested: bool | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="lists"):
            yield from (self.batch_pane, self.record_pane, self.field_pane)
        yield self.byte_pane

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
        shows_fields = focused_pane is self.field_pane or (
            focused_pane is self.byte_pane and self.field_pane.display
        )
        self.field_pane.display = not is_short or shows_fields
        self.record_pane.display = not is_short or not shows_fields
        self.byte_pane.display = (
            not self.is_narrow if self._bytes_requested is None else self._bytes_requested
        )

    @property
    def _focused_pane(self) -> LineList | None:
        focused_widget = self.app.focused
        return focused_widget if isinstance(focused_widget, LineList) else None

    def toggle_bytes(self) -> None:
        """Show or hide the bytes."""
        self._bytes_requested = not self.byte_pane.display
        self.update_layout()
        self.call_after_refresh(self._show_bytes)

    def focus_on(self, pane: LineList) -> None:
        """Show a pane and focus it."""
        self.update_layout(pane)
        pane.focus()

    def focus_inner_pane(self) -> None:
        """Move the focus from batches to records, or from records to fields."""
        if self._focused_pane is self.batch_pane:
            opened_log = self.session.opened_log
            has_records = opened_log is not None and opened_log.n_records
            self.focus_on(self.record_pane if has_records else self.field_pane)
        elif self._focused_pane is self.record_pane:
            self.focus_on(self.field_pane)

    def focus_outer_pane(self) -> bool:
        """Move the focus back; returns False if it was on the batches already."""
        focused_pane = self._focused_pane
        if focused_pane is self.batch_pane or focused_pane is None:
            return False
        has_records = self.record_pane.n_rows > 0
        opened_log = self.session.opened_log
        outer_pane_by_pane = {self.record_pane: self.batch_pane, self.byte_pane: self.field_pane}
        outer_pane_by_pane[self.field_pane] = self.record_pane if has_records else self.batch_pane
        if focused_pane in outer_pane_by_pane:
            self.focus_on(outer_pane_by_pane[focused_pane])
            if outer_pane_by_pane[focused_pane] is self.batch_pane and opened_log is not None:
                opened_log.record_index = None  # selects the batch header
                self._show_fields()
        return True

    # Showing.

    def show_log(self) -> None:
        """Show the open log."""
        opened_log = self.session.opened_log
        if opened_log is None or not opened_log.block_index.n_rows:
            no_batches_text = f"\x1b[1m {self._no_batches_text()}"
            self.batch_pane.show_lines(wrap_lines(no_batches_text, self._list_width))
            self.record_pane.clear_lines()
            self._show_fields()
            return
        log_view = opened_log.log_view
        log_view.resize(self._list_width)
        self.batch_pane.show_fetched_lines(
            log_view.block_index.n_rows, self._render_batch_lines, log_view.table_heading
        )
        self.select_batch_row(0)

    def _no_batches_text(self) -> str:
        opened_log = self.session.opened_log
        if opened_log is None:
            return self.session.open_error
        if self.session.batch_filter:
            return f"no batches match the filter {self.session.batch_filter.typed_text}"
        return "no batches left" if opened_log.block_index.end_position else "the log is empty"

    @property
    def _list_width(self) -> int:
        return max(self.batch_pane.size.width - 2, 20) if self.batch_pane.size.width else 78

    def _render_batch_lines(self, first_row: int, end_row: int) -> list[str]:
        opened_log = self.session.opened_log
        if opened_log is None:
            return []
        try:
            return opened_log.log_view.render_lines(first_row, end_row)
        except KfmtError as error:
            return [f" {escape_unprintable(str(error))}"] * (end_row - first_row)

    def show_new_batches(self) -> None:
        """Show the batches indexed since the last update."""
        opened_log = self.session.opened_log
        if opened_log is None or not opened_log.block_index.n_rows:
            return
        self.batch_pane.set_n_rows(opened_log.block_index.n_rows)
        if opened_log.batch_fields is None:
            self.show_log()

    def select_batch_row(self, row_index: int, record_offset: int | None = None) -> None:
        """Select a row's batch, and the batch's record with an offset."""
        self.batch_pane.set_cursor(row_index)
        self._show_batch(record_offset)

    @on(LineList.Highlighted, "#batches")
    def show_highlighted_batch(self, event: LineList.Highlighted) -> None:
        """Show the batch."""
        event.stop()
        if event.row_index == self.batch_pane.cursor_row:  # the cursor has not moved on
            self._show_batch()

    def _show_batch(self, record_offset: int | None = None) -> None:
        """Show the batch under the cursor, and select the record with an offset."""
        opened_log = self.session.opened_log
        if opened_log is None:
            return
        opened_log.select_batch(self.batch_pane.cursor_row)
        batch = opened_log.selected_batch
        record_index = (
            0 if batch is None or record_offset is None else batch.find_record(record_offset)
        )
        self.record_pane.show_fetched_lines(
            *self._record_pane_content(opened_log), cursor_row=record_index
        )
        if record_offset is not None and opened_log.n_records:
            opened_log.record_index = record_index
        self._show_fields()

    def _record_pane_content(self, opened_log: OpenedLog) -> tuple[int, FetchLines, str]:
        batch = opened_log.selected_batch
        width = max((self.record_pane.size.width or self.batch_pane.size.width) - 1, 40)
        if batch is not None and batch.n_records:
            fetch_lines = partial(batch.render_record_lines, width=width)
            return batch.n_records, fetch_lines, batch.records_heading(width)
        findings = batch.findings if batch is not None else ()
        error_texts = [escape_unprintable(finding.message) for finding in findings] or [
            opened_log.batch_error
        ]
        error_lines = [
            Text(f" {error_text}", style="bold red") for error_text in error_texts if error_text
        ]
        error_lines = error_lines or [Text(" no readable records", style="dim")]
        return len(error_lines), lambda first, last: error_lines[first:last], ""

    @on(LineList.Highlighted, "#records")
    def show_highlighted_record(self, event: LineList.Highlighted) -> None:
        """Show the record."""
        event.stop()
        opened_log = self.session.opened_log
        if opened_log is not None and event.row_index < opened_log.n_records:
            opened_log.record_index = event.row_index
            self._show_fields()

    @on(LineList.Selected)
    def open_selected_row(self, event: LineList.Selected) -> None:
        """Open the selected line."""
        event.stop()
        if event.line_list is self.record_pane:
            self._select_record_instead_of_header()
        self.focus_inner_pane()

    def on_descendant_focus(self) -> None:
        """Update the records and the command line after the focus has moved to another pane."""
        self.update_layout()
        if self._focused_pane is self.record_pane:
            self._select_record_instead_of_header()
        self.post_message(self.SelectionChanged())

    def _select_record_instead_of_header(self) -> None:
        """Select the record under the cursor if the batch header is selected."""
        opened_log = self.session.opened_log
        if opened_log is not None and opened_log.record_index is None and opened_log.n_records:
            opened_log.record_index = min(self.record_pane.cursor_row, opened_log.n_records - 1)
            self._show_fields()

    def toggle_payload(self) -> None:
        """Toggle a record's content and its fields."""
        self.shows_payload = not self.shows_payload
        self._select_record_instead_of_header()
        self._show_fields()
        self.focus_on(self.field_pane)

    def _show_fields(self) -> None:
        """Show the fields of the selected header or record."""
        opened_log = self.session.opened_log
        batch = None if opened_log is None else opened_log.selected_batch
        if opened_log is None or batch is None:
            self.field_pane.clear_lines()
            self.byte_pane.clear_lines()
            self._field_rows, self._byte_lines = [], []
        else:
            record_index = opened_log.record_index
            displayed_parts = batch.displayed_parts(record_index)
            self._field_rows = field_rows(displayed_parts)
            n_bytes_per_line = bytes_per_line(self._bytes_width)
            self._byte_lines = [
                ByteLines(
                    part,
                    [row for row in self._field_rows if row.part_index == part_index],
                    n_bytes_per_line,
                )
                for part_index, part in enumerate(displayed_parts)
            ]
            if self.shows_payload and record_index is not None:
                self._show_payload(batch, record_index)
            else:
                pane_title = f" {displayed_parts[0].title}" if displayed_parts else ""
                if record_index is not None:
                    codec = displayed_parts[0].codec
                    origin_text = f", decompressed with {codec}" if codec else f" in{pane_title}"
                    pane_title = f" offset {batch.record_offset(record_index)}{origin_text}"
                self.field_pane.show_fetched_lines(
                    len(self._field_rows),
                    lambda first, last: [
                        format_field_row(row) for row in self._field_rows[first:last]
                    ],
                    pane_title,
                )
            self._show_bytes()
        self.post_message(self.SelectionChanged())

    @property
    def _bytes_width(self) -> int:
        # A pane without a size yet: assume the width it will have; `Resized` corrects it.
        pane_width = self.byte_pane.size.width if self.byte_pane.display else 0
        return (
            pane_width or (self.app.size.width if self.is_narrow else 45)
        ) - 1  # for the scrollbar

    @on(LineList.Resized, "#bytes")
    def fit_byte_lines(self, event: LineList.Resized) -> None:
        """Fit the number of bytes per line to the new width."""
        event.stop()
        n_bytes_per_line = bytes_per_line(self._bytes_width)
        if any(byte_lines.n_bytes_per_line != n_bytes_per_line for byte_lines in self._byte_lines):
            for byte_lines in self._byte_lines:
                byte_lines.n_bytes_per_line = n_bytes_per_line
            self._show_bytes(with_highlight=self._focused_pane is self.field_pane)

    @on(LineList.Resized, "#batches")
    def fit_batch_columns(self, event: LineList.Resized) -> None:
        """Fit the columns of batches to the new width."""
        event.stop()
        opened_log = self.session.opened_log
        if opened_log is not None and self.batch_pane.n_rows:
            opened_log.log_view.resize(self._list_width)
            self.batch_pane.heading = opened_log.log_view.table_heading
            self.batch_pane.refetch_lines()
        self.post_message(self.SelectionChanged())

    @on(LineList.Resized, "#records")
    def fit_record_columns(self, event: LineList.Resized) -> None:
        """Fit the columns of records to the new width."""
        event.stop()
        opened_log = self.session.opened_log
        if (
            opened_log is not None
            and opened_log.selected_batch is not None
            and opened_log.n_records == self.record_pane.n_rows
        ):
            self.record_pane.show_fetched_lines(
                *self._record_pane_content(opened_log), cursor_row=self.record_pane.cursor_row
            )

    def _show_payload(self, batch: SelectedBatch, record_index: int) -> None:
        content_lines = []
        for text_name, content_text in batch.record_texts(record_index):
            style = "cyan" if text_name == "offset" else ""
            for i, line in enumerate(content_text.split("\n")):
                label = escape_unprintable(text_name) if i == 0 else ""
                content_lines.append(
                    Text.assemble((f" {label:<12} ", "bold"), (escape_unprintable(line), style))
                )
        pane_title = f" offset {batch.record_offset(record_index)}: content   y copies it as JSON"
        self.field_pane.show_lines(content_lines, pane_title)

    @on(LineList.Highlighted, "#fields")
    def highlight_field_bytes(self, event: LineList.Highlighted) -> None:
        """Highlight the bytes of the field."""
        event.stop()
        self._show_bytes(with_highlight=True)

    def _show_bytes(self, *, with_highlight: bool = False) -> None:
        """Show the bytes, starting at the selected field or record."""
        if not self._byte_lines:
            return
        field_index = 0 if self.shows_payload else self.field_pane.cursor_row
        field_row = next(iter(self._field_rows[field_index : field_index + 1]), None)
        selected_field = None if field_row is None else field_row.anatomy_line
        byte_lines = self._byte_lines[0 if field_row is None else field_row.part_index]
        has_highlight = with_highlight and selected_field is not None and selected_field.has_bytes
        byte_lines.selected_field = selected_field if has_highlight else None
        self.byte_pane.show_fetched_lines(
            byte_lines.n_lines, byte_lines.render_lines, byte_lines.heading
        )
        start_index = 0 if selected_field is None else selected_field.start
        first_line = max(start_index // byte_lines.n_bytes_per_line - 1, 0)
        self.byte_pane.scroll_to(y=first_line, animate=False, force=True)

    # Description.

    @property
    def view_kind(self) -> ViewKind:
        """The kind of content in the focused pane."""
        focused_pane = self._focused_pane
        if focused_pane is self.record_pane:
            return ViewKind.RECORDS
        if focused_pane is self.field_pane or focused_pane is self.byte_pane:
            opened_log = self.session.opened_log
            has_record = opened_log is not None and opened_log.record_index is not None
            has_payload = self.shows_payload and has_record
            return (
                ViewKind.PAYLOAD
                if has_payload and focused_pane is self.field_pane
                else ViewKind.FIELDS
            )
        return ViewKind.BATCHES

    def view_state(self) -> ViewState:
        """The state of the screen."""
        pane = self.record_pane if self.view_kind is ViewKind.RECORDS else self.batch_pane
        first_row, end_row = pane.visible_row_range
        return self.session.view_state(self.view_kind, first_row, max(end_row, first_row + 1))

    def status_text(self) -> str:
        """The selected batch and the number of batches, in one line."""
        session, opened_log = self.session, self.session.opened_log
        if opened_log is None:
            return session.open_error
        block_index, batch_fields = opened_log.block_index, opened_log.batch_fields
        totals_text = format_count(block_index.n_rows, "batch", "batches")
        if session.batch_filter:
            totals_text += (
                f" of {format_thousands(block_index.n_batches)} with "
                f"{session.batch_filter.typed_text}"
            )
        if not block_index.is_complete and block_index.file_bytes:
            totals_text += (
                f" so far; {block_index.end_position * 100 // block_index.file_bytes}% "
                "of the file scanned"
            )
        if block_index.read_error:
            totals_text += f"; {escape_unprintable(block_index.read_error)}"
        if batch_fields is None:
            return totals_text
        location_text = (
            f"batch {format_thousands(batch_fields.number)} at byte "
            f"{format_thousands(batch_fields.position)}"
        )
        checksum_note = "" if batch_fields.crc_valid else " ✗ bad checksum"
        batch = opened_log.selected_batch
        error_findings = list(filter(is_error, batch.findings if batch else ()))
        error_note = f" ✗ {escape_unprintable(error_findings[0].message)}" if error_findings else ""
        return f"{location_text}{checksum_note}{error_note}   {totals_text}"
