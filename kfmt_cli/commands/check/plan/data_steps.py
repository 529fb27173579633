"""check: the steps that save records, rebuild indexes, or force log recovery.

No step loses or hides records that the next start would serve without the step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    count_offsets,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, PredictedStart
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_access import is_ordinary_disk_path
from kfmt_cli.disk.file_names import directory_marker_suffix
from kfmt_cli.disk.kinds.logs import DELETED_LOG_SUFFIX
from kfmt_cli.disk.path_resolution import RSM_PRIVATE_KEY_PATH
from kfmt_cli.errors import InputError, InputErrorHandler, UnreadableBytesError
from kfmt_cli.findings.finding import Mend
from kfmt_cli.log.block import Block
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import format_count, format_thousands, quote_path_for_shell
from kfmt_cli.writers.salvage.unreadable_parts import UnreadableParts

SALVAGE_DELETED_COMMAND = "kfmt salvage --deleted"
REBUILD_COMMAND = "kfmt rebuild-index --in-place"


def add_private_key_option(steps: Iterable[NextStep]) -> Iterator[NextStep]:
    """The steps, with the option for the private key if this run reads encrypted segments."""
    key_path = RSM_PRIVATE_KEY_PATH.get()
    key_option = "" if key_path is None else f" --rsm-private-key {quote_path_for_shell(key_path)}"
    for step in steps:
        joint_command = f"{step.joint_command}{key_option}" if step.joint_command else ""
        yield replace(step, command=f"{step.command}{key_option}", joint_command=joint_command)


def _steps_per_partition(
    results_with_amounts: Iterable[tuple[DirectoryCheckResult, int]],
    format_command: Callable[[str], str],
    format_amount: Callable[[int], str],
) -> Iterator[NextStep]:
    """A step for each partition, with the command for all partitions of the log directory.

    results_with_amounts: cost or gain of the step for each partition; that of the joint command is
    their sum.
    """
    steps = []
    total_by_command: Counter[str] = Counter()
    n_partitions_by_command: Counter[str] = Counter()
    for result, amount in results_with_amounts:
        command_text, joint_command = (
            format_command(quote_path_for_shell(path))
            for path in (result.path, str(Path(result.path).parent))
        )
        steps.append(
            NextStep(
                result.display_path,
                command_text,
                format_amount(amount),
                joint_command,
                reads=result.bytes,
            )
        )
        total_by_command[joint_command] += amount
        n_partitions_by_command[joint_command] += 1
    for step in steps:
        joint_price = (
            f"{format_amount(total_by_command[step.joint_command])} "
            f"({format_count(n_partitions_by_command[step.joint_command], 'partition')})"
        )
        yield replace(step, joint_price=joint_price)


def undelete_steps(
    results: Sequence[DirectoryCheckResult], on_error: Callable[[str], None]
) -> Iterator[NextStep]:
    """Steps that copy deleted records before a broker removes them."""
    yield from _steps_per_partition(
        _iter_deleted_counts(results, on_error),
        lambda path: f"{SALVAGE_DELETED_COMMAND} {path} DST",
        lambda n: (
            f"brings back {format_count(n, 'deleted record')}; a broker removes them once it starts"
        ),
    )


def _iter_deleted_counts(
    results: Sequence[DirectoryCheckResult], on_error: Callable[[str], None]
) -> Iterator[tuple[DirectoryCheckResult, int]]:
    """The partitions with records in directories marked -delete or logs marked .deleted, and the
    number of these records. on_error: receives errors about unreadable logs."""
    for result in results:
        if result.listing is None:
            continue
        is_deleted_partition = directory_marker_suffix(result.listing.path.rstrip("/")) == "delete"
        n_records = _count_deleted_records(result.listing, _live_offsets(result), on_error) + (
            result.records if is_deleted_partition else 0
        )
        if n_records:
            yield result, n_records


def _live_offsets(result: DirectoryCheckResult) -> OffsetIntervals:
    """The offsets that the logs have; none if they are damaged: a deleted log may have more."""
    if result.log_errors:
        return []
    return merge_intervals((first, end - 1) for first, end in result.offset_intervals.values())


def _count_deleted_records(
    listing: DirectoryListing, live_offsets: OffsetIntervals, on_error: Callable[[str], None]
) -> int:
    """The number of records in a directory's deleted logs that are not in its other logs, by their
    batch headers."""

    def report_unread(error: InputError) -> None:
        if not error.is_missing:  # a broker removes it after a minute
            on_error(str(error))

    n_records = 0
    for file_name in listing.files:
        if file_name.endswith(DELETED_LOG_SUFFIX) and file_name not in listing.special_files:
            log_file = listing.input_file(file_name)
            with InputErrorHandler(report_unread):
                try:
                    n_records += _count_records(read_blocks_from(log_file), live_offsets)
                except UnreadableBytesError as error:
                    on_error(str(error))
                    with open_checked_log(
                        log_file, False, UnreadableParts().filled_source
                    ) as opened_log:
                        n_records += _count_records(opened_log.blocks, live_offsets)
    return n_records


def _count_records(blocks: Iterable[Block], live_offsets: OffsetIntervals) -> int:
    """The number of records in the batches that are not known to be damaged, nor in other logs."""
    first_offsets, last_offsets = np.array([(-1, -1), *live_offsets], np.int64).T
    n_records = 0
    for block in blocks:
        batches = block.batches
        intervals = np.searchsorted(first_offsets, batches.last_offset, side="right") - 1
        is_live = batches.last_offset <= last_offsets[np.maximum(intervals, 0)]
        n_records += int(batches.records_count[(batches.crc_valid != 0) & ~is_live].sum())
    return n_records


def salvage_steps(
    results: Sequence[DirectoryCheckResult], unblocked_paths: frozenset[str]
) -> Iterator[NextStep]:
    """Steps that copy undamaged batches: those that a start would lose or hide, those of partitions
    that prevent the start, and those of logs with unreadable bytes.

    unblocked_paths: directories with a step after which the broker starts.
    """
    batch_salvages: list[tuple[DirectoryCheckResult, int]] = []
    record_salvages: list[tuple[DirectoryCheckResult, int]] = []
    partly_read_results = [
        (result, result.n_partly_read_logs) for result in results if result.n_partly_read_logs
    ]
    for result in results:
        served_starts = [start for start in result.next_starts if start.becomes is None]
        offsets_at_risk = merge_intervals(
            offset_range for start in served_starts for offset_range in start.salvageable
        )
        if (
            served_starts
            and result.display_path not in unblocked_paths
            and all(_prevents_start(result, start) for start in served_starts)
        ):
            offsets_at_risk = merge_intervals(
                (first_offset, end_offset - 1)
                for first_offset, end_offset in result.offset_intervals.values()
            )
        if offsets_at_risk and not result.n_partly_read_logs:
            # Consumers receive the records before the damage in a batch.
            salvages = (
                record_salvages
                if any(start.received_damaged for start in served_starts)
                else batch_salvages
            )
            salvages.append((result, result.n_records_at_risk))
    yield from _steps_per_partition(
        partly_read_results, "kfmt salvage {} DST".format, _format_partly_read_price
    )
    yield from _steps_per_partition(
        batch_salvages,
        "kfmt salvage {} DST".format,
        partial(_format_salvage_price, "undamaged batch"),
    )
    yield from _steps_per_partition(
        record_salvages,
        "kfmt salvage {} --records DST".format,
        partial(_format_salvage_price, "undamaged batch and record"),
    )


def _format_partly_read_price(n_logs: int) -> str:
    return (
        f"copies every undamaged batch to DST; {format_count(n_logs, 'log')} can only be read in "
        "part"
    )


def _prevents_start(result: DirectoryCheckResult, start: PredictedStart) -> bool:
    """Whether a partition's own logs keep a broker from starting."""
    return not start.starts and not start.is_duplicate and start.file == result.display_path


