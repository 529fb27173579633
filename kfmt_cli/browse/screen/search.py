"""Search the selected partition."""

from __future__ import annotations

import time

from textual import work
from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.log_search import MAX_HITS, PartitionSearch, SearchHit, SearchTerm
from kfmt_cli.browse.screen.dialogs import SearchDialog
from kfmt_cli.browse.screen.navigation import NO_LOG_SELECTED, NavigatingBrowser
from kfmt_cli.browse.session import GO_TO_BYTE, GoToTarget
from kfmt_cli.errors import KfmtError
from kfmt_cli.render.style import escape_terminal, format_count, format_grouped


class SearchBrowser(NavigatingBrowser):
    """A browser that can search a partition."""

    running_search: PartitionSearch | None = None
    """The search in progress; None if there is none."""
    _search_start_time = 0.0

    @property
    def is_busy(self) -> bool:
        return self.pending_target is not None or self.running_search is not None

    def action_search(self) -> None:
        """Ask for a search term."""
        error = "" if self.selected_logs() else NO_LOG_SELECTED
        self.push_screen(SearchDialog(self.session.search_term, error), self._term_entered)

    def _term_entered(self, term: SearchTerm | None) -> None:
        if term is None:
            self.update_bars()
        elif self.ensure_log_open():
            self.call_after_refresh(self.start_search, term)

    def start_search(self, term: SearchTerm) -> None:
        """Search the partition, starting at the selected batch."""
        session = self.session
        log, batch_fields, node = session.log_view, session.batch_fields, session.opened_node
        if log is None or node is None or node.file is None:
            return
        self.pending_target = None
        session.clear_search()
        session.search_term, session.search_scope = term, session.enclosing_partition(node)
        files = [log_node.file for log_node in self.selected_logs() if log_node.file is not None]
        logs = files if node.file in files else [node.file]
        start_position = 0 if batch_fields is None else batch_fields.position
        self.running_search = PartitionSearch(
            logs, log.index, term, start_position, limit=session.decompression_limit
        )
        self._search_start_time = time.monotonic()
        self._run_search(self.running_search)
        self.update_bars()

    @work(thread=True, exclusive=True, group="search")
    def _run_search(self, search: PartitionSearch) -> None:
        """Search, on a thread."""
        worker = get_current_worker()
        search.is_cancelled = lambda: worker.is_cancelled
        error_text = ""
        try:
            for hit in search.iter_hits():
                self.call_from_thread(self._add_hit, search, hit)
                if len(self.session.hits) >= MAX_HITS:
                    break
        except KfmtError as error:
            error_text = str(error)
        if not worker.is_cancelled:
            error_text = error_text or "; ".join(search.read_errors)
            self.call_from_thread(self._search_finished, escape_terminal(error_text))

    def _add_hit(self, search: PartitionSearch, hit: SearchHit) -> None:
        """Add a hit; go to it if it is the first."""
        if self.running_search is not search:
            return
        self.session.hits.append(hit)
        if len(self.session.hits) == 1:
            self._go_to_hit(0)

    def _search_finished(self, message: str) -> None:
        """Show the result of a search that has ended."""
        self.running_search = None
        if message:
            self.show_message(message, "yellow")
        elif not self.session.hits:
            self._report_no_hits()
        elif self.pending_target is None:
            self._report_hit()

    def _report_no_hits(self) -> None:
        term = self.session.search_term
        if term is not None:
            message = f"not found in {self._scope_text}: {escape_terminal(term.text)}"
            self.show_message(f"{message}   $ {self._find_command}", "yellow")

    @property
    def _scope_text(self) -> str:
        node, batch_filter = self.session.search_scope, self.session.batch_filter
        scope = "this partition" if node is not None and node.file is None else "this file"
        return f"{scope}, in batches that match {batch_filter.text}" if batch_filter else scope

    @property
    def _find_command(self) -> str:
        """The equivalent `kfmt find` commands."""
        node, term = self.session.search_scope, self.session.search_term
        name = "" if node is None else node.display_path
        return format_command(ViewState(ViewKind.HITS, name, search_term=term))

    def action_hit(self, step: int) -> None:
        """Go to the next or previous hit."""
        hits = self.session.hits
        if hits:
            if self.ensure_log_open():
                self._go_to_hit((self.session.hit_index + step) % len(hits))
        elif self.session.search_term is None:
            self.show_message("no search yet: press / to search")
        elif self.running_search is None:
            self._report_no_hits()

    def _go_to_hit(self, index: int) -> None:
        session = self.session
        session.hit_index = index
        hit = session.hits[index]
        node = session.find_file_node(hit.file_name)
        if node is not None and node is not session.opened_node:
            self.open_node(node)
            self.disk_tree.show_node(node, session.ancestors(node))
            self.call_after_refresh(self.go_to, _hit_target(hit))
        else:
            self.go_to(_hit_target(hit))

    def report_arrival(self, target: GoToTarget) -> None:
        session = self.session
        if 0 <= session.hit_index < len(session.hits) and target == _hit_target(
            session.hits[session.hit_index]
        ):
            self._report_hit()

    def _report_hit(self) -> None:
        session = self.session
        if not 0 <= session.hit_index < len(session.hits):
            return
        hit = session.hits[session.hit_index]
        total_text = format_count(len(session.hits), "record")
        if len(session.hits) >= MAX_HITS:
            total_text = f"the first {total_text}"
        message = (
            f"{session.hit_index + 1} of {total_text} in {self._scope_text}: offset {hit.offset}"
        )
        self.show_message(f"{message}   ] next, [ previous   $ {self._find_command}", "green")

    def progress_text(self) -> str:
        """The progress of a search."""
        search = self.running_search
        if search is None:
            return ""
        seconds = max(time.monotonic() - self._search_start_time, 0.01)
        rate = search.searched_bytes / seconds / 1e6
        percent = min(100 * search.searched_bytes // max(search.total_bytes, 1), 100)
        segment_text = (
            f"segment {search.log_index + 1} of {len(search.logs)}, "
            if len(search.logs) > 1
            else ""
        )
        hits_text = f"{len(self.session.hits)} found"
        return (
            f"searching: {segment_text}{percent}%, {format_grouped(round(rate))} MB/s, "
            f"{hits_text}; Esc cancels"
        )


def _hit_target(hit: SearchHit) -> GoToTarget:
    return GoToTarget(GO_TO_BYTE, hit.batch_position, hit.offset)
