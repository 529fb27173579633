"""Where a target is: the log that may contain it, and the row of its batch. It does not depend on a
screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kfmt_cli.browse.disk_nodes import DiskNode
from kfmt_cli.browse.session import OpenedLog
from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.times import parse_time_ms
from kfmt_cli.errors import KfmtError, UsageError

GO_TO_OFFSET, GO_TO_TIME, GO_TO_BYTE = "offset", "time", "byte"


@dataclass(frozen=True, slots=True)
class GoToTarget:
    """The offset, time or byte of a log to go to."""

    target_kind: str
    """`GO_TO_OFFSET`, `GO_TO_TIME` or `GO_TO_BYTE`."""
    target_value: int
    record_offset: int | None = None
    """The offset of the record to select in the batch."""


@dataclass(frozen=True, slots=True)
class TargetRow:
    """The row of the open log that contains a target, or is next to it."""

    row: int
    note: str = ""
    """What is shown instead of the target; empty if it is the target."""


def parse_go_to_target(text: str) -> GoToTarget:
    """Parse a target as typed: 700, b7702, 0x1e16, 2023-11-14T22:20, now-1h; raises UsageError."""
    compact_text = text.strip().lower().replace(" ", "")
    digits = compact_text.removeprefix("byte").removeprefix("b")
    try:
        if digits.startswith("0x"):
            return GoToTarget(GO_TO_BYTE, int(digits, 16))
        number = parse_int(digits)
        if compact_text != digits and (number is None or number < 0):
            raise ValueError
        if number is not None and number >= 0:
            kind = GO_TO_OFFSET if compact_text == digits else GO_TO_BYTE
            return GoToTarget(kind, number)
    except ValueError:
        raise UsageError(f"{text!r} is not a byte position such as b7702 or 0x1e16") from None
    return GoToTarget(GO_TO_TIME, parse_time_ms("a time", text.strip()))


def find_start_log(
    target: GoToTarget, log_nodes: Sequence[DiskNode], opened_log: OpenedLog | None
) -> DiskNode:
    """The log that contains a target, or the first log that may contain it."""
    if target.target_kind == GO_TO_OFFSET:
        earlier_nodes = [node for node in log_nodes if _base_offset(node) <= target.target_value]
        return max(earlier_nodes, key=_base_offset) if earlier_nodes else log_nodes[0]
    if (
        opened_log is not None
        and opened_log.node in log_nodes
        and (target.target_kind == GO_TO_BYTE or _is_after_log_start(target, opened_log))
    ):
        return opened_log.node
    return log_nodes[0]


def _base_offset(node: DiskNode) -> int:
    return 0 if node.file is None else node.file.base_offset_or_zero


def _is_after_log_start(target: GoToTarget, opened_log: OpenedLog) -> bool:
    """Whether a time is later than the first batch of the open log."""
    try:
        return bool(0 <= opened_log.log_view.batch_fields(0).max_timestamp < target.target_value)
    except KfmtError:
        return False


def find_target(
    target: GoToTarget, opened_log: OpenedLog, log_nodes: Sequence[DiskNode]
) -> TargetRow | DiskNode | None:
    """The row of a target, or the later log that may contain it; None if the index of the open log
    does not reach it yet. Raises InputError. log_nodes: the logs of the partition."""
    log_view, blocks = opened_log.log_view, opened_log.block_index.blocks
    finder_by_kind = {
        GO_TO_BYTE: log_view.find_row_by_byte,
        GO_TO_TIME: log_view.find_row_by_time,
        GO_TO_OFFSET: log_view.find_row_by_offset,
    }
    row = finder_by_kind[target.target_kind](target.target_value)
    if row is None:
        return None
    if target.target_kind == GO_TO_TIME and opened_log.node in log_nodes:
        later_nodes = log_nodes[log_nodes.index(opened_log.node) + 1 :]
        if later_nodes and all(block.max_timestamp < target.target_value for block in blocks):
            return later_nodes[0]
    return TargetRow(row, _missing_target_note(target, row, opened_log, log_nodes))


def _missing_target_note(
    target: GoToTarget, row: int, opened_log: OpenedLog, log_nodes: Sequence[DiskNode]
) -> str:
    """What is shown instead of a target that does not exist; empty if it exists."""
    block_index = opened_log.block_index
    if not block_index.n_rows or target.target_kind == GO_TO_BYTE:
        return ""
    is_offset = target.target_kind == GO_TO_OFFSET
    target_text = f"offset {target.target_value}" if is_offset else "the time"
    is_last_log = [*log_nodes[-1:]] == [opened_log.node]
    scope_text = "this partition" if len(log_nodes) > 1 else "this file"
    if block_index.batch_filter:
        scope_text = f"a batch that matches {block_index.batch_filter.typed_text}"
    last_value = max(
        block.last_offset if is_offset else block.max_timestamp for block in block_index.blocks
    )
    if target.target_value > last_value:
        if not (is_last_log or block_index.batch_filter):
            scope_text = "this segment"
        return f"{target_text} is not in {scope_text}; showing its last batch"
    batch_fields = opened_log.log_view.batch_fields(row)
    if (
        is_offset
        and batch_fields.has_base_offset
        and batch_fields.base_offset > target.target_value
    ):
        return f"{target_text} is not in {scope_text}; showing the next batch"
    return ""
