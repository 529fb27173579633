"""The data of a page from tables that Spark jobs wrote, without reading the logs again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, or_
from pathlib import PurePosixPath
from typing import Any

from kfmt_cli.arrow.export.atomic_files import read_file_bytes
from kfmt_cli.commands.python.read import datetime_to_ms
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.commands.report.report_data import add_page_row
from kfmt_cli.commands.stat.shape_totals import SEGMENT_MAP_COUNTS
from kfmt_cli.core.file_systems import file_system_at
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import now_ms
from kfmt_cli.core.urls import absolute_path, is_local
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.rows.columnar_rows import JsonObject
from kfmt_cli.rows.documents import FINDING_ROW, STATISTICS_ROW
from kfmt_cli.rows.types.log_shape_rows import SEGMENT_MAP_ROW

JOB_DIRECTORY = "_kfmt"
MAX_LOG_ROWS = 5_000  # logs with a row on the page
TopicAndPartition = tuple[str | None, int | None]


@dataclass(slots=True)
class _MetricTotals:
    """The totals of a partition or a topic."""

    file: str
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, row: FieldDict, n_segments: int | None) -> None:
        """Add the numbers of a log, or of a partition with several."""
        totals = self.values
        name_lists = {name: dict.fromkeys(row.get(name) or ()) for name in _NAME_LIST_COLUMNS}
        for name, value in {**row, "segments": n_segments, **name_lists}.items():
            if name in _MERGE_BY_COLUMN and value is not None:
                totals[name] = (
                    _MERGE_BY_COLUMN[name](totals[name], value) if name in totals else value
                )

    def to_row(self, topic_and_partition: TopicAndPartition) -> JsonObject:
        """The row as in `stat`, with null for unknown values."""
        topic, partition = topic_and_partition
        log_dir = None if partition is None else self.file.rpartition("/")[0]
        identity = {"file": self.file, "topic": topic, "partition": partition, "log_dir": log_dir}
        counts = dict.fromkeys(("segments", "bytes", "batches", "records"), 0)
        row = FieldDict({**identity, **counts, **self.values})
        batches, records = row.batches, row.records
        if batches:
            row.records_per_batch = round(records / batches, 2)
        return row


_NAME_LIST_COLUMNS = ("codecs", "magics")
_MERGE_BY_COLUMN: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("segments", "bytes", "batches", "records"), add),
    **dict.fromkeys(("first_offset", "min_timestamp"), min),
    **dict.fromkeys(("last_offset", "max_timestamp"), max),
    **dict.fromkeys(_NAME_LIST_COLUMNS, or_),
}


@dataclass(slots=True)
class _JobPage:
    """Collects the data of a page from tables, one after the other."""

    data: PageData = field(default_factory=PageData)
    partitions: dict[tuple[str, TopicAndPartition], _MetricTotals] = field(default_factory=dict)
    """By directory and topic-partition."""
    _partition_keys: set[TopicAndPartition] = field(default_factory=set)
    _added_files: set[str] = field(default_factory=set)
    _added_findings: set[tuple[str, ...]] = field(default_factory=set)

    def _partition_totals(
        self, directory: str, topic_and_partition: TopicAndPartition
    ) -> _MetricTotals:
        self._partition_keys.add(topic_and_partition)
        return self.partitions.setdefault(
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
        self._partition_totals(file.rpartition("/")[0], (row.topic, row.partition)).add(row, 1)
        if len(self.data.rows_of_type(SEGMENT_MAP_ROW.name)) >= MAX_LOG_ROWS:
            return
        values = {name: row[name] for name in ("file", "base_offset", *SEGMENT_MAP_COUNTS)}
        self.data.add_row(SEGMENT_MAP_ROW, {**values, "cells": []})

    def add_finding(self, row: FieldDict) -> None:
        """Add a finding from `verify`."""
        values = {column.name: row[column.name] for column in FINDING_ROW.columns}
        identity = tuple(map(str, values.values()))
        if identity not in self._added_findings:
            self._added_findings.add(identity)
            self.data.add_row(FINDING_ROW, values)

    def add_partition(self, row: FieldDict) -> None:
        """Add a row of `stats`, which does not name the partition's directory."""
        topic_and_partition = row.topic, row.partition
        if topic_and_partition in self._partition_keys:
            return  # a job that read its logs gave more details
        name = row.topic if row.partition is None else f"{row.topic}-{row.partition}"
        times = {"min_timestamp": row.first_time, "max_timestamp": row.last_time}
        self._partition_totals(str(name), topic_and_partition).add(FieldDict(row, **times), None)

    def finish(self, inputs: tuple[str, ...]) -> PageData:
        """Complete and return the data, once all tables are read."""
        data = self.data
        totals_by_topic: dict[str, _MetricTotals] = {}
        for (file, topic_and_partition), totals in self.partitions.items():
            data.add_row(STATISTICS_ROW, totals.to_row(topic_and_partition))
            if topic_and_partition[0] is not None:
                topic_totals = totals_by_topic.setdefault(
                    topic_and_partition[0], _MetricTotals(file.rpartition("/")[0])
                )
                topic_totals.add(FieldDict(totals.values), totals.values.get("segments"))
        for topic, totals in totals_by_topic.items():
            data.add_row(STATISTICS_ROW, totals.to_row((topic, None)))
        if any(row.severity == "error" for row in data.rows_of_type("finding")):
            data.exit_code = max(data.exit_code, ExitCode.FINDINGS)
        add_page_row(data, inputs, now_ms())
        return data


