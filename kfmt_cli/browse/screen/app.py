"""The browser application, with the actions of its keys."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from kfmt_cli.browse.batch_filter import BATCH_FILTER_SYNTAX, BatchFilter, parse_batch_filter
from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.help_page import help_lines
from kfmt_cli.browse.keys import KEY_BINDINGS
from kfmt_cli.browse.screen.dialogs import LineDialog
from kfmt_cli.browse.screen.search import SearchBrowser
from kfmt_cli.browse.session import GO_TO_BYTE, GoToTarget
from kfmt_cli.browse.text_host import capture_output, wrap_lines
from kfmt_cli.render.style import escape_terminal


class BrowserApp(SearchBrowser):
    """A disk in a terminal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.key, key.action, key.label, show=key.in_footer, key_display=key.display_key)
        for key in KEY_BINDINGS
    ]

    # General.

    def action_help(self) -> None:
        """Show the keys."""
        self.show_page("Help", list(help_lines(min(int(self.size.width * 0.96), 100) - 4)))

    def action_out(self) -> None:
        """Go back one step: cancel a search or a pending target, or leave a view or a pane."""
        if self.running_search is not None:
            self.workers.cancel_group(self, "search")
            self._search_finished("search cancelled")
        elif self.pending_target is not None:
            self.pending_target = None
            self.show_message("cancelled")
        elif self.active_view is not None:
            self.show_log()
        elif not (self.panes.display and self.panes.focus_outer_pane()):
            self.disk_tree.display = True
            self.disk_tree.focus()
            self.call_after_refresh(self.update_bars)

    def action_tree(self) -> None:
        """Show or hide the tree."""
        self.disk_tree.display = not self.disk_tree.display
        if self.disk_tree.display:
            self.disk_tree.focus()
        elif self.panes.display:
            self.panes.focus_on(self.panes.batches)
        else:
            self.text_pane.focus()
        self.call_after_refresh(self._redo_layout)

    def action_bytes(self) -> None:
        """Show or hide the bytes."""
        self.panes.toggle_bytes()

    def action_payload(self) -> None:
        """Toggle a record's content and its fields."""
        if self.ensure_log_open():
            self.panes.toggle_payload()

    def action_dark(self) -> None:
        """Toggle dark and light."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"
        for line_list in self.query("LineList"):
            line_list.refresh()

    def action_copy(self) -> None:
        """Copy the record as JSON, or the command line."""
        batch, record_index = self.session.selected_batch, self.session.record_index
        if self.panes.display and batch is not None and record_index is not None:
            self.copy_to_clipboard(batch.record_json(record_index))
            self.show_message(
                f"copied the record with offset {batch.record_offset(record_index)} as JSON"
            )
        else:
            self.copy_to_clipboard(self.command_line())
            self.show_message("copied the command line")

    # Findings.

    def report_arrival(self, target: GoToTarget) -> None:
        super().report_arrival(target)
        finding = self.session.current_finding
        if finding is None or target != GoToTarget(GO_TO_BYTE, finding.position or 0):
            return
        batch_fields, batch_filter = self.session.batch_fields, self.session.batch_filter
        if (
            batch_filter
            and batch_fields is not None
            and not 0 <= target.value - batch_fields.position < batch_fields.size
        ):
            message = (
                f"{finding.code.name} is in a batch that the filter hides: {batch_filter.text}"
            )
            self.show_message(f"{message}; f changes it", "yellow")
            return
        self._show_current_finding()

    def action_finding(self, step: int) -> None:
        """Go to the next or previous finding."""
        session = self.session
        finding = session.next_finding(step)
        if finding is None:
            was_checked = any(result.check_error == "" for result in session.check_results.values())
            self.show_message(
                "no damage in what was checked" if was_checked else "press c to check it first"
            )
            return
        node = session.find_file_node(finding.file)
        if node is not None and (node is not session.opened_node or not node.is_log):
            self.open_node(node)
            self.disk_tree.show_node(node, session.ancestors(node))
        if node is not None and node.is_log and finding.position is not None:
            self.panes.display, self.text_pane.display = True, False
            self.active_view = None
            self.call_after_refresh(self.go_to, GoToTarget(GO_TO_BYTE, finding.position))
        else:
            self.call_after_refresh(self._show_current_finding)

    def _show_current_finding(self) -> None:
        finding, findings = self.session.current_finding, self.session.navigable_findings
        if finding is not None:
            index = next((i for i, candidate in enumerate(findings) if candidate is finding), 0)
            self.show_finding(finding, index, len(findings), self.session.n_suppressed)

    def action_explain(self) -> None:
        """Explain the finding."""
        if self.session.current_finding is None:
            self.action_finding(1)
        finding = self.session.current_finding
        if finding is None:
            return
        from kfmt_cli.commands.explain.command import ExplainCommand

        name = finding.code.name
        width = max(min(self.size.width - 10, 92), 40)
        output = capture_output(lambda run: ExplainCommand(run).show_pages((name,)), width)
        state = ViewState(ViewKind.VIEW, command=("explain", name))
        lines: list[Text | str] = [
            Text(f" $ {format_command(state)}", style="bold"),
            Text(""),
            *wrap_lines(output, width + 4),
        ]
        self.show_page(name, lines)

    # Filter, follow.

    def action_filter(self) -> None:
        """Ask for a filter of batches."""
        if self.ensure_log_open():
            hints = (BATCH_FILTER_SYNTAX, "empty for all")
            filter_text = self.session.batch_filter.text
            dialog = LineDialog("Filter batches", hints, filter_text, parse_batch_filter)
            self.push_screen(dialog, self._filter_entered)

    def _filter_entered(self, batch_filter: BatchFilter | None) -> None:
        if batch_filter is None:
            self.update_bars()
            return
        self.session.batch_filter = batch_filter
        self.session.clear_search()
        assert self.session.opened_node is not None
        self.open_node(self.session.opened_node)
        self.show_message("")

    def action_follow(self) -> None:
        """Start or stop following a growing file."""
        if not self.ensure_log_open():
            return
        self.is_tailing = not self.is_tailing
        if self.is_tailing:
            self.show_message("following: new batches appear as they arrive; F stops", "green")
            self._poll_tailed_file()
        else:
            self.show_message("stopped following")

    def _poll_tailed_file(self) -> None:
        log = self.session.log_view
        if self.is_tailing and log is not None and log.index.is_complete and self.panes.display:
            self._tail_file()

    @work(thread=True, exclusive=True, group="follow")
    def _tail_file(self) -> None:
        """Check on a thread whether the file has grown."""
        log = self.session.log_view
        if log is None:
            return
        if error := log.index.tail_error():
            self.call_from_thread(self._stop_tailing, error)
        elif log.index.tail():
            self.call_from_thread(self._show_appended)
        elif (rolled_log := self.session.add_rolled_log()) is not None:
            self.call_from_thread(self._tail_rolled_log, rolled_log)

    def _stop_tailing(self, error: str) -> None:
        """Stop following: the file has shrunk or is missing."""
        self.is_tailing = False
        self.show_message(f"stopped following: {escape_terminal(error)}", "bold red")

    def _tail_rolled_log(self, node: DiskNode) -> None:
        """Follow the next segment, as the broker has rolled the log."""
        self.disk_tree.add_node(node, self.session.parent(node))
        self.open_node(node)
        self.show_message(f"following: {escape_terminal(node.label)}", "green")

    def _show_appended(self) -> None:
        log = self.session.log_view
        if log is None:
            return
        log.clear_cache()
        self.panes.show_new_batches()
        self.panes.batches.refetch()
        if log.index.n_rows:
            self.panes.select_row(log.index.n_rows - 1)
