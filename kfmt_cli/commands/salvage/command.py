"""salvage: copies the undamaged batches of damaged logs to directories a broker can load."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

from kfmt_cli.broker.log_reading.offset_intervals import (
    intervals_to_lists,
    merge_intervals,
)
from kfmt_cli.broker.start.known_topic_id import NearbyTopicIds
from kfmt_cli.checks.log.checker import iter_checked_blocks
from kfmt_cli.commands.command_run import CommandRun, Progress, iter_result_events
from kfmt_cli.commands.salvage.broker_files import (
    drop_later_epochs,
    find_damage,
    write_known_topic_id,
)
from kfmt_cli.commands.salvage.options import SalvageOptions
from kfmt_cli.commands.salvage.partition_logs import (
    OffsetRangeByPath,
    SalvagedPartition,
    base_offset_in_name,
    is_in_order,
    is_swap_file,
)
from kfmt_cli.commands.salvage.source_logs import SalvageSource
from kfmt_cli.commands.salvage.transaction_lines import (
    note_open_transactions,
    report_restored_markers,
)
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import (
    classify_file,
    file_size,
)
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    TIME_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.findings.finding import FindingCollector, is_error
from kfmt_cli.render.style import (
    escape_unprintable,
    format_count,
    format_first_ranges,
    format_thousands,
)
from kfmt_cli.rows.documents import HOLE_ROW, MISSING_OFFSETS_ROW, REARRANGED_ROW
from kfmt_cli.rows.file_result import FileResult, FileResultType
from kfmt_cli.writers.derived_files import write_missing_files
from kfmt_cli.writers.output import (
    StagingDirectory,
    check_source_and_destination,
    copy_file,
    copy_times,
    open_staging_directory,
    require_free_space,
)
from kfmt_cli.writers.rebuilt_log import RebuildOptions, rebuild_files
from kfmt_cli.writers.salvage.arrangement_writer import (
    CONFLICT_DIRECTORY,
    RearrangementPlan,
    iter_log_results,
    plan_rearrangement,
    write_rearranged_logs,
)
from kfmt_cli.writers.salvage.holes import NO_NEXT_OFFSET, LogHole, OffsetGaps, SalvageCounts
from kfmt_cli.writers.salvage.restored_markers import restore_markers
from kfmt_cli.writers.salvage.salvager import Salvager, ScannedLog, find_offset_range
from kfmt_cli.writers.salvage.unreadable_parts import UnreadableParts

COUNTED_ATTRIBUTES = ("batches", "batches_after", "bytes", "bytes_after", "holes", "reencoded")
SALVAGE_RESULT = FileResultType(
    COUNTED_ATTRIBUTES,
    {"batches": 9, "batches_after": 13, "holes": 7, "bytes": 14, "bytes_after": 14},
)
INDEX_SUFFIXES = (OFFSET_INDEX_KIND.suffix, TIME_INDEX_KIND.suffix)
MAX_SHOWN_RANGES = 10  # ranges of lost bytes in a message


@dataclass(slots=True)
class SalvageCommand:
    """One call of `salvage`."""

    run: CommandRun
    options: SalvageOptions
    _source: SalvageSource = field(init=False)
    _n_missing_offsets: int = 0
    _has_unread_logs: bool = False
    _partitions_with_holes: set[str] = field(default_factory=set)
    """Partitions with dropped data."""
    _buffered_holes: list[tuple[dict[str, object], str]] = field(default_factory=list)
    _unreadable_parts: UnreadableParts = field(default_factory=UnreadableParts)
    _topic_ids: NearbyTopicIds = field(default_factory=NearbyTopicIds)
    _staging: StagingDirectory = field(init=False)
    _progress: Progress = field(init=False)

    def execute(self) -> None:
        """Salvage SRC into DST; raises UsageError, InputError, OutputError."""
        run, source, destination = self.run, self.options.source, self.options.destination
        run.set_result_type(SALVAGE_RESULT)
        check_source_and_destination(source, destination)
        self._source = SalvageSource(run, self.options.deleted)
        partitions = self._source.find_partitions(source, self.options.topics)
        if self.options.topic is not None:
            partitions = self._source.rename_partitions(partitions, source, self.options.topic)
        logs = [log for partition in partitions for log in (*partition.logs, *partition.other_logs)]
        if not logs:
            hint = " that could be read" if run.summary.n_unread_inputs else ""
            if self._source.n_deleted_logs:
                hint += "; use --deleted to include .deleted logs"
            raise InputError(f"{format_display_name(source)}: no log segments{hint}")
        total_bytes = sum(map(file_size, logs))
        require_free_space(destination, total_bytes)
        run.sink.begin_results(SALVAGE_RESULT)
        with (
            run.output.progress(total_bytes) as self._progress,
            open_staging_directory(destination, inputs=[source]) as self._staging,
        ):
            run.report_leftovers(self._staging.removed_leftovers)
            for file, directory in self._source.files_to_copy:
                self._copy_if_undamaged(file, str(directory / PurePath(file.path).name))
            for partition in partitions:
                self._salvage_partition(partition)
            for log in logs:
                self._report_unreadable_bytes(log)
            if self._has_no_batches:
                self._staging.prevent_commit()
        run.finish()
        self._show_summary(destination)

    @property
    def _has_no_batches(self) -> bool:
        """Whether the logs contain bytes but no undamaged batch; empty logs do not count."""
        totals = self.run.summary.totals
        return not totals.batches_after and (totals.bytes > 0 or self._has_unread_logs)

    def _copy_if_undamaged(self, file: InputFile, output_name: str) -> None:
        """Copy a file if it is undamaged; reports it if it cannot be read."""
        with self.run.catch_input_errors():
            is_damaged, findings = find_damage(file, self.options.decompression_limit)
            if not is_damaged:
                copy_file(self._staging, file, output_name)
                return
            self.run.sink.write_to_stderr(f"not copied: {escape_unprintable(file.name)}: damaged\n")
            collector = FindingCollector(self.run.max_findings)
            self.run.report_findings(findings, collector)
            self.run.report_suppressed_findings(file.name, collector)
            self.run.summary.n_damaged_files += 1
            self.run.summary.totals.errors += max(1, sum(map(is_error, findings)))
            self.run.output.raise_exit_code(ExitCode.FINDINGS)

    def _salvage_partition(self, partition: SalvagedPartition) -> None:
        """Write the logs of a partition, then the files derived from them."""
        range_by_path: OffsetRangeByPath = {}
        logs = (*partition.logs, *partition.other_logs)
        for file in logs:
            with self.run.catch_input_errors():
                range_by_path[file.path] = find_offset_range(
                    file, self.options.decompression_limit, self._unreadable_parts
                )
        self._has_unread_logs |= len(range_by_path) < len(logs)
        for other_log in partition.other_logs:
            if other_log.path in range_by_path and range_by_path[other_log.path] is None:
                self._skip_log(other_log)
        if is_in_order(partition, range_by_path):
            written_logs = self._write_ordered_logs(partition, range_by_path)
        else:
            written_logs = self._write_rearranged_logs(partition, range_by_path)
        if not written_logs:
            return
        if self._has_holes(partition):
            restored = restore_markers(
                self._staging,
                written_logs,
                [[log for log in partition.logs if log.path in range_by_path]],
                partial(iter_checked_blocks, wrap_source=self._unreadable_parts.filled_source),
                (self.options.source,),
                commits_unknown=self.options.commit_unknown,
            )
            report_restored_markers(
                self.run,
                partition.display_path,
                restored,
                commits_unknown=self.options.commit_unknown,
            )
        offset_gaps = OffsetGaps(min(base_offset_in_name(file) or 0 for file in logs) - 1)
        write_missing_files(
            self._staging,
            partition.output_directory,
            written_logs,
            self.options.index_interval_bytes,
            offset_gaps,
        )
        end_offsets = [log.base_offset_or_zero for log in written_logs]  # of empty ones, at least
        end_offsets += (range_.last_offset + 1 for range_ in range_by_path.values() if range_)
        drop_later_epochs(self._staging, partition.output_directory, max(end_offsets))
        if self.options.topic is None:  # a renamed one gets the id of another topic
            directory = logs[0].path.rpartition("/")[0]
            write_known_topic_id(
                self._staging, partition.output_directory, self._topic_ids, directory
            )
        self._report_gaps(partition, offset_gaps.intervals)
        note_open_transactions(self.run, self._staging, str(partition.output_directory))

    def _has_holes(self, partition: SalvagedPartition) -> bool:
        """Whether batches of a partition were dropped."""
        return partition.display_path in self._partitions_with_holes

    def _report_gaps(self, partition: SalvagedPartition, gaps: list[tuple[int, int]]) -> None:
        """Report the offsets missing from the batches that were written."""
        n_missing = sum(last - first + 1 for first, last in gaps)
        self._n_missing_offsets += n_missing
        if not n_missing:
            return
        row: dict[str, object] = {
            "file": partition.display_path,
            "offsets": n_missing,
            "ranges": intervals_to_lists(gaps),
        }
        ranges_text = format_first_ranges(gaps, self.run.max_findings)
        line = (
            f"{escape_unprintable(partition.display_path)}: "
            f"{format_count(n_missing, 'offset')} missing: {ranges_text}\n"
        )
        is_shown = self._has_holes(partition) or not self._is_compacted(partition)
        self.run.sink.write_document(MISSING_OFFSETS_ROW, row, [line] if is_shown else [])

    def _report_unreadable_bytes(self, log: InputFile) -> None:
        """Report the bytes of a log that cannot be read."""
        unreadable_ranges = self._unreadable_parts.unreadable_ranges(log).ranges
        if not unreadable_ranges:
            return
        error = unreadable_ranges[0].error
        ranges_text = format_first_ranges(
            merge_intervals((range_.start, range_.end - 1) for range_ in unreadable_ranges),
            MAX_SHOWN_RANGES,
        )
        message = f"{log.name} bytes {ranges_text}: cannot be read: {error.reason}"
        self.run.report_input_error(message if error.reason else str(error))

    def _is_compacted(self, partition: SalvagedPartition) -> bool:
        with self.run.catch_input_errors():
            return partition.is_compacted
        return False

    def _skip_log(self, log: InputFile) -> None:
        """Note or count a file without undamaged batches as not copied."""
        if is_swap_file(log):
            reason = "leftover of an interrupted segment replacement, with no undamaged batches"
            self.run.sink.write_to_stderr(f"not copied: {escape_unprintable(log.name)}: {reason}\n")
        else:
            self._source.n_skipped_logs += 1

    def _write_ordered_logs(
        self, partition: SalvagedPartition, range_by_path: OffsetRangeByPath
    ) -> list[InputFile]:
        """Write the logs of a partition whose batches are in order; returns the written logs."""
        logs = partition.logs
        written_logs: list[InputFile] = []
        salvager = Salvager(
            self.options.decompression_limit,
            self.options.n_jobs,
            self.options.records,
            self._unreadable_parts,
        )
        empty_paths = {path for path, offset_range in range_by_path.items() if offset_range is None}
        for i, log in enumerate(logs):
            if log.path not in range_by_path:
                continue
            later_base_offsets = (
                log.base_offset_or_zero for log in logs[i + 1 :] if log.path not in empty_paths
            )
            output_name = str(partition.output_directory / PurePath(log.path).name)
            salvage_counts = self._salvage_log(
                salvager, log, output_name, next(later_base_offsets, NO_NEXT_OFFSET)
            )
            if salvage_counts is None:
                continue
            # An empty last segment sets the log end offset.
            sets_log_end = i + 1 == len(logs) and log.base_offset_or_zero > salvager.last_offset
            if salvage_counts.batches_after or sets_log_end:
                written_logs.append(self._written_log(output_name))
            else:
                (self._staging.directory / output_name).unlink()
        return written_logs

    def _written_log(self, output_name: str) -> InputFile:
        return classify_file(str(self._staging.directory / output_name), output_name)

    def _write_rearranged_logs(
        self, partition: SalvagedPartition, range_by_path: OffsetRangeByPath
    ) -> list[InputFile]:
        """Write the logs of a partition with batches out of order; returns the written logs."""
        salvager = Salvager(
            self.options.decompression_limit,
            self.options.n_jobs,
            self.options.records,
            self._unreadable_parts,
        )
        scanned_logs: list[ScannedLog] = []
        results: list[FileResult] = []
        for log in (*partition.logs, *partition.other_logs):
            if log.path not in range_by_path:
                continue
            result = FileResult(SALVAGE_RESULT, log.name, LOG_KIND.name)
            base_offset, on_progress = base_offset_in_name(log) or 0, self._progress.on_progress
            with self.run.catch_input_errors():
                scanned_logs.append(
                    salvager.scan_log(
                        log, base_offset, is_swap_file(log), result.add_findings, on_progress
                    )
                )
                results.append(result)
        plan = plan_rearrangement(scanned_logs)
        empty_base_offsets = (
            log.base_offset_or_zero for log in partition.logs if range_by_path.get(log.path) is None
        )
        last_empty_base_offset = max(empty_base_offsets, default=0)
        log_names, conflict_log_names = write_rearranged_logs(
            self._staging, str(partition.output_directory), plan, last_empty_base_offset
        )
        for log_name in conflict_log_names:
            self._write_indexes(self._written_log(log_name), PurePath(log_name).parent)
        for scanned_log, result, (salvage_counts, holes) in zip(
            scanned_logs, results, iter_log_results(plan), strict=True
        ):
            for hole in holes:
                self._report_hole(scanned_log.log, hole)
            self._show_result(result, salvage_counts)
        self._report_arrangement(partition, plan)
        return list(map(self._written_log, log_names))

    def _write_indexes(self, log: InputFile, directory: PurePath) -> None:
        """Write the indexes of a log of conflicting batches, if they can express its offsets."""
        with suppress(InputError):
            for rebuilt_log in rebuild_files(
                [log],
                RebuildOptions(self.options.index_interval_bytes),
                lambda _: None,
                has_no_earlier_producers=True,
            ):
                for index_name, index_bytes in rebuilt_log.files.items():
                    if index_bytes is not None and index_name.endswith(INDEX_SUFFIXES):
                        self._staging.write_file(str(directory / index_name), index_bytes)

    def _report_arrangement(self, partition: SalvagedPartition, plan: RearrangementPlan) -> None:
        """Report the conflicting batches and the dropped duplicates."""
        arrangement = plan.arrangement
        n_conflicting_batches = sum(
            batch_run.n_batches
            for conflict_log in arrangement.conflict_logs
            for batch_run in conflict_log
        )
        conflict_directory = partition.output_directory / CONFLICT_DIRECTORY
        row: dict[str, object] = {
            "file": partition.display_path,
            "aside_batches": n_conflicting_batches,
            "aside": str(conflict_directory) if n_conflicting_batches else None,
            "copies": arrangement.n_dropped_copies,
        }
        lines = []
        if n_conflicting_batches:
            batches_text = format_count(
                n_conflicting_batches, "undamaged batch", "undamaged batches"
            )
            lines.append(
                f"   written to {escape_unprintable(str(conflict_directory))}: {batches_text} "
                "whose "
                "offsets\n"
            )
            lines.append("   conflict with the rest\n")
        if arrangement.n_dropped_copies:
            copies_text = format_count(
                arrangement.n_dropped_copies, "duplicate batch", "duplicate batches"
            )
            lines.append(f"   {copies_text} kept once\n")
        self.run.sink.write_document(REARRANGED_ROW, row, lines)

    def _salvage_log(
        self, salvager: Salvager, log: InputFile, output_name: str, next_base_offset: int
    ) -> SalvageCounts | None:
        """Salvage one log; None if it could not be read."""
        result = FileResult(SALVAGE_RESULT, log.name, LOG_KIND.name)

        def on_hole(hole: LogHole) -> None:
            self._report_hole(log, hole)

        with self.run.catch_input_errors():
            with self._staging.create_file(output_name) as output_file:
                on_progress = self._progress.on_progress
                salvage_counts = salvager.salvage_log(
                    log,
                    next_base_offset,
                    output_file.write,
                    on_hole,
                    result.add_findings,
                    on_progress,
                )
            # Retention of messages without timestamps uses the file time.
            copy_times(log.path, self._staging.directory / output_name)
            self._show_result(result, salvage_counts)
            return salvage_counts
        (self._staging.directory / output_name).unlink()
        return None

    def _show_result(self, result: FileResult, salvage_counts: SalvageCounts) -> None:
        """Show a log's result, then the holes that are buffered for people."""
        result.counts = {
            attribute: getattr(salvage_counts, attribute) for attribute in COUNTED_ATTRIBUTES
        }
        self.run.handle_events(iter_result_events(result))
        for row, line in self._buffered_holes:
            self.run.sink.write_document(HOLE_ROW, row, [line])
        if self._buffered_holes and salvage_counts.holes > len(self._buffered_holes):
            more_text = format_count(salvage_counts.holes - len(self._buffered_holes), "more hole")
            self.run.sink.write_hint(f"and {more_text}; use --json to list all")
        self._buffered_holes.clear()

    def _report_hole(self, log: InputFile, hole: LogHole) -> None:
        """Report dropped bytes; for people, a limited number after the log's result."""
        byte_range_text = f"bytes {hole.position}–{hole.position + hole.size - 1}"
        if hole.first_offset is None:
            offsets_text = "no offsets lost"
        elif hole.last_offset is None:
            offsets_text = f"any offsets from {hole.first_offset} onward lost"
        else:
            offsets_text = f"offsets {hole.first_offset}–{hole.last_offset} lost"
        if hole.reencoded:
            records_text = format_count(hole.reencoded, "record")
            offsets_text += f" except for {records_text}, recovered and re-encoded"
        n_unreadable_bytes = self._unreadable_parts.unreadable_ranges(log).count_unreadable_bytes(
            hole.position, hole.size
        )
        reasons = list(hole.codes)
        if n_unreadable_bytes:
            reasons.append(f"{format_count(n_unreadable_bytes, 'byte')} cannot be read")
        reasons_text = f" ({', '.join(reasons)})" if reasons else ""
        row: dict[str, object] = {
            **HOLE_ROW.members_from(hole),
            "file": log.name,
            "codes": list(hole.codes),
            "unread_bytes": n_unreadable_bytes or None,
        }
        name = escape_unprintable(log.name)
        line = f"{name}: dropped {byte_range_text}: {offsets_text}{reasons_text}\n"
        self._partitions_with_holes.add(log.name.rpartition(os.sep)[0])
        if not self.run.sink.is_for_people:
            self.run.sink.write_document(HOLE_ROW, row, [line])
        elif len(self._buffered_holes) < self.run.max_findings:
            self._buffered_holes.append((row, line))

    def _show_summary(self, destination: str) -> None:
        if self._source.n_skipped_logs:
            singular = "log whose name is not a segment name"
            plural = "logs whose names are not segment names"
            hint = "; use --deleted to include .deleted logs" if self._source.n_deleted_logs else ""
            self.run.sink.write_to_stderr(
                f"not copied: {format_count(self._source.n_skipped_logs, singular, plural)}{hint}\n"
            )
        if self._has_no_batches:
            self.run.sink.write_to_stderr(
                f"kfmt: {escape_unprintable(destination)} not written: no undamaged batches found\n"
            )
            return
        totals = self.run.summary.totals
        total_text = format_count(totals.batches, "batch", "batches")
        destination_text = escape_unprintable(format_display_name(destination))
        # A batch truncated by the end of its file is not among the batches that were counted.
        n_salvaged = min(totals.batches_after, totals.batches)
        summary_text = (
            f"salvaged {format_thousands(n_salvaged)} of {total_text} into {destination_text}"
        )
        details_text = f"; {format_count(totals.holes, 'hole')}" if totals.holes else "; no holes"
        if self._n_missing_offsets:
            missing_text = format_count(self._n_missing_offsets, "offset")
            details_text += f"; {missing_text} missing (lost, or already removed by compaction)"
        if totals.reencoded:
            details_text += f"; {format_count(totals.reencoded, 'record')} re-encoded and marked"
        self.run.sink.write_hint(summary_text + details_text, "warn" if totals.holes else "good")
