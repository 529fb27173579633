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
from kfmt_cli.render.style import escape_terminal

NO_LOG_SELECTED = "select a partition or segment on the left first"


class NavigatingBrowser(BrowserLayout):
    """A browser that can go to an offset, a time or a byte."""

    pending_target: GoToTarget | None = None
    """The target to go to once the index reaches it."""

    def ensure_log_open(self) -> bool:
        """Open a log of the selected partition if none is open; returns whether one is open."""
        logs = self.selected_logs()
        if not logs:
            self.show_message(NO_LOG_SELECTED)
            return False
        if self.session.log_view is None or self.session.opened_node not in logs:
            self.open_node(logs[0])
        elif not self.panes.display:
            self.show_log()
        return self.session.log_view is not None

    def selected_logs(self) -> list[DiskNode]:
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
        self.push_screen(dialog, self._target_entered)

    def _parse_target(self, text: str) -> GoToTarget:
        """Parse a target as typed; raises UsageError for invalid text, and if no log is
        selected."""
        target = parse_go_to_target(text)
        if not self.selected_logs():
            raise UsageError(NO_LOG_SELECTED)
        return target

    def _target_entered(self, target: GoToTarget | None) -> None:
        if target is None:
            self.update_bars()
            return
        logs = self.selected_logs()
        node = self._find_start_log(target, logs)
        if node is not self.session.opened_node or self.session.log_view is None:
            self.open_node(node)
            self.disk_tree.show_node(node, self.session.ancestors(node))
        elif not self.panes.display:
            self.show_log()
        self.call_after_refresh(self.go_to, target)

    def _find_start_log(self, target: GoToTarget, logs: list[DiskNode]) -> DiskNode:
        """The log that contains a target, or the first log that may contain it."""
        open_log = self.session.opened_node if self.session.opened_node in logs else None
        if target.kind == GO_TO_OFFSET:
            candidates = [node for node in logs if _base_offset(node) <= target.value]
            return max(candidates, key=_base_offset) if candidates else logs[0]
        if open_log is not None and (target.kind == GO_TO_BYTE or self._is_after_log_start(target)):
            return open_log
        return logs[0]

    def _is_after_log_start(self, target: GoToTarget) -> bool:
        """Whether a time is later than the first batch of the open log."""
        log = self.session.log_view
        try:
            return log is not None and bool(0 <= log.batch_fields(0).max_timestamp < target.value)
        except KfmtError:
            return False

    # Going to a target.

    def go_to(self, target: GoToTarget) -> None:
        """Go to a target in the log, at once or when the index reaches it."""
        self.pending_target = target
        if not self.try_go_to_target():
            self.show_message(f"going to {target.kind} {target.value}; Esc cancels")
            self._extend_index()

    def try_go_to_target(self) -> bool:
        """Go to the pending target if the index reaches it; returns whether no target is pending
        any more."""
        target, log = self.pending_target, self.session.log_view
        if target is None or log is None:
            self.pending_target = None
            return True
        try:
            row = self.session.find_row(target)
        except KfmtError as error:
            self.pending_target = None
            self.show_message(escape_terminal(str(error)), "bold red")
            return True
        if row is None:
            return False
        next_log = self._find_next_log(target)
        if next_log is not None:
            self.open_node(next_log)
            return False
        self.pending_target = None
        self.panes.show_new_batches()
        self.show_message("")
        if log.index.n_rows:
            self.panes.focus_on(self.panes.batches)
            offset = target.value if target.kind == GO_TO_OFFSET else target.record_offset
            self.panes.select_row(row, offset)
            self._report_missing_target(target)
        self.report_arrival(target)
        return True

    def _find_next_log(self, target: GoToTarget) -> DiskNode | None:
        """The log after the open one, if the target is a time later than all batches of the open
        log; otherwise None."""
        log, node = self.session.log_view, self.session.opened_node
        logs = self.selected_logs()
        if target.kind != GO_TO_TIME or log is None or node not in logs:
            return None
        if any(indexed_block.max_timestamp >= target.value for indexed_block in log.index.blocks):
            return None
        return next(iter(logs[logs.index(node) + 1 :]), None)

    def report_arrival(self, target: GoToTarget) -> None:
        """Show a message about the target after arriving there; overridden by subclasses."""

    def _report_missing_target(self, target: GoToTarget) -> None:
        """Show a message if the target does not exist in the log."""
        log, batch_fields = self.session.log_view, self.session.batch_fields
        blocks = log.index.blocks if log is not None else []
        if not blocks or target.kind == GO_TO_BYTE:
            return
        attribute = "last_offset" if target.kind == GO_TO_OFFSET else "max_timestamp"
        subject = f"offset {target.value}" if target.kind == GO_TO_OFFSET else "the time"
        scope = "this partition" if len(self.selected_logs()) > 1 else "this file"
        if batch_filter := self.session.batch_filter:
            scope = f"a batch that matches {batch_filter.text}"
        if target.value > max(getattr(indexed_block, attribute) for indexed_block in blocks):
            is_last = self.selected_logs()[-1:] == [self.session.opened_node]
            shown_scope = scope if is_last or batch_filter else "this segment"
            self.show_message(
                f"{subject} is not in {shown_scope}; showing its last batch", "yellow"
            )
        elif (
            target.kind == GO_TO_OFFSET
            and batch_fields is not None
            and (batch_fields.has_base_offset and batch_fields.base_offset > target.value)
        ):
            self.show_message(f"{subject} is not in {scope}; showing the next batch", "yellow")

    def _extend_index(self) -> None:
        """Extend the index of a file at a URL by `INDEX_AHEAD_BYTES`."""
        log = self.session.log_view
        if log is not None and not log.index.is_complete and log.index.target_bytes is not None:
            log.index.target_bytes = log.index.end_position + INDEX_AHEAD_BYTES
            self.index_log()

    def extend_index_if_needed(self) -> None:
        log = self.session.log_view
        if log is None or log.index.is_complete:
            return
        if self.pending_target is not None and self.try_go_to_target():
            return
        _, last_visible = self.panes.batches.visible_rows
        is_paused = log.index.target_bytes is not None and (
            log.index.end_position >= log.index.target_bytes
        )
        if is_paused and (self.pending_target is not None or last_visible >= log.index.n_rows):
            self._extend_index()


def _base_offset(node: DiskNode) -> int:
    file = node.file
    return 0 if file is None else file.base_or_zero
