"""The findings for a partition, from the code of `kfmt check`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.text_host import CapturingHost
from kfmt_cli.commands.check.command import CheckCommand
from kfmt_cli.commands.check.directory_result import CHECK_RESULT
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.input_paths import resolve_trailing_parent
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.sinks.sink import OutputStreams, Sink
from kfmt_cli.render.style import escape_unprintable

MAX_GROUP_PARTITIONS = 250  # partitions checked in one run
MAX_GROUP_BYTES = 256 << 20  # the bytes of these partitions
_ERROR_PREFIX = "kfmt: "
_SEVERITIES_WORST_FIRST = list(Severity)  # the most severe first


@dataclass(frozen=True, slots=True)
class NodeCheckResult:
    """The result of checking a partition."""

    findings: tuple[Finding, ...] = ()
    """The findings, the most severe first, then in the order of files and bytes."""
    check_error: str = ""
    """Why the partition could not be checked; empty if it was checked."""
    suppressed_by_severity: Counter[Severity] = field(default_factory=Counter)
    """The number of suppressed findings, by severity."""

    @property
    def tree_mark(self) -> tuple[str, str]:
        """The mark in the tree, and its style."""
        if self.check_error:
            return "unread", "bad"
        return format_findings_mark(self.findings, self.suppressed_by_severity) or ("✓", "good")


_MARKS_BY_SEVERITY = ((Severity.ERROR, "✗", "bad"), (Severity.WARNING, "!", "warn"))


def format_findings_mark(
    findings: Collection[Finding],
    suppressed_by_severity: Mapping[Severity, int] = MappingProxyType({}),
) -> tuple[str, str] | None:
    """The mark for some findings, and its style; None if none of them is an error or a warning.
    suppressed_by_severity: the number of further findings, by severity."""
    for severity, symbol, style in _MARKS_BY_SEVERITY:
        n_findings = sum(finding.code.severity is severity for finding in findings)
        if n_findings := n_findings + suppressed_by_severity.get(severity, 0):
            return f"{symbol}{n_findings}", style
    return None


class _FindingSink(Sink):
    """Collects findings and errors."""

    def __init__(self, streams: OutputStreams) -> None:
        super().__init__(streams)
        self.findings: list[Finding] = []
        self.suppressed_findings: list[tuple[str, Severity, int]] = []
        """File, severity and number of suppressed findings."""
        self.error_texts: list[str] = []
        """The messages about unreadable inputs."""

    def write_finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        self.suppressed_findings.append((file, code.severity, n_suppressed))

    def write_to_stderr(self, text: str) -> None:
        if text.startswith(_ERROR_PREFIX):
            self.error_texts.append(text)


def check_partitions(
    nodes: Sequence[DiskNode], is_cancelled: Callable[[], bool]
) -> list[NodeCheckResult] | None:
    """Check several partitions and files in one run, which is faster; None once `is_cancelled`
    returns True."""
    paths = tuple(path for node in nodes if node.has_files for path in node.paths)
    if not paths:
        return [NodeCheckResult() for _ in nodes]
    try:
        sink = _run_check(paths, is_cancelled)
    except OutputClosed:
        return None
    except KfmtError as error:
        if len(nodes) == 1:
            return [NodeCheckResult(check_error=escape_unprintable(str(error)))]
        return _check_separately(nodes, is_cancelled)
    # The names of the nodes as `check` reports them; a single node owns everything.
    names = [format_display_name(resolve_trailing_parent(node.path)) for node in nodes]
    default_name = names[0] if len(nodes) == 1 else ""
    findings_by_name: defaultdict[str, list[Finding]] = defaultdict(list)
    suppressed_by_name: defaultdict[str, Counter[Severity]] = defaultdict(Counter)
    errors_by_name: defaultdict[str, list[str]] = defaultdict(list)
    name_set = set(names)
    for finding in sink.findings:
        findings_by_name[_find_owner(finding.file, name_set) or default_name].append(finding)
    for file, severity, n_findings in sink.suppressed_findings:
        suppressed_by_name[_find_owner(file, name_set) or default_name][severity] += n_findings
    for text in sink.error_texts:
        errors_by_name[_find_error_owner(text, names) or default_name].append(text)
    if "" in (*findings_by_name, *suppressed_by_name, *errors_by_name):
        return _check_separately(nodes, is_cancelled)
    return [
        NodeCheckResult(
            tuple(sorted(findings_by_name[name], key=_severity_sort_key)),
            "" if findings_by_name[name] else "".join(errors_by_name[name]).strip(),
            suppressed_by_name[name],
        )
        for name in names
    ]


def _check_separately(
    nodes: Sequence[DiskNode], is_cancelled: Callable[[], bool]
) -> list[NodeCheckResult] | None:
    """Check each node by itself; None once `is_cancelled` returns True."""
    check_results: list[NodeCheckResult] = []
    for node in nodes:
        node_results = check_partitions([node], is_cancelled)
        if node_results is None:
            return None
        check_results += node_results
    return check_results


def _find_owner(path: str, owner_names: Collection[str]) -> str:
    """The name of the file itself or of a directory that contains it; empty if no name matches."""
    while path and path not in owner_names:
        path = path.rpartition("/")[0]
    return path


def _find_error_owner(error_text: str, owner_names: Sequence[str]) -> str:
    """The name of the node whose file an error is about; empty if no name matches."""
    message = error_text.removeprefix(_ERROR_PREFIX)
    for name in owner_names:
        if message.startswith((f"{escape_unprintable(name)}: ", f"{escape_unprintable(name)}/")):
            return name
    return ""


def _run_check(paths: tuple[str, ...], is_cancelled: Callable[[], bool]) -> _FindingSink:
    """Run `check_command`; raises OutputClosed once `is_cancelled` returns True, UsageError for
    invalid paths."""
    host = CapturingHost(is_cancelled=is_cancelled)
    sink = _FindingSink(host)
    check_run = CommandRun(host, sink, CHECK_RESULT)
    CheckCommand(check_run).check_and_show_paths(paths)
    if is_cancelled():
        raise OutputClosed(host.exit_code)
    return sink


def group_partitions(nodes: Iterable[DiskNode]) -> Iterator[list[DiskNode]]:
    """Groups of partitions to check together, small enough that first results appear soon."""
    group: list[DiskNode] = []
    group_bytes = 0
    for node in nodes:
        if group and (
            len(group) >= MAX_GROUP_PARTITIONS or group_bytes + node.total_bytes > MAX_GROUP_BYTES
        ):
            yield group
            group, group_bytes = [], 0
        group.append(node)
        group_bytes += node.total_bytes
    if group:
        yield group


def _severity_sort_key(finding: Finding) -> tuple[int, bool, str, int]:
    """Sort key: the most severe first, findings within a file before findings about the file."""
    severity = _SEVERITIES_WORST_FIRST.index(finding.code.severity)
    return severity, finding.position is None, finding.file, finding.position or 0
