"""The page of a directory: its contents, its findings, and the views to choose from."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.partition_checks import CheckState, NodeCheckResult
from kfmt_cli.browse.views import VIEWS
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.findings.finding import Severity
from kfmt_cli.render.style import escape_unprintable, format_bytes, format_count

MAX_DAMAGED_NODES = 12


def directory_page_lines(node: DiskNode, checks: CheckState) -> list[Text]:
    """The page of a directory."""
    partitions = list(node.iter_partitions())
    n_segments = sum(len(partition.logs()) for partition in partitions)
    topics = {parse_topic_partition(Path(partition.path).name)[0] for partition in partitions}
    contents_text = format_count(len(partitions), "partition")
    if node.kind is not NodeKind.PARTITION:
        contents_text += f" of {format_count(len(topics), 'topic')}"
    verdict_line, *damage_lines = _damage_lines(node, checks) or [Text("")]
    lines = [
        Text(f" {escape_unprintable(node.display_path or node.label)}", style="bold"),
        Text(
            f" {contents_text}, {format_count(n_segments, 'segment')}, "
            f"{format_bytes(node.total_bytes)}"
        ),
        verdict_line,
        Text(""),
        *(
            Text.assemble((f"  {view.key}  ", "bold cyan"), view.question).on(
                click=f"app.view('{view.key}')"
            )
            for view in VIEWS
        ),
        Text(""),
        Text("  Enter opens. n jumps to damage.", style="dim"),
        Text("  The line after $ is the equivalent command.", style="dim"),
        Text("  ? shows help, q quits.", style="dim"),
        Text(""),
        *damage_lines,
    ]
    for line in lines:
        line.no_wrap = True
    return lines


def _damage_lines(directory_node: DiskNode, checks: CheckState) -> list[Text]:
    check_results = checks.result_by_path
    # The small files of a log directory count only if they are damaged.
    nodes = [
        node
        for node in directory_node.iter_checkable_nodes()
        if node.file is None or node.is_log or _has_errors(check_results.get(node.path))
    ]
    checked_nodes = [node for node in nodes if node.path in check_results]
    n_nodes = len(nodes)
    node_noun = "input" if any(node.file is not None for node in nodes) else "partition"
    if any(node.path in checks.paths_in_progress for node in nodes):
        return [Text(f" checking: {len(checked_nodes)} of {n_nodes} {node_noun}s …", style="dim")]
    if not nodes:
        return []
    if not checked_nodes:
        return [Text(" not checked yet; press c to check", style="yellow")]
    damaged_nodes = [node for node in checked_nodes if _has_errors(check_results[node.path])]
    coverage_text = (
        "" if len(checked_nodes) == n_nodes else f" ({len(checked_nodes)} of {n_nodes} checked)"
    )
    if not damaged_nodes:
        return [Text(f" ✓ checked: no errors{coverage_text}", style="green")]
    n_unread = sum(bool(check_results[node.path].check_error) for node in damaged_nodes)
    verdict_text = (
        f"{format_count(len(damaged_nodes) - n_unread, node_noun)} of {n_nodes} with errors"
    )
    if n_unread:
        unread_text = f"{format_count(n_unread, node_noun)} of {n_nodes} unread"
        verdict_text = (
            f"{verdict_text}, {n_unread} unread" if n_unread < len(damaged_nodes) else unread_text
        )
    lines = [Text(f" ✗ {verdict_text}{coverage_text}", style="bold red")]
    for node in damaged_nodes[:MAX_DAMAGED_NODES]:
        check_result = check_results[node.path]
        code_names = dict.fromkeys(
            finding.code.name
            for finding in check_result.findings
            if finding.code.severity is Severity.ERROR
        )
        error_summary = check_result.check_error or ", ".join(code_names)
        lines.append(
            Text.assemble(f"   {escape_unprintable(node.label):<24} ", (error_summary, "red"))
        )
    if len(damaged_nodes) > MAX_DAMAGED_NODES:
        lines.append(Text(f"   and {len(damaged_nodes) - MAX_DAMAGED_NODES} more"))
    return lines


def _has_errors(check_result: NodeCheckResult | None) -> bool:
    return check_result is not None and check_result.tree_mark[1] == "bad"
