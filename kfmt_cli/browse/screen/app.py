"""The browser application: its panes, the lines around them, and the actions of its keys."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Footer, Tree
from textual.worker import get_current_worker

from kfmt_cli.browse.batch_filter import BATCH_FILTER_SYNTAX, BatchFilter, parse_batch_filter
from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.directory_page import directory_page_lines
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.help_page import help_lines
from kfmt_cli.browse.keys import KEY_BINDINGS
from kfmt_cli.browse.screen import dialogs
from kfmt_cli.browse.screen.bars import CommandBar, StatusBar, TabBar
from kfmt_cli.browse.screen.disk_tree import DiskTree
from kfmt_cli.browse.screen.line_list import LineList
from kfmt_cli.browse.screen.log_panes import MIN_WIDE_COLUMNS, LogPanes
from kfmt_cli.browse.screen.log_tailer import LogTailer
from kfmt_cli.browse.screen.navigator import Navigator
from kfmt_cli.browse.screen.partition_checker import PartitionChecker
from kfmt_cli.browse.screen.search_runner import SearchRunner
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.browse.text_host import capture_output, wrap_lines
from kfmt_cli.browse.views import ViewSpec, ViewSubject, render_view, view_for_key
from kfmt_cli.errors import KfmtError
from kfmt_cli.render.style import escape_unprintable

THREAD_POLL_SECONDS = 0.25  # seconds between polls of the threads
FOLLOW_POLL_SECONDS = 0.5  # seconds between polls of a growing file


class BrowserApp(App[None]):
    """A disk in a terminal."""

    TITLE = "kfmt browse"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (MIN_WIDE_COLUMNS, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.key, key.action, key.label, show=key.is_in_footer, key_display=key.display_key)
        for key in KEY_BINDINGS
    ]
    CSS = (
        dialogs.CSS
        + """
    Screen { layers: base; }
    #body { height: 1fr; }
    #tree { width: 36; border-right: vkey $surface-lighten-2; }
    .-narrow #tree { width: 34; }
    #text { width: 1fr; }
    """
    )

    def __init__(
        self, session: BrowserSession, *, theme: str = "dark", checks_on_start: bool = True
    ) -> None:
        """checks_on_start: check small inputs without waiting for the key."""
        super().__init__()
        self.session = session
        self.theme = f"textual-{theme}"
        self.active_view: ViewSpec | None = None
        self._steps: list[tuple[int, str]] = []
        self.highlighted_node = session.root
        """The tree node that views, checks and searches are about."""
        self._checks_on_start = checks_on_start
        self.disk_tree = DiskTree(session)
        self.log_panes = LogPanes(session)
        self.text_pane = LineList(id="text", has_cursor=False)
        self.tab_bar = TabBar(id="tabs", markup=False)
        self.command_bar = CommandBar(id="command", markup=False)
        self.status_bar = StatusBar(id="status", markup=False)
        self.navigator = Navigator(self)
        self.search = SearchRunner(self)
        self.checker = PartitionChecker(self)
        self.tailer = LogTailer(self)

    def compose(self) -> ComposeResult:
        yield self.tab_bar
        with Horizontal(id="body"):
            yield from (self.disk_tree, self.log_panes, self.text_pane)
        yield from (self.command_bar, self.status_bar, Footer())

    def on_mount(self) -> None:
        """Show the file or the directory of the session, and check small inputs."""
        self.log_panes.display = False
        self.set_interval(THREAD_POLL_SECONDS, self._poll_threads)
        self.set_interval(FOLLOW_POLL_SECONDS, self.tailer.poll)
        self.disk_tree.focus()
        root_node = self.session.root
        if root_node.file is not None:
            self.disk_tree.display = False
            self.call_after_refresh(self.open_node, root_node)
        else:
            self.show_directory(root_node)
        if self._checks_on_start:
            self.checker.check_small_inputs()

    def on_resize(self) -> None:
        """Redo the layout."""
        self.call_after_refresh(self._redo_layout)

    def _redo_layout(self) -> None:
        self.log_panes.update_layout()
        if self.active_view is not None:
            self.show_view(self.active_view)
        elif self.text_pane.display and self.highlighted_node.file is None:
            self.show_directory(self.highlighted_node)
        self.update_bars()

    def _poll_threads(self) -> None:
        """Show the progress of threads."""
        opened_log = self.session.opened_log
        # The last poll may come after the panes have been removed.
        if opened_log is not None and self.query(LogPanes) and self.log_panes.display:
            self.navigator.poll()
            is_waiting = self.navigator.pending_target is not None or self.search.running_search
            if is_waiting or not opened_log.block_index.is_complete:
                self.update_bars()

    # The tree.

    @on(Tree.NodeHighlighted)
    def show_highlighted_node(self, event: Tree.NodeHighlighted[DiskNode]) -> None:
        """Show the page or the view of the highlighted node."""
        node = event.node.data
        if node is None or node is self.highlighted_node:
            return
        self.highlighted_node = node
        if node.file is None and self.disk_tree.has_focus:
            if self.active_view is not None:
                self.show_view(self.active_view)
            else:
                self.show_directory(node)
        self.update_bars()

    @on(Tree.NodeSelected)
    def open_selected_node(self, event: Tree.NodeSelected[DiskNode]) -> None:
        """Open a selected file; expand or collapse a directory, and open a partition's only log."""
        node = event.node.data
        if node is None:
            return
        if node.file is not None:
            self.open_node(node)
            return
        event.node.toggle()
        logs = node.logs()
        if node.kind is NodeKind.PARTITION and event.node.is_expanded and len(logs) == 1:
            self.open_node(logs[0])

    def show_new_marks(self) -> None:
        """Show the marks of nodes whose check has begun or ended."""
        self.disk_tree.redraw_marks()
        if (
            self.text_pane.display
            and self.active_view is None
            and self.highlighted_node.file is None
        ):
            scroll_y = self.text_pane.scroll_offset.y
            self.show_directory(self.highlighted_node)
            self.text_pane.scroll_to(y=scroll_y, animate=False, force=True)
        self.update_bars()

    def show_directory(self, node: DiskNode) -> None:
        """Show the page of a directory."""
        self.active_view = None
        self._show_text_pane()
        page_lines = directory_page_lines(node, self.session.checks)
        if node is self.session.root:
            page_lines += [
                Text(f" {escape_unprintable(error)}", style="red")
                for error in self.session.read_errors
            ]
        self.text_pane.show_lines(page_lines, f" {node.kind.value}")
        self.update_bars()

    def open_node(self, node: DiskNode) -> None:
        """Show a file: a log's batches, or the entries of another file."""
        self.highlighted_node = node
        self.active_view = None
        if not node.is_log:
            self._show_file_entries(node)
            return
        self.session.open_log(node, max(self.log_panes.batch_pane.size.width - 2, 40))
        self.show_log_panes()
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
        self.log_panes.focus_on(self.log_panes.batch_pane)
        self.call_after_refresh(self._show_opened_log)

    def _show_opened_log(self) -> None:
        self.log_panes.show_log()
        self.navigator.index_log()
        self.call_after_refresh(self.update_bars)

    def _show_file_entries(self, node: DiskNode) -> None:
        """Show the entries of a file that is not a log, as `kfmt dump` does."""
        from kfmt_cli.commands.dump.command import DumpCommand
        from kfmt_cli.commands.dump.options import DumpOptions

        self.session.opened_node, self.session.opened_log = node, None
        self._show_text_pane()
        width = self._text_width
        options = DumpOptions(paths=(node.path,), jobs=1)
        output = capture_output(lambda run: DumpCommand(run, options).execute(), width)
        self._show_output(output or "the file is empty", escape_unprintable(node.label))

    # The panes of text and of logs, one of which is on the screen.

    def _show_text_pane(self) -> None:
        self.log_panes.display, self.text_pane.display = False, True

    def show_log_panes(self) -> None:
        """Show the panes of the open log instead of text."""
        self.active_view = None
        self.log_panes.display, self.text_pane.display = True, False

    @property
    def _text_width(self) -> int:
        tree_width = self.disk_tree.size.width + 1 if self.disk_tree.display else 0
        return max(self.size.width - tree_width - 2, 40)

    def _show_output(self, output: str, title: str) -> None:
        lines = wrap_lines(output, self._text_width)
        self.text_pane.show_lines(lines, f" {title}")
        self.text_pane.focus()
        self.update_bars()

    def return_to_log(self) -> None:
        """Return to the log, or to the directory."""
        self.active_view = None
        if self.session.opened_log is not None:
            self.show_log_panes()
            self.log_panes.focus_on(self.log_panes.batch_pane)
        elif self.highlighted_node.file is None:
            self.show_directory(self.highlighted_node)
            self.disk_tree.focus()
        else:
            self.open_node(self.highlighted_node)
        self.update_bars()

    # Views.

    @property
    def view_subject(self) -> ViewSubject:
        """The node and the offset that views show."""
        node = self.session.enclosing_partition(self.highlighted_node)
        opened_log = self.session.opened_log
        if opened_log is None or opened_log.selected_batch is None or not opened_log.n_records:
            return ViewSubject(node)
        record_index = opened_log.record_index or 0
        return ViewSubject(node, opened_log.selected_batch.record_offset(record_index))

    def show_view(self, view: ViewSpec) -> None:
        """Show a view, whose text a thread renders."""
        self.active_view = view
        self._steps = []
        self._show_text_pane()
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
            self.text_pane.focus()
        self.text_pane.show_lines([" reading …"], f" {self._view_title(view)}")
        render_text = partial(self._render_view_text, view, self.view_subject, self._text_width)
        self.run_worker(render_text, thread=True, exclusive=True, group="view")
        self.update_bars()

    def _view_title(self, view: ViewSpec) -> str:
        """The name of the view's subject and the view's question; the command line has the full
        path."""
        node_label = self.view_subject.node.label
        return f"{escape_unprintable(node_label.rpartition('/')[2] or node_label)}: {view.question}"

    def _render_view_text(self, view: ViewSpec, subject: ViewSubject, width: int) -> None:
        worker = get_current_worker()
        commands: list[str] = []
        output = render_view(view, subject, width, lambda: worker.is_cancelled, commands)
        if not worker.is_cancelled:
            self.call_from_thread(self._show_view_text, view, output, commands)

    def _show_view_text(self, view: ViewSpec, output: str, step_commands: list[str]) -> None:
        if self.active_view is not view:
            return
        self._steps = list(enumerate(step_commands, 1))
        tree_has_focus = self.disk_tree.has_focus
        self._show_output(output, self._view_title(view))
        if view.shows_findings and len(output.splitlines()) >= self.text_pane.size.height:
            # As on a terminal, lost offsets and next steps come last.
            self.text_pane.heading = f" {self._view_title(view)}   Home: all findings"
            self.text_pane.scroll_end(animate=False, force=True)
        if tree_has_focus:
            self.disk_tree.focus()

    # Lines around the panes.

    @on(LogPanes.SelectionChanged)
    def show_new_selection(self) -> None:
        """Update the command line after a new selection."""
        self.update_bars()

    def show_message(self, message: str, message_style: str = "") -> None:
        """Show the response to a key in the status line."""
        self.status_bar.set_message(message, message_style, self._selection_key)
        self.update_bars()

    @property
    def _selection_key(self) -> object:
        """A key of the selection; a message is shown until the selection changes."""
        opened_log, opened_node = self.session.opened_log, self.session.opened_node
        if opened_log is None:
            return opened_node, self.active_view
        batch_fields = opened_log.batch_fields
        position = None if batch_fields is None else batch_fields.position
        return opened_node, position, opened_log.record_index, self.active_view

    def update_bars(self) -> None:
        """Update the lines around the panes."""
        if not self.is_running or len(self.screen_stack) > 1:
            return
        self.tab_bar.active_key = "0" if self.active_view is None else self.active_view.key
        self.tab_bar.is_wide = self.size.width >= MIN_WIDE_COLUMNS
        self.command_bar.command = self.command_line()
        shows_log = self.log_panes.display
        self.status_bar.show_status(
            self._selection_key,
            self.search.progress_text,
            self._log_status_text() if shows_log else "",
            is_following=self.tailer.is_following and shows_log,
        )

    def _log_status_text(self) -> str:
        """The selected batch, and the mark of the log unless the log is being tailed."""
        node, status_text = self.session.opened_node, self.log_panes.status_text()
        mark = "" if node is None or self.tailer.is_following else self.session.node_mark(node)[0]
        return f"{status_text}   {mark}: n goes to it" if mark else status_text

    @property
    def view_state(self) -> ViewState:
        """The state of the screen."""
        if self.active_view is not None:
            return ViewState(
                ViewKind.VIEW, command=tuple(self._view_command_arguments(self.active_view))
            )
        if self.log_panes.display:
            return self.log_panes.view_state()
        if self.highlighted_node.file is not None:
            return ViewState(ViewKind.VIEW, command=("dump", self.highlighted_node.display_path))
        return ViewState(ViewKind.VIEW, command=("check", *self.highlighted_node.display_paths))

    def _view_command_arguments(self, view: ViewSpec) -> list[str]:
        try:
            return view.command_arguments(self.view_subject)
        except KfmtError:
            return [view.label.lower(), *self.view_subject.node.display_paths]

    def command_line(self) -> str:
        """The command line equivalent to the screen."""
        try:
            return format_command(self.view_state)
        except KfmtError as error:
            return escape_unprintable(str(error))

    def show_page(self, title: str, page_lines: list[Text | str]) -> None:
        """Show a page in a window."""
        self.push_screen(dialogs.PageWindow(title, page_lines), lambda _: self.update_bars())

    # Keys.

    def action_help(self) -> None:
        """Show the keys."""
        self.show_page("Help", list(help_lines(min(int(self.size.width * 0.96), 100) - 4)))

    def action_out(self) -> None:
        """Go back one step: cancel a search or a pending target, or leave a view or a pane."""
        if self.search.running_search is not None:
            self.search.cancel()
        elif self.navigator.pending_target is not None:
            self.navigator.pending_target = None
            self.show_message("cancelled")
        elif self.active_view is not None:
            self.return_to_log()
        elif not (self.log_panes.display and self.log_panes.focus_outer_pane()):
            self.disk_tree.display = True
            self.disk_tree.focus()
            self.call_after_refresh(self.update_bars)

    def action_view(self, view_key: str) -> None:
        """Show another view of the partition or directory, or return to the batches."""
        if view_key == "0":
            self.return_to_log()
        else:
            self.show_view(view_for_key(view_key))

    def action_tree(self) -> None:
        """Show or hide the tree."""
        self.disk_tree.display = not self.disk_tree.display
        if self.disk_tree.display:
            self.disk_tree.focus()
        elif self.log_panes.display:
            self.log_panes.focus_on(self.log_panes.batch_pane)
        else:
            self.text_pane.focus()
        self.call_after_refresh(self._redo_layout)

    def action_bytes(self) -> None:
        """Show or hide the bytes."""
        self.log_panes.toggle_bytes()

    def action_payload(self) -> None:
        """Toggle a record's content and its fields."""
        if self.navigator.ensure_log_open():
            self.log_panes.toggle_payload()

    def action_dark(self) -> None:
        """Toggle dark and light."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"
        for line_list in self.query("LineList"):
            line_list.refresh()

    def action_copy(self) -> None:
        """Copy the record as JSON, the next step of the plan, or the command line."""
        opened_log = self.session.opened_log
        batch = None if opened_log is None else opened_log.selected_batch
        record_index = None if opened_log is None else opened_log.record_index
        if self.log_panes.display and batch is not None and record_index is not None:
            self.copy_to_clipboard(batch.record_json(record_index))
            self.show_message(
                f"copied the record with offset {batch.record_offset(record_index)} as JSON"
            )
        elif self.active_view is not None and self._steps:
            number, command = self._steps[0]
            self._steps = [*self._steps[1:], self._steps[0]]
            self.copy_to_clipboard(command)
            self.show_message(f"copied step {number} of {len(self._steps)}: {command}")
        else:
            self.copy_to_clipboard(self.command_line())
            self.show_message("copied the command line")

    def action_go_to(self) -> None:
        """Ask for the target to go to."""
        self.navigator.ask_target()

    def action_search(self) -> None:
        """Ask for a search term."""
        self.search.ask_term()

    def action_hit(self, step: int) -> None:
        """Go to the next or previous hit."""
        self.search.go_to_next_hit(step)

    def action_check(self) -> None:
        """Check the selected tree node."""
        self.checker.check_node(self.highlighted_node)

    def action_finding(self, step: int) -> None:
        """Go to the next or previous finding."""
        self.checker.go_to_next_finding(step)

    def action_explain(self) -> None:
        """Explain the finding."""
        self.checker.explain_finding()

    def action_filter(self) -> None:
        """Ask for a filter of batches."""
        if self.navigator.ensure_log_open():
            hints = (BATCH_FILTER_SYNTAX, "empty for all")
            filter_text = self.session.batch_filter.typed_text
            dialog = dialogs.LineDialog("Filter batches", hints, filter_text, parse_batch_filter)
            self.push_screen(dialog, self._apply_filter)

    def _apply_filter(self, batch_filter: BatchFilter | None) -> None:
        opened_log = self.session.opened_log
        if batch_filter is None or opened_log is None:
            self.update_bars()
            return
        self.session.batch_filter = batch_filter
        self.session.search = None
        self.open_node(opened_log.node)
        self.show_message("")

    def action_follow(self) -> None:
        """Start or stop following a growing file."""
        self.tailer.toggle()
