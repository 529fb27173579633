"""The data of a page from tables that Spark jobs wrote, without reading the logs again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, or_
from pathlib import PurePosixPath
from typing import Any

from kfmt_cli.arrow.export.atomic_files import read_file_bytes
from kfmt_cli.commands.python.bounds import datetime_to_ms
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.commands.report.report_data import add_page_row
from kfmt_cli.commands.stat.shape_totals import SEGMENT_MAP_MEMBERS
from kfmt_cli.core.file_systems import file_system_and_path
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import now_ms
from kfmt_cli.core.urls import absolute_path, is_local
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.rows.columnar_rows import JsonObject
from kfmt_cli.rows.documents import FINDING_ROW, SEGMENT_MAP_ROW, STATISTICS_ROW

JOB_DIRECTORY = "_kfmt"
MAX_LOG_ROWS = 5_000  # logs with a row on the page
TopicAndPartition = tuple[str | None, int | None]


@dataclass(slots=True)
class _MetricTotals:
    """The totals of a partition or a topic."""

    directory: str
    total_by_column: dict[str, Any] = field(default_factory=dict)

    def add_row(self, row: FieldDict, n_segments: int | None) -> None:
        """Add the numbers of a log, or of a partition with several."""
        totals = self.total_by_column
        names_by_column = {name: dict.fromkeys(row.get(name) or ()) for name in _NAME_LIST_COLUMNS}
        for column, row_value in {**row, "segments": n_segments, **names_by_column}.items():
            if column in _MERGE_BY_COLUMN and row_value is not None:
                totals[column] = (
                    _MERGE_BY_COLUMN[column](totals[column], row_value)
                    if column in totals
                    else row_value
                )

    def to_row(self, topic_and_partition: TopicAndPartition) -> JsonObject:
        """The row as in `stat`, with null for unknown values."""
        topic, partition = topic_and_partition
        log_dir = None if partition is None else self.directory.rpartition("/")[0]
        identity_columns = {
            "file": self.directory,
            "topic": topic,
            "partition": partition,
            "log_dir": log_dir,
        }
        zero_counts = dict.fromkeys(("segments", "bytes", "batches", "records"), 0)
        row = FieldDict({**identity_columns, **zero_counts, **self.total_by_column})
        n_batches, n_records = row.batches, row.records
        if n_batches:
            row.records_per_batch = round(n_records / n_batches, 2)
        return row


_NAME_LIST_COLUMNS = ("codecs", "magics")
_MERGE_BY_COLUMN: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("segments", "bytes", "batches", "records"), add),
    **dict.fromkeys(("first_offset", "min_timestamp"), min),
    **dict.fromkeys(("last_offset", "max_timestamp"), max),
    **dict.fromkeys(_NAME_LIST_COLUMNS, or_),
}


@dataclass(slots=True)
class _JobPageCollector:
    """Collects the data of a page from tables, one after the other."""

    page_data: PageData = field(default_factory=PageData)
    totals_by_partition: dict[tuple[str, TopicAndPartition], _MetricTotals] = field(
        default_factory=dict
    )
    """By directory and topic-partition."""
    _topic_partitions: set[TopicAndPartition] = field(default_factory=set)
    _added_files: set[str] = field(default_factory=set)
    _added_findings: set[tuple[str, ...]] = field(default_factory=set)

    def _get_or_create_totals(
        self, directory: str, topic_and_partition: TopicAndPartition
    ) -> _MetricTotals:
        self._topic_partitions.add(topic_and_partition)
        return self.totals_by_partition.setdefault(
            (directory, topic_and_partition), _MetricTotals(directory)
        )

    def add_segment(self, row: FieldDict) -> None:
        """Add a row about a log from `verify` or `segments`."""
        file = str(row.file)
        if classify_file(file, file).kind is not LOG_KIND:
            return  # metadata log snapshots are not part of a log
        if file in self._added_files:
            return  # another job has also read it
        self._added_files.add(file)
        self._get_or_create_totals(file.rpartition("/")[0], (row.topic, row.partition)).add_row(
            row, 1
        )
        if len(self.page_data.rows_of_type(SEGMENT_MAP_ROW.name)) >= MAX_LOG_ROWS:
            return
        value_by_column = {
            name: row[name] for name in ("file", "base_offset", *SEGMENT_MAP_MEMBERS)
        }
        self.page_data.add_row(SEGMENT_MAP_ROW, {**value_by_column, "cells": []})

    def add_finding(self, row: FieldDict) -> None:
        """Add a finding from `verify`."""
        value_by_column = {column.name: row[column.name] for column in FINDING_ROW.columns}
        finding_key = tuple(map(str, value_by_column.values()))
        if finding_key not in self._added_findings:
            self._added_findings.add(finding_key)
            self.page_data.add_row(FINDING_ROW, value_by_column)

    def add_partition(self, row: FieldDict) -> None:
        """Add a row of `stats`, which does not name the partition's directory."""
        topic_and_partition = row.topic, row.partition
        if topic_and_partition in self._topic_partitions:
            return  # a job that read its logs gave more details
        partition_name = row.topic if row.partition is None else f"{row.topic}-{row.partition}"
        time_columns = {"min_timestamp": row.first_time, "max_timestamp": row.last_time}
        self._get_or_create_totals(str(partition_name), topic_and_partition).add_row(
            FieldDict(row, **time_columns), None
        )

    def finish_page(self, input_paths: tuple[str, ...]) -> PageData:
        """Complete and return the data, once all tables are read."""
        page_data = self.page_data
        totals_by_topic: dict[str, _MetricTotals] = {}
        for (directory, topic_and_partition), totals in self.totals_by_partition.items():
            page_data.add_row(STATISTICS_ROW, totals.to_row(topic_and_partition))
            if topic_and_partition[0] is not None:
                topic_totals = totals_by_topic.setdefault(
                    topic_and_partition[0], _MetricTotals(directory.rpartition("/")[0])
                )
                topic_totals.add_row(
                    FieldDict(totals.total_by_column), totals.total_by_column.get("segments")
                )
        for topic, totals in totals_by_topic.items():
            page_data.add_row(STATISTICS_ROW, totals.to_row((topic, None)))
        if any(row.severity == "error" for row in page_data.rows_of_type("finding")):
            page_data.exit_code = max(page_data.exit_code, ExitCode.FINDINGS)
        add_page_row(page_data, input_paths, now_ms())
        return page_data


