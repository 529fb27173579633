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
from kfmt_cli.render.style import escape_unprintable


class BrowserApp(SearchBrowser):
    """A disk in a terminal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.key, key.action, key.label, show=key.is_in_footer, key_display=key.display_key)
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
            self._show_search_result("search cancelled")
        elif self.pending_target is not None:
            self.pending_target = None
            self.show_message("cancelled")
        elif self.active_view is not None:
            self.return_to_log()
        elif not (self.log_panes.display and self.log_panes.focus_outer_pane()):
            self.disk_tree.display = True
            self.disk_tree.focus()
            self.call_after_refresh(self.update_bars)

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
        if self.ensure_log_open():
            self.log_panes.toggle_payload()

    def action_dark(self) -> None:
        """Toggle dark and light."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"
        for line_list in self.query("LineList"):
            line_list.refresh()

    def action_copy(self) -> None:
        """Copy the record as JSON, or the command line."""
        batch, record_index = self.session.selected_batch, self.session.record_index
        if self.log_panes.display and batch is not None and record_index is not None:
            self.copy_to_clipboard(batch.record_json(record_index))
            self.show_message(
                f"copied the record with offset {batch.record_offset(record_index)} as JSON"
            )
        else:
            self.copy_to_clipboard(self.command_line())
            self.show_message("copied the command line")

    # Findings.

    def show_target_message(self, target: GoToTarget) -> None:
        super().show_target_message(target)
        finding = self.session.current_finding
        if finding is None or target != GoToTarget(GO_TO_BYTE, finding.position or 0):
            return
        batch_fields, batch_filter = self.session.batch_fields, self.session.batch_filter
        if (
            batch_filter
            and batch_fields is not None
            and not 0 <= target.target_value - batch_fields.position < batch_fields.size
        ):
            message = (
                f"{finding.code.name} is in a batch that the filter hides: "
                f"{batch_filter.typed_text}"
            )
            self.show_message(f"{message}; f changes it", "yellow")
            return
        self._show_current_finding()

    def action_finding(self, step: int) -> None:
        """Go to the next or previous finding."""
        session = self.session
        finding = session.select_next_finding(step)
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
            self.log_panes.display, self.text_pane.display = True, False
            self.active_view = None
            self.call_after_refresh(self.go_to, GoToTarget(GO_TO_BYTE, finding.position))
        else:
            self.call_after_refresh(self._show_current_finding)

    def _show_current_finding(self) -> None:
        finding, findings = self.session.current_finding, self.session.navigable_findings
        if finding is not None:
            finding_index = next(
                (i for i, candidate in enumerate(findings) if candidate is finding), 0
            )
            self.show_finding(finding, finding_index, len(findings), self.session.n_suppressed)

    def action_explain(self) -> None:
        """Explain the finding."""
        if self.session.current_finding is None:
            self.action_finding(1)
        finding = self.session.current_finding
        if finding is None:
            return
        from kfmt_cli.commands.explain.command import ExplainCommand

        code_name = finding.code.name
        output_columns = max(min(self.size.width - 10, 92), 40)
        output = capture_output(
            lambda run: ExplainCommand(run).show_pages((code_name,)), output_columns
        )
        view_state = ViewState(ViewKind.VIEW, command=("explain", code_name))
        page_lines: list[Text | str] = [
            Text(f" $ {format_command(view_state)}", style="bold"),
            Text(""),
            *wrap_lines(output, output_columns + 4),
        ]
        self.show_page(code_name, page_lines)

    # Filter, follow.

    def action_filter(self) -> None:
        """Ask for a filter of batches."""
        if self.ensure_log_open():
            hints = (BATCH_FILTER_SYNTAX, "empty for all")
            filter_text = self.session.batch_filter.typed_text
            dialog = LineDialog("Filter batches", hints, filter_text, parse_batch_filter)
            self.push_screen(dialog, self._apply_filter)

    def _apply_filter(self, batch_filter: BatchFilter | None) -> None:
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
        self.is_following = not self.is_following
        if self.is_following:
            self.show_message("following: new batches appear as they arrive; F stops", "green")
            self._poll_followed_file()
        else:
            self.show_message("stopped following")

    def _poll_followed_file(self) -> None:
        log_view = self.session.log_view
        if (
            self.is_following
            and log_view is not None
            and log_view.block_index.is_complete
            and self.log_panes.display
        ):
            self._follow_file()

    @work(thread=True, exclusive=True, group="follow")
    def _follow_file(self) -> None:
        """Check on a thread whether the file has grown."""
        log_view = self.session.log_view
        if log_view is None:
            return
        if error := log_view.block_index.follow_error():
            self.call_from_thread(self._stop_following, error)
        elif log_view.block_index.index_appended_bytes():
            self.call_from_thread(self._show_appended_batches)
        elif (rolled_log := self.session.add_rolled_log()) is not None:
            self.call_from_thread(self._follow_rolled_log, rolled_log)

    def _stop_following(self, error: str) -> None:
        """Stop following: the file has shrunk or is missing."""
        self.is_following = False
        self.show_message(f"stopped following: {escape_unprintable(error)}", "bold red")

    def _follow_rolled_log(self, log_node: DiskNode) -> None:
        """Follow the next segment, as the broker has rolled the log."""
        self.disk_tree.add_node(log_node, self.session.find_parent(log_node))
        self.disk_tree.redraw()
        self.open_node(log_node)
        self.show_message(f"following: {escape_unprintable(log_node.label)}", "green")

    def _show_appended_batches(self) -> None:
        log_view = self.session.log_view
        if log_view is None:
            return
        log_view.clear_cache()
        if self.session.opened_node is not None:
            self.session.forget_sizes(self.session.opened_node)
            self.disk_tree.redraw()
        self.log_panes.show_new_batches()
        self.log_panes.batch_pane.refetch_lines()
        if log_view.block_index.n_rows:
            self.log_panes.select_batch_row(log_view.block_index.n_rows - 1)
