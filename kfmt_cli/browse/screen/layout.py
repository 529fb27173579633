"""The browser's panes and the lines around them: opening nodes, views, and work on threads."""

from __future__ import annotations

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.widgets import Footer, Static, Tree
from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.directory_page import directory_page_lines
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.partition_checks import (
    check_partitions,
    format_findings_mark,
    group_partitions,
)
from kfmt_cli.browse.screen import bars, dialogs
from kfmt_cli.browse.screen.disk_tree import DiskTree
from kfmt_cli.browse.screen.line_list import LineList
from kfmt_cli.browse.screen.log_panes import MIN_WIDE_COLUMNS, LogPanes
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.browse.text_host import capture_output, wrap_lines
from kfmt_cli.browse.views import ViewSpec, ViewSubject, render_view, view_for_key
from kfmt_cli.disk.file_access import is_remote_path
from kfmt_cli.errors import KfmtError
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.render.style import escape_unprintable

MAX_AUTO_CHECK_BYTES = 256 << 20  # inputs with at most this many bytes are checked on start
MAX_REMOTE_AUTO_CHECK_BYTES = 16 << 20  # the same for files at a URL
THREAD_POLL_SECONDS = 0.25  # seconds between polls of the threads
FOLLOW_POLL_SECONDS = 0.5  # seconds between polls of a growing file
STYLE_BY_SEVERITY = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


