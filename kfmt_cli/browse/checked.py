"""The findings for a partition, from the code of `kfmt check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.text_host import TextHost
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
from kfmt_cli.commands.check.command import CheckPaths, of_codes
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.targets import normalized
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.findings.finding import MOST_FINDINGS, Code, Finding, Severity
from kfmt_cli.render.sinks.sink import Out, Sink
from kfmt_cli.render.style import PLAIN, safe

MOST_TOGETHER = 250  # partitions checked in one run,
MOST_BYTES = 256 << 20  # and their bytes
_ORDER = list(Severity)  # the most severe first


@dataclass(frozen=True, slots=True)
class FoundInPartition:
    """The result of checking a partition."""

    findings: tuple[Finding, ...] = ()
    """The most severe first, then in the order of files and bytes."""
    trouble: str = ""
    """Why it could not be checked."""
    left_out: Counter[Severity] = field(default_factory=Counter)
    """How many more findings it has, by severity."""

    @property
    def mark(self) -> tuple[str, str]:
        """The mark in the tree, and its style."""
        if self.trouble:
            return "unread", "bad"
        return mark_of(self.findings, self.left_out) or ("✓", "good")


_SIGNS = ((Severity.ERROR, "✗", "bad"), (Severity.WARNING, "!", "warn"))


def mark_of(
    findings: Collection[Finding], left_out: Mapping[Severity, int] = MappingProxyType({})
) -> tuple[str, str] | None:
    """The mark for some findings, and its style; None if none of them is an error or a warning.
    left_out: how many more there are."""
    for severity, sign, style in _SIGNS:
        number = sum(finding.code.severity is severity for finding in findings)
        if number := number + left_out.get(severity, 0):
            return f"{sign}{number}", style
    return None


class _FindingSink(Sink):
    """Keeps the findings."""

    def __init__(self, out: Out) -> None:
        super().__init__(out)
        self.findings: list[Finding] = []
        self.more: list[tuple[str, Severity, int]] = []
        """File, severity and number of findings left out."""

    def finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    def left_out(self, file: str, code: Code, number: int) -> None:
        self.more.append((file, code.severity, number))


def checked(paths: tuple[str, ...], stop: Callable[[], bool]) -> FoundInPartition | None:
    """Check some paths; None once `stop` returns True."""
    try:
        sink, run = _run_check(paths, stop)
    except OutputClosed:
        return None
    except KfmtError as error:
        return FoundInPartition(trouble=safe(str(error)))
    host = run.host
    assert isinstance(host, TextHost)
    trouble = host.output.strip() if run.summary.unread and not sink.findings else ""
    found = FoundInPartition(_in_order(sink.findings), trouble)
    for _, severity, number in sink.more:
        found.left_out[severity] += number
    return found


def checked_together(
    nodes: Sequence[DiskNode], stop: Callable[[], bool]
) -> list[FoundInPartition] | None:
    """Check several partitions in one run, which is faster; None once `stop` returns True."""
    paths = tuple(path for node in nodes if node.has_files for path in node.paths)
    if not paths:
        return [FoundInPartition() for _ in nodes]
    try:
        sink, run = _run_check(paths, stop)
    except OutputClosed:
        return None
    except KfmtError:
        return _each_alone(nodes, stop)
    names = [name_text(normalized(node.path)) for node in nodes]  # as check has them
    by_name: dict[str, list[Finding]] = {name: [] for name in names}
    more: dict[str, Counter[Severity]] = {name: Counter() for name in names}
    owners = [_owner(finding.file, by_name) for finding in sink.findings]
    of_more = [_owner(file, by_name) for file, _, _ in sink.more]
    if run.summary.unread or "" in owners or "" in of_more:
        return _each_alone(nodes, stop)
    for name, finding in zip(owners, sink.findings, strict=True):
        by_name[name].append(finding)
    for name, (_, severity, number) in zip(of_more, sink.more, strict=True):
        more[name][severity] += number
    return [FoundInPartition(_in_order(by_name[name]), left_out=more[name]) for name in names]


def _each_alone(
    nodes: Sequence[DiskNode], stop: Callable[[], bool]
) -> list[FoundInPartition] | None:
    """Check each partition by itself, to see which of them failed."""
    found = []
    for node in nodes:
        one = checked(node.paths, stop) if node.has_files else FoundInPartition()
        if one is None:
            return None
        found.append(one)
    return found


def _owner(file: str, names: Collection[str]) -> str:
    """The name that a file has or is below; empty if there is none."""
    while file and file not in names:
        file = file.rpartition("/")[0]
    return file


def _run_check(paths: tuple[str, ...], stop: Callable[[], bool]) -> tuple[_FindingSink, Run]:
    """Run `check`; raises OutputClosed once `stop` returns True, and UsageError."""
    host = TextHost(theme=PLAIN, err_theme=PLAIN, stop=stop)
    sink = _FindingSink(host)
    run = Run(host, sink, CHECK_RESULT)
    takes = of_codes((), ())
    task = CheckPaths(run, 1, Limit(), INDEX_INTERVAL_BYTES, None, MOST_FINDINGS, takes)
    task.paths(paths)
    if stop():
        raise OutputClosed(host.exit_code)
    return sink, run


def batches_of(nodes: Iterable[DiskNode]) -> Iterator[list[DiskNode]]:
    """Groups of partitions to check together, small enough that first results appear soon."""
    group: list[DiskNode] = []
    size = 0
    for node in nodes:
        if group and (len(group) >= MOST_TOGETHER or size + node.size > MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(node)
        size += node.size
    if group:
        yield group


def _in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=_place))


def _place(finding: Finding) -> tuple[int, bool, str, int]:
    """Sort key: the most severe first, findings within a file before findings about the file."""
    severity = _ORDER.index(finding.code.severity)
    return severity, finding.position is None, finding.file, finding.position or 0
