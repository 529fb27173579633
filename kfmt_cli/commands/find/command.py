"""find: the segment, batch and byte of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from kfmt_cli.broker.log_reading.seek import (
    BY_SCAN,
    ReadPosition,
    choose_position_for_offset,
    choose_position_for_timestamp,
    read_blocks_from,
)
from kfmt_cli.broker.log_reading.timestamp_lookup import find_offset_for_timestamp
from kfmt_cli.commands.command_run import CommandRun, RowCells, chunk_rows
from kfmt_cli.commands.each_partition import LogStartReporter, iter_log_blocks, show_read_progress
from kfmt_cli.commands.find.options import FindOptions
from kfmt_cli.commands.partition_selection import resolve_selection
from kfmt_cli.commands.replica_logs import SelectedReplicas, select_log_replicas
from kfmt_cli.commands.settings_resolver import TopicSettingsResolver
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.directory_listing import format_no_logs_message
from kfmt_cli.disk.file_names import log_partition_directory, parse_topic_partition, path_identity
from kfmt_cli.disk.input_paths import InputPath, resolve_paths
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.findings.finding import FindingCollector
from kfmt_cli.log.block import Block, slice_block, split_runs
from kfmt_cli.log.derived_columns import read_complete_records
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.record_filter import RecordFilter
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.options.selection import RecordSelectionOptions
from kfmt_cli.render.style import escape_unprintable, format_count
from kfmt_cli.rows.documents import MATCH_ROW
from kfmt_cli.rows.offset_order import in_order_mask

MAX_LATER_BATCHES = 256  # stop after this many batches that begin later; damage may fake a few


@dataclass(slots=True)
class FindCommand:
    """One call of `find`."""

    run: CommandRun
    options: FindOptions
    _n_remaining_rows: int | None = field(init=False)
    """Number of rows still to show; None for all."""
    _n_matches: int = 0
    _n_matched_files: int = 0
    _replicas: SelectedReplicas = field(default_factory=SelectedReplicas)
    _finding_collector: FindingCollector = field(init=False)
    """Findings of the segment that is searched."""
    _log_starts: LogStartReporter = field(init=False)
    _settings_resolver: TopicSettingsResolver = field(default_factory=TopicSettingsResolver)
    _matched_offset: object = None
    """The offset found for the timestamp in this partition."""

    def execute(self) -> None:
        """Search every partition under some paths."""
        self._n_remaining_rows = self.options.limit
        segment_by_identity: dict[str, Segment] = {}
        for input_path in resolve_paths(self.options.paths, self.run.report_input_error):
            with self.run.catch_input_errors():
                path_segments = list(
                    input_path.exclude_marked_directories(
                        self.run.sink.write_to_stderr
                    ).iter_segments()
                )
                segments_with_log = [
                    segment for segment in path_segments if segment.log is not None
                ]
                if path_segments and not segments_with_log:
                    raise InputError(_format_missing_log(input_path))
                for segment in segments_with_log:
                    segment_by_identity.setdefault(segment.identity_path, segment)
        segments_with_log = list(segment_by_identity.values())
        self._replicas = select_log_replicas(
            self.run,
            [segment.required_log for segment in segments_with_log],
            1,
            all_replicas=self.options.all_replicas,
        )
        segments_with_log = [
            segment
            for segment in segments_with_log
            if self._replicas.restrict_selection(segment.required_log, Selection()) is not None
        ]
        self._log_starts = LogStartReporter(self.run)
        logs_to_read = (
            [segment.any_file for segment in segments_with_log]
            if self.options.selection_options
            else []
        )
        with show_read_progress(self.run, logs_to_read):
            for directory_segments in _segments_by_directory(segments_with_log).values():
                sorted_segments = sorted(
                    directory_segments, key=lambda segment: segment.any_file.base_offset_or_zero
                )
                first_log = sorted_segments[0].any_file
                self._log_starts.report_log_start(
                    first_log.path, first_log.base_offset, first_log.name
                )
                self._search_partition(sorted_segments)
        if self._n_matched_files > 1:
            self.run.sink.write_hint(format_count(self._n_matches, "place"))
        elif segments_with_log and not self._n_matches:
            self.run.sink.write_hint("not found")
            options: RecordSelectionOptions = self.options
            if (offset := self.options.offset) is not None:
                options = RecordSelectionOptions(from_offset=offset)
            logs = [segment.log for segment in segments_with_log if segment.log is not None]
            if self.options.timestamp is None:
                self.run.report_empty_answer(logs, options)
        if segments_with_log and not self._n_matches:
            self.run.output.raise_exit_code(ExitCode.FINDINGS)

    def _search_partition(self, segments: list[Segment]) -> None:
        if self.options.offset is not None:
            candidate_segments = [
                segment
                for segment in segments
                if segment.any_file.base_offset_or_zero <= self.options.offset
            ]
            for segment in candidate_segments[-1:]:
                self._search_segment(
                    segment, partial(self._iter_offset_matches, self.options.offset)
                )
        elif self.options.timestamp is not None:
            self._matched_offset = None
            for segment in segments:
                if self._search_segment(
                    segment, partial(self._iter_timestamp_matches, self.options.timestamp)
                ):
                    break
            self._report_other_answer(segments, self.options.timestamp)
        else:
            self._search_selected_records(segments)

    def _report_other_answer(self, segments: list[Segment], timestamp: int) -> None:
        """Report the offset that a broker answers for a timestamp, if it is another one. A single
        log does not show which segment a broker searches."""
        log = segments[0].required_log
        if any(segment.is_explicit for segment in segments):
            return
        directory = log_partition_directory(log.path)
        topic, _ = parse_topic_partition(directory.name)
        settings = self._settings_resolver.topic_settings(topic, directory.parent)
        try:
            offset = find_offset_for_timestamp(
                segments,
                timestamp,
                self._log_starts.log_start_offset(directory),
                self.options.decompression_limit,
                settings.max_decompressed_message_bytes,
            )
        except InputError as error:
            answer = f"an error for this timestamp: {error}"
        else:
            if offset == self._matched_offset:
                return
            offset_text = "no offset" if offset is None else f"offset {offset}"
            answer = (
                f"{offset_text} for this timestamp, because of its indexes and its log start "
                "offset; see kfmt index-check"
            )
        display_name = log.name.rpartition("/")[0] or "."
        message = f"{display_name}: after a clean shutdown, a broker returns {answer}"
        self.run.sink.write_to_stderr(f"{escape_unprintable(message)}\n")

    def _search_selected_records(self, segments: list[Segment]) -> None:
        """Search the segments of a partition for selected records."""
        logs = [segment.log for segment in segments if segment.log is not None]
        with self.run.catch_input_errors():
            selection = resolve_selection(
                self.options.selection_options,
                self._replicas.partition_logs(logs),
                self.options.decompression_limit,
                self.run.sink.write_to_stderr,
                self.options.paths,
                self._replicas.intervals_by_path,
            )
            producer_selection = Selection(
                record_filter=RecordFilter(producer_id=selection.record_filter.producer_id)
            )
            iter_matches = (
                self._iter_selected_batches
                if selection == producer_selection
                else self._iter_selected_records
            )
            selected_paths = {log.path for log in selection.select_logs(logs)}
            for segment in segments:
                log_selection = self._replicas.restrict_selection(segment.required_log, selection)
                if segment.any_file.path in selected_paths and log_selection is not None:
                    self._search_segment(segment, partial(iter_matches, log_selection))

    def _search_segment(
        self, segment: Segment, iter_matches: Callable[[Segment], Iterator[RowCells]]
    ) -> int:
        """Search a segment and show the matches; returns their number."""
        if self._n_remaining_rows == 0:
            return 0
        self._finding_collector = FindingCollector(self.run.max_findings)
        matches = islice(self._iter_matches(segment, iter_matches), self._n_remaining_rows)
        n_matches = 0
        if (first_match := next(matches, None)) is not None:
            match_chunks = chunk_rows(chain([first_match], matches))
            n_matches = self.run.write_rows(
                segment.required_log.name, MATCH_ROW, match_chunks, ("place", "places")
            )
            self._n_matched_files += 1
            self._n_matches += n_matches
            self._n_remaining_rows = (
                None if self._n_remaining_rows is None else self._n_remaining_rows - n_matches
            )
        self.run.report_suppressed_findings(segment.required_log.name, self._finding_collector)
        return n_matches

    def _iter_matches(
        self, segment: Segment, iter_matches: Callable[[Segment], Iterator[RowCells]]
    ) -> Iterator[RowCells]:
        """The matches in a segment, up to the first unreadable byte; reports its findings."""
        with self.run.catch_input_errors():
            yield from iter_matches(segment)

    # By offset and by time.

    def _iter_offset_matches(self, offset: int, segment: Segment) -> Iterator[RowCells]:
        read_position = self._note_if_scanned(segment, choose_position_for_offset(segment, offset))
        n_later_batches, next_base_offset, end_offset = 0, None, None
        unproven_matches: list[RowCells] = []  # of a batch that may have another offset
        for block in self._iter_blocks_from(segment, read_position):
            batches = block.batches
            later_mask = (batches.base_offset > offset) & (batches.has_base_offset == 1)
            candidate_mask = (batches.last_offset >= offset) & ~later_mask
            is_in_order = in_order_mask(batches)
            proven_mask = candidate_mask & is_in_order
            if proven_mask.any() or (candidate_mask.any() and not unproven_matches):
                undamaged_mask = candidate_mask & (batches.crc_valid == 1)
                masks = (proven_mask, undamaged_mask, candidate_mask)
                batch_index = int(np.argmax(next(mask for mask in masks if mask.any())))
                matches = self._iter_matching_records(
                    block,
                    batch_index,
                    lambda records: records.rows.offset == offset,
                    read_position.via,
                )
                batch_matches = [*matches] or [_match_cells(block, batch_index, read_position.via)]
                if proven_mask.any():
                    yield from batch_matches
                    return
                unproven_matches = batch_matches
            if next_base_offset is None and later_mask.any():
                next_base_offset = int(batches.base_offset[later_mask].min())
            if is_in_order.any():
                end_offset = int(batches.last_offset[is_in_order].max()) + 1
            n_later_batches += int(later_mask.sum())
            if n_later_batches >= MAX_LATER_BATCHES:
                break  # compaction has removed it
        if unproven_matches:
            yield from unproven_matches
            return
        reason = f"the next batch starts at offset {next_base_offset}"
        if next_base_offset is None:
            reason = (
                "it is empty"
                if end_offset is None
                else f"the segment ends before offset {end_offset}"
            )
        self.run.sink.write_to_stderr(f"{escape_unprintable(segment.any_file.name)}: {reason}\n")

    def _iter_timestamp_matches(self, timestamp: int, segment: Segment) -> Iterator[RowCells]:
        read_position = self._note_if_scanned(
            segment, choose_position_for_timestamp(segment, timestamp)
        )
        for block in self._iter_blocks_from(segment, read_position):
            batches = block.batches
            candidate_mask = (batches.max_timestamp >= timestamp) & (batches.has_timestamp == 1)
            for batch_index in np.flatnonzero(candidate_mask).tolist():
                matches = self._iter_matching_records(
                    block,
                    batch_index,
                    lambda records: records.rows.timestamp >= timestamp,
                    read_position.via,
                )
                first_match = next(matches, None)
                if first_match is not None:
                    self._matched_offset = first_match[4]
                    yield first_match
                    return

    def _note_if_scanned(self, segment: Segment, read_position: ReadPosition) -> ReadPosition:
        """Note why an index is not used, if so; returns `read_position`."""
        if read_position.via == BY_SCAN:
            message = f"{segment.any_file.name}: scanned from the start: {read_position.reason}"
            self.run.sink.write_to_stderr(f"{escape_unprintable(message)}\n")
        return read_position

    def _iter_blocks_from(self, segment: Segment, read_position: ReadPosition) -> Iterator[Block]:
        """The blocks of a log from a position onward. If the position is from an index, only
        findings about batches that are decoded are reported."""
        if read_position.position:
            for block in read_blocks_from(segment.required_log, read_position.position):
                yield replace(block, findings=[])
        else:
            yield from self._iter_all_blocks(segment)

    def _iter_matching_records(
        self,
        block: Block,
        batch_index: int,
        record_mask: Callable[[RecordColumns], BoolArray],
        search_method: str,
    ) -> Iterator[RowCells]:
        """The records of a batch that match; reports the findings about it."""
        for batch_run in split_runs(slice_block(block, batch_index, batch_index + 1)):
            records = read_complete_records(batch_run, self.options.decompression_limit)
            self.run.report_findings(
                [*batch_run.findings, *records.findings], self._finding_collector
            )
            for record_index in np.flatnonzero(record_mask(records)).tolist():
                yield _match_cells(block, batch_index, search_method, (records, record_index))

    # By record conditions and by producer.

    def _iter_selected_records(self, selection: Selection, segment: Segment) -> Iterator[RowCells]:
        for block in self._iter_all_blocks(segment):
            for batch_run, records in selection.iter_candidate_runs(
                block, self.options.decompression_limit
            ):
                self.run.report_findings(
                    [*batch_run.findings, *records.findings], self._finding_collector
                )
                for record_index in np.flatnonzero(
                    selection.record_mask(batch_run, records)
                ).tolist():
                    batch_index = int(np.searchsorted(records.row_ends, record_index, side="right"))
                    yield _match_cells(batch_run, batch_index, BY_SCAN, (records, record_index))

    def _iter_selected_batches(self, selection: Selection, segment: Segment) -> Iterator[RowCells]:
        for block in self._iter_all_blocks(segment):
            for batch_index in np.flatnonzero(
                selection.record_filter.batch_mask(block.batches)
            ).tolist():
                yield _match_cells(block, batch_index, BY_SCAN)

    def _iter_all_blocks(self, segment: Segment) -> Iterator[Block]:
        """All blocks of a log, whose findings are reported."""
        for _, block in iter_log_blocks([segment.required_log]):
            self.run.report_findings(block.findings, self._finding_collector)
            yield replace(block, findings=[])


def _match_cells(
    block: Block,
    batch_index: int,
    search_method: str,
    record: tuple[RecordColumns, int] | None = None,
) -> RowCells:
    """The row of a batch, or of a record in it."""
    batch = block.batches.row(batch_index)
    base_offset = batch.base_offset if batch.has_base_offset else None
    record_offset = record_position = None
    timestamp = batch.max_timestamp if batch.has_timestamp else None
    if record is not None:
        rows, record_index = record[0].rows, record[1]
        record_offset = int(rows.offset[record_index])
        record_position = (
            int(rows.position[record_index]) if rows.has_position[record_index] else None
        )
        timestamp = int(rows.timestamp[record_index]) if rows.has_timestamp[record_index] else None
    batch_cells = batch.position, batch.size, base_offset, batch.last_offset
    return (*batch_cells, record_offset, record_position, timestamp, search_method)


def _format_missing_log(input_path: InputPath) -> str:
    """The message for a path with indexes but without a log."""
    if input_path.file is None:
        return format_no_logs_message(input_path.path)
    return f"{input_path.file.name}: the log of this index is missing"


def _segments_by_directory(segments: list[Segment]) -> dict[str, list[Segment]]:
    """The segments of each partition."""
    segments_by_directory: dict[str, list[Segment]] = {}
    for segment in segments:
        segments_by_directory.setdefault(
            path_identity(str(Path(segment.any_file.path).parent)), []
        ).append(segment)
    return segments_by_directory
