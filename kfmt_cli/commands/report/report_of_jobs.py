"""The data of a page from tables that Spark jobs wrote, without reading the logs again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, or_
from pathlib import PurePosixPath
from typing import Any

from kfmt_cli.arrow.export.output import read_whole
from kfmt_cli.commands.python.read import milliseconds
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.commands.report.report_data import about
from kfmt_cli.commands.stat.log_shapes import STRIP_NUMBERS
from kfmt_cli.core.file_systems import file_system_at
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.times import now_ms
from kfmt_cli.core.urls import absolute, is_local
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import classify
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.rows.documents import FINDING, STATISTICS
from kfmt_cli.rows.section import Object
from kfmt_cli.rows.types.shapes import SEGMENT_STRIP

KEPT = "_kfmt"
MOST_LOGS = 5_000  # most logs with a row on the page
Place = tuple[str | None, int | None]


@dataclass(slots=True)
class _Sums:
    """Sums for a partition or a topic."""

    file: str
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, row: Fields, segments: int | None) -> None:
        """Add the numbers of a log, or of a partition with several."""
        known = self.values
        names = {name: dict.fromkeys(row.get(name) or ()) for name in _NAMED}
        for name, value in {**row, "segments": segments, **names}.items():
            if name in _MERGED and value is not None:
                known[name] = _MERGED[name](known[name], value) if name in known else value

    def row(self, place: Place) -> Object:
        """The row as in `stat`, with null for unknown values."""
        topic, partition = place
        log_dir = None if partition is None else self.file.rpartition("/")[0]
        who = {"file": self.file, "topic": topic, "partition": partition, "log_dir": log_dir}
        counts = dict.fromkeys(("segments", "bytes", "batches", "records"), 0)
        made = Fields({**who, **counts, **self.values})
        batches, records = made.batches, made.records
        if batches:
            made.records_per_batch = round(records / batches, 2)
        return made


_NAMED = ("codecs", "magics")
_MERGED: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("segments", "bytes", "batches", "records"), add),
    **dict.fromkeys(("first_offset", "min_timestamp"), min),
    **dict.fromkeys(("last_offset", "max_timestamp"), max),
    **dict.fromkeys(_NAMED, or_),
}


@dataclass(slots=True)
class _JobPage:
    """Collects the data of a page from tables, one after the other."""

    data: PageData = field(default_factory=PageData)
    partitions: dict[tuple[str, Place], _Sums] = field(default_factory=dict)
    """By directory and place."""
    _places: set[Place] = field(default_factory=set)
    _files: set[str] = field(default_factory=set)
    _findings: set[tuple[str, ...]] = field(default_factory=set)

    def _sums(self, folder: str, place: Place) -> _Sums:
        self._places.add(place)
        return self.partitions.setdefault((folder, place), _Sums(folder))

    def take_segment(self, row: Fields) -> None:
        """Take a row about a log from `verify` or `segments`."""
        file = str(row.file)
        if classify(file, file).kind is not LOG:
            return  # metadata log snapshots are not part of a log
        if file in self._files:
            return  # another job has read it as well
        self._files.add(file)
        self._sums(file.rpartition("/")[0], (row.topic, row.partition)).add(row, 1)
        if len(self.data.of(SEGMENT_STRIP.name)) >= MOST_LOGS:
            return
        known = {name: row[name] for name in ("file", "base_offset", *STRIP_NUMBERS)}
        self.data.put(SEGMENT_STRIP, {**known, "cells": []})

    def take_finding(self, row: Fields) -> None:
        """Take a finding from `verify`."""
        values = {column.name: row[column.name] for column in FINDING.columns}
        identity = tuple(map(str, values.values()))
        if identity not in self._findings:
            self._findings.add(identity)
            self.data.put(FINDING, values)

    def take_partition(self, row: Fields) -> None:
        """Take a row of `stats`, which does not name the partition's directory."""
        place = row.topic, row.partition
        if place in self._places:
            return  # a job that read its logs gave more details
        named = row.topic if row.partition is None else f"{row.topic}-{row.partition}"
        times = {"min_timestamp": row.first_time, "max_timestamp": row.last_time}
        self._sums(str(named), place).add(Fields(row, **times), None)

    def end(self, inputs: tuple[str, ...]) -> PageData:
        """Complete and return the data, once all tables are read."""
        data = self.data
        topics: dict[str, _Sums] = {}
        for (file, place), sums in self.partitions.items():
            data.put(STATISTICS, sums.row(place))
            if place[0] is not None:
                of = topics.setdefault(place[0], _Sums(file.rpartition("/")[0]))
                of.add(Fields(sums.values), sums.values.get("segments"))
        for topic, sums in topics.items():
            data.put(STATISTICS, sums.row((topic, None)))
        if any(row.severity == "error" for row in data.of("finding")):
            data.exit_code = max(data.exit_code, ExitCode.FINDINGS)
        about(data, inputs, now_ms())
        return data


