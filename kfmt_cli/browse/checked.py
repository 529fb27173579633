"""The findings for a partition, from the code of `kfmt check`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.text_host import TextHost
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
from kfmt_cli.commands.check.command import CheckPaths, of_codes
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.findings.finding import MOST_FINDINGS, Finding, Severity
from kfmt_cli.render.sinks.silent import Silent
from kfmt_cli.render.sinks.sink import Out
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

    @property
    def mark(self) -> tuple[str, str]:
        """The mark in the tree, and its style."""
        if self.trouble:
            return "unread", "bad"
        return mark_of(self.findings) or ("✓", "good")


_SIGNS = ((Severity.ERROR, "✗", "bad"), (Severity.WARNING, "!", "warn"))


def mark_of(findings: Collection[Finding]) -> tuple[str, str] | None:
    """The mark for some findings, and its style; None if none of them is an error or a warning."""
    for severity, sign, style in _SIGNS:
        if number := sum(finding.code.severity is severity for finding in findings):
            return f"{sign}{number}", style
    return None


class _FindingSink(Silent):
    """Keeps the findings."""

    def __init__(self, out: Out) -> None:
        super().__init__(out)
        self.findings: list[Finding] = []

    def finding(self, finding: Finding) -> None:
        self.findings.append(finding)


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
    return FoundInPartition(_in_order(sink.findings), trouble)


def checked_together(
    nodes: Sequence[DiskNode], stop: Callable[[], bool]
) -> list[FoundInPartition] | None:
    """Check several partitions in one run, which is faster; None once `stop` returns True."""
    try:
        sink, run = _run_check(tuple(path for node in nodes for path in node.paths), stop)
    except OutputClosed:
        return None
    except KfmtError:
        run = None
    if run is None or run.summary.unread:  # check each one alone to see which of them failed
        found = []
        for node in nodes:
            one = checked(node.paths, stop)
            if one is None:
                return None
            found.append(one)
        return found
    by_name: dict[str, list[Finding]] = {node.name: [] for node in nodes}
    for finding in sink.findings:
        name = finding.file if finding.file in by_name else finding.file.rpartition("/")[0]
        while name and name not in by_name:
            name = name.rpartition("/")[0]
        if name:
            by_name[name].append(finding)
    return [FoundInPartition(_in_order(by_name[node.name])) for node in nodes]


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
