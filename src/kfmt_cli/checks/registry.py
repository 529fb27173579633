"""Every check. To add one, write a class beside the others and add it here."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.checks.check import Check, LogCheck, Scope
from kfmt_cli.checks.index.rules import IndexRules
from kfmt_cli.checks.log.headers import Checksums, Headers
from kfmt_cli.checks.log.records import ControlRecords, MaxTimestamps, RecordOffsets
from kfmt_cli.checks.log.wrappers import WrapperOffsets
from kfmt_cli.checks.partition.check import DirectoryCheck, PartitionCheck
from kfmt_cli.checks.partition.names import Names
from kfmt_cli.checks.partition.segments import SegmentOffsets
from kfmt_cli.core.finding import Code
from kfmt_cli.files import codes as of_logs
from kfmt_cli.files.kinds import codes as of_files

CHECKS: list[type[Check]] = [
    Checksums,
    Headers,
    WrapperOffsets,
    RecordOffsets,
    MaxTimestamps,
    ControlRecords,
    IndexRules,
    SegmentOffsets,
    Names,
]


def log_checks(scope: Scope, base_offset: int | None) -> list[LogCheck]:
    """A check of each kind, for a stretch of a log."""
    return [it(base_offset) for it in CHECKS if issubclass(it, LogCheck) and it.scope is scope]


def partition_checks() -> list[PartitionCheck]:
    """A check of each kind, for a partition."""
    return [it() for it in CHECKS if issubclass(it, PartitionCheck)]


def directory_checks() -> list[DirectoryCheck]:
    """A check of each kind, for a directory."""
    return [it() for it in CHECKS if issubclass(it, DirectoryCheck)]


def every_code() -> dict[str, Code]:
    """All kinds of findings by name: those that reading makes, and those that checks make."""
    found = [*_declared(of_logs), *_declared(of_files)]
    found += [code for check in CHECKS for code in check.codes]
    return {it.name: it for it in found}


def _declared(module: object) -> Iterator[Code]:
    """The codes that a module declares."""
    yield from (it for it in vars(module).values() if isinstance(it, Code))
