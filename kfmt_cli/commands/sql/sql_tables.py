"""The tables of `kfmt sql`: read on demand, and only the files and columns that a query needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from threading import Event

import pyarrow as pa

from kfmt_cli.arrow.columns.tables import READER_BY_TABLE, SplitReadResult, read_table_rows
from kfmt_cli.arrow.input_files import input_file, list_input_files, mount_split_files
from kfmt_cli.arrow.row_filter import RowFilter
from kfmt_cli.arrow.topic_ids import TopicIdCache, find_known_topic_id
from kfmt_cli.core.urls import absolute_path, format_display_name
from kfmt_cli.disk.changes import missing_file_error
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.file_names import path_identity
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.disk.path_resolution import problem_messages
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import MIB, FileSplit, group_splits, name_file_in_errors
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.replica_splits import select_replica_splits
from kfmt_cli.findings.codes import FILE_SHRANK, UNREADABLE_FILE_CODES
from kfmt_cli.findings.finding import is_error
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.rows.table_types import FINDINGS_TABLE, LAKE_TABLES, has_records

BYTES_PER_GROUP = 8 * MIB  # bytes to read between two checks for cancellation


@dataclass(slots=True)
class ScanStatus:
    """Errors in the tables of a query, which DuckDB reads in threads, and whether to stop."""

    input_error_messages: dict[str, InputError | None] = field(default_factory=dict)
    """Messages about inputs that could not be read, each once, with the error if it is about a
    single file."""
    n_errors_by_path: dict[str, int] = field(default_factory=dict)
    """Number of errors in each file, by path."""
    stop_event: Event = field(default_factory=Event)
    """Set when no more rows are needed."""

    def add_findings(self, split: FileSplit, read_result: SplitReadResult) -> None:
        """Store the findings of a split: messages about unreadable bytes, and the error count."""
        n_errors = 0
        for finding in read_result.findings:
            if finding.code in UNREADABLE_FILE_CODES:
                message = format_display_name(finding.message)
                self.input_error_messages[message] = missing_file_error(split.path, message)
            else:
                # What a file has now was read.
                n_errors += is_error(finding) and finding.code != FILE_SHRANK
        if n_errors:
            self.n_errors_by_path[split.path] = n_errors


@dataclass(slots=True)
class TableScan:
    """A table of the files under some paths."""

    request: ReadRequest
    scan_status: ScanStatus
    _selected_splits: tuple[FileSplits, FileSplits] | None = None
    """The files of the last query, and those that it read."""

    def iter_arrow_batches(
        self, columns: Sequence[str], row_filter: RowFilter
    ) -> Iterator[pa.RecordBatch]:
        """Arrow batches with these columns, and with at least all rows that pass a filter."""
        table = self.request.table
        selection = row_filter.bounding_selection(table)
        selection_options = (
            SelectionOptions(selection) if has_records(table) else SelectionOptions()
        )
        reads_records = table == FINDINGS_TABLE.name  # includes findings about records
        request = replace(
            self.request,
            columns=tuple(columns),
            selection_options=selection_options,
            decodes_records=reads_records,
        )
        file_splits = self._select_splits(row_filter, selection)
        for file_group in file_splits.iter_groups(group_splits(file_splits, BYTES_PER_GROUP)):
            read_rows = self._read_whole_files if table in READER_BY_TABLE else self._read_logs
            with mount_split_files(request, file_group):
                for batch in read_rows(request, file_group):
                    if self.scan_status.stop_event.is_set():
                        return
                    yield batch
            if self.scan_status.stop_event.is_set():
                return

    def _select_splits(self, row_filter: RowFilter, selection: Selection) -> FileSplits:
        """The files that can have rows that pass the filter."""

        @cache
        def may_partition_match(topic: str | None, partition: int | None) -> bool:
            topic_name = None if topic is None else format_display_name(topic)
            return row_filter.may_match_values(topic=topic_name, partition=partition)

        def may_split_match(split: FileSplit) -> bool:
            if not may_partition_match(*split.topic_partition):
                return False
            return "file" not in row_filter.referenced_columns or row_filter.may_match_values(
                file=format_display_name(split.path)
            )

        return _splits_within_offsets(
            self._select_replicas(
                FileSplits(self._iter_file_splits()).sorted_unique()
            ).select_where(may_split_match),
            selection,
        )

    def _select_replicas(self, file_splits: FileSplits) -> FileSplits:
        """The files without logs whose records are read from other replicas; unchanged files are
        not read again."""
        if self.request.reads_all_replicas or self.request.table not in LAKE_TABLES:
            return file_splits
        if self._selected_splits is None or self._selected_splits[0] != file_splits:
            topic_ids = TopicIdCache()
            selected_splits = select_replica_splits(
                file_splits, self.request, partial(find_known_topic_id, topic_ids)
            ).sorted_unique()
            for path, reason in selected_splits.read_errors.items():
                message = f"{format_display_name(path)}: {reason}"
                self.scan_status.input_error_messages[message] = None
            self._selected_splits = file_splits, selected_splits.readable_splits
        return self._selected_splits[1]

    def _iter_file_splits(self) -> Iterator[FileSplit]:
        """The files of all paths, each once, named after the first path that leads to it."""
        visited_paths: set[str] = set()
        for path in self.request.paths:
            for message in problem_messages(path):
                self.scan_status.input_error_messages[message] = None
            try:
                file_splits = list_input_files(replace(self.request, paths=(path,)))
            except InputError as error:
                self.scan_status.input_error_messages[format_display_name(str(error))] = None
                continue
            root_path = absolute_path(path).rstrip(os.sep)
            for split in file_splits:
                identity_path = path_identity(split.path)
                if identity_path in visited_paths:
                    continue
                visited_paths.add(identity_path)
                renamed_split = replace(
                    split, path=path.rstrip(os.sep) + split.path.removeprefix(root_path)
                )
                if split.read_error is None:
                    yield renamed_split
                else:
                    self.scan_status.input_error_messages[
                        f"{format_display_name(renamed_split.path)}: {split.read_error}"
                    ] = None

    def _read_logs(self, request: ReadRequest, splits: FileSplits) -> Iterator[pa.RecordBatch]:
        """Rows of the tables of records and batches."""
        read_results = [SplitReadResult() for _ in splits]
        try:
            yield from read_table_rows(request, splits, read_results)
        finally:
            for split, read_result in zip(splits, read_results, strict=True):
                self.scan_status.add_findings(split, read_result)

    def _read_whole_files(
        self, request: ReadRequest, splits: FileSplits
    ) -> Iterator[pa.RecordBatch]:
        """Rows of tables that read each file as a whole."""
        for split in splits:
            try:
                open_source(split.path).close()  # rows do not show that it is unreadable
            except InputError as error:
                self.scan_status.input_error_messages[str(error)] = error
                continue
            read_result = SplitReadResult()
            try:
                with name_file_in_errors(split):
                    yield from READER_BY_TABLE[request.table](request, split, read_result.findings)
            finally:
                self.scan_status.add_findings(split, read_result)


def _splits_within_offsets(file_splits: FileSplits, selection: Selection) -> FileSplits:
    """The files except for logs whose offsets, by their names, are outside the selection."""
    if selection.first_offset is None and selection.last_offset is None:
        return file_splits
    selected_paths = set()
    for directory_and_kind, kind_splits in groupby(
        file_splits, key=lambda split: (split.directory, split.kind)
    ):
        logs = [input_file(split) for split in kind_splits]
        selected_paths |= {
            log.path
            for log in (selection.select_logs(logs) if directory_and_kind[1] is LOG_KIND else logs)
        }
    return file_splits.select_where(lambda split: split.path in selected_paths)