def _format_salvage_price(copied_content: str, n_records: int) -> str:
    return (
        f"copies every {copied_content} to DST, {format_count(n_records, 'record')} at risk "
        "among them"
    )


def rebuild_steps(results: Sequence[DirectoryCheckResult]) -> Iterator[NextStep]:
    """Steps that rebuild indexes of undamaged logs."""
    results_with_needs = [(result, _needs_transaction_indexes(result)) for result in results]
    for with_transaction_indexes, command in (
        (True, f"{REBUILD_COMMAND} --all-files"),
        (False, REBUILD_COMMAND),
    ):
        yield from _steps_per_partition(
            (
                (result, result.bytes)
                for result, needs_transaction_indexes in results_with_needs
                if needs_transaction_indexes is with_transaction_indexes
            ),
            f"{command} {{}}".format,
            lambda n: f"reads {format_thousands(n)} bytes; stop the broker first",
        )


def _needs_transaction_indexes(result: DirectoryCheckResult) -> bool | None:
    """Whether the needed rebuild includes transaction indexes; None if none is needed."""
    if not is_ordinary_disk_path(result.path):
        return None  # nothing is changed in an archive
    mends = {mend for finding in result.findings for mend in finding.code.mends}
    return None if not mends or result.log_errors else Mend.REBUILD_ALL_FILES in mends


