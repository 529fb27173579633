"""The browser application, with the actions of its keys."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from kfmt_cli.browse.command_line import ViewKind, ViewState, command_text
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.help_page import help_lines
from kfmt_cli.browse.keys import KEYS
from kfmt_cli.browse.screen.dialogs import LineDialog
from kfmt_cli.browse.screen.searching import SearchingBrowser
from kfmt_cli.browse.session import BYTE, Goal
from kfmt_cli.browse.text_host import shown_by, wrapped_lines
from kfmt_cli.browse.wanted_batches import FORM, WantedBatches, wanted_batches_of
from kfmt_cli.render.style import safe


class BrowserApp(SearchingBrowser):
    """A disk in a terminal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.key, key.action, key.word, show=key.in_footer, key_display=key.shown)
        for key in KEYS
    ]

    # General.

    def action_help(self) -> None:
        """Show the keys."""
        self.page("Help", list(help_lines(min(int(self.size.width * 0.96), 100) - 4)))

    def action_out(self) -> None:
        """Go back one step: cancel a running task, leave a view, or a pane."""
        if self.hunt is not None:
            self.workers.cancel_group(self, "hunt")
            self._hunted("search cancelled")
        elif self.goal is not None:
            self.goal = None
            self.say("cancelled")
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
        """Toggle a record's content and its fields."""
        if self.has_log():
            self.panes.toggle_payload()

    def action_dark(self) -> None:
        """Toggle dark and light."""
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

    # Findings.

    def say_arrived(self, goal: Goal) -> None:
        super().say_arrived(goal)
        finding = self.session.finding
        if finding is None or goal != Goal(BYTE, finding.position or 0):
            return
        place, wanted = self.session.place, self.session.wanted
        if wanted and place is not None and not 0 <= goal.value - place.position < place.size:
            words = f"{finding.code.name} is in a batch that the filter hides: {wanted.words}"
            self.say(f"{words}; f changes it", "yellow")
            return
        self._tell_finding()

    def action_finding(self, by: int) -> None:
        """Go to the next or previous finding."""
        session = self.session
        finding = session.next_finding(by)
        if finding is None:
            known = any(held.trouble == "" for held in session.checked.values())
            self.say("no damage in what was checked" if known else "press c to check it first")
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
            self.tell_finding(finding, at, len(every), self.session.n_left_out)

    def action_explain(self) -> None:
        """Explain the finding."""
        if self.session.finding is None:
            self.action_finding(1)
        finding = self.session.finding
        if finding is None:
            return
        from kfmt_cli.commands.explain.command import Explain

        name = finding.code.name
        width = max(min(self.size.width - 10, 92), 40)
        shown = shown_by(lambda run: Explain(run).names((name,)), width)
        state = ViewState(ViewKind.VIEW, command=("explain", name))
        lines: list[Text | str] = [
            Text(f" $ {command_text(state)}", style="bold"),
            Text(""),
            *wrapped_lines(shown, width + 4),
        ]
        self.page(name, lines)

    # Filter, follow.

    def action_filter(self) -> None:
        """Ask for a filter of batches."""
        if self.has_log():
            doc = (FORM, "empty for all")
            words = self.session.wanted.words
            dialog = LineDialog("Filter batches", doc, words, wanted_batches_of)
            self.push_screen(dialog, self._filter)

    def _filter(self, wanted: WantedBatches | None) -> None:
        if wanted is None:
            self.tell()
            return
        self.session.wanted = wanted
        self.session.forget_hits()
        assert self.session.node is not None
        self.open_node(self.session.node)
        self.say("")

    def action_follow(self) -> None:
        """Start or stop following a growing file."""
        if not self.has_log():
            return
        self.is_following = not self.is_following
        if self.is_following:
            self.say("following: new batches appear as they arrive; F stops", "green")
            self._follow_on()
        else:
            self.say("stopped following")

    def _follow_on(self) -> None:
        log = self.session.log
        if self.is_following and log is not None and log.outline.is_whole and self.panes.display:
            self._take_in()

    @work(thread=True, exclusive=True, group="follow")
    def _take_in(self) -> None:
        """Check on a thread whether the file has grown."""
        log = self.session.log
        if log is None:
            return
        if words := log.outline.cut_words():
            self.call_from_thread(self._cut, words)
        elif log.outline.follow():
            self.call_from_thread(self._grown)
        elif (later := self.session.later_log()) is not None:
            self.call_from_thread(self._rolled, later)

    def _cut(self, words: str) -> None:
        """Stop following: the file has shrunk or is missing."""
        self.is_following = False
        self.say(f"stopped following: {safe(words)}", "bold red")

    def _rolled(self, node: DiskNode) -> None:
        """Follow the next segment, as the broker has rolled the log."""
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