# In reading order: the most detailed tables first.
_ADD_ROW_BY_TABLE: dict[str, Callable[[_JobPageCollector, FieldDict], None]] = {
    "segments": _JobPageCollector.add_segment,
    "findings": _JobPageCollector.add_finding,
    "partitions": _JobPageCollector.add_partition,
}


def gather_job_data(directories: tuple[str, ...]) -> PageData:
    """Gather the data that jobs wrote under some directories; raises UsageError, InputError."""
    page_collector = _JobPageCollector()
    page_collector.page_data.is_checked = False
    input_paths: dict[str, None] = {}
    for output_directory, user_directory in {
        _job_output_directory(directory): directory for directory in directories
    }.items():
        job_summary = _read_job_summary(output_directory)
        input_paths |= dict.fromkeys(map(str, job_summary.inputs))
        for message in job_summary.unread:
            page_collector.page_data.add_message_lines(str(message))
            page_collector.page_data.exit_code = ExitCode.UNREADABLE
        page_collector.page_data.is_checked |= job_summary.job == "verify"
        file_format = str(
            _read_job_file(output_directory, "job.json").options.get("format", "parquet")
        )
        paths_by_table: dict[str, list[str]] = {}
        for written_path in job_summary.written:
            relative_path = _path_under_output(str(written_path))
            paths_by_table.setdefault(
                PurePosixPath(relative_path).parts[0].partition(".")[0], []
            ).append(relative_path)
        if not paths_by_table.keys() & _ADD_ROW_BY_TABLE.keys():
            job_name = job_summary.job
            message = f"job {job_name} writes no tables that a report can use"
            raise UsageError(f"{user_directory}: {message}; use verify, segments or stats")
        for table, add_row in _ADD_ROW_BY_TABLE.items():
            for relative_path in paths_by_table.get(table, ()):
                for row in _read_rows(output_directory, relative_path, file_format):
                    add_row(page_collector, row)
    return page_collector.finish_page(tuple(input_paths))


