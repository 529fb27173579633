"""Search the selected partition, and go from hit to hit."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.log_search import MAX_HITS, PartitionSearch, SearchHit, SearchTerm
from kfmt_cli.browse.navigation import GO_TO_BYTE, GoToTarget
from kfmt_cli.browse.screen.dialogs import SearchDialog
from kfmt_cli.browse.screen.navigator import NO_LOG_SELECTED_MESSAGE
from kfmt_cli.browse.session import SearchState
from kfmt_cli.errors import KfmtError
from kfmt_cli.render.style import escape_unprintable, format_count, format_thousands

if TYPE_CHECKING:
    from kfmt_cli.browse.screen.app import BrowserApp


class SearchRunner:
    """Searches the selected partition on a thread; the session has the term and the hits."""

    def __init__(self, app: BrowserApp) -> None:
        self._app = app
        self.running_search: PartitionSearch | None = None
        """The search in progress; None if there is none."""
        self._start_time = 0.0

    def ask_term(self) -> None:
        """Ask for a search term."""
        search = self._app.session.search
        search_error = "" if self._app.navigator.log_nodes else NO_LOG_SELECTED_MESSAGE
        dialog = SearchDialog(None if search is None else search.term, search_error)
        self._app.push_screen(dialog, self._apply_term)

    def _apply_term(self, search_term: SearchTerm | None) -> None:
        if search_term is None:
            self._app.update_bars()
        elif self._app.navigator.ensure_log_open():
            self._app.call_after_refresh(self._start, search_term)

    def _start(self, search_term: SearchTerm) -> None:
        """Search the partition, starting at the selected batch."""
        session, navigator = self._app.session, self._app.navigator
        opened_log = session.opened_log
        if opened_log is None:
            return
        navigator.pending_target = None
        session.search = SearchState(search_term, session.enclosing_partition(opened_log.node))
        logs = [log_node.file for log_node in navigator.log_nodes if log_node.file is not None]
        block_index, batch_fields = opened_log.block_index, opened_log.batch_fields
        self.running_search = PartitionSearch(
            logs if block_index.file in logs else [block_index.file],
            block_index,
            search_term,
            0 if batch_fields is None else batch_fields.position,
            decompression_limit=session.decompression_limit,
        )
        self._start_time = time.monotonic()
        run_search = partial(self._run, self.running_search, session.search)
        self._app.run_worker(run_search, thread=True, exclusive=True, group="search")
        self._app.update_bars()

    def _run(self, partition_search: PartitionSearch, search: SearchState) -> None:
        """Search, on a thread."""
        worker = get_current_worker()
        partition_search.is_cancelled = lambda: worker.is_cancelled
        error_text = ""
        try:
            for hit in partition_search.iter_hits():
                self._app.call_from_thread(self._add_hit, search, hit)
                if len(search.hits) >= MAX_HITS:
                    break
        except KfmtError as error:
            error_text = str(error)
        if not worker.is_cancelled:
            error_text = error_text or "; ".join(partition_search.read_errors)
            self._app.call_from_thread(self._show_result, escape_unprintable(error_text))

    def _add_hit(self, search: SearchState, hit: SearchHit) -> None:
        """Add a hit, unless the search is over; go to it if it is the first."""
        if self.running_search is None or self._app.session.search is not search:
            return
        search.hits.append(hit)
        if len(search.hits) == 1:
            self._go_to_hit(search, 0)

    def cancel(self) -> None:
        """Cancel the search in progress."""
        self._app.workers.cancel_group(self._app, "search")
        self._show_result("search cancelled")

    def _show_result(self, message: str) -> None:
        """Show the result of a search that has ended."""
        self.running_search = None
        search = self._app.session.search
        if message:
            self._app.show_message(message, "yellow")
        elif search is not None and not search.hits:
            self._report_no_hits(search)
        elif search is not None and self._app.navigator.pending_target is None:
            self._report_hit(search)

    # Hits.

    def go_to_next_hit(self, step: int) -> None:
        """Go to the next or previous hit."""
        search = self._app.session.search
        if search is None:
            self._app.show_message("no search yet: press / to search")
        elif search.hits:
            if self._app.navigator.ensure_log_open():
                self._go_to_hit(search, (search.hit_index + step) % len(search.hits))
        elif self.running_search is None:
            self._report_no_hits(search)

    def _go_to_hit(self, search: SearchState, hit_index: int) -> None:
        app, session = self._app, self._app.session
        search.hit_index = hit_index
        hit = search.hits[hit_index]
        log_node = session.find_file_node(hit.file_name)
        if log_node is not None and log_node is not session.opened_node:
            app.open_node(log_node)
            app.disk_tree.show_node(log_node, session.ancestors(log_node))
            app.call_after_refresh(app.navigator.go_to, _hit_target(hit))
        else:
            app.navigator.go_to(_hit_target(hit))

    def report_arrival(self, target: GoToTarget) -> None:
        """Report the hit if the target is the hit visited last."""
        search = self._app.session.search
        hit = None if search is None else search.current_hit
        if search is not None and hit is not None and target == _hit_target(hit):
            self._report_hit(search)

    # Messages.

    def _report_no_hits(self, search: SearchState) -> None:
        term_text = escape_unprintable(search.term.typed_text)
        message = f"not found in {self._scope_text(search)}: {term_text}"
        self._app.show_message(f"{message}   $ {_find_command_line(search)}", "yellow")

    def _report_hit(self, search: SearchState) -> None:
        if search.current_hit is None:
            return
        total_text = format_count(len(search.hits), "record")
        if len(search.hits) >= MAX_HITS:
            total_text = f"the first {total_text}"
        message = (
            f"{search.hit_index + 1} of {total_text} in {self._scope_text(search)}: "
            f"offset {search.current_hit.offset}"
        )
        keys_text = "] next, [ previous"
        self._app.show_message(f"{message}   {keys_text}   $ {_find_command_line(search)}", "green")

    def _scope_text(self, search: SearchState) -> str:
        batch_filter = self._app.session.batch_filter
        scope_text = "this partition" if search.scope.file is None else "this file"
        filter_text = f", in batches that match {batch_filter.typed_text}" if batch_filter else ""
        return scope_text + filter_text

    @property
    def progress_text(self) -> str:
        """The progress of a search; empty if there is none."""
        running_search, search = self.running_search, self._app.session.search
        if running_search is None or search is None:
            return ""
        elapsed_seconds = max(time.monotonic() - self._start_time, 0.01)
        megabytes_per_second = running_search.searched_bytes / elapsed_seconds / 1e6
        percent = min(
            100 * running_search.searched_bytes // max(running_search.total_bytes, 1), 100
        )
        segment_text = (
            f"segment {running_search.current_log_index + 1} of {len(running_search.logs)}, "
            if len(running_search.logs) > 1
            else ""
        )
        return (
            f"searching: {segment_text}{percent}%, "
            f"{format_thousands(round(megabytes_per_second))} MB/s, "
            f"{len(search.hits)} found; Esc cancels"
        )


def _hit_target(hit: SearchHit) -> GoToTarget:
    return GoToTarget(GO_TO_BYTE, hit.batch_position, hit.offset)


def _find_command_line(search: SearchState) -> str:
    """The equivalent `kfmt find` commands."""
    return format_command(
        ViewState(ViewKind.HITS, search.scope.display_path, search_term=search.term)
    )
