"""The findings for a partition, from the code of `kfmt check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.text_host import CapturingHost
from kfmt_cli.commands.check.command import CheckCommand, code_filter
from kfmt_cli.commands.check.directory_result import CHECK_RESULT
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.input_paths import resolve_trailing_parent
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.findings.finding import MAX_FINDINGS, Finding, FindingCode, Severity
from kfmt_cli.render.sinks.sink import OutputStreams, Sink
from kfmt_cli.render.style import NO_COLOUR, escape_unprintable

MAX_GROUP_PARTITIONS = 250  # partitions checked in one run
MAX_GROUP_BYTES = 256 << 20  # bytes of the partitions checked in one run
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
    """Collects the findings."""

    def __init__(self, streams: OutputStreams) -> None:
        super().__init__(streams)
        self.findings: list[Finding] = []
        self.suppressed_findings: list[tuple[str, Severity, int]] = []
        """File, severity and number of suppressed findings."""

    def write_finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        self.suppressed_findings.append((file, code.severity, n_suppressed))


def check_paths(paths: tuple[str, ...], is_cancelled: Callable[[], bool]) -> NodeCheckResult | None:
    """Check some paths; None once `is_cancelled` returns True."""
    try:
        sink, check_run = _run_check(paths, is_cancelled)
    except OutputClosed:
        return None
    except KfmtError as error:
        return NodeCheckResult(check_error=escape_unprintable(str(error)))
    host = check_run.output
    assert isinstance(host, CapturingHost)
    check_error = (
        host.output.strip() if check_run.summary.n_unread_inputs and not sink.findings else ""
    )
    check_result = NodeCheckResult(_sort_by_severity(sink.findings), check_error)
    for _, severity, n_findings in sink.suppressed_findings:
        check_result.suppressed_by_severity[severity] += n_findings
    return check_result


def check_partitions(
    nodes: Sequence[DiskNode], is_cancelled: Callable[[], bool]
) -> list[NodeCheckResult] | None:
    """Check several partitions in one run, which is faster; None once `is_cancelled` returns
    True."""
    paths = tuple(path for node in nodes if node.has_files for path in node.paths)
    if not paths:
        return [NodeCheckResult() for _ in nodes]
    try:
        sink, check_run = _run_check(paths, is_cancelled)
    except OutputClosed:
        return None
    except KfmtError:
        return _check_nodes_separately(nodes, is_cancelled)
    # The names of the partitions as `check` reports them.
    partition_names = [format_display_name(resolve_trailing_parent(node.path)) for node in nodes]
    findings_by_name: dict[str, list[Finding]] = {name: [] for name in partition_names}
    suppressed_by_name: dict[str, Counter[Severity]] = {name: Counter() for name in partition_names}
    finding_owner_names = [
        _find_owner_name(finding.file, findings_by_name) for finding in sink.findings
    ]
    suppressed_owner_names = [
        _find_owner_name(file, findings_by_name) for file, _, _ in sink.suppressed_findings
    ]
    if (
        check_run.summary.n_unread_inputs
        or "" in finding_owner_names
        or "" in suppressed_owner_names
    ):
        return _check_nodes_separately(nodes, is_cancelled)
    for partition_name, finding in zip(finding_owner_names, sink.findings, strict=True):
        findings_by_name[partition_name].append(finding)
    for partition_name, (_, severity, n_findings) in zip(
        suppressed_owner_names, sink.suppressed_findings, strict=True
    ):
        suppressed_by_name[partition_name][severity] += n_findings
    return [
        NodeCheckResult(
            _sort_by_severity(findings_by_name[name]),
            suppressed_by_severity=suppressed_by_name[name],
        )
        for name in partition_names
    ]


def _check_nodes_separately(
    nodes: Sequence[DiskNode], is_cancelled: Callable[[], bool]
) -> list[NodeCheckResult] | None:
    """Check each partition separately, to find which of them fail; None once `is_cancelled`
    returns True."""
    check_results = []
    for node in nodes:
        check_result = (
            check_paths(node.paths, is_cancelled) if node.has_files else NodeCheckResult()
        )
        if check_result is None:
            return None
        check_results.append(check_result)
    return check_results


def _find_owner_name(path: str, owner_names: Collection[str]) -> str:
    """The name of the file itself or of a directory that contains it; empty if no name matches."""
    while path and path not in owner_names:
        path = path.rpartition("/")[0]
    return path


def _run_check(
    paths: tuple[str, ...], is_cancelled: Callable[[], bool]
) -> tuple[_FindingSink, CommandRun]:
    """Run `check_command`; raises OutputClosed once `is_cancelled` returns True, UsageError for
    invalid paths."""
    host = CapturingHost(theme=NO_COLOUR, err_theme=NO_COLOUR, is_cancelled=is_cancelled)
    sink = _FindingSink(host)
    check_run = CommandRun(host, sink, CHECK_RESULT)
    code_selection = code_filter((), ())
    check_command = CheckCommand(
        check_run,
        1,
        DecompressionLimit(),
        DEFAULT_INDEX_INTERVAL_BYTES,
        None,
        MAX_FINDINGS,
        code_selection,
    )
    check_command.check_and_show_paths(paths)
    if is_cancelled():
        raise OutputClosed(host.exit_code)
    return sink, check_run


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


def _sort_by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=_severity_sort_key))


def _severity_sort_key(finding: Finding) -> tuple[int, bool, str, int]:
    """Sort key: the most severe first, findings within a file before findings about the file."""
    severity = _SEVERITIES_WORST_FIRST.index(finding.code.severity)
    return severity, finding.position is None, finding.file, finding.position or 0
