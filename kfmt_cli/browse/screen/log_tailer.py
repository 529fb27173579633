"""Follow a growing log, and the next one when the broker rolls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.render.style import escape_unprintable

if TYPE_CHECKING:
    from kfmt_cli.browse.screen.app import BrowserApp


class LogTailer:
    """Polls the open log for appended batches, on a thread."""

    def __init__(self, app: BrowserApp) -> None:
        self._app = app
        self.is_following = False

    def toggle(self) -> None:
        """Start or stop following a growing file."""
        if not self._app.navigator.ensure_log_open():
            return
        self.is_following = not self.is_following
        if self.is_following:
            message = "following: new batches appear as they arrive; F stops"
            self._app.show_message(message, "green")
            self.poll()
        else:
            self._app.show_message("stopped following")

    def poll(self) -> None:
        """Check whether the file has grown, if it is followed and on the screen."""
        opened_log = self._app.session.opened_log
        if (
            self.is_following
            and opened_log is not None
            and opened_log.block_index.is_complete
            and self._app.log_panes.display
        ):
            self._app.run_worker(self._poll_file, thread=True, exclusive=True, group="follow")

    def _poll_file(self) -> None:
        app, opened_log = self._app, self._app.session.opened_log
        if opened_log is None:
            return
        if error := opened_log.block_index.follow_error():
            app.call_from_thread(self._stop, error)
        elif opened_log.block_index.index_appended_bytes():
            app.call_from_thread(self._show_appended_batches)
        elif (rolled_log := app.session.add_rolled_log()) is not None:
            app.call_from_thread(self._follow_rolled_log, rolled_log)

    def _stop(self, error: str) -> None:
        """Stop following: the file has shrunk or is missing."""
        self.is_following = False
        self._app.show_message(f"stopped following: {escape_unprintable(error)}", "bold red")

    def _show_appended_batches(self) -> None:
        app, opened_log = self._app, self._app.session.opened_log
        if opened_log is None:
            return
        opened_log.log_view.clear_cache()
        app.session.forget_sizes(opened_log.node)
        app.disk_tree.redraw()
        app.log_panes.show_new_batches()
        app.log_panes.batch_pane.refetch_lines()
        if opened_log.block_index.n_rows:
            app.log_panes.select_batch_row(opened_log.block_index.n_rows - 1)

    def _follow_rolled_log(self, log_node: DiskNode) -> None:
        """Follow the next segment, as the broker has rolled the log."""
        app = self._app
        app.disk_tree.add_node(log_node, app.session.find_parent(log_node))
        app.disk_tree.redraw()
        app.open_node(log_node)
        app.show_message(f"following: {escape_unprintable(log_node.label)}", "green")
