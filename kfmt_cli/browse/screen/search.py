"""Search the selected partition."""

from __future__ import annotations

import time

from textual import work
from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.log_search import MAX_HITS, PartitionSearch, SearchHit, SearchTerm
from kfmt_cli.browse.screen.dialogs import SearchDialog
from kfmt_cli.browse.screen.navigation import NO_LOG_SELECTED_MESSAGE, NavigatingBrowser
from kfmt_cli.browse.session import GO_TO_BYTE, GoToTarget
from kfmt_cli.errors import KfmtError
from kfmt_cli.render.style import escape_unprintable, format_count, format_thousands


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
        search_error = "" if self.selected_log_nodes() else NO_LOG_SELECTED_MESSAGE
        self.push_screen(
            SearchDialog(self.session.search_term, search_error), self._apply_search_term
        )

    def _apply_search_term(self, search_term: SearchTerm | None) -> None:
        if search_term is None:
            self.update_bars()
        elif self.ensure_log_open():
            self.call_after_refresh(self.start_search, search_term)

    def start_search(self, search_term: SearchTerm) -> None:
        """Search the partition, starting at the selected batch."""
        session = self.session
        log_view, batch_fields, open_log_node = (
            session.log_view,
            session.batch_fields,
            session.opened_node,
        )
        if log_view is None or open_log_node is None or open_log_node.file is None:
            return
        self.pending_target = None
        session.clear_search()
        session.search_term, session.search_scope = (
            search_term,
            session.enclosing_partition(open_log_node),
        )
        selected_files = [
            log_node.file for log_node in self.selected_log_nodes() if log_node.file is not None
        ]
        logs = selected_files if open_log_node.file in selected_files else [open_log_node.file]
        start_position = 0 if batch_fields is None else batch_fields.position
        self.running_search = PartitionSearch(
            logs,
            log_view.block_index,
            search_term,
            start_position,
            decompression_limit=session.decompression_limit,
        )
        self._search_start_time = time.monotonic()
        self._run_search(self.running_search)
        self.update_bars()

    @work(thread=True, exclusive=True, group="search")
    def _run_search(self, partition_search: PartitionSearch) -> None:
        """Search, on a thread."""
        worker = get_current_worker()
        partition_search.is_cancelled = lambda: worker.is_cancelled
        error_text = ""
        try:
            for hit in partition_search.iter_hits():
                self.call_from_thread(self._add_hit, partition_search, hit)
                if len(self.session.search_hits) >= MAX_HITS:
                    break
        except KfmtError as error:
            error_text = str(error)
        if not worker.is_cancelled:
            error_text = error_text or "; ".join(partition_search.read_errors)
            self.call_from_thread(self._show_search_result, escape_unprintable(error_text))

    def _add_hit(self, search: PartitionSearch, hit: SearchHit) -> None:
        """Add a hit; go to it if it is the first."""
        if self.running_search is not search:
            return
        self.session.search_hits.append(hit)
        if len(self.session.search_hits) == 1:
            self._go_to_hit(0)

    def _show_search_result(self, message: str) -> None:
        """Show the result of a search that has ended."""
        self.running_search = None
        if message:
            self.show_message(message, "yellow")
        elif not self.session.search_hits:
            self._report_no_hits()
        elif self.pending_target is None:
            self._report_hit()

    def _report_no_hits(self) -> None:
        search_term = self.session.search_term
        if search_term is not None:
            message = (
                f"not found in {self._search_scope_text}: "
                f"{escape_unprintable(search_term.typed_text)}"
            )
            self.show_message(f"{message}   $ {self._find_command_line}", "yellow")

    @property
    def _search_scope_text(self) -> str:
        scope_node, batch_filter = self.session.search_scope, self.session.batch_filter
        scope_text = (
            "this partition" if scope_node is not None and scope_node.file is None else "this file"
        )
        return (
            f"{scope_text}, in batches that match {batch_filter.typed_text}"
            if batch_filter
            else scope_text
        )

    @property
    def _find_command_line(self) -> str:
        """The equivalent `kfmt find` commands."""
        scope_node, search_term = self.session.search_scope, self.session.search_term
        search_path = "" if scope_node is None else scope_node.display_path
        return format_command(ViewState(ViewKind.HITS, search_path, search_term=search_term))

    def action_hit(self, step: int) -> None:
        """Go to the next or previous hit."""
        hits = self.session.search_hits
        if hits:
            if self.ensure_log_open():
                self._go_to_hit((self.session.hit_index + step) % len(hits))
        elif self.session.search_term is None:
            self.show_message("no search yet: press / to search")
        elif self.running_search is None:
            self._report_no_hits()

    def _go_to_hit(self, hit_index: int) -> None:
        session = self.session
        session.hit_index = hit_index
        hit = session.search_hits[hit_index]
        log_node = session.find_file_node(hit.file_name)
        if log_node is not None and log_node is not session.opened_node:
            self.open_node(log_node)
            self.disk_tree.show_node(log_node, session.ancestors(log_node))
            self.call_after_refresh(self.go_to, _hit_target(hit))
        else:
            self.go_to(_hit_target(hit))

    def show_target_message(self, target: GoToTarget) -> None:
        session = self.session
        if 0 <= session.hit_index < len(session.search_hits) and target == _hit_target(
            session.search_hits[session.hit_index]
        ):
            self._report_hit()

    def _report_hit(self) -> None:
        session = self.session
        if not 0 <= session.hit_index < len(session.search_hits):
            return
        hit = session.search_hits[session.hit_index]
        total_text = format_count(len(session.search_hits), "record")
        if len(session.search_hits) >= MAX_HITS:
            total_text = f"the first {total_text}"
        message = (
            f"{session.hit_index + 1} of {total_text} in {self._search_scope_text}: "
            f"offset {hit.offset}"
        )
        self.show_message(f"{message}   ] next, [ previous   $ {self._find_command_line}", "green")

    def search_progress_text(self) -> str:
        """The progress of a search."""
        running_search = self.running_search
        if running_search is None:
            return ""
        elapsed_seconds = max(time.monotonic() - self._search_start_time, 0.01)
        megabytes_per_second = running_search.searched_bytes / elapsed_seconds / 1e6
        percent = min(
            100 * running_search.searched_bytes // max(running_search.total_bytes, 1), 100
        )
        segment_text = (
            f"segment {running_search.current_log_index + 1} of {len(running_search.logs)}, "
            if len(running_search.logs) > 1
            else ""
        )
        hits_text = f"{len(self.session.search_hits)} found"
        return (
            f"searching: {segment_text}{percent}%, "
            f"{format_thousands(round(megabytes_per_second))} MB/s, "
            f"{hits_text}; Esc cancels"
        )


def _hit_target(hit: SearchHit) -> GoToTarget:
    return GoToTarget(GO_TO_BYTE, hit.batch_position, hit.offset)