def force_recovery_steps(
    results: Sequence[DirectoryCheckResult], starts: Sequence[PredictedStart]
) -> Iterator[NextStep]:
    """Steps that delete `.kafka_cleanshutdown` if log recovery improves the whole log directory.

    If the broker starts with the file, no partition may lose offsets by the step. If the broker
    does not start with it, the failed start deletes the file anyway.
    """
    results_by_marker_path: defaultdict[str, list[DirectoryCheckResult]] = defaultdict(list)
    for result in results:
        if result.clean_shutdown_path is not None and is_ordinary_disk_path(
            result.clean_shutdown_path
        ):
            results_by_marker_path[result.clean_shutdown_path].append(result)
    for marker_path, directory_results in results_by_marker_path.items():
        log_directory = marker_path.rpartition("/")[0]
        failing_shutdown_kinds = {
            start.after
            for start in starts
            if not start.starts
            and (start.file == log_directory or start.file.startswith(f"{log_directory}/"))
        }
        failing_shutdown_kinds |= {
            start.after
            for result in directory_results
            for start in result.predicted_starts
            if not start.starts
        }
        if AFTER_CRASH in failing_shutdown_kinds or (
            AFTER_CLEAN_SHUTDOWN not in failing_shutdown_kinds
            and not _recovery_gains_offsets(directory_results)
        ):
            continue
        cost = _RecoveryCost.of_directory(directory_results)
        price_text = (
            f"forces log recovery of the whole log directory: {cost.text}; startup takes longer"
        )
        yield NextStep(
            log_directory or marker_path,
            f"rm {quote_path_for_shell(marker_path)}",
            price_text,
            reads=sum(result.bytes for result in directory_results),
            loses=cost.n_lost_records,
            hides=cost.n_hidden_records,
        )


class _RecoveryCost(NamedTuple):
    """What log recovery costs, unlike a start after a clean shutdown."""

    n_lost_records: int
    n_losing_partitions: int
    n_hidden_records: int
    """Records that read_committed consumers no longer receive."""

    @classmethod
    def of_directory(cls, results: Sequence[DirectoryCheckResult]) -> _RecoveryCost:
        """The cost for the partitions of a log directory."""
        n_lost = n_losing = n_hidden = 0
        for result in results:
            crash_start = result.find_start(AFTER_CRASH)
            clean_start = result.find_start(AFTER_CLEAN_SHUTDOWN)
            if crash_start is None:
                continue
            n_lost += crash_start.lost_records or 0
            n_losing += bool(crash_start.lost_records)
            n_hidden_anyway = 0 if clean_start is None else clean_start.hidden_records or 0
            n_hidden += max((crash_start.hidden_records or 0) - n_hidden_anyway, 0)
        return cls(n_lost, n_losing, n_hidden)

    @property
    def text(self) -> str:
        """The cost as text."""
        loss_text = "no records are lost"
        if self.n_lost_records:
            loss_text = (
                f"{format_count(self.n_lost_records, 'record')} lost in "
                f"{format_count(self.n_losing_partitions, 'partition')}"
            )
        if self.n_hidden_records:
            hidden_text = format_count(self.n_hidden_records, "record")
            loss_text += f"; read_committed consumers do not get {hidden_text}"
        return loss_text


def _count_served_offsets(result: DirectoryCheckResult, shutdown_kind: str) -> int:
    """The number of offsets that consumers receive after a start."""
    start = result.find_start(shutdown_kind)
    if start is None or start.is_failure:
        return 0
    contained_ranges = [
        (first_offset, end_offset - 1)
        for first_offset, end_offset in result.offset_intervals.values()
    ]
    return count_offsets(subtract_intervals(contained_ranges, [*start.lost, *start.unreachable]))


def _recovery_gains_offsets(results: Sequence[DirectoryCheckResult]) -> bool:
    """Whether log recovery makes a partition serve more offsets than a start after a clean
    shutdown, and none of the others loses offsets that such a start serves."""
    has_gain = False
    for result in results:
        crash_start = result.find_start(AFTER_CRASH)
        clean_start = result.find_start(AFTER_CLEAN_SHUTDOWN)
        n_gained_offsets = _count_served_offsets(result, AFTER_CRASH) - _count_served_offsets(
            result, AFTER_CLEAN_SHUTDOWN
        )
        has_gain |= n_gained_offsets > 0
        if crash_start is None or clean_start is None or clean_start.is_failure:
            continue
        if (
            crash_start.is_failure
            or n_gained_offsets < 0
            or subtract_intervals(crash_start.lost, clean_start.lost)
        ):
            return False
    return has_gain
