"""The browser's panes and the lines around them: opening nodes, views, and work on threads."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.widgets import Footer, Static, Tree
from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.directory_page import directory_page_lines
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.partition_checks import check_partitions, findings_mark, group_for_checking
from kfmt_cli.browse.screen import dialogs
from kfmt_cli.browse.screen.disk_tree import DiskTree
from kfmt_cli.browse.screen.line_list import LineList
from kfmt_cli.browse.screen.log_panes import MIN_WIDE_COLUMNS, LogPanes
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.browse.text_host import capture_output, wrap_lines
from kfmt_cli.browse.views import VIEWS, ViewSpec, ViewSubject, render_view, view_for_key
from kfmt_cli.disk.file_access import is_remote_path
from kfmt_cli.errors import KfmtError
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.render.style import escape_terminal, format_grouped

AUTO_CHECK_BYTES = 256 << 20  # inputs with at most this many bytes are checked on start
AUTO_CHECK_REMOTE_BYTES = 16 << 20  # the same for files at a URL
POLL_SECONDS = 0.25  # seconds between polls of the threads
TAIL_POLL_SECONDS = 0.5  # seconds between polls of a growing file
SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


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
        self.is_tailing = False
        self.message = ""
        """The response to the last key."""
        self._checks_on_start = checks_on_start
        self._checking_paths: set[str] = set()
        self._highlighted_node = session.root
        self._bar_texts: dict[str, Text] = {}
        self.disk_tree = DiskTree(session.root, self.node_mark)
        self.panes = LogPanes(session)
        self.text_pane = LineList(id="text", has_cursor=False)

    def compose(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        with Horizontal(id="body"):
            yield from (self.disk_tree, self.panes, self.text_pane)
        yield Static(id="command", markup=False)
        yield Static(id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Show the file or the directory of the session, and check small inputs."""
        self.panes.display = False
        self.set_interval(POLL_SECONDS, self._poll_threads)
        self.set_interval(TAIL_POLL_SECONDS, self._poll_tailed_file)
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
                is_remote_path(log.path)
                for node in checkable_nodes
                for log in node.logs()[:1] or [node]
            )
            self._check_nodes(
                checkable_nodes, AUTO_CHECK_REMOTE_BYTES if is_remote else AUTO_CHECK_BYTES
            )

    def on_resize(self) -> None:
        """Redo the layout."""
        self.call_after_refresh(self._redo_layout)

    def _redo_layout(self) -> None:
        self.panes.update_layout()
        if self.active_view is not None:
            self.show_view(self.active_view)
        elif self.text_pane.display and self._highlighted_node.file is None:
            self.show_directory(self._highlighted_node)
        self.update_bars()

    # The tree.

    def node_mark(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a node in the tree, and its style."""
        if node.kind is NodeKind.FILE:
            return self._file_mark(node)
        checkable_nodes = list(node.iter_checkable_nodes())
        if any(partition.path in self._checking_paths for partition in checkable_nodes):
            return "…", "dim"
        results = [
            self.session.check_results[checked_node.path]
            for checked_node in checkable_nodes
            if checked_node.path in self.session.check_results
        ]
        for symbol, style in (("✗", "bad"), ("!", "warn")):
            marks = [result.mark for result in results if result.mark[1] == style]
            if marks:
                return marks[0] if len(checkable_nodes) == 1 else (f"{symbol}{len(marks)}", style)
        all_checked = results and len(results) == len(checkable_nodes)
        return ("✓", "good") if all_checked else ("", "dim")

    def _file_mark(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a file: only its own findings, without the rest of the partition's."""
        result = self.session.check_results.get(self.session.enclosing_partition(node).path)
        findings = (
            [finding for finding in result.findings if finding.file == node.display_path]
            if result
            else []
        )
        return findings_mark(findings) or ("", "dim")

    @on(Tree.NodeHighlighted)
    def node_highlighted(self, event: Tree.NodeHighlighted[DiskNode]) -> None:
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
    def node_selected(self, event: Tree.NodeSelected[DiskNode]) -> None:
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
        self.panes.display, self.text_pane.display = False, True
        lines = directory_page_lines(node, self.session.check_results, self._checking_paths)
        if node is self.session.root:
            lines += [
                Text(f" {escape_terminal(error)}", style="red")
                for error in self.session.read_errors
            ]
        self.text_pane.show_lines(lines, f" {node.kind.value}")
        self.update_bars()

    def open_node(self, node: DiskNode) -> None:
        """Show a file: a log's batches, or the entries of another file."""
        self._highlighted_node = node
        self.active_view = None
        self.session.opened_node = node
        if not node.is_log:
            self._show_file(node)
            return
        self.session.open(node, max(self.panes.batches.size.width - 2, 40))
        self.panes.display, self.text_pane.display = True, False
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
        self.panes.focus_on(self.panes.batches)
        self.call_after_refresh(self._show_opened_log)

    def _show_opened_log(self) -> None:
        self.panes.show_log()
        self.index_log()
        self.call_after_refresh(self.update_bars)

    def _show_file(self, node: DiskNode) -> None:
        """Show the entries of a file that is not a log, as `kfmt dump` does."""
        from kfmt_cli.commands.dump.command import DumpCommand

        self.session.log_view = self.session.selected_batch = self.session.batch_fields = None
        self.panes.display, self.text_pane.display = False, True
        width = self._text_width
        output = capture_output(
            lambda run: DumpCommand(run, directory_kinds=None).dump_paths((node.path,)), width
        )
        self._show_text(output or "the file is empty", escape_terminal(node.label))

    @property
    def _text_width(self) -> int:
        tree_width = self.disk_tree.size.width + 1 if self.disk_tree.display else 0
        return max(self.size.width - tree_width - 2, 40)

    def _show_text(self, output: str, title: str) -> None:
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

    def progress_text(self) -> str:
        """The progress of a search."""
        return ""

    def extend_index_if_needed(self) -> None:
        """Extend the index if the view needs more rows."""

    def _poll_tailed_file(self) -> None:
        """Check whether a tailed file has grown."""

    @work(thread=True, exclusive=True, group="scan")
    def index_log(self) -> None:
        """Index the open log, on a thread."""
        log, worker = self.session.log_view, get_current_worker()
        if log is None:
            return
        index = log.index
        to_byte = index.target_bytes
        if not index.is_complete and (to_byte is None or index.end_position < to_byte):
            index.extend(to_byte, is_cancelled=lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.call_from_thread(self._show_indexed)

    def _show_indexed(self) -> None:
        self.panes.show_new_batches()
        self.try_go_to_target()
        self.update_bars()

    def _poll_threads(self) -> None:
        """Show the progress of threads."""
        log = self.session.log_view
        # The last poll may come after the panes have been removed.
        if log is not None and self.query(LogPanes) and self.panes.display:
            if self.panes.batches.n_rows != log.index.n_rows:
                self.panes.show_new_batches()
            self.extend_index_if_needed()
            if not log.index.is_complete or self.is_busy:
                self.update_bars()

    def action_check(self) -> None:
        """Check the selected tree node."""
        node = self.session.enclosing_partition(self._highlighted_node)
        checkable_nodes = list(node.iter_checkable_nodes()) or [node]
        self.show_message(
            f"checking {len(checkable_nodes)} partitions"
            if len(checkable_nodes) > 1
            else "checking"
        )
        self._check_nodes(checkable_nodes, None)

    @work(thread=True, group="check")
    def _check_nodes(self, nodes: list[DiskNode], max_bytes: int | None) -> None:
        """Check partitions, on a thread. max_bytes: skip the check if they have more bytes in
        total."""
        worker = get_current_worker()
        if max_bytes is not None and sum(node.size for node in nodes) > max_bytes:
            return
        for group in group_for_checking(nodes):
            paths = {node.path for node in group}
            self._checking_paths |= paths
            self.call_from_thread(self._refresh_marks)
            results = check_partitions(group, lambda: worker.is_cancelled)
            self._checking_paths -= paths
            if results is None or worker.is_cancelled:
                return
            for node, result in zip(group, results, strict=True):
                self.session.check_results[node.path] = result
        self.call_from_thread(self._refresh_marks)

    def _refresh_marks(self) -> None:
        self.disk_tree.redraw()
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

    def action_view(self, key: str) -> None:
        """Show another view of the partition or directory, or return to the batches."""
        if key == "0":
            self.show_log()
            return
        self.show_view(view_for_key(key))

    def show_log(self) -> None:
        """Return to the log, or to the directory."""
        self.active_view = None
        if self.session.log_view is not None:
            self.panes.display, self.text_pane.display = True, False
            self.panes.focus_on(self.panes.batches)
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
        batch, record = self.session.selected_batch, self.session.record_index
        if batch is not None and batch.n_records:
            return ViewSubject(node, batch.record_offset(record or 0))
        return ViewSubject(node)

    def show_view(self, view: ViewSpec) -> None:
        """Show a view, whose text a thread renders."""
        self.active_view = view
        self.panes.display, self.text_pane.display = False, True
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
            self.text_pane.focus()
        self.text_pane.show_lines([" reading …"], f" {self._view_title(view)}")
        self._render_view_text(view, self.view_subject, self._text_width)
        self.update_bars()

    def _view_title(self, view: ViewSpec) -> str:
        """The name of the view's subject and the view's question; the command line has the full
        path."""
        label = self.view_subject.node.label
        return f"{escape_terminal(label.rpartition('/')[2] or label)}: {view.question}"

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
        self._show_text(output, self._view_title(view))
        if view.shows_findings and len(output.splitlines()) >= self.text_pane.size.height:
            # As on a terminal, lost offsets and next steps come last.
            self.text_pane.heading = f" {self._view_title(view)}   Home: all findings"
            self.text_pane.scroll_end(animate=False, force=True)
        if tree_has_focus:
            self.disk_tree.focus()

    # Lines around the panes.

    @on(LogPanes.SelectionChanged)
    def selection_changed(self) -> None:
        """Update the command line after a new selection."""
        self.update_bars()

    def show_message(self, message: str, style: str = "") -> None:
        """Show the response to a key in the status line."""
        self.message, self._message_style, self._message_selection = (
            message,
            style,
            self._selection_key,
        )
        self.update_bars()

    _message_style = ""
    _message_selection: object = None

    @property
    def _selection_key(self) -> object:
        """A key of the selection; a message is shown until the selection changes."""
        batch_fields = self.session.batch_fields
        location = (
            None if batch_fields is None else (batch_fields.position, self.session.record_index)
        )
        return self.session.opened_node, location, self.active_view

    def update_bars(self) -> None:
        """Update the lines around the panes."""
        if not self.is_running or len(self.screen_stack) > 1:
            return
        self._update_bar("tabs", self._tabs_text())
        command = Text.assemble(("$ ", "dim"), (self.command_line(), "bold"), overflow="fold")
        self._update_bar("command", command, layout=True)
        if self.message and self._message_selection != self._selection_key:
            self.message = ""
        log_status = self._log_status() if self.panes.display else ""
        message = self.progress_text() or self.message or log_status
        style = self._message_style if self.message else ""
        status = Text(" ", no_wrap=True)
        if self.is_tailing and self.panes.display:
            status.append("FOLLOWING", style="bold reverse")
            status.append(" ")
        self._update_bar("status", status.append(message, style=style))

    def _log_status(self) -> str:
        """The selected batch, and the mark of the log unless the log is being tailed."""
        node, status = self.session.opened_node, self.panes.status_text()
        mark = "" if node is None or self.is_tailing else self._file_mark(node)[0]
        return f"{status}   {mark}: n goes to it" if mark else status

    def _update_bar(self, name: str, text: Text, *, layout: bool = False) -> None:
        """Update one of the bars, if its text has changed."""
        previous_text = self._bar_texts.get(name)
        if previous_text is None or previous_text.markup != text.markup:
            self._bar_texts[name] = text
            self.query_one(f"#{name}", Static).update(text, layout=layout)

    def _tabs_text(self) -> Text:
        text = Text(no_wrap=True, end="")
        active_key = "0" if self.active_view is None else self.active_view.key
        for key, name in (("0", "Browse"), *((view.key, view.label) for view in VIEWS)):
            style = Style(reverse=key == active_key, meta={"@click": f"app.view('{key}')"})
            is_wide = self.size.width >= MIN_WIDE_COLUMNS
            text.append(f"{key} {name}" if is_wide else f"{key}{name}", style=style)
            text.append("  " if is_wide else " ")
        return text

    @property
    def view_state(self) -> ViewState:
        """The state of the screen."""
        if self.active_view is not None:
            return ViewState(ViewKind.VIEW, command=tuple(self._view_command(self.active_view)))
        if self.panes.display:
            return self.panes.view_state()
        if self._highlighted_node.file is not None:
            return ViewState(ViewKind.VIEW, command=("dump", self._highlighted_node.display_path))
        return ViewState(ViewKind.VIEW, command=("check", *self._highlighted_node.display_paths))

    def _view_command(self, view: ViewSpec) -> list[str]:
        try:
            return view.command(self.view_subject)
        except KfmtError:
            return [view.label.lower(), *self.view_subject.node.display_paths]

    def command_line(self) -> str:
        """The command line equivalent to the screen."""
        try:
            return format_command(self.view_state)
        except KfmtError as error:
            return escape_terminal(str(error))

    def show_finding(
        self, finding: Finding, index: int, n_findings: int, n_suppressed: int
    ) -> None:
        """Show a finding in the status line. n_suppressed: the number of suppressed findings."""
        location = "" if finding.position is None else f" byte {format_grouped(finding.position)}"
        description = f"{finding.code.name}{location}: {escape_terminal(finding.message)}"
        suppressed_note = f", {format_grouped(n_suppressed)} more not shown" if n_suppressed else ""
        message = f"{index + 1} of {n_findings}{suppressed_note} (e explains)  {description}"
        self.show_message(message, SEVERITY_STYLES[finding.code.severity])

    def show_page(self, title: str, lines: list[Text | str]) -> None:
        """Show a page in a window."""
        self.push_screen(dialogs.PageWindow(title, lines), lambda _: self.update_bars())