class BrowserLayout(App[None]):
    """The panes and lines of the screen."""

    TITLE = "kfmt browse"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (MIN_WIDE_COLUMNS, "-wide")]  # noqa: RUF012
    CSS = (
        dialogs.CSS
        + """
    Screen { layers: base; }
    #tabs { height: 1; background: $surface; }
    #body { height: 1fr; }
    #tree { width: 36; border-right: vkey $surface-lighten-2; }
    .-narrow #tree { width: 34; }
    #text { width: 1fr; }
    #command { height: auto; max-height: 2; padding: 0 1; background: $surface; color: $text; }
    #status { height: 1; color: $text-muted; }
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
        self.is_following = False
        self.status_message = ""
        """The response to the last key."""
        self._checks_on_start = checks_on_start
        self._paths_being_checked: set[str] = set()
        self._highlighted_node = session.root
        self._text_by_bar: dict[str, Text] = {}
        self.disk_tree = DiskTree(session.root, self.tree_mark)
        self.log_panes = LogPanes(session)
        self.text_pane = LineList(id="text", has_cursor=False)

    def compose(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        with Horizontal(id="body"):
            yield from (self.disk_tree, self.log_panes, self.text_pane)
        yield Static(id="command", markup=False)
        yield Static(id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Show the file or the directory of the session, and check small inputs."""
        self.log_panes.display = False
        self.set_interval(THREAD_POLL_SECONDS, self._poll_threads)
        self.set_interval(FOLLOW_POLL_SECONDS, self._poll_followed_file)
        self.disk_tree.focus()
        root_node = self.session.root
        if root_node.file is not None:
            self.disk_tree.display = False
            self.call_after_refresh(self.open_node, root_node)
        else:
            self.show_directory(root_node)
        if self._checks_on_start:
            checkable_nodes = list(root_node.iter_checkable_nodes())
            is_remote = any(
                is_remote_path(log_node.path)
                for node in checkable_nodes
                for log_node in node.logs()[:1] or [node]
            )
            self._check_nodes(
                checkable_nodes, MAX_REMOTE_AUTO_CHECK_BYTES if is_remote else MAX_AUTO_CHECK_BYTES
            )

    def on_resize(self) -> None:
        """Redo the layout."""
        self.call_after_refresh(self._redo_layout)

    def _redo_layout(self) -> None:
        self.log_panes.update_layout()
        if self.active_view is not None:
            self.show_view(self.active_view)
        elif self.text_pane.display and self._highlighted_node.file is None:
            self.show_directory(self._highlighted_node)
        self.update_bars()

    # The tree.

    def tree_mark(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a node in the tree, and its style."""
        if node.kind is NodeKind.FILE:
            return self._file_mark(node)
        checkable_nodes = list(node.iter_checkable_nodes())
        if any(
            checkable_node.path in self._paths_being_checked for checkable_node in checkable_nodes
        ):
            return "…", "dim"
        check_results = [
            self.session.check_results[checked_node.path]
            for checked_node in checkable_nodes
            if checked_node.path in self.session.check_results
        ]
        for symbol, mark_style in (("✗", "bad"), ("!", "warn")):
            marks = [
                check_result.tree_mark
                for check_result in check_results
                if check_result.tree_mark[1] == mark_style
            ]
            if marks:
                return (
                    marks[0] if len(checkable_nodes) == 1 else (f"{symbol}{len(marks)}", mark_style)
                )
        is_fully_checked = check_results and len(check_results) == len(checkable_nodes)
        return ("✓", "good") if is_fully_checked else ("", "dim")

    def _file_mark(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a file: only its own findings, without the rest of the partition's."""
        check_result = self.session.check_results.get(self.session.enclosing_partition(node).path)
        findings = (
            [finding for finding in check_result.findings if finding.file == node.display_path]
            if check_result
            else []
        )
        return format_findings_mark(findings) or ("", "dim")

    @on(Tree.NodeHighlighted)
    def show_highlighted_node(self, event: Tree.NodeHighlighted[DiskNode]) -> None:
        """Show the page or the view of the highlighted node."""
        node = event.node.data
        if node is None or node is self._highlighted_node:
            return
        self._highlighted_node = node
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

    def show_directory(self, node: DiskNode) -> None:
        """Show the page of a directory."""
        self.active_view = None
        self.log_panes.display, self.text_pane.display = False, True
        results = self.session.check_results
        page_lines = directory_page_lines(node, results, self._paths_being_checked)
        if node is self.session.root:
            page_lines += [
                Text(f" {escape_unprintable(error)}", style="red")
                for error in self.session.read_errors
            ]
        self.text_pane.show_lines(page_lines, f" {node.kind.value}")
        self.update_bars()

    def open_node(self, node: DiskNode) -> None:
        """Show a file: a log's batches, or the entries of another file."""
        self._highlighted_node = node
        self.active_view = None
        self.session.opened_node = node
        if not node.is_log:
            self._show_file_entries(node)
            return
        self.session.open_log(node, max(self.log_panes.batch_pane.size.width - 2, 40))
        self.log_panes.display, self.text_pane.display = True, False
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
        self.log_panes.focus_on(self.log_panes.batch_pane)
        self.call_after_refresh(self._show_opened_log)

    def _show_opened_log(self) -> None:
        self.log_panes.show_log()
        self.index_log()
        self.call_after_refresh(self.update_bars)

    def _show_file_entries(self, node: DiskNode) -> None:
        """Show the entries of a file that is not a log, as `kfmt dump` does."""
        from kfmt_cli.commands.dump.command import DumpCommand

        self.session.log_view = self.session.selected_batch = self.session.batch_fields = None
        self.log_panes.display, self.text_pane.display = False, True
        width = self._text_width
        output = capture_output(
            lambda run: DumpCommand(run, directory_kinds=None).dump_paths((node.path,)), width
        )
        self._show_output(output or "the file is empty", escape_unprintable(node.label))

    @property
    def _text_width(self) -> int:
        tree_width = self.disk_tree.size.width + 1 if self.disk_tree.display else 0
        return max(self.size.width - tree_width - 2, 40)

    def _show_output(self, output: str, title: str) -> None:
        lines = wrap_lines(output, self._text_width)
        self.text_pane.show_lines(lines, f" {title}")
        self.text_pane.focus()
        self.update_bars()

    # Threads.

    @property
    def is_busy(self) -> bool:
        """Whether the user is waiting for a thread."""
        return False

    def try_go_to_target(self) -> bool:
        """Go to the pending target if the index reaches it; returns whether no target is pending
        any more."""
        return True

    def search_progress_text(self) -> str:
        """The progress of a search."""
        return ""

    def extend_index_if_needed(self) -> None:
        """Extend the index if the view needs more rows."""

    def _poll_followed_file(self) -> None:
        """Check whether a tailed file has grown."""

    @work(thread=True, exclusive=True, group="scan")
    def index_log(self) -> None:
        """Index the open log, on a thread."""
        log_view, worker = self.session.log_view, get_current_worker()
        if log_view is None:
            return
        block_index = log_view.block_index
        target_position = block_index.target_bytes
        if not block_index.is_complete and (
            target_position is None or block_index.end_position < target_position
        ):
            block_index.extend_index(target_position, is_cancelled=lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.call_from_thread(self._show_indexed_batches)

    def _show_indexed_batches(self) -> None:
        self.log_panes.show_new_batches()
        self.try_go_to_target()
        self.update_bars()

    def _poll_threads(self) -> None:
        """Show the progress of threads."""
        log_view = self.session.log_view
        # The last poll may come after the panes have been removed.
        if log_view is not None and self.query(LogPanes) and self.log_panes.display:
            if self.log_panes.batch_pane.n_rows != log_view.block_index.n_rows:
                self.log_panes.show_new_batches()
            self.extend_index_if_needed()
            if not log_view.block_index.is_complete or self.is_busy:
                self.update_bars()

    def action_check(self) -> None:
        """Check the selected tree node."""
        node = self.session.enclosing_partition(self._highlighted_node)
        checkable_nodes = list(node.iter_checkable_nodes()) or [node]
        n_nodes = len(checkable_nodes)
        self.show_message(f"checking {n_nodes} partitions" if n_nodes > 1 else "checking")
        self._check_nodes(checkable_nodes, None)

    @work(thread=True, group="check")
    def _check_nodes(self, nodes: list[DiskNode], max_bytes: int | None) -> None:
        """Check partitions, on a thread. max_bytes: skip the check if they have more bytes in
        total."""
        worker = get_current_worker()
        if max_bytes is not None and sum(node.total_bytes for node in nodes) > max_bytes:
            return
        for node_group in group_partitions(nodes):
            group_paths = {node.path for node in node_group}
            self._paths_being_checked |= group_paths
            self.call_from_thread(self._refresh_marks)
            check_results = check_partitions(node_group, lambda: worker.is_cancelled)
            self._paths_being_checked -= group_paths
            if check_results is None or worker.is_cancelled:
                return
            for node, check_result in zip(node_group, check_results, strict=True):
                self.session.check_results[node.path] = check_result
        self.call_from_thread(self.disk_tree.redraw)
        self.call_from_thread(self._refresh_marks)

    def _refresh_marks(self) -> None:
        self.disk_tree.redraw_marks()
        if (
            self.text_pane.display
            and self.active_view is None
            and self._highlighted_node.file is None
        ):
            scroll_y = self.text_pane.scroll_offset.y
            self.show_directory(self._highlighted_node)
            self.text_pane.scroll_to(y=scroll_y, animate=False, force=True)
        self.update_bars()

    # Views.

    def action_view(self, view_key: str) -> None:
        """Show another view of the partition or directory, or return to the batches."""
        if view_key == "0":
            self.return_to_log()
            return
        self.show_view(view_for_key(view_key))

    def return_to_log(self) -> None:
        """Return to the log, or to the directory."""
        self.active_view = None
        if self.session.log_view is not None:
            self.log_panes.display, self.text_pane.display = True, False
            self.log_panes.focus_on(self.log_panes.batch_pane)
        elif self._highlighted_node.file is None:
            self.show_directory(self._highlighted_node)
            self.disk_tree.focus()
        else:
            self.open_node(self._highlighted_node)
        self.update_bars()

    @property
    def view_subject(self) -> ViewSubject:
        """The node and the offset that views show."""
        node = self.session.enclosing_partition(self._highlighted_node)
        batch, record_index = self.session.selected_batch, self.session.record_index
        if batch is not None and batch.n_records:
            return ViewSubject(node, batch.record_offset(record_index or 0))
        return ViewSubject(node)

    def show_view(self, view: ViewSpec) -> None:
        """Show a view, whose text a thread renders."""
        self.active_view = view
        self.log_panes.display, self.text_pane.display = False, True
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
            self.text_pane.focus()
        self.text_pane.show_lines([" reading …"], f" {self._view_title(view)}")
        self._render_view_text(view, self.view_subject, self._text_width)
        self.update_bars()

    def _view_title(self, view: ViewSpec) -> str:
        """The name of the view's subject and the view's question; the command line has the full
        path."""
        node_label = self.view_subject.node.label
        return f"{escape_unprintable(node_label.rpartition('/')[2] or node_label)}: {view.question}"

    @work(thread=True, exclusive=True, group="view")
    def _render_view_text(self, view: ViewSpec, subject: ViewSubject, width: int) -> None:
        worker = get_current_worker()
        output = render_view(view, subject, width, lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.call_from_thread(self._show_view_text, view, output)

    def _show_view_text(self, view: ViewSpec, output: str) -> None:
        if self.active_view is not view:
            return
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
        self.status_message, self._message_style, self._message_selection = (
            message,
            message_style,
            self._selection_key,
        )
        self.update_bars()

    _message_style = ""
    _message_selection: object = None

    @property
    def _selection_key(self) -> object:
        """A key of the selection; a message is shown until the selection changes."""
        batch_fields = self.session.batch_fields
        position = None if batch_fields is None else batch_fields.position
        return self.session.opened_node, position, self.session.record_index, self.active_view

    def update_bars(self) -> None:
        """Update the lines around the panes."""
        if not self.is_running or len(self.screen_stack) > 1:
            return
        active_key = "0" if self.active_view is None else self.active_view.key
        tabs_text = bars.tabs_text(active_key, is_wide=self.size.width >= MIN_WIDE_COLUMNS)
        self._update_bar("tabs", tabs_text)
        command_text = Text.assemble(("$ ", "dim"), (self.command_line(), "bold"), overflow="fold")
        self._update_bar("command", command_text, layout=True)
        if self.status_message and self._message_selection != self._selection_key:
            self.status_message = ""
        log_status = self._log_status_text() if self.log_panes.display else ""
        displayed_message = self.search_progress_text() or self.status_message or log_status
        message_style = self._message_style if self.status_message else ""
        status_text = Text(" ", no_wrap=True)
        if self.is_following and self.log_panes.display:
            status_text.append("FOLLOWING", style="bold reverse")
            status_text.append(" ")
        self._update_bar("status", status_text.append(displayed_message, style=message_style))

    def _log_status_text(self) -> str:
        """The selected batch, and the mark of the log unless the log is being tailed."""
        node, status_text = self.session.opened_node, self.log_panes.status_text()
        mark = "" if node is None or self.is_following else self._file_mark(node)[0]
        return f"{status_text}   {mark}: n goes to it" if mark else status_text

    def _update_bar(self, bar_name: str, bar_text: Text, *, layout: bool = False) -> None:
        """Update one of the bars, if its text has changed."""
        previous_text = self._text_by_bar.get(bar_name)
        if previous_text is None or previous_text.markup != bar_text.markup:
            self._text_by_bar[bar_name] = bar_text
            self.query_one(f"#{bar_name}", Static).update(bar_text, layout=layout)

    @property
    def view_state(self) -> ViewState:
        """The state of the screen."""
        if self.active_view is not None:
            return ViewState(
                ViewKind.VIEW, command=tuple(self._view_command_arguments(self.active_view))
            )
        if self.log_panes.display:
            return self.log_panes.view_state()
        if self._highlighted_node.file is not None:
            return ViewState(ViewKind.VIEW, command=("dump", self._highlighted_node.display_path))
        return ViewState(ViewKind.VIEW, command=("check", *self._highlighted_node.display_paths))

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

    def show_finding(
        self, finding: Finding, finding_index: int, n_findings: int, n_suppressed: int
    ) -> None:
        """Show a finding in the status line. n_suppressed: the number of suppressed findings."""
        message = bars.finding_text(finding, finding_index, n_findings, n_suppressed)
        self.show_message(message, STYLE_BY_SEVERITY[finding.code.severity])

    def show_page(self, title: str, page_lines: list[Text | str]) -> None:
        """Show a page in a window."""
        self.push_screen(dialogs.PageWindow(title, page_lines), lambda _: self.update_bars())
