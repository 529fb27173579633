"""What is wrong with a partition, found by the code of `kfmt check`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.browse.text_host import TextHost
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
from kfmt_cli.commands.check.command import CheckPaths, of_codes
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.findings.finding import MOST_FINDINGS, Finding, Severity
from kfmt_cli.render.sinks.sink import Head, NoRows, Out, RowWriter, Sink
from kfmt_cli.render.style import PLAIN, safe
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.result import Result

_ORDER = [Severity.ERROR, Severity.WARNING, Severity.NOTE]


@dataclass(frozen=True, slots=True)
class FoundInPartition:
    """What came of checking a partition."""

    findings: tuple[Finding, ...] = ()
    """The worst first, then in the order of files and bytes."""
    trouble: str = ""
    """Why it could not be checked."""

    def count(self, severity: Severity) -> int:
        """How many findings are of a severity."""
        return sum(finding.code.severity is severity for finding in self.findings)

    @property
    def mark(self) -> tuple[str, str]:
        """The mark in the tree, and the style of its colour."""
        if self.trouble:
            return "unread", "bad"
        for severity, sign, style in (
            (Severity.ERROR, "✗", "bad"),
            (Severity.WARNING, "!", "warn"),
        ):
            if number := self.count(severity):
                return f"{sign}{number}", style
        return "✓", "good"


class _FindingSink(Sink):
    """Keeps the findings."""

    def __init__(self, out: Out) -> None:
        super().__init__(out)
        self.findings: list[Finding] = []

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        del head, outer, inner
        return NoRows()

    def finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    def left_out(self, file: str, code: object, number: int) -> None:
        """More of a kind than anyone goes through one by one."""

    def result(self, result: Result) -> None:
        """The findings were all that is wanted."""

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        """The findings were all that is wanted."""


def checked(
    paths: tuple[str, ...], stop: Callable[[], bool], jobs: int = 1
) -> FoundInPartition | None:
    """Check what lies at some paths; None when nobody waits any more, as `stop` says."""
    host = TextHost(theme=PLAIN, err_theme=PLAIN, stop=stop)
    sink = _FindingSink(host)
    run = Run(host, sink, CHECK_RESULT)
    takes = of_codes((), ())
    task = CheckPaths(run, jobs, Limit(), INDEX_INTERVAL_BYTES, MOST_FINDINGS, takes)
    try:
        task.paths(paths)
    except OutputClosed:
        return None
    except KfmtError as error:
        return FoundInPartition(trouble=safe(str(error)))
    found = sorted(sink.findings, key=_place)
    trouble = host.output.strip() if run.summary.unread and not found else ""
    return FoundInPartition(tuple(found), trouble)


def _place(finding: Finding) -> tuple[int, bool, str, int]:
    """The worst first, and what is in a file before what is about one."""
    severity = _ORDER.index(finding.code.severity)
    return severity, finding.position is None, finding.file, finding.position or 0
