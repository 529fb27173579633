"""check: the next steps for the findings, and their cost.

No step loses, hides or sets aside records that the next start would serve without the step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kfmt_cli.broker.offsets.seek import read_blocks_from
from kfmt_cli.broker.start.offset_intervals import (
    count_offsets,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, PredictedStart
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_access import is_plain_disk_path
from kfmt_cli.disk.file_names import directory_mark, real_path
from kfmt_cli.disk.kinds.logs import DELETED_LOG_SUFFIX
from kfmt_cli.disk.path_resolution import RSM_PRIVATE_KEY
from kfmt_cli.errors import InputError, InputErrorHandler, UnreadableBytesError
from kfmt_cli.findings import files as kind_codes
from kfmt_cli.findings import partition as partition_codes
from kfmt_cli.findings.consequences import REBUILD_ADVICE, REBUILD_TRANSACTION_INDEX
from kfmt_cli.log.block import Block
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import format_count, format_grouped, shell_quote, shell_quote_path
from kfmt_cli.writers.salvage.unreadable_parts import UnreadableParts

SALVAGE_DELETED_COMMAND = "kfmt salvage --deleted"
REBUILD_COMMAND = "kfmt rebuild-index --in-place"
# Files and directories that prevent a broker from starting and that it does not need.
_BLOCKING_CODES = (
    partition_codes.NAME_NOT_NUMERIC,
    partition_codes.DIRECTORY_NOT_A_PARTITION,
    kind_codes.CHECKPOINT_MALFORMED,
)


def next_steps(
    results: Sequence[DirectoryCheckResult],
    starts: Sequence[PredictedStart],
    missing_meta_properties: Iterable[tuple[str, list[str]]],
    on_error: Callable[[str], None],
) -> Iterator[NextStep]:
    """All next steps: first those that rescue data a broker would delete, then those that let it
    start, then those that salvage and repair partitions, and last those that cost other partitions
    their offsets.

    missing_meta_properties: arguments of `_meta_properties_step`. on_error: receives errors about
    unreadable logs.
    """
    blocking_paths = {start.file for start in starts if not start.starts}
    yield from add_private_key(_undelete_steps(results, on_error))
    yield from (_meta_properties_step(path, lines) for path, lines in missing_meta_properties)
    move_steps = [step for result in results for step in _move_aside_steps(result, blocking_paths)]
    yield from move_steps
    yield from add_private_key(_salvage_steps(results, {step.file for step in move_steps}))
    yield from _rebuild_steps(results)
    yield from _force_recovery_steps(results, starts)


def add_private_key(steps: Iterable[NextStep]) -> Iterator[NextStep]:
    """The steps, with the option for the private key if this run reads encrypted segments."""
    key_path = RSM_PRIVATE_KEY.get()
    option = "" if key_path is None else f" --rsm-private-key {shell_quote_path(key_path)}"
    for step in steps:
        joint_command = f"{step.joint_command}{option}" if step.joint_command else ""
        yield replace(step, command=f"{step.command}{option}", joint_command=joint_command)


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
    amount_by_command: Counter[str] = Counter()
    n_partitions_by_command: Counter[str] = Counter()
    for result, amount in results_with_amounts:
        command_text, joint_command = (
            format_command(shell_quote_path(path))
            for path in (result.path, str(Path(result.path).parent))
        )
        steps.append(
            NextStep(result.display_path, command_text, format_amount(amount), joint_command)
        )
        amount_by_command[joint_command] += amount
        n_partitions_by_command[joint_command] += 1
    for step in steps:
        joint_price = (
            f"{format_amount(amount_by_command[step.joint_command])} "
            f"({format_count(n_partitions_by_command[step.joint_command], 'partition')})"
        )
        yield replace(step, joint_price=joint_price)


def _undelete_steps(
    results: Sequence[DirectoryCheckResult], on_error: Callable[[str], None]
) -> Iterator[NextStep]:
    """Steps that copy deleted records before a broker removes them."""
    yield from _steps_per_partition(
        _count_deleted(results, on_error),
        lambda path: f"{SALVAGE_DELETED_COMMAND} {path} DST",
        lambda n: (
            f"brings back {format_count(n, 'deleted record')}; a broker removes them once it starts"
        ),
    )


def _count_deleted(
    results: Sequence[DirectoryCheckResult], on_error: Callable[[str], None]
) -> Iterator[tuple[DirectoryCheckResult, int]]:
    """The partitions with records in directories marked -delete or logs marked .deleted, and the
    number of these records. on_error: receives errors about unreadable logs."""
    for result in results:
        if result.listing is None:
            continue
        is_deleted_partition = directory_mark(result.listing.path.rstrip("/")) == "delete"
        n_records = _count_deleted_records(result.listing, on_error) + (
            result.records if is_deleted_partition else 0
        )
        if n_records:
            yield result, n_records


def _count_deleted_records(listing: DirectoryListing, on_error: Callable[[str], None]) -> int:
    """The number of records in a directory's deleted logs, by their batch headers."""

    def report_unread(error: InputError) -> None:
        if not error.is_missing:  # a broker removes it after a minute
            on_error(str(error))

    n_records = 0
    for name in listing.files:
        if name.endswith(DELETED_LOG_SUFFIX) and name not in listing.special_files:
            log = listing.input_file(name)
            with InputErrorHandler(report_unread):
                try:
                    n_records += _count_records(read_blocks_from(log))
                except UnreadableBytesError as error:
                    on_error(str(error))
                    with open_checked_log(log, False, UnreadableParts().fill_source) as opened_log:
                        n_records += _count_records(opened_log.blocks)
    return n_records