def _job_output_directory(user_path: str) -> str:
    """The directory that a job wrote to."""
    return user_path.rstrip("/").removesuffix(f"/{JOB_DIRECTORY}")


def _path_under_output(path: str) -> str:
    """The path of an output file under its job's directory, such as `segments/part-0.parquet`. The
    directory may have been moved since."""
    path_parts = PurePosixPath(path).parts
    return str(PurePosixPath(*path_parts[-2 if path_parts[-1].startswith("part-") else -1 :]))


def _read_job_file(output_directory: str, file_name: str) -> FieldDict:
    """The content of a JSON file that a job writes about itself; raises InputError."""
    path = f"{output_directory}/{JOB_DIRECTORY}/{file_name}"
    json_bytes = read_file_bytes(path)
    if json_bytes is None:
        raise InputError(
            f"{output_directory}: no completed kfmt pipeline job found", file=output_directory
        )
    try:
        content: FieldDict = parse_json(json_bytes, FieldDict)
    except ValueError as error:
        raise InputError(f"{path}: {error}", file=path) from error
    return content


def _read_job_summary(output_directory: str) -> FieldDict:
    content = _read_job_file(output_directory, "summary.json")
    return FieldDict(
        {name: content.get(name) or default for name, default in _SUMMARY_DEFAULTS.items()}
    )


_SUMMARY_DEFAULTS: dict[str, Any] = {"inputs": [], "unread": [], "written": [], "job": ""}


def _read_rows(output_directory: str, relative_path: str, file_format: str) -> Iterator[FieldDict]:
    """The rows of a file, with times in milliseconds; raises InputError."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import csv, fs

    arrow_format: Any = file_format
    if file_format == "csv":
        type_by_column = {name: pa.string() for name in _TEXT_COLUMNS}
        convert_options = csv.ConvertOptions(column_types=type_by_column, strings_can_be_null=True)
        arrow_format = ds.CsvFileFormat(convert_options=convert_options)
    file_system, root_path = fs.LocalFileSystem(), absolute_path(output_directory)
    if not is_local(output_directory):
        file_system, root_path = file_system_and_path(output_directory)
    try:
        dataset = ds.dataset(
            f"{root_path}/{relative_path}", filesystem=file_system, format=arrow_format
        )
        for arrow_batch in dataset.to_batches():
            yield from map(_parse_row, arrow_batch.to_pylist())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{output_directory}/{relative_path}: {error}",
            file=f"{output_directory}/{relative_path}",
        ) from error


# Text columns that a CSV reader might take for numbers.
_TEXT_COLUMNS = ("file", "topic", "message", "expected", "found", *_NAME_LIST_COLUMNS)


def _parse_row(row: dict[str, Any]) -> FieldDict:
    return FieldDict({name: _parse_value(name, value) for name, value in row.items()})


def _parse_value(column: str, value: Any) -> Any:
    """A value as in Parquet, parsed from text if necessary; times in milliseconds."""
    if column.endswith(("_timestamp", "_time")) and value is not None:
        return datetime_to_ms(datetime.fromisoformat(value) if isinstance(value, str) else value)
    if column in _NAME_LIST_COLUMNS and isinstance(value, str):
        return value.replace(",", " ").split()
    return value
