"""Go to an offset, a time or a byte; index the open log for that and for its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.worker import get_current_worker

from kfmt_cli.browse.block_index import INDEX_AHEAD_BYTES
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.navigation import (
    GO_TO_OFFSET,
    GoToTarget,
    find_start_log,
    find_target,
    parse_go_to_target,
)
from kfmt_cli.browse.screen.dialogs import LineDialog
from kfmt_cli.errors import KfmtError, UsageError
from kfmt_cli.render.style import escape_unprintable

if TYPE_CHECKING:
    from kfmt_cli.browse.screen.app import BrowserApp

NO_LOG_SELECTED_MESSAGE = "select a partition or segment on the left first"


class Navigator:
    """Goes to a target, at once or when the index of the open log reaches it."""

    def __init__(self, app: BrowserApp) -> None:
        self._app = app
        self.pending_target: GoToTarget | None = None
        """The target to go to once the index reaches it."""

    @property
    def log_nodes(self) -> list[DiskNode]:
        """The logs of the selected partition, or a selected log outside any partition."""
        return self._app.session.partition_logs(self._app.highlighted_node)

    def ensure_log_open(self) -> bool:
        """Open a log of the selected partition if none is open; returns whether one is open."""
        log_nodes, app = self.log_nodes, self._app
        if not log_nodes:
            app.show_message(NO_LOG_SELECTED_MESSAGE)
            return False
        if app.session.opened_log is None or app.session.opened_log.node not in log_nodes:
            app.open_node(log_nodes[0])
        elif not app.log_panes.display:
            app.return_to_log()
        return app.session.opened_log is not None

    def ask_target(self) -> None:
        """Ask for the target to go to."""
        hints = (
            "700                an offset",
            "2023-11-14T22:20   a time in UTC; now-1h",
            "b7702 or 0x1e16    a byte of the file",
        )
        dialog = LineDialog("Go to an offset, a time or a byte", hints, "", self._parse_target)
        self._app.push_screen(dialog, self._start)

    def _parse_target(self, text: str) -> GoToTarget:
        """Parse a target as typed; raises UsageError for invalid text, and if no log is
        selected."""
        target = parse_go_to_target(text)
        if not self.log_nodes:
            raise UsageError(NO_LOG_SELECTED_MESSAGE)
        return target

    def _start(self, target: GoToTarget | None) -> None:
        app, opened_log = self._app, self._app.session.opened_log
        if target is None:
            app.update_bars()
            return
        start_node = find_start_log(target, self.log_nodes, opened_log)
        if opened_log is None or start_node is not opened_log.node:
            app.open_node(start_node)
            app.disk_tree.show_node(start_node, app.session.ancestors(start_node))
        elif not app.log_panes.display:
            app.return_to_log()
        app.call_after_refresh(self.go_to, target)

    def go_to(self, target: GoToTarget) -> None:
        """Go to a target in the log, at once or when the index reaches it."""
        self.pending_target = target
        if not self._try_to_arrive():
            message = f"going to {target.target_kind} {target.target_value}; Esc cancels"
            self._app.show_message(message)
            self._extend_remote_index()

    def _try_to_arrive(self) -> bool:
        """Go to the pending target if the index reaches it; returns whether no target is pending
        any more."""
        app, target, opened_log = self._app, self.pending_target, self._app.session.opened_log
        if target is None or opened_log is None:
            self.pending_target = None
            return True
        try:
            location = find_target(target, opened_log, self.log_nodes)
        except KfmtError as error:
            self.pending_target = None
            app.show_message(escape_unprintable(str(error)), "bold red")
            return True
        if location is None:
            return False
        if isinstance(location, DiskNode):
            app.open_node(location)
            return False
        self.pending_target = None
        app.log_panes.show_new_batches()
        app.show_message("")
        if opened_log.block_index.n_rows:
            app.log_panes.focus_on(app.log_panes.batch_pane)
            record_offset = (
                target.target_value if target.target_kind == GO_TO_OFFSET else target.record_offset
            )
            app.log_panes.select_batch_row(location.row, record_offset)
        if location.note:
            app.show_message(location.note, "yellow")
        app.search.report_arrival(target)
        app.checker.report_arrival(target)
        return True

    # The index.

    def index_log(self) -> None:
        """Index the open log, on a thread."""
        self._app.run_worker(self._index_log, thread=True, exclusive=True, group="scan")

    def _index_log(self) -> None:
        opened_log, worker = self._app.session.opened_log, get_current_worker()
        if opened_log is None:
            return
        block_index = opened_log.block_index
        target_position = block_index.target_bytes
        if not block_index.is_complete and (
            target_position is None or block_index.end_position < target_position
        ):
            block_index.extend_index(target_position, is_cancelled=lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self._app.call_from_thread(self._show_indexed_batches)

    def _show_indexed_batches(self) -> None:
        self._app.log_panes.show_new_batches()
        self._try_to_arrive()
        self._app.update_bars()

    def _extend_remote_index(self) -> None:
        """Extend the index of a file at a URL by `INDEX_AHEAD_BYTES`."""
        opened_log = self._app.session.opened_log
        if opened_log is None:
            return
        block_index = opened_log.block_index
        if not block_index.is_complete and block_index.target_bytes is not None:
            block_index.target_bytes = block_index.end_position + INDEX_AHEAD_BYTES
            self.index_log()

    def poll(self) -> None:
        """Show the batches indexed since the last poll, and extend the index if the view or the
        target needs more."""
        app, opened_log = self._app, self._app.session.opened_log
        if opened_log is None:
            return
        block_index, batch_pane = opened_log.block_index, app.log_panes.batch_pane
        if batch_pane.n_rows != block_index.n_rows:
            app.log_panes.show_new_batches()
        if block_index.is_complete or (self.pending_target is not None and self._try_to_arrive()):
            return
        is_paused = (
            block_index.target_bytes is not None
            and block_index.end_position >= block_index.target_bytes
        )
        needs_rows = batch_pane.visible_row_range[1] >= block_index.n_rows
        if is_paused and (self.pending_target is not None or needs_rows):
            self._extend_remote_index()
