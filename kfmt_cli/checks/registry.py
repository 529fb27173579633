"""Every check. To add one, write a class next to the others and add a line to `CHECKS`.

A check is imported when its scope is first checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.core.lazy import import_object
from kfmt_cli.findings.finding import FindingCode

_PACKAGE = "kfmt_cli.checks"
CHECKS: list[tuple[Scope, str]] = [
    (Scope.HEADERS, f"{_PACKAGE}.log.headers:ChecksumCheck"),
    (Scope.HEADERS, f"{_PACKAGE}.log.headers:HeaderCheck"),
    (Scope.RECORDS, f"{_PACKAGE}.log.wrappers:WrapperOffsetsCheck"),
    (Scope.RECORDS, f"{_PACKAGE}.log.records:RecordOffsetsCheck"),
    (Scope.RECORDS, f"{_PACKAGE}.log.records:MaxTimestampCheck"),
    (Scope.RECORDS, f"{_PACKAGE}.log.records:ControlRecordsCheck"),
    (Scope.SEGMENT, f"{_PACKAGE}.index.rules:IndexRulesCheck"),
    (Scope.PARTITION, f"{_PACKAGE}.partition.segment_offsets:SegmentOffsetsCheck"),
    (Scope.DIRECTORY, f"{_PACKAGE}.partition.directory_names:DirectoryNamesCheck"),
    (Scope.HISTORY, f"{_PACKAGE}.history.partition:PartitionHistoryCheck"),
    (Scope.OFFSETS, f"{_PACKAGE}.history.offsets:LostOffsetsCheck"),
    (Scope.CHECKPOINTS, f"{_PACKAGE}.history.offsets:CheckpointOffsetsCheck"),
    (Scope.BROKERS, f"{_PACKAGE}.history.owners:DirectoryOwnerCheck"),
    (Scope.BROKERS, f"{_PACKAGE}.history.owners:MissingReplicasCheck"),
    (Scope.BROKERS, f"{_PACKAGE}.history.owners:MovingReplicasCheck"),
    (Scope.STARTS, f"{_PACKAGE}.history.starts:UnservedPartitionCheck"),
    (Scope.STARTS, f"{_PACKAGE}.history.starts:FailingStartsCheck"),
]
"""The scope of each, with its module and class as `module:name`."""


def load_check_classes(scope: Scope) -> list[Any]:
    """The check classes of a scope."""
    return [import_object(target) for target_scope, target in CHECKS if target_scope is scope]


def create_log_checks(scope: Scope, base_offset: int | None) -> list[LogCheck]:
    """A new check of each class of a scope, for a range of a log."""
    return [check_class(base_offset) for check_class in load_check_classes(scope)]


def iter_codes_by_subject() -> Iterator[tuple[str, list[FindingCode]]]:
    """All codes, by subject: from reading, writing and starts, from every kind of file and from
    every check."""
    from kfmt_cli.disk.kinds import KINDS
    from kfmt_cli.findings import damage, files, history

    yield "Logs", _sorted_codes(damage, scopes=(Scope.HEADERS, Scope.RECORDS))
    kind_codes = [code for kind in KINDS for code in kind.codes]
    file_codes = _sorted_codes(files, scopes=(Scope.SEGMENT,), extra_codes=kind_codes)
    yield "Indexes, snapshots and checkpoints", file_codes
    yield "Directories", _sorted_codes(scopes=(Scope.PARTITION, Scope.DIRECTORY))
    history_scopes = (Scope.HISTORY, Scope.OFFSETS, Scope.CHECKPOINTS, Scope.STARTS)
    yield "Producers, transactions and leader epochs", _sorted_codes(history, scopes=history_scopes)


def _sorted_codes(
    *modules: ModuleType, scopes: tuple[Scope, ...], extra_codes: Iterable[FindingCode] = ()
) -> list[FindingCode]:
    """The codes of modules and of the checks of some scopes, and `extra_codes`, sorted by name."""
    code_by_name = {
        module_value.name: module_value
        for module in modules
        for module_value in vars(module).values()
        if isinstance(module_value, FindingCode)
    }
    code_by_name |= {code.name: code for code in extra_codes}
    for scope in scopes:
        for check_class in load_check_classes(scope):
            code_by_name |= {code.name: code for code in check_class.codes}
    return [code_by_name[name] for name in sorted(code_by_name)]


@cache
def finding_code_by_name() -> Mapping[str, FindingCode]:
    """All codes, by name."""
    return {code.name: code for _, codes in iter_codes_by_subject() for code in codes}
