"""Every check. To add one, write a class beside the others and add a line to `CHECKS`.

A check is imported when something of its scope is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kfmt_cli.checks.base import Check, LogCheck, Scope
from kfmt_cli.core.lazy import load
from kfmt_cli.findings.finding import Code


@dataclass(frozen=True, slots=True)
class ListedCheck:
    """A check. target: its module and its class."""

    scope: Scope
    target: str

    def load(self) -> type[Check]:
        """The class."""
        check: type[Check] = load(self.target)
        return check


_HERE = "kfmt_cli.checks"
CHECKS: list[ListedCheck] = [
    ListedCheck(Scope.HEADERS, f"{_HERE}.log.headers:Checksums"),
    ListedCheck(Scope.HEADERS, f"{_HERE}.log.headers:Headers"),
    ListedCheck(Scope.RECORDS, f"{_HERE}.log.wrappers:WrapperOffsets"),
    ListedCheck(Scope.RECORDS, f"{_HERE}.log.records:RecordOffsets"),
    ListedCheck(Scope.RECORDS, f"{_HERE}.log.records:MaxTimestamps"),
    ListedCheck(Scope.RECORDS, f"{_HERE}.log.records:ControlRecords"),
    ListedCheck(Scope.SEGMENT, f"{_HERE}.index.rules:IndexRules"),
    ListedCheck(Scope.PARTITION, f"{_HERE}.partition.neighbours:SegmentOffsets"),
    ListedCheck(Scope.DIRECTORY, f"{_HERE}.partition.names:Names"),
]


def checks_of(scope: Scope) -> list[Any]:
    """The classes of the checks of a scope."""
    return [it.load() for it in CHECKS if it.scope is scope]


def log_checks(scope: Scope, base_offset: int | None) -> list[LogCheck]:
    """A check of each kind, for a stretch of a log."""
    return [it(base_offset) for it in checks_of(scope)]


def every_code() -> dict[str, Code]:
    """All kinds of findings by name: those that reading makes, and those that checks make."""
    from kfmt_cli.findings import damage as of_logs
    from kfmt_cli.findings import files as of_files
    from kfmt_cli.findings import history as of_history

    pages = (vars(of_logs), vars(of_files), vars(of_history))
    found = [it for page in pages for it in page.values() if isinstance(it, Code)]
    found += [code for listed in CHECKS for code in listed.load().codes]
    return {it.name: it for it in found}
