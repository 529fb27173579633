"""The browser goes to an offset, a time or a byte, in whichever segment of the partition has it."""

from __future__ import annotations

from kfmt_cli.browse.batch_positions import AHEAD
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.screen.dialogs import LineDialog
from kfmt_cli.browse.screen.layout import BrowserLayout
from kfmt_cli.browse.session import BYTE, OFFSET, TIME, Goal, goal_of
from kfmt_cli.errors import KfmtError, UsageError
from kfmt_cli.render.style import safe

NO_LOG = "select a partition or segment on the left first"


class GoingBrowser(BrowserLayout):
    """A browser that can go to a place."""

    goal: Goal | None = None
    """The place to go to once the outline reaches it."""

    def has_log(self) -> bool:
        """Whether a log is open; opens one of the selected partition if needed."""
        logs = self.logs_here()
        if not logs:
            self.say(NO_LOG)
            return False
        if self.session.log is None or self.session.node not in logs:
            self.open_node(logs[0])
        elif not self.panes.display:
            self.show_log()
        return self.session.log is not None

    def logs_here(self) -> list[DiskNode]:
        """The logs of the selected partition, or a selected log outside any partition."""
        partition = self.session.partition_of(self._selected)
        inside = list(partition.partitions())
        if len(inside) == 1 and partition.file is None:
            partition = inside[0]
        logs = partition.logs()
        is_other = self._selected.is_log and self._selected not in logs
        return [self._selected] if is_other else logs

    # Dialogs.

    def action_go_to(self) -> None:
        """Ask for the place to go to."""
        doc = (
            "700                an offset",
            "2023-11-14T22:20   a time in UTC; now-1h",
            "b7702 or 0x1e16    a byte of the file",
        )
        dialog = LineDialog("Go to an offset, a time or a byte", doc, "", self._goal_of_here)
        self.push_screen(dialog, self._go_to)

    def _goal_of_here(self, words: str) -> Goal:
        """A place as typed; raises UsageError, also without a log to go to."""
        goal = goal_of(words)
        if not self.logs_here():
            raise UsageError(NO_LOG)
        return goal

    def _go_to(self, goal: Goal | None) -> None:
        if goal is None:
            self.tell()
            return
        logs = self.logs_here()
        node = self._begins_at(goal, logs)
        if node is not self.session.node or self.session.log is None:
            self.open_node(node)
            self.disk_tree.show_node(node, self.session.above(node))
        elif not self.panes.display:
            self.show_log()
        self.call_after_refresh(self.go_to, goal)

    def _begins_at(self, goal: Goal, logs: list[DiskNode]) -> DiskNode:
        """The log that contains a place, or the first one that may contain it."""
        here = self.session.node if self.session.node in logs else None
        if goal.kind == OFFSET:
            reached = [node for node in logs if _base(node) <= goal.value]
            return max(reached, key=_base) if reached else logs[0]
        if here is not None and (goal.kind == BYTE or self._is_later(goal)):
            return here
        return logs[0]

    def _is_later(self, goal: Goal) -> bool:
        """Whether a time is later than the first batch of the open log."""
        log = self.session.log
        try:
            return log is not None and bool(0 <= log.place(0).max_timestamp < goal.value)
        except KfmtError:
            return False

    # Going there.

    def go_to(self, goal: Goal) -> None:
        """Go to a place in the log, at once or when the outline reaches it."""
        self.goal = goal
        if not self.arrived():
            self.say(f"going to {goal.kind} {goal.value}; Esc cancels")
            self._outline_on()

    def arrived(self) -> bool:
        """Go to the pending place if the outline reaches it; returns whether none is pending."""
        goal, log = self.goal, self.session.log
        if goal is None or log is None:
            self.goal = None
            return True
        try:
            row = self.session.row_of(goal)
        except KfmtError as error:
            self.goal = None
            self.say(safe(str(error)), "bold red")
            return True
        if row is None:
            return False
        later = self._next_log(goal)
        if later is not None:
            self.open_node(later)
            return False
        self.goal = None
        self.panes.grow()
        self.say("")
        if log.outline.n_rows:
            self.panes.focus_on(self.panes.batches)
            offset = goal.value if goal.kind == OFFSET else goal.record
            self.panes.select_row(row, offset)
            self._say_beyond(goal)
        self.say_arrived(goal)
        return True

    def _next_log(self, goal: Goal) -> DiskNode | None:
        """The log after the open one, if a time is later than the whole open log."""
        log, node = self.session.log, self.session.node
        logs = self.logs_here()
        if goal.kind != TIME or log is None or node not in logs:
            return None
        if any(anchor.max_time >= goal.value for anchor in log.outline.anchors):
            return None
        return next(iter(logs[logs.index(node) + 1 :]), None)

    def say_arrived(self, goal: Goal) -> None:
        """Describe the place, if more is known about it."""

    def _say_beyond(self, goal: Goal) -> None:
        """Say so if the place does not exist."""
        log, place = self.session.log, self.session.place
        anchors = log.outline.anchors if log is not None else []
        if not anchors or goal.kind == BYTE:
            return
        name = "last_offset" if goal.kind == OFFSET else "max_time"
        words = f"offset {goal.value}" if goal.kind == OFFSET else "the time"
        where = "this partition" if len(self.logs_here()) > 1 else "this file"
        if wanted := self.session.wanted:
            where = f"a batch that matches {wanted.words}"
        if goal.value > max(getattr(anchor, name) for anchor in anchors):
            is_last = self.logs_here()[-1:] == [self.session.node]
            shown = where if is_last or wanted else "this segment"
            self.say(f"{words} is not in {shown}; showing its last batch", "yellow")
        elif (
            goal.kind == OFFSET
            and place is not None
            and (place.has_base_offset and place.base_offset > goal.value)
        ):
            self.say(f"{words} is not in {where}; showing the next batch", "yellow")

    def _outline_on(self) -> None:
        """Extend the outline of a file at a URL."""
        log = self.session.log
        if log is not None and not log.outline.is_whole and log.outline.wanted_bytes is not None:
            log.outline.wanted_bytes = log.outline.end + AHEAD
            self.scan()

    def reach_on(self) -> None:
        log = self.session.log
        if log is None or log.outline.is_whole:
            return
        if self.goal is not None and self.arrived():
            return
        _, last = self.panes.batches.seen
        is_idle = log.outline.wanted_bytes is not None and (
            log.outline.end >= log.outline.wanted_bytes
        )
        if is_idle and (self.goal is not None or last >= log.outline.n_rows):
            self._outline_on()


def _base(node: DiskNode) -> int:
    file = node.file
    return 0 if file is None else file.base
