"""Rebuilds the files that a recovering broker writes next to a log, for rebuild-index.

A broker truncates a damaged log at the damage, so the indexes also end there. Source:
`org.apache.kafka.storage.internals.log.LogSegment.recover`, `LogLoader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.log_recovery import IndexBuilder, iter_recovered_blocks
from kfmt_cli.broker.start.recovered_files import recover_partition
from kfmt_cli.broker.transactions.producer_state import ProducerStateManager
from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.registry import create_log_checks
from kfmt_cli.disk.directory_listing import DirectoryListing, classify_file, list_directory
from kfmt_cli.disk.file_access import is_file
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.codes import PRODUCERS_UNKNOWN
from kfmt_cli.findings.finding import Finding, has_errors, sort_findings
from kfmt_cli.formats.index import ABORTED_TRANSACTION
from kfmt_cli.log.block import max_timestamps
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.writers.salvage.holes import OffsetGaps


@dataclass(slots=True)
class RebuiltLog:
    """The rebuilt files of a log. files: contents by name without directory; None for a file that
    must not exist."""

    log: InputFile
    size: int = 0
    batches: int = 0
    entries: int = 0
    has_producers: bool = False
    is_fully_retained: bool = True
    """Whether a recovering broker keeps the whole log."""
    files: dict[str, bytes | None] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """The settings of the broker whose rebuild is reproduced."""

    index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES
    """index.interval.bytes."""
    producers_expired_before_ms: int | None = None
    """Producers with no write after this time in ms are expired; None expires none."""
    predicts_start: bool = False
    """Whether to predict the whole broker start if recovery would change a log."""
    as_started: bool = False
    """Whether to reproduce a start after a crash with the files that exist now, instead of a start
    without any index."""


def rebuild_files(
    logs: list[InputFile],
    options: RebuildOptions,
    on_progress: Callable[[int], None],
    *,
    has_no_earlier_producers: bool = False,
    swap_files: Sequence[InputFile] = (),
    offset_gaps: OffsetGaps | None = None,
) -> Iterator[RebuiltLog]:
    """Rebuild the files of the logs of one partition, in order; raises InputError.

    has_no_earlier_producers: whether no producer wrote before the first log. swap_files: completed
    files of an interrupted segment replacement, which a broker applies first. offset_gaps: receives
    the retained batches.
    """
    producer_state = ProducerStateManager(is_complete=has_no_earlier_producers)
    start_reproduction = (
        _StartReproduction(logs, swap_files, options) if options.as_started and logs else None
    )
    for log_index, log in enumerate(logs):
        base_offset = log.base_offset
        if base_offset is None:
            raise InputError(f"{log.name}: its name does not begin with a base offset of 20 digits")
        if not producer_state.is_complete:
            stored_state = _load_producer_state(log)
            producer_state = stored_state if stored_state.is_complete else producer_state
        if options.producers_expired_before_ms is not None:
            producer_state.expire_producers(options.producers_expired_before_ms)
        earlier_snapshots: dict[str, bytes | None] = {}
        if log_index and producer_state.map_end_offset != base_offset:
            earlier_snapshots = _move_to_next_base_offset(producer_state, base_offset)
        rebuilt_log = _rebuild_log(
            log, options.index_interval_bytes, producer_state, on_progress, offset_gaps
        )
        rebuilt_log.files.update(earlier_snapshots)
        _add_producer_snapshot(rebuilt_log, producer_state, _has_no_earlier_segment(logs[0]))
        next_base_offset = logs[log_index + 1].base_offset if log_index + 1 < len(logs) else None
        overlaps_next = (
            next_base_offset is not None and producer_state.map_end_offset > next_base_offset
        )
        deviates_from_recovery = (
            bool(swap_files) or overlaps_next or not rebuilt_log.is_fully_retained
        )
        if start_reproduction is None and deviates_from_recovery and options.predicts_start:
            start_reproduction = _StartReproduction(logs, swap_files, options)
            start_reproduction.replace_rebuilt_files(
                rebuilt_log, 0 if log_index == 0 else base_offset, next_base_offset
            )
            rebuilt_log.files.update(earlier_snapshots)
        elif start_reproduction is not None:
            start_reproduction.replace_rebuilt_files(
                rebuilt_log,
                0 if log_index == 0 and options.as_started else base_offset,
                next_base_offset,
            )
        elif next_base_offset not in (None, producer_state.map_end_offset):
            # A broker keeps only the snapshots at base offsets of segments, and the last snapshot.
            rebuilt_log.files.pop(_producer_snapshot_name(producer_state), None)
        yield rebuilt_log


def _move_to_next_base_offset(
    producer_state: ProducerStateManager, base_offset: int
) -> dict[str, bytes | None]:
    """Continue after a gap or an overlap; returns the snapshot that a broker writes there.

    It writes it before it recovers the segment, with the state after all earlier segments, even if
    they reach beyond its base offset.
    """
    producer_state.map_end_offset = base_offset
    if producer_state.is_complete or not producer_state.entry_by_producer_id:
        return {_producer_snapshot_name(producer_state): producer_state.encode_snapshot()}
    return {}


class _StartReproduction:
    """The files after a broker start on the logs; raises InputError."""

    def __init__(
        self, logs: Sequence[InputFile], swap_files: Sequence[InputFile], options: RebuildOptions
    ) -> None:
        first_log_path = Path(logs[0].path)
        file_names = {Path(file.path).name for file in (*logs, *swap_files)}
        snapshot_path = first_log_path.with_name(
            f"{logs[0].base_offset:020}{PRODUCER_SNAPSHOT_KIND.suffix}"
        )
        if is_file(str(snapshot_path)):
            file_names.add(snapshot_path.name)
        display_path = logs[0].name.removesuffix(first_log_path.name).rstrip("/") or "."
        if options.as_started:
            file_names.update(list_directory(str(first_log_path.parent)).regular_files)
        directory_listing = DirectoryListing(
            str(first_log_path.parent), display_path, (), tuple(sorted(file_names))
        )
        try:
            self._segments, self._snapshots = recover_partition(
                directory_listing, options.index_interval_bytes, options.producers_expired_before_ms
            )
        except StartError as error:
            raise InputError(f"a broker would not start on these logs: {error}") from error

    def replace_rebuilt_files(
        self, rebuilt_log: RebuiltLog, first_offset: int, end_offset: int | None
    ) -> None:
        """Set the files to those of the segments and snapshots of an offset range."""
        rebuilt_log.files.clear()
        rebuilt_log.entries = 0
        for segment in self._segments:
            if segment.base_offset >= first_offset and (
                end_offset is None or segment.base_offset < end_offset
            ):
                rebuilt_log.files |= segment.content_by_name
                rebuilt_log.entries += segment.n_offset_entries
        if any(finding.code is PRODUCERS_UNKNOWN for finding in rebuilt_log.findings):
            return
        for offset, snapshot_content in self._snapshots.items():
            if offset > first_offset and (end_offset is None or offset <= end_offset):
                rebuilt_log.files[f"{offset:020}{PRODUCER_SNAPSHOT_KIND.suffix}"] = snapshot_content


def _load_producer_state(log: InputFile) -> ProducerStateManager:
    """The producer state at the start of a log: empty at offset 0, else from its snapshot."""
    offset = log.base_offset_or_zero
    producer_state = ProducerStateManager(is_complete=offset == 0, map_end_offset=offset)
    snapshot_path = Path(log.path).with_name(f"{offset:020}.snapshot")
    if offset and is_file(str(snapshot_path)):
        snapshot_contents = classify_file(str(snapshot_path), snapshot_path.name).read_contents()
        if not snapshot_contents.findings:
            producer_state.load_snapshot(snapshot_contents.table, offset)
            producer_state.is_complete = True
    return producer_state


def _has_no_earlier_segment(log: InputFile) -> bool:
    """Whether the directory of a log has no earlier segment; raises InputError."""
    first_log = next(iter(list_directory(str(Path(log.path).parent)).logs), log)
    return first_log.base_offset_or_zero >= log.base_offset_or_zero


def _rebuild_log(
    log: InputFile,
    index_interval_bytes: int,
    producer_state: ProducerStateManager,
    on_progress: Callable[[int], None],
    offset_gaps: OffsetGaps | None,
) -> RebuiltLog:
    assert log.base_offset is not None
    rebuilt_log = RebuiltLog(log)
    index_builder = IndexBuilder(log.base_offset, index_interval_bytes)
    aborted_transactions: list[dict[str, int]] = []
    with open_log(log, read_ahead=True) as opened_log:
        log_checks = create_log_checks(Scope.HEADERS, log.base_offset)
        for block, n_retained in iter_recovered_blocks(opened_log.blocks, log.base_offset):
            on_progress(len(block.data))
            check_findings = [
                finding for check in log_checks for finding in check.check_block(block, None)
            ]
            rebuilt_log.findings += sort_findings([*block.findings, *check_findings])
            if n_retained:
                batches = block.batches.select_rows(slice(0, n_retained))
                index_builder.add_batches(
                    batches.position, batches.last_offset, max_timestamps(batches)
                )
                aborted_transactions += producer_state.apply_block(block, n_retained)
                has_producer = (batches.producer_id >= 0) & (batches.is_v2 == 1)
                rebuilt_log.has_producers |= bool(has_producer.any())
                if offset_gaps is not None:
                    offset_gaps.add_batches(batches)
            rebuilt_log.batches += n_retained
            rebuilt_log.is_fully_retained &= n_retained == len(block.batches) and not has_errors(
                block.findings
            )
        rebuilt_log.size = opened_log.reader.bytes_read
    offset_text = Path(log.path).name.split(".", 1)[0]
    rebuilt_log.files[f"{offset_text}.index"] = index_builder.encode_offset_index()
    rebuilt_log.files[f"{offset_text}.timeindex"] = index_builder.encode_time_index()
    rebuilt_log.entries = index_builder.n_offset_entries
    rebuilt_log.files[f"{offset_text}.txnindex"] = (
        b"".join(map(ABORTED_TRANSACTION.encode_row, aborted_transactions)) or None
    )
    return rebuilt_log


def _producer_snapshot_name(producer_state: ProducerStateManager) -> str:
    return f"{producer_state.map_end_offset:020}.snapshot"


def _add_producer_snapshot(
    rebuilt_log: RebuiltLog, producer_state: ProducerStateManager, has_first_segment: bool
) -> None:
    """Add the snapshot after a log, or a finding if it cannot be written.

    has_first_segment: whether the logs begin with the first segment that a broker would find. If
    such a partition begins at a later offset without a snapshot, a broker assumes that it had no
    producers.
    """
    if producer_state.is_complete or (
        has_first_segment and not producer_state.entry_by_producer_id
    ):
        if rebuilt_log.batches:
            rebuilt_log.files[_producer_snapshot_name(producer_state)] = (
                producer_state.encode_snapshot()
            )
    elif rebuilt_log.batches:
        rebuilt_log.findings.append(
            Finding(
                rebuilt_log.log.name,
                PRODUCERS_UNKNOWN,
                None,
                "earlier segments are missing, and so is the snapshot at its base offset"
                if has_first_segment
                else "earlier segments were not given, and there is no snapshot at its base offset",
            )
        )
