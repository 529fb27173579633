"""Go to an offset, a time or a byte, in any segment of the partition."""

from __future__ import annotations

from kfmt_cli.browse.block_index import INDEX_AHEAD_BYTES
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.screen.dialogs import LineDialog
from kfmt_cli.browse.screen.layout import BrowserLayout
from kfmt_cli.browse.session import (
    GO_TO_BYTE,
    GO_TO_OFFSET,
    GO_TO_TIME,
    GoToTarget,
    parse_go_to_target,
)
from kfmt_cli.errors import KfmtError, UsageError
from kfmt_cli.render.style import escape_unprintable

NO_LOG_SELECTED_MESSAGE = "select a partition or segment on the left first"


class NavigatingBrowser(BrowserLayout):
    """A browser that can go to an offset, a time or a byte."""

    pending_target: GoToTarget | None = None
    """The target to go to once the index reaches it."""

    def ensure_log_open(self) -> bool:
        """Open a log of the selected partition if none is open; returns whether one is open."""
        log_nodes = self.selected_log_nodes()
        if not log_nodes:
            self.show_message(NO_LOG_SELECTED_MESSAGE)
            return False
        if self.session.log_view is None or self.session.opened_node not in log_nodes:
            self.open_node(log_nodes[0])
        elif not self.log_panes.display:
            self.return_to_log()
        return self.session.log_view is not None

    def selected_log_nodes(self) -> list[DiskNode]:
        """The logs of the selected partition, or a selected log outside any partition."""
        partition = self.session.enclosing_partition(self._highlighted_node)
        partitions = list(partition.iter_partitions())
        if len(partitions) == 1 and partition.file is None:
            partition = partitions[0]
        logs = partition.logs()
        is_outside_partition = self._highlighted_node.is_log and self._highlighted_node not in logs
        return [self._highlighted_node] if is_outside_partition else logs

    # Dialogs.

    def action_go_to(self) -> None:
        """Ask for the target to go to."""
        hints = (
            "700                an offset",
            "2023-11-14T22:20   a time in UTC; now-1h",
            "b7702 or 0x1e16    a byte of the file",
        )
        dialog = LineDialog("Go to an offset, a time or a byte", hints, "", self._parse_target)
        self.push_screen(dialog, self._start_going_to_target)

    def _parse_target(self, text: str) -> GoToTarget:
        """Parse a target as typed; raises UsageError for invalid text, and if no log is
        selected."""
        target = parse_go_to_target(text)
        if not self.selected_log_nodes():
            raise UsageError(NO_LOG_SELECTED_MESSAGE)
        return target

    def _start_going_to_target(self, target: GoToTarget | None) -> None:
        if target is None:
            self.update_bars()
            return
        log_nodes = self.selected_log_nodes()
        start_log_node = self._find_start_log(target, log_nodes)
        if start_log_node is not self.session.opened_node or self.session.log_view is None:
            self.open_node(start_log_node)
            self.disk_tree.show_node(start_log_node, self.session.ancestors(start_log_node))
        elif not self.log_panes.display:
            self.return_to_log()
        self.call_after_refresh(self.go_to, target)

    def _find_start_log(self, target: GoToTarget, log_nodes: list[DiskNode]) -> DiskNode:
        """The log that contains a target, or the first log that may contain it."""
        open_log_node = self.session.opened_node if self.session.opened_node in log_nodes else None
        if target.target_kind == GO_TO_OFFSET:
            candidate_nodes = [
                node for node in log_nodes if _base_offset(node) <= target.target_value
            ]
            return max(candidate_nodes, key=_base_offset) if candidate_nodes else log_nodes[0]
        if open_log_node is not None and (
            target.target_kind == GO_TO_BYTE or self._is_after_log_start(target)
        ):
            return open_log_node
        return log_nodes[0]

    def _is_after_log_start(self, target: GoToTarget) -> bool:
        """Whether a time is later than the first batch of the open log."""
        log_view = self.session.log_view
        try:
            return log_view is not None and bool(
                0 <= log_view.batch_fields(0).max_timestamp < target.target_value
            )
        except KfmtError:
            return False

    # Going to a target.

    def go_to(self, target: GoToTarget) -> None:
        """Go to a target in the log, at once or when the index reaches it."""
        self.pending_target = target
        if not self.try_go_to_target():
            self.show_message(f"going to {target.target_kind} {target.target_value}; Esc cancels")
            self._extend_remote_index()

    def try_go_to_target(self) -> bool:
        """Go to the pending target if the index reaches it; returns whether no target is pending
        any more."""
        target, log_view = self.pending_target, self.session.log_view
        if target is None or log_view is None:
            self.pending_target = None
            return True
        try:
            row_index = self.session.find_target_row(target)
        except KfmtError as error:
            self.pending_target = None
            self.show_message(escape_unprintable(str(error)), "bold red")
            return True
        if row_index is None:
            return False
        next_log = self._find_next_log(target)
        if next_log is not None:
            self.open_node(next_log)
            return False
        self.pending_target = None
        self.log_panes.show_new_batches()
        self.show_message("")
        if log_view.block_index.n_rows:
            self.log_panes.focus_on(self.log_panes.batch_pane)
            record_offset = (
                target.target_value if target.target_kind == GO_TO_OFFSET else target.record_offset
            )
            self.log_panes.select_batch_row(row_index, record_offset)
            self._report_missing_target(target)
        self.show_target_message(target)
        return True

    def _find_next_log(self, target: GoToTarget) -> DiskNode | None:
        """The log after the open one, if the target is a time later than all batches of the open
        log; otherwise None."""
        log_view, open_log_node = self.session.log_view, self.session.opened_node
        log_nodes = self.selected_log_nodes()
        if target.target_kind != GO_TO_TIME or log_view is None or open_log_node not in log_nodes:
            return None
        if any(
            indexed_block.max_timestamp >= target.target_value
            for indexed_block in log_view.block_index.blocks
        ):
            return None
        return next(iter(log_nodes[log_nodes.index(open_log_node) + 1 :]), None)

    def show_target_message(self, target: GoToTarget) -> None:
        """Show a message about the target after arriving there; overridden by subclasses."""

    def _report_missing_target(self, target: GoToTarget) -> None:
        """Show a message if the target does not exist in the log."""
        log_view, batch_fields = self.session.log_view, self.session.batch_fields
        indexed_blocks = log_view.block_index.blocks if log_view is not None else []
        if not indexed_blocks or target.target_kind == GO_TO_BYTE:
            return
        block_attribute = "last_offset" if target.target_kind == GO_TO_OFFSET else "max_timestamp"
        target_text = (
            f"offset {target.target_value}" if target.target_kind == GO_TO_OFFSET else "the time"
        )
        scope_text = "this partition" if len(self.selected_log_nodes()) > 1 else "this file"
        if batch_filter := self.session.batch_filter:
            scope_text = f"a batch that matches {batch_filter.typed_text}"
        if target.target_value > max(
            getattr(indexed_block, block_attribute) for indexed_block in indexed_blocks
        ):
            is_last_log = self.selected_log_nodes()[-1:] == [self.session.opened_node]
            shown_scope_text = scope_text if is_last_log or batch_filter else "this segment"
            self.show_message(
                f"{target_text} is not in {shown_scope_text}; showing its last batch", "yellow"
            )
        elif (
            target.target_kind == GO_TO_OFFSET
            and batch_fields is not None
            and (batch_fields.has_base_offset and batch_fields.base_offset > target.target_value)
        ):
            self.show_message(
                f"{target_text} is not in {scope_text}; showing the next batch", "yellow"
            )

    def _extend_remote_index(self) -> None:
        """Extend the index of a file at a URL by `INDEX_AHEAD_BYTES`."""
        log_view = self.session.log_view
        if (
            log_view is not None
            and not log_view.block_index.is_complete
            and log_view.block_index.target_bytes is not None
        ):
            log_view.block_index.target_bytes = (
                log_view.block_index.end_position + INDEX_AHEAD_BYTES
            )
            self.index_log()

    def extend_index_if_needed(self) -> None:
        log_view = self.session.log_view
        if log_view is None or log_view.block_index.is_complete:
            return
        if self.pending_target is not None and self.try_go_to_target():
            return
        _, end_row = self.log_panes.batch_pane.visible_row_range
        is_paused = log_view.block_index.target_bytes is not None and (
            log_view.block_index.end_position >= log_view.block_index.target_bytes
        )
        if is_paused and (
            self.pending_target is not None or end_row >= log_view.block_index.n_rows
        ):
            self._extend_remote_index()


def _base_offset(node: DiskNode) -> int:
    file = node.file
    return 0 if file is None else file.base_offset_or_zero