def _count_records(blocks: Iterable[Block]) -> int:
    """The number of records in the batches that are not known to be damaged."""
    record_counts = (block.batches.records_count[block.batches.crc_valid != 0] for block in blocks)
    return sum(int(counts.sum()) for counts in record_counts)


def _salvage_steps(
    results: Sequence[DirectoryCheckResult], handled_paths: set[str]
) -> Iterator[NextStep]:
    """Steps that copy undamaged batches: those that a start would lose or hide, those of partitions
    that prevent the start, and those of logs with unreadable bytes.

    handled_paths: directories with a step after which the broker starts.
    """
    batch_amounts: list[tuple[DirectoryCheckResult, int]] = []
    record_amounts: list[tuple[DirectoryCheckResult, int]] = []
    partly_read = [(result, result.n_partly_read) for result in results if result.n_partly_read]
    for result in results:
        starts = (result.find_start(AFTER_CRASH), result.find_start(AFTER_CLEAN_SHUTDOWN))
        active_starts = [start for start in starts if start is not None and start.becomes is None]
        offsets_at_risk = merge_intervals(
            range_ for start in active_starts for range_ in start.salvageable
        )
        if (
            active_starts
            and result.display_path not in handled_paths
            and all(_prevents_start(result, start) for start in active_starts)
        ):
            offsets_at_risk = merge_intervals(
                (first, end - 1) for first, end in result.offset_intervals.values()
            )
        if offsets_at_risk and not result.n_partly_read:
            # Consumers receive the records before the damage in a batch.
            results_with_amounts = (
                record_amounts
                if any(start.received_damaged for start in active_starts)
                else batch_amounts
            )
            results_with_amounts.append((result, count_offsets(offsets_at_risk)))
    yield from _steps_per_partition(partly_read, "kfmt salvage {} DST".format, _partly_read_price)
    yield from _steps_per_partition(
        batch_amounts, "kfmt salvage {} DST".format, partial(_salvage_price, "undamaged batch")
    )
    yield from _steps_per_partition(
        record_amounts,
        "kfmt salvage {} --records DST".format,
        partial(_salvage_price, "undamaged batch and record"),
    )


def _partly_read_price(n: int) -> str:
    return f"copies every undamaged batch to DST; {format_count(n, 'log')} can be read in part only"


def _prevents_start(result: DirectoryCheckResult, start: PredictedStart) -> bool:
    """Whether a partition's own logs keep a broker from starting."""
    return not start.starts and not start.is_duplicate and start.file == result.display_path


def _salvage_price(content_name: str, n: int) -> str:
    return f"copies every {content_name} to DST, {format_count(n, 'offset')} at risk among them"


def _rebuild_steps(results: Sequence[DirectoryCheckResult]) -> Iterator[NextStep]:
    """Steps that rebuild indexes of undamaged logs."""
    needed_rebuilds = [(result, _needed_rebuild(result)) for result in results]
    for has_aborts, command in ((True, f"{REBUILD_COMMAND} --all-files"), (False, REBUILD_COMMAND)):
        yield from _steps_per_partition(
            ((result, result.bytes) for result, needed in needed_rebuilds if needed is has_aborts),
            f"{command} {{}}".format,
            lambda n: f"reads {format_grouped(n)} bytes; stop the broker first",
        )


