"""Check partitions in the background, and go from finding to finding."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from textual.worker import get_current_worker

from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.navigation import GO_TO_BYTE, GoToTarget
from kfmt_cli.browse.partition_checks import check_partitions, group_partitions
from kfmt_cli.browse.text_host import capture_output, wrap_lines
from kfmt_cli.disk.file_access import is_remote_path
from kfmt_cli.findings.finding import Severity

if TYPE_CHECKING:
    from kfmt_cli.browse.screen.app import BrowserApp

MAX_AUTO_CHECK_BYTES = 256 << 20  # inputs with at most this many bytes are checked on start
MAX_REMOTE_AUTO_CHECK_BYTES = 16 << 20  # the same for files at a URL
STYLE_BY_SEVERITY = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


class PartitionChecker:
    """Checks partitions on a thread; the session has the results."""

    def __init__(self, app: BrowserApp) -> None:
        self._app = app
        self._checks = app.session.checks

    def check_small_inputs(self) -> None:
        """Check everything if it has few bytes."""
        nodes = list(self._app.session.root.iter_checkable_nodes())
        is_remote = any(
            is_remote_path(log_node.path)
            for node in nodes
            for log_node in node.logs()[:1] or [node]
        )
        self._start(nodes, MAX_REMOTE_AUTO_CHECK_BYTES if is_remote else MAX_AUTO_CHECK_BYTES)

    def check_node(self, node: DiskNode) -> None:
        """Check the partition of a node, or all partitions under it, whatever their size."""
        partition = self._app.session.enclosing_partition(node)
        nodes = list(partition.iter_checkable_nodes()) or [partition]
        n_nodes = len(nodes)
        self._app.show_message(f"checking {n_nodes} partitions" if n_nodes > 1 else "checking")
        self._start(nodes, None)

    def _start(self, nodes: list[DiskNode], max_bytes: int | None) -> None:
        """Check partitions. max_bytes: skip the check if they have more bytes in total."""
        self._app.run_worker(partial(self._check, nodes, max_bytes), thread=True, group="check")

    def _check(self, nodes: list[DiskNode], max_bytes: int | None) -> None:
        app, worker = self._app, get_current_worker()
        if max_bytes is not None and sum(node.total_bytes for node in nodes) > max_bytes:
            return
        for node_group in group_partitions(nodes):
            group_paths = {node.path for node in node_group}
            self._checks.paths_in_progress |= group_paths
            app.call_from_thread(app.show_new_marks)
            check_results = check_partitions(node_group, lambda: worker.is_cancelled)
            self._checks.paths_in_progress -= group_paths
            if check_results is None or worker.is_cancelled:
                return
            for node, check_result in zip(node_group, check_results, strict=True):
                self._checks.result_by_path[node.path] = check_result
        app.call_from_thread(app.disk_tree.redraw)
        app.call_from_thread(app.show_new_marks)

    # Findings.

    def go_to_next_finding(self, step: int) -> None:
        """Go to the next or previous finding."""
        app, session = self._app, self._app.session
        finding = self._checks.select_next_finding(step)
        if finding is None:
            was_checked = any(
                result.check_error == "" for result in self._checks.result_by_path.values()
            )
            app.show_message(
                "no damage in what was checked" if was_checked else "press c to check it first"
            )
            return
        node = session.find_file_node(finding.file)
        if node is not None and (node is not session.opened_node or not node.is_log):
            app.open_node(node)
            app.disk_tree.show_node(node, session.ancestors(node))
        if node is not None and node.is_log and finding.position is not None:
            app.show_log_panes()
            target = GoToTarget(GO_TO_BYTE, finding.position)
            app.call_after_refresh(app.navigator.go_to, target)
        else:
            app.call_after_refresh(self._report_finding)

    def explain_finding(self) -> None:
        """Explain the finding visited last, or the first one."""
        if self._checks.current_finding is None:
            self.go_to_next_finding(1)
        finding = self._checks.current_finding
        if finding is None:
            return
        from kfmt_cli.commands.explain.command import ExplainCommand
        from kfmt_cli.commands.explain.options import ExplainOptions

        code_name = finding.code.name
        output_columns = max(min(self._app.size.width - 10, 92), 40)
        options = ExplainOptions(names=(code_name,))
        output = capture_output(lambda run: ExplainCommand(run, options).execute(), output_columns)
        view_state = ViewState(ViewKind.VIEW, command=("explain", code_name))
        page_lines: list[Text | str] = [
            Text(f" $ {format_command(view_state)}", style="bold"),
            Text(""),
            *wrap_lines(output, output_columns + 4),
        ]
        self._app.show_page(code_name, page_lines)

    def report_arrival(self, target: GoToTarget) -> None:
        """Report the finding if the target is the finding visited last."""
        finding, opened_log = self._checks.current_finding, self._app.session.opened_log
        if finding is None or target != GoToTarget(GO_TO_BYTE, finding.position or 0):
            return
        batch_fields = None if opened_log is None else opened_log.batch_fields
        batch_filter = self._app.session.batch_filter
        if (
            batch_filter
            and batch_fields is not None
            and not 0 <= target.target_value - batch_fields.position < batch_fields.size
        ):
            message = (
                f"{finding.code.name} is in a batch that the filter hides: "
                f"{batch_filter.typed_text}"
            )
            self._app.show_message(f"{message}; f changes it", "yellow")
            return
        self._report_finding()

    def _report_finding(self) -> None:
        finding = self._checks.current_finding
        if finding is not None:
            style = STYLE_BY_SEVERITY[finding.code.severity]
            self._app.show_message(self._checks.current_finding_text, style)
