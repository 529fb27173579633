"""The findings for partitions, from the code of `kfmt check`; marks in the tree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.text_host import CapturingHost
from kfmt_cli.commands.check.command import CheckCommand
from kfmt_cli.commands.check.options import CheckOptions
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.input_paths import resolve_trailing_parent
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.findings.finding import Finding, FindingCode, Severity
from kfmt_cli.render.sinks.sink import OutputStreams, Sink
from kfmt_cli.render.style import escape_unprintable, format_thousands

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


@dataclass
class CheckState:
    """The results of checks, and the finding visited last."""

    root: DiskNode
    result_by_path: dict[str, NodeCheckResult] = field(default_factory=dict)
    """The results by the path of the partition or file."""
    paths_in_progress: set[str] = field(default_factory=set)
    current_finding: Finding | None = None

    # Marks.

    def directory_mark(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a directory in the tree, and its style."""
        paths = [checkable_node.path for checkable_node in node.iter_checkable_nodes()]
        if not self.paths_in_progress.isdisjoint(paths):
            return "…", "dim"
        results = [self.result_by_path[path] for path in paths if path in self.result_by_path]
        for symbol, mark_style in (("✗", "bad"), ("!", "warn")):
            marks = [result.tree_mark for result in results if result.tree_mark[1] == mark_style]
            if marks:
                return marks[0] if len(paths) == 1 else (f"{symbol}{len(marks)}", mark_style)
        return ("✓", "good") if results and len(results) == len(paths) else ("", "dim")

    def file_mark(self, node: DiskNode, partition: DiskNode) -> tuple[str, str]:
        """The mark of a file, and its style: only its own findings, without the rest of the
        partition's."""
        result = self.result_by_path.get(partition.path, NodeCheckResult())
        findings = [finding for finding in result.findings if finding.file == node.display_path]
        return format_findings_mark(findings) or ("", "dim")

    # Findings.

    @property
    def all_findings(self) -> list[Finding]:
        """The findings of everything checked, in the order of the tree."""
        return [
            finding
            for node in list(self.root.iter_checkable_nodes()) or [self.root]
            if node.path in self.result_by_path
            for finding in self.result_by_path[node.path].findings
        ]

    @property
    def n_suppressed(self) -> int:
        """The number of suppressed findings, which were only counted."""
        return sum(result.suppressed_by_severity.total() for result in self.result_by_path.values())

    @property
    def navigable_findings(self) -> list[Finding]:
        """The findings to step through: notes only if there is nothing else."""
        findings = self.all_findings
        problems = [finding for finding in findings if finding.code.severity is not Severity.NOTE]
        return problems or findings

    @property
    def current_finding_text(self) -> str:
        """The finding visited last, its number, and how many are not shown."""
        finding, findings = self.current_finding, self.navigable_findings
        if finding is None:
            return ""
        finding_index = next((i for i, candidate in enumerate(findings) if candidate is finding), 0)
        position = finding.position
        position_text = "" if position is None else f" byte {format_thousands(position)}"
        description = f"{finding.code.name}{position_text}: {escape_unprintable(finding.message)}"
        suppressed_note = (
            f", {format_thousands(self.n_suppressed)} more not shown" if self.n_suppressed else ""
        )
        number_text = f"{finding_index + 1} of {len(findings)}{suppressed_note}"
        return f"{number_text} (e explains)  {description}"

    def select_next_finding(self, step: int) -> Finding | None:
        """The next or previous finding; wraps around at either end."""
        findings = self.navigable_findings
        if not findings:
            self.current_finding = None
            return None
        current_indexes = [
            i for i, finding in enumerate(findings) if finding is self.current_finding
        ]
        next_index = (
            (current_indexes[0] + step) % len(findings)
            if current_indexes
            else (0 if step > 0 else len(findings) - 1)
        )
        self.current_finding = findings[next_index]
        return self.current_finding


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
    check_run = CommandRun(host, sink)
    CheckCommand(check_run, CheckOptions(paths=paths, jobs=1)).execute()
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