def _needed_rebuild(result: DirectoryCheckResult) -> bool | None:
    """Whether the needed rebuild includes transaction indexes; None if none is needed."""
    if not is_plain_disk_path(result.path):
        return None  # nothing is changed in an archive
    advice = [finding.code.advice for finding in result.findings if finding.code.advice]
    needs_abort_indexes = any(REBUILD_TRANSACTION_INDEX in text for text in advice)
    needs_rebuild = needs_abort_indexes or any(
        rebuild_text in text for text in advice for rebuild_text in REBUILD_ADVICE
    )
    if not needs_rebuild or result.log_errors:
        return None
    return needs_abort_indexes


def _force_recovery_steps(
    results: Sequence[DirectoryCheckResult], starts: Sequence[PredictedStart]
) -> Iterator[NextStep]:
    """Steps that delete `.kafka_cleanshutdown` if log recovery improves the whole log directory.

    If the broker starts with the file, no partition may lose offsets by the step. If the broker
    does not start with it, the failed start deletes the file anyway.
    """
    results_by_marker: defaultdict[str, list[DirectoryCheckResult]] = defaultdict(list)
    for result in results:
        if result.clean_shutdown_path is not None and is_plain_disk_path(
            result.clean_shutdown_path
        ):
            results_by_marker[result.clean_shutdown_path].append(result)
    for marker, marked_results in results_by_marker.items():
        directory = marker.rpartition("/")[0]
        failing_kinds = {
            start.after
            for start in starts
            if not start.starts
            and (start.file == directory or start.file.startswith(f"{directory}/"))
        }
        failing_kinds |= {
            start.after for result in marked_results for start in result.starts if not start.starts
        }
        if AFTER_CRASH in failing_kinds or (
            AFTER_CLEAN_SHUTDOWN not in failing_kinds and not _gains_by_recovery(marked_results)
        ):
            continue
        crash_starts = [result.find_start(AFTER_CRASH) for result in marked_results]
        n_lost = sum(count_offsets(start.lost) for start in crash_starts if start is not None)
        price = "no offsets are lost"
        if n_lost:
            n_partitions = sum(bool(start and start.lost) for start in crash_starts)
            price = (
                f"{format_count(n_lost, 'offset')} lost in "
                f"{format_count(n_partitions, 'partition')}"
            )
        price_text = (
            f"forces log recovery of the whole log directory: {price}; startup takes longer"
        )
        yield NextStep(directory or marker, f"rm {shell_quote_path(marker)}", price_text)


def _count_served_offsets(result: DirectoryCheckResult, kind: str) -> int:
    """The number of offsets that consumers receive after a start."""
    start = result.find_start(kind)
    if start is None or start.fails:
        return 0
    contained_ranges = [(first, end - 1) for first, end in result.offset_intervals.values()]
    return count_offsets(subtract_intervals(contained_ranges, [*start.lost, *start.unreachable]))


def _gains_by_recovery(results: Sequence[DirectoryCheckResult]) -> bool:
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
        if crash_start is None or clean_start is None or clean_start.fails:
            continue
        if (
            crash_start.fails
            or n_gained_offsets < 0
            or subtract_intervals(crash_start.lost, clean_start.lost)
        ):
            return False
    return has_gain


def _meta_properties_step(path: str, lines: list[str]) -> NextStep:
    """The step that writes the missing meta.properties of a log directory."""
    quoted_path = shell_quote_path(str(Path(path) / "meta.properties"))
    command = " ".join(map(shell_quote, ("printf", "%s\\n", *lines)))
    return NextStep(
        path, f"{command} > {quoted_path}", "the broker does not start without this file"
    )


def _move_aside_steps(result: DirectoryCheckResult, blocking_paths: set[str]) -> Iterator[NextStep]:
    """Steps that move away files the broker fails on and does not need.

    blocking_paths: the files and directories that prevent it from starting.
    """
    if result.listing is None or not is_plain_disk_path(result.path):
        return  # nothing is changed in an archive
    moved_paths = set()
    for finding in result.all_findings:
        if finding.code not in _BLOCKING_CODES:
            continue
        # A directory has its own result, unless it is a link to a directory that has one.
        is_directory = finding.file == result.display_path
        directory = Path(result.path)
        path = directory if is_directory else directory / Path(finding.file).name
        if path in moved_paths or blocking_paths.isdisjoint((finding.file, result.display_path)):
            continue
        moved_paths.add(path)
        new_path = path.with_name(f"{path.name}.aside")
        if finding.code is partition_codes.DIRECTORY_NOT_A_PARTITION:
            new_path = Path(real_path(str(path), may_be_link=False)).parent.parent / new_path.name
        price = "the broker does not start with this file and does not need it"
        yield NextStep(
            result.display_path,
            f"mv {shell_quote_path(str(path))} {shell_quote_path(str(new_path))}",
            price,
        )
