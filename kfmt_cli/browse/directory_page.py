"""The page of a directory: its contents, its findings, and the views to choose from."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rich.text import Text

from kfmt_cli.browse.checked import FoundInPartition
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.views import VIEWS
from kfmt_cli.findings.finding import Severity
from kfmt_cli.render.style import count, human, safe

MOST_DAMAGED = 12


def home_lines(
    node: DiskNode, checked: Mapping[str, FoundInPartition], checking: Collection[str]
) -> list[Text]:
    """The page of a directory."""
    partitions = list(node.partitions())
    logs = sum(len(partition.logs()) for partition in partitions)
    topics = {partition.label.rpartition("-")[0] for partition in partitions}
    what = count(len(partitions), "partition")
    if node.kind is not NodeKind.PARTITION:
        what += f" of {count(len(topics), 'topic')}"
    verdict, *damage = _damage(list(node.checkable()), checked, checking) or [Text("")]
    lines = [
        Text(f" {safe(node.name or node.label)}", style="bold"),
        Text(f" {what}, {count(logs, 'segment')}, {human(node.size)}"),
        verdict,
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
        *damage,
    ]
    for line in lines:
        line.no_wrap = True
    return lines


def _damage(
    nodes: list[DiskNode], checked: Mapping[str, FoundInPartition], checking: Collection[str]
) -> list[Text]:
    # The small files of a log directory count only if they are damaged.
    nodes = [
        node
        for node in nodes
        if node.file is None or node.is_log or _is_bad(checked.get(node.path))
    ]
    known = [node for node in nodes if node.path in checked]
    number = len(nodes)
    noun = "input" if any(node.file is not None for node in nodes) else "partition"
    if any(node.path in checking for node in nodes):
        return [Text(f" checking: {len(known)} of {number} {noun}s …", style="dim")]
    if not nodes:
        return []
    if not known:
        return [Text(" not checked yet; press c to check", style="yellow")]
    bad = [node for node in known if _is_bad(checked[node.path])]
    some = "" if len(known) == number else f" ({len(known)} of {number} checked)"
    if not bad:
        return [Text(f" ✓ checked: no errors{some}", style="green")]
    unread = sum(bool(checked[node.path].trouble) for node in bad)
    words = f"{count(len(bad) - unread, noun)} of {number} with errors"
    if unread:
        alone = f"{count(unread, noun)} of {number} unread"
        words = f"{words}, {unread} unread" if unread < len(bad) else alone
    lines = [Text(f" ✗ {words}{some}", style="bold red")]
    for node in bad[:MOST_DAMAGED]:
        held = checked[node.path]
        kinds = dict.fromkeys(
            finding.code.name
            for finding in held.findings
            if finding.code.severity is Severity.ERROR
        )
        said = held.trouble or ", ".join(kinds)
        lines.append(Text.assemble(f"   {safe(node.label):<24} ", (said, "red")))
    if len(bad) > MOST_DAMAGED:
        lines.append(Text(f"   and {len(bad) - MOST_DAMAGED} more"))
    return lines


def _is_bad(held: FoundInPartition | None) -> bool:
    return held is not None and held.mark[1] == "bad"
