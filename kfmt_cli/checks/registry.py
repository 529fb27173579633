"""Every check. To add one, write a class next to the others and add a line to `CHECKS`.

A check is imported when its scope is first checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.core.lazy import load
from kfmt_cli.findings.finding import Code

_HERE = "kfmt_cli.checks"
CHECKS: list[tuple[Scope, str]] = [
    (Scope.HEADERS, f"{_HERE}.log.headers:Checksums"),
    (Scope.HEADERS, f"{_HERE}.log.headers:Headers"),
    (Scope.RECORDS, f"{_HERE}.log.wrappers:WrapperOffsets"),
    (Scope.RECORDS, f"{_HERE}.log.records:RecordOffsets"),
    (Scope.RECORDS, f"{_HERE}.log.records:MaxTimestamps"),
    (Scope.RECORDS, f"{_HERE}.log.records:ControlRecords"),
    (Scope.SEGMENT, f"{_HERE}.index.rules:IndexRules"),
    (Scope.PARTITION, f"{_HERE}.partition.neighbours:SegmentOffsets"),
    (Scope.DIRECTORY, f"{_HERE}.partition.names:Names"),
    (Scope.HISTORY, f"{_HERE}.history.partition:PartitionHistory"),
    (Scope.OFFSETS, f"{_HERE}.history.offsets:LostOffsets"),
    (Scope.CHECKPOINTS, f"{_HERE}.history.offsets:CheckpointOffsets"),
    (Scope.BROKERS, f"{_HERE}.history.owners:Owners"),
    (Scope.BROKERS, f"{_HERE}.history.owners:MissingReplicas"),
    (Scope.BROKERS, f"{_HERE}.history.owners:MovingReplicas"),
    (Scope.STARTS, f"{_HERE}.history.starts:SetAside"),
    (Scope.STARTS, f"{_HERE}.history.starts:FailingStarts"),
]
"""The scope of each, with its module and class as `module:name`."""


def checks_of(scope: Scope) -> list[Any]:
    """The check classes of a scope."""
    return [load(target) for its_scope, target in CHECKS if its_scope is scope]


def log_checks(scope: Scope, base_offset: int | None) -> list[LogCheck]:
    """A new check of each class of a scope, for a stretch of a log."""
    return [check_type(base_offset) for check_type in checks_of(scope)]


def code_chapters() -> Iterator[tuple[str, list[Code]]]:
    """All codes, by subject: from reading, writing and starts, from every kind of file and from
    every check."""
    from kfmt_cli.disk.kinds import KINDS
    from kfmt_cli.findings import damage, files, history

    yield "Logs", _codes(damage, scopes=(Scope.HEADERS, Scope.RECORDS))
    of_kinds = [code for kind in KINDS for code in kind.codes]
    of_files = _codes(files, scopes=(Scope.SEGMENT,), more=of_kinds)
    yield "Indexes, snapshots and checkpoints", of_files
    yield "Directories", _codes(scopes=(Scope.PARTITION, Scope.DIRECTORY))
    together = (Scope.HISTORY, Scope.OFFSETS, Scope.CHECKPOINTS, Scope.STARTS)
    yield "Producers, transactions and leader epochs", _codes(history, scopes=together)


def _codes(
    *modules: ModuleType, scopes: tuple[Scope, ...], more: Iterable[Code] = ()
) -> list[Code]:
    """The codes of modules and of the checks of some scopes, and `more`, sorted by name."""
    found = {
        var.name: var for page in modules for var in vars(page).values() if isinstance(var, Code)
    }
    found |= {code.name: code for code in more}
    for scope in scopes:
        for check in checks_of(scope):
            found |= {code.name: code for code in check.codes}
    return [found[name] for name in sorted(found)]


@cache
def every_code() -> Mapping[str, Code]:
    """All codes, by name."""
    return {code.name: code for _, codes in code_chapters() for code in codes}
