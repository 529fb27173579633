"""Every check. To add one, write a class next to the others and add a line to `CHECKS`.

A check is imported when its scope is first checked.
"""

from __future__ import annotations

from typing import Any

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.core.lazy import import_object

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
    (Scope.DIRECTORY, f"{_PACKAGE}.partition.file_access:FileAccessCheck"),
    (Scope.HISTORY, f"{_PACKAGE}.history.partition:PartitionHistoryCheck"),
    (Scope.OFFSETS, f"{_PACKAGE}.history.offsets:LostOffsetsCheck"),
    (Scope.CHECKPOINTS, f"{_PACKAGE}.history.offsets:CheckpointOffsetsCheck"),
    (Scope.BROKERS, f"{_PACKAGE}.history.owners:DirectoryOwnerCheck"),
    (Scope.BROKERS, f"{_PACKAGE}.history.owners:MissingReplicasCheck"),
    (Scope.BROKERS, f"{_PACKAGE}.history.owners:MovingReplicasCheck"),
    (Scope.BROKERS, f"{_PACKAGE}.history.owners:PlacesCheck"),
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