# In reading order: the most detailed tables first.
_READERS: dict[str, Callable[[_JobPage, Fields], None]] = {
    "segments": _JobPage.take_segment,
    "findings": _JobPage.take_finding,
    "partitions": _JobPage.take_partition,
}


def gather_jobs(folders: tuple[str, ...]) -> PageData:
    """Gather the data that jobs wrote under some directories; raises UsageError, InputError."""
    page = _JobPage()
    page.data.is_checked = False
    inputs: dict[str, None] = {}
    for top, folder in {_top(folder): folder for folder in folders}.items():
        summary = _summary(top)
        inputs |= dict.fromkeys(map(str, summary.inputs))
        for words in summary.unread:
            page.data.tell(str(words))
            page.data.exit_code = ExitCode.UNREADABLE
        page.data.is_checked |= summary.job == "verify"
        format_ = str(_kept(top, "job.json").options.get("format", "parquet"))
        tables: dict[str, list[str]] = {}
        for path in summary.written:
            below = _below(str(path))
            tables.setdefault(PurePosixPath(below).parts[0].partition(".")[0], []).append(below)
        if not tables.keys() & _READERS.keys():
            job = summary.job
            words = f"job {job} writes no tables that a report can use"
            raise UsageError(f"{folder}: {words}; use verify, segments or stats")
        for name, take in _READERS.items():
            for below in tables.get(name, ()):
                for row in _rows(top, below, format_):
                    take(page, row)
    return page.end(tuple(inputs))


def _top(folder: str) -> str:
    """The directory that a job wrote to."""
    return folder.rstrip("/").removesuffix(f"/{KEPT}")


def _below(path: str) -> str:
    """Path of a job's output file under its directory, such as `segments/part-0.parquet`. The
    directory may have been moved since."""
    names = PurePosixPath(path).parts
    return str(PurePosixPath(*names[-2 if names[-1].startswith("part-") else -1 :]))


def _kept(top: str, name: str) -> Fields:
    """A JSON file that a job keeps about itself; raises InputError."""
    path = f"{top}/{KEPT}/{name}"
    data = read_whole(path)
    if data is None:
        raise InputError(f"{top}: no completed kfmt pipeline job found", file=top)
    try:
        found: Fields = json.loads(data, object_hook=Fields)
    except ValueError as error:
        raise InputError(f"{path}: {error}", file=path) from error
    return found


def _summary(top: str) -> Fields:
    found = _kept(top, "summary.json")
    return Fields({name: found.get(name) or default for name, default in _SUMMARY.items()})


_SUMMARY: dict[str, Any] = {"inputs": [], "unread": [], "written": [], "job": ""}


def _rows(top: str, below: str, format_: str) -> Iterator[Fields]:
    """The rows of a file, with times in milliseconds; raises InputError."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import csv, fs

    kind: Any = format_
    if format_ == "csv":
        types = {name: pa.string() for name in _TEXTS}
        options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        kind = ds.CsvFileFormat(convert_options=options)
    system, folder = fs.LocalFileSystem(), absolute(top)
    if not is_local(top):
        system, folder = file_system_at(top)
    try:
        found = ds.dataset(f"{folder}/{below}", filesystem=system, format=kind)
        for batch in found.to_batches():
            yield from map(_plain, batch.to_pylist())
    except (OSError, ValueError) as error:
        raise InputError(f"{top}/{below}: {error}", file=f"{top}/{below}") from error


# Text columns that a CSV reader might take for numbers.
_TEXTS = ("file", "topic", "message", "expected", "found", *_NAMED)


def _plain(row: dict[str, Any]) -> Fields:
    return Fields({name: _value(name, value) for name, value in row.items()})


def _value(name: str, value: Any) -> Any:
    """A value as in Parquet, parsed from text if necessary; times in milliseconds."""
    if name.endswith(("_timestamp", "_time")) and value is not None:
        return milliseconds(datetime.fromisoformat(value) if isinstance(value, str) else value)
    if name in _NAMED and isinstance(value, str):
        return value.replace(",", " ").split()
    return value
