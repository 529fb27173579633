"""The browser as an application: what its keys do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, command_text
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.help_page import help_lines
from kfmt_cli.browse.hunting import MOST_HITS, Hit, Hunt, SoughtText
from kfmt_cli.browse.keys import KEYS
from kfmt_cli.browse.outline import AHEAD
from kfmt_cli.browse.screen.dialogs import LineDialog, SearchDialog
from kfmt_cli.browse.screen.layout import BrowserLayout
from kfmt_cli.browse.session import BYTE, OFFSET, Goal, goal_of
from kfmt_cli.browse.text_host import shown_by, wrapped_lines
from kfmt_cli.browse.wanted_batches import FORM, wanted_batches_of
from kfmt_cli.errors import KfmtError
from kfmt_cli.render.style import count, grouped, safe

MIB = 1 << 20
NO_LOG = "open a log first: choose a segment on the left with Enter"


def _wrong(read: Callable[[str], object]) -> Callable[[str], str]:
    """Why a line cannot be taken."""

    def look(words: str) -> str:
        try:
            read(words)
        except KfmtError as error:
            return str(error)
        return ""

    return look


class BrowserApp(BrowserLayout):
    """A disk in a terminal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.key, key.action, key.word, show=key.in_footer, key_display=key.shown)
        for key in KEYS
    ]
    goal: Goal | None = None
    """Where to go as soon as the outline reaches it."""
    hunt: Hunt | None = None
    """The search that runs."""
    is_following = False
    _hunt_began = 0.0

    @property
    def is_busy(self) -> bool:
        return self.goal is not None or self.hunt is not None

    # Around.

    def action_help(self) -> None:
        """The keys."""
        self.page("Help", list(help_lines()))

    def action_out(self) -> None:
        """One step back: cancel what runs, leave a view, or a pane."""
        if self.hunt is not None:
            self.workers.cancel_group(self, "hunt")
            self._hunted("search cancelled")
        elif self.goal is not None:
            self.goal = None
            self.say("not gone there")
        elif self.view is not None:
            self.show_log()
        elif not (self.panes.display and self.panes.step_out()):
            self.disk_tree.display = True
            self.disk_tree.focus()
            self.call_after_refresh(self.tell)

    def action_tree(self) -> None:
        """Show or hide the tree."""
        self.disk_tree.display = not self.disk_tree.display
        if self.disk_tree.display:
            self.disk_tree.focus()
        elif self.panes.display:
            self.panes.focus_on(self.panes.batches)
        else:
            self.text.focus()
        self.call_after_refresh(self._laid_out)

    def action_bytes(self) -> None:
        """Show or hide the bytes."""
        self.panes.toggle_bytes()

    def action_payload(self) -> None:
        """What a record says, or its fields."""
        if self._has_log():
            self.panes.toggle_payload()

    def action_dark(self) -> None:
        """Dark or light."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"
        for lines in self.query("LineList"):
            lines.refresh()

    def action_copy(self) -> None:
        """Copy the record as JSON, or the command line."""
        content, record = self.session.content, self.session.record
        if self.panes.display and content is not None and record is not None:
            self.copy_to_clipboard(content.json(record))
            self.say(f"copied the record with offset {content.offset(record)} as JSON")
        else:
            self.copy_to_clipboard(self.command_line())
            self.say("copied the command line")

    def _has_log(self) -> bool:
        if self.session.log is None:
            self.say(NO_LOG)
            return False
        if not self.panes.display:
            self.show_log()
        return True

    # To an offset, a time, a byte.

    def action_go_to(self) -> None:
        """Ask where to go."""
        if not self._has_log():
            return
        doc = (
            "700                an offset",
            "2023-11-14T22:20   a time in UTC; now-1h",
            "b7702 or 0x1e16    a byte of the file",
        )
        dialog = LineDialog("Go to an offset, a time or a byte", doc, "", _wrong(goal_of))
        self.push_screen(dialog, self._go_to)

    def _go_to(self, words: str | None) -> None:
        if words:
            self.go_to(goal_of(words))
        else:
            self.tell()

    def go_to(self, goal: Goal) -> None:
        """Go to a place of the log, at once or when the outline reaches it."""
        self.goal = goal
        if not self.arrived():
            self.say(f"on the way to {goal.kind} {goal.value}; Esc stays here")
            self._outline_on()

    def arrived(self) -> bool:
        """Go where somebody waits to go, if the outline reaches it; whether nobody waits."""
        goal, log = self.goal, self.session.log
        if goal is None or log is None:
            return True
        try:
            row = self.session.row_of(goal)
        except KfmtError as error:
            self.goal = None
            self.say(safe(str(error)), "bold red")
            return True
        if row is None:
            return False
        self.goal = None
        self.panes.grow()
        self.say("")
        if log.outline.n_rows:
            self.panes.focus_on(self.panes.batches)
            self.panes.select_row(row, goal.value if goal.kind == OFFSET else None)
            self._say_beyond(goal)
        finding = self.session.finding
        if finding is not None and goal == Goal(BYTE, finding.position or 0):
            self._tell_finding()
        return True

    def _say_beyond(self, goal: Goal) -> None:
        """Say that what was gone to is not there, if so."""
        log = self.session.log
        anchors = log.outline.anchors if log is not None else []
        if goal.kind == OFFSET and anchors and goal.value > max(a.last_offset for a in anchors):
            self.say(f"offset {goal.value} is not in this file; its last batch is shown", "yellow")

    def _outline_on(self) -> None:
        """Outline a file at a URL further than it was."""
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

    # Search.

    def action_search(self) -> None:
        """Ask what is searched for."""
        if self._has_log():
            self.push_screen(SearchDialog(self.session.sought), self._search)

    def _search(self, sought: SoughtText | None) -> None:
        if sought is not None:
            self.search(sought)
        else:
            self.tell()

    def search(self, sought: SoughtText) -> None:
        """Search from the selected batch on."""
        log, place = self.session.log, self.session.place
        if log is None:
            return
        self.session.sought, self.session.hits, self.session.hit_at = sought, [], -1
        start = 0 if place is None else place.position
        self.hunt = Hunt(log.outline, sought, start, limit=self.session.limit)
        self._hunt_began = time.monotonic()
        self._hunt_on(self.hunt)
        self.tell()

    @work(thread=True, exclusive=True, group="hunt")
    def _hunt_on(self, hunt: Hunt) -> None:
        """Search, on a thread."""
        worker = get_current_worker()
        hunt.stop = lambda: worker.is_cancelled
        words = ""
        try:
            for hit in hunt.hits():
                self.call_from_thread(self._hit, hunt, hit)
                if len(self.session.hits) >= MOST_HITS:
                    break
        except KfmtError as error:
            words = safe(str(error))
        if not worker.is_cancelled:
            self.call_from_thread(self._hunted, words)

    def _hit(self, hunt: Hunt, hit: Hit) -> None:
        """One more record; the first one is gone to."""
        if self.hunt is not hunt:
            return
        self.session.hits.append(hit)
        if len(self.session.hits) == 1:
            self._show_hit(0)

    def _hunted(self, words: str) -> None:
        """The search has ended."""
        hunt, self.hunt = self.hunt, None
        hits = self.session.hits
        if words:
            self.say(words, "yellow")
        elif not hits and hunt is not None:
            self.say(
                f"not found from here on: {safe(hunt.sought.words)}   {self._wider()}", "yellow"
            )
        else:
            self._say_hit()

    def _wider(self) -> str:
        """The command that searches all of the partition."""
        node, sought = self.session.node, self.session.sought
        name = "" if node is None else self.session.partition_of(node).name
        return f"$ {command_text(ViewState(ViewKind.HITS, name, sought=sought))}"

    def action_hit(self, by: int) -> None:
        """The next hit, or the one before."""
        hits = self.session.hits
        if not hits:
            self.say("nothing was searched for: / searches")
            return
        if self._has_log():
            self._show_hit((self.session.hit_at + by) % len(hits))

    def _show_hit(self, at: int) -> None:
        session = self.session
        session.hit_at = at
        hit = session.hits[at]
        assert session.log is not None
        row = session.log.row_at(hit.batch_position)
        self.panes.grow()
        if row is not None:
            self.panes.select_row(row, hit.offset)
        self._say_hit()

    def _say_hit(self) -> None:
        session = self.session
        if session.hit_at < 0 or session.sought is None:
            return
        hit = session.hits[session.hit_at]
        found = count(len(session.hits), "record")
        words = f"{session.hit_at + 1} of {found}: offset {hit.offset}   ] next, [ before"
        state = ViewState(
            ViewKind.HITS, session.node.name if session.node else "", sought=session.sought
        )
        self.say(f"{words}   $ {command_text(state)}", "green")

    def progress_words(self) -> str:
        """How far a search is."""
        hunt, log = self.hunt, self.session.log
        if hunt is None or log is None:
            return ""
        seconds = max(time.monotonic() - self._hunt_began, 0.01)
        rate = hunt.done / seconds / 1e6
        share = min(100 * (hunt.start + hunt.done) // max(log.outline.size, 1), 100)
        words = f"searching: {share}%, {grouped(round(rate))} MB/s, {len(self.session.hits)} found"
        return f"{words}; Esc cancels"

    # Findings.

    def action_finding(self, by: int) -> None:
        """The next finding, or the one before, where it is."""
        session = self.session
        finding = session.next_finding(by)
        if finding is None:
            known = any(held.trouble == "" for held in session.checked.values())
            self.say("nothing is damaged in what was checked" if known else "c checks it first")
            return
        node = session.file_named(finding.file)
        if node is not None and (node is not session.node or not node.is_log):
            self.open_node(node)
            self.disk_tree.show_node(node, session.above(node))
        if node is not None and node.is_log and finding.position is not None:
            self.panes.display, self.text.display = True, False
            self.view = None
            self.call_after_refresh(self.go_to, Goal(BYTE, finding.position))
        else:
            self.call_after_refresh(self._tell_finding)

    def _tell_finding(self) -> None:
        finding, every = self.session.finding, self.session.gone_through
        if finding is not None:
            at = next((i for i, other in enumerate(every) if other is finding), 0)
            self.tell_finding(finding, at, len(every))

    def action_explain(self) -> None:
        """What the finding means."""
        finding = self.session.finding
        if finding is None:
            self.action_finding(1)
            finding = self.session.finding
        if finding is None:
            return
        from kfmt_cli.commands.explain import Explain

        name = finding.code.name
        width = max(min(self.size.width - 10, 92), 40)
        shown = shown_by(lambda run: Explain(run).names((name,)), width)
        state = ViewState(ViewKind.CODE, code=name)
        lines: list[Text | str] = [
            Text(f" $ {command_text(state)}", style="bold"),
            Text(""),
            *wrapped_lines(shown, width + 4),
        ]
        self.page(name, lines)

    # Filter, follow.

    def action_filter(self) -> None:
        """Ask which batches are listed."""
        if self._has_log():
            doc = (FORM, "empty for all of them")
            words = self.session.wanted.words
            dialog = LineDialog("List only some batches", doc, words, _wrong(wanted_batches_of))
            self.push_screen(dialog, self._filter)

    def _filter(self, words: str | None) -> None:
        if words is None:
            self.tell()
            return
        self.session.wanted = wanted_batches_of(words)
        assert self.session.node is not None
        self.open_node(self.session.node)
        self.say("")

    def action_follow(self) -> None:
        """Follow a file that grows, or no longer."""
        if not self._has_log():
            return
        self.is_following = not self.is_following
        if self.is_following:
            self.say("following: new batches are shown as they come; F ends that", "green")
            self._follow_on()
        else:
            self.say("no longer following")

    def _follow_on(self) -> None:
        log = self.session.log
        if self.is_following and log is not None and log.outline.is_whole and self.panes.display:
            self._take_in()

    @work(thread=True, exclusive=True, group="follow")
    def _take_in(self) -> None:
        """Look whether the file has grown, on a thread."""
        log = self.session.log
        if log is None:
            return
        if log.outline.follow():
            self.call_from_thread(self._grown)
        elif (later := self.session.later_log()) is not None:
            self.call_from_thread(self._rolled, later)

    def _rolled(self, node: DiskNode) -> None:
        """The broker has begun another segment: follow that one."""
        self.disk_tree.add_node(node, self.session.parent_of(node))
        self.open_node(node)
        self.say(f"following: {safe(node.label)}", "green")

    def _grown(self) -> None:
        log = self.session.log
        if log is None:
            return
        log.forget()
        self.panes.grow()
        self.panes.batches.renew()
        if log.outline.n_rows:
            self.panes.select_row(log.outline.n_rows - 1)
