"""The browser searches the selected partition."""

from __future__ import annotations

import time

from textual import work
from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, command_text
from kfmt_cli.browse.log_search import MOST_HITS, Hit, Hunt, SoughtText
from kfmt_cli.browse.screen.dialogs import SearchDialog
from kfmt_cli.browse.screen.go_to import NO_LOG, GoingBrowser
from kfmt_cli.browse.session import BYTE, Goal
from kfmt_cli.errors import KfmtError
from kfmt_cli.render.style import count, grouped, safe


class SearchingBrowser(GoingBrowser):
    """A browser that searches."""

    hunt: Hunt | None = None
    """The running search."""
    _hunt_began = 0.0

    @property
    def is_busy(self) -> bool:
        return self.goal is not None or self.hunt is not None

    def action_search(self) -> None:
        """Ask for a search term."""
        trouble = "" if self.logs_here() else NO_LOG
        self.push_screen(SearchDialog(self.session.sought, trouble), self._search)

    def _search(self, sought: SoughtText | None) -> None:
        if sought is None:
            self.tell()
        elif self.has_log():
            self.call_after_refresh(self.search, sought)

    def search(self, sought: SoughtText) -> None:
        """Search the partition, starting at the selected batch."""
        session = self.session
        log, place, node = session.log, session.place, session.node
        if log is None or node is None or node.file is None:
            return
        self.goal = None
        session.forget_hits()
        session.sought, session.sought_in = sought, session.partition_of(node)
        files = [of.file for of in self.logs_here() if of.file is not None]
        logs = files if node.file in files else [node.file]
        start = 0 if place is None else place.position
        self.hunt = Hunt(logs, log.outline, sought, start, limit=session.limit)
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
            words = str(error)
        if not worker.is_cancelled:
            words = words or "; ".join(hunt.troubles)
            self.call_from_thread(self._hunted, safe(words))

    def _hit(self, hunt: Hunt, hit: Hit) -> None:
        """Add a hit; go to it if it is the first."""
        if self.hunt is not hunt:
            return
        self.session.hits.append(hit)
        if len(self.session.hits) == 1:
            self._show_hit(0)

    def _hunted(self, words: str) -> None:
        """Show the result of a search that has ended."""
        self.hunt = None
        if words:
            self.say(words, "yellow")
        elif not self.session.hits:
            self._say_none()
        elif self.goal is None:
            self._say_hit()

    def _say_none(self) -> None:
        sought = self.session.sought
        if sought is not None:
            words = f"not found in {self._where}: {safe(sought.words)}"
            self.say(f"{words}   $ {self._hits_command}", "yellow")

    @property
    def _where(self) -> str:
        node, wanted = self.session.sought_in, self.session.wanted
        where = "this partition" if node is not None and node.file is None else "this file"
        return f"{where}, in batches that match {wanted.words}" if wanted else where

    @property
    def _hits_command(self) -> str:
        """The equivalent commands."""
        node, sought = self.session.sought_in, self.session.sought
        name = "" if node is None else node.name
        return command_text(ViewState(ViewKind.HITS, name, sought=sought))

    def action_hit(self, by: int) -> None:
        """Go to the next or previous hit."""
        hits = self.session.hits
        if hits:
            if self.has_log():
                self._show_hit((self.session.hit_at + by) % len(hits))
        elif self.session.sought is None:
            self.say("no search yet: press / to search")
        elif self.hunt is None:
            self._say_none()

    def _show_hit(self, at: int) -> None:
        session = self.session
        session.hit_at = at
        hit = session.hits[at]
        node = session.file_named(hit.file)
        if node is not None and node is not session.node:
            self.open_node(node)
            self.disk_tree.show_node(node, session.above(node))
            self.call_after_refresh(self.go_to, _goal(hit))
        else:
            self.go_to(_goal(hit))

    def say_arrived(self, goal: Goal) -> None:
        session = self.session
        if 0 <= session.hit_at < len(session.hits) and goal == _goal(session.hits[session.hit_at]):
            self._say_hit()

    def _say_hit(self) -> None:
        session = self.session
        if not 0 <= session.hit_at < len(session.hits):
            return
        hit = session.hits[session.hit_at]
        found = count(len(session.hits), "record")
        if len(session.hits) >= MOST_HITS:
            found = f"the first {found}"
        words = f"{session.hit_at + 1} of {found} in {self._where}: offset {hit.offset}"
        self.say(f"{words}   ] next, [ previous   $ {self._hits_command}", "green")

    def progress_words(self) -> str:
        """The progress of a search."""
        hunt = self.hunt
        if hunt is None:
            return ""
        seconds = max(time.monotonic() - self._hunt_began, 0.01)
        rate = hunt.done / seconds / 1e6
        share = min(100 * hunt.done // max(hunt.total, 1), 100)
        which = f"segment {hunt.number + 1} of {len(hunt.logs)}, " if len(hunt.logs) > 1 else ""
        found = f"{len(self.session.hits)} found"
        return f"searching: {which}{share}%, {grouped(round(rate))} MB/s, {found}; Esc cancels"


def _goal(hit: Hit) -> Goal:
    return Goal(BYTE, hit.batch_position, hit.offset)