# In reading order: the most detailed tables first.
_ADD_ROW_BY_TABLE: dict[str, Callable[[_JobPage, FieldDict], None]] = {
    "segments": _JobPage.add_segment,
    "findings": _JobPage.add_finding,
    "partitions": _JobPage.add_partition,
}


def gather_jobs(directories: tuple[str, ...]) -> PageData:
    """Gather the data that jobs wrote under some directories; raises UsageError, InputError."""
    page = _JobPage()
    page.data.is_checked = False
    inputs: dict[str, None] = {}
    for output_directory, directory in {
        _output_directory(directory): directory for directory in directories
    }.items():
        summary = _read_summary(output_directory)
        inputs |= dict.fromkeys(map(str, summary.inputs))
        for message in summary.unread:
            page.data.add_messages(str(message))
            page.data.exit_code = ExitCode.UNREADABLE
        page.data.is_checked |= summary.job == "verify"
        format_ = str(_read_job_file(output_directory, "job.json").options.get("format", "parquet"))
        paths_by_table: dict[str, list[str]] = {}
        for path in summary.written:
            relative_path = _relative_path(str(path))
            paths_by_table.setdefault(
                PurePosixPath(relative_path).parts[0].partition(".")[0], []
            ).append(relative_path)
        if not paths_by_table.keys() & _ADD_ROW_BY_TABLE.keys():
            job = summary.job
            message = f"job {job} writes no tables that a report can use"
            raise UsageError(f"{directory}: {message}; use verify, segments or stats")
        for name, add_row in _ADD_ROW_BY_TABLE.items():
            for relative_path in paths_by_table.get(name, ()):
                for row in _read_rows(output_directory, relative_path, format_):
                    add_row(page, row)
    return page.finish(tuple(inputs))


def _output_directory(directory: str) -> str:
    """The directory that a job wrote to."""
    return directory.rstrip("/").removesuffix(f"/{JOB_DIRECTORY}")


def _relative_path(path: str) -> str:
    """The path of an output file under its job's directory, such as `segments/part-0.parquet`. The
    directory may have been moved since."""
    names = PurePosixPath(path).parts
    return str(PurePosixPath(*names[-2 if names[-1].startswith("part-") else -1 :]))


def _read_job_file(output_directory: str, name: str) -> FieldDict:
    """The content of a JSON file that a job writes about itself; raises InputError."""
    path = f"{output_directory}/{JOB_DIRECTORY}/{name}"
    data = read_file_bytes(path)
    if data is None:
        raise InputError(
            f"{output_directory}: no completed kfmt pipeline job found", file=output_directory
        )
    try:
        content: FieldDict = json.loads(data, object_hook=FieldDict)
    except ValueError as error:
        raise InputError(f"{path}: {error}", file=path) from error
    return content


def _read_summary(output_directory: str) -> FieldDict:
    content = _read_job_file(output_directory, "summary.json")
    return FieldDict(
        {name: content.get(name) or default for name, default in _SUMMARY_DEFAULTS.items()}
    )


_SUMMARY_DEFAULTS: dict[str, Any] = {"inputs": [], "unread": [], "written": [], "job": ""}


def _read_rows(output_directory: str, relative_path: str, format_: str) -> Iterator[FieldDict]:
    """The rows of a file, with times in milliseconds; raises InputError."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import csv, fs

    arrow_format: Any = format_
    if format_ == "csv":
        types = {name: pa.string() for name in _TEXT_COLUMNS}
        options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        arrow_format = ds.CsvFileFormat(convert_options=options)
    file_system, path = fs.LocalFileSystem(), absolute_path(output_directory)
    if not is_local(output_directory):
        file_system, path = file_system_at(output_directory)
    try:
        dataset = ds.dataset(f"{path}/{relative_path}", filesystem=file_system, format=arrow_format)
        for batch in dataset.to_batches():
            yield from map(_parse_row, batch.to_pylist())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{output_directory}/{relative_path}: {error}",
            file=f"{output_directory}/{relative_path}",
        ) from error


# Text columns that a CSV reader might take for numbers.
_TEXT_COLUMNS = ("file", "topic", "message", "expected", "found", *_NAME_LIST_COLUMNS)


def _parse_row(row: dict[str, Any]) -> FieldDict:
    return FieldDict({name: _parse_value(name, value) for name, value in row.items()})


def _parse_value(name: str, value: Any) -> Any:
    """A value as in Parquet, parsed from text if necessary; times in milliseconds."""
    if name.endswith(("_timestamp", "_time")) and value is not None:
        return datetime_to_ms(datetime.fromisoformat(value) if isinstance(value, str) else value)
    if name in _NAME_LIST_COLUMNS and isinstance(value, str):
        return value.replace(",", " ").split()
    return value
