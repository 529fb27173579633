"""Log shapes combined by topic and partition, and segment maps of single logs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_access import read_bytes_at
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.segment import SEGMENT_KINDS, segment_file_path
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY
from kfmt_cli.log.summary.log_summary import LogSummary
from kfmt_cli.log.summary.shape import LogShape, SegmentMap, TimeOrder
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.render.plot import shape_lines
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.documents import (
    CODEC_USE_ROW,
    SEGMENT_MAP_ROW,
    TIME_BUCKET_ROW,
    TIME_ORDER_ROW,
)

MAX_BUCKETS_PER_TOPIC = 150  # time buckets per topic
MIN_BUCKETS_PER_TOPIC = 12  # time buckets per topic if there are many topics
MAX_BUCKETS = 6_000  # time buckets of all topics
TOTAL_MAP_CELLS = 16_000  # in the segment maps of all logs
MAX_CELLS_PER_MAP = 96
MAX_SEGMENT_MAPS = 1_500
# Counts of a log in the row of its segment map.
SEGMENT_MAP_MEMBERS = (
    "bytes",
    "batches",
    "records",
    "last_offset",
    "min_timestamp",
    "max_timestamp",
)
MAX_INDEX_BYTES = 16 << 20  # bytes of an index, more than a broker's default maximum


@dataclass(frozen=True, slots=True)
class LogShapeFactory:
    """Creates the shapes of logs, still without batches."""

    n_cells_by_path: Mapping[str, int] = field(default_factory=dict)
    """Number of map cells of each log with a segment map, by its path."""

    def __call__(self, log: InputFile) -> LogShape:
        """The shape of a log."""
        return LogShape(segment_map=create_segment_map(log, self.n_map_cells(log)))

    def n_map_cells(self, log: InputFile) -> int:
        """Number of map cells of a log; 0 for one without a segment map."""
        return self.n_cells_by_path.get(log.path, 0)


def create_shape_factory(
    logs: Sequence[InputFile], first_mapped_names: Collection[str] = ()
) -> LogShapeFactory:
    """A factory of shapes for some logs. The files named in `first_mapped_names` get segment maps
    first, then the largest ones."""
    log_sizes = list(map(file_size, logs))
    ranked_log_numbers = sorted(
        range(len(logs)), key=lambda i: (logs[i].name not in first_mapped_names, -log_sizes[i], i)
    )
    mapped_log_numbers = ranked_log_numbers[:MAX_SEGMENT_MAPS]
    n_cells = max(min(TOTAL_MAP_CELLS // max(len(mapped_log_numbers), 1), MAX_CELLS_PER_MAP), 1)
    return LogShapeFactory({logs[i].path: n_cells for i in mapped_log_numbers})


@dataclass(frozen=True, slots=True)
class LogSummaryCache:
    """Statistics of healthy logs that another command has read."""

    shape_factory: LogShapeFactory = field(default_factory=LogShapeFactory)
    summary_by_path: dict[str, LogSummary] = field(default_factory=dict)

    def pop_summary(self, log: InputFile, shape_factory: LogShapeFactory) -> LogSummary | None:
        """Remove and return the statistics of a log; None if they are missing, or have another
        number of map cells."""
        has_same_cells = self.shape_factory.n_map_cells(log) == shape_factory.n_map_cells(log)
        return self.summary_by_path.pop(log.path, None) if has_same_cells else None


def create_segment_map(log: InputFile, n_cells: int) -> SegmentMap | None:
    """The segment map of a log with the entries of its offset index, still without batches; None
    if `n_cells` is 0."""
    if not n_cells:
        return None
    segment_map = SegmentMap(file_size(log), n_cells)
    try:
        index_positions = _read_index_positions(log)
    except InputError as error:
        segment_map.index_error = "" if error.is_missing else str(error)
    else:
        if index_positions is not None:
            segment_map.add_index_positions(index_positions)
    return segment_map


def _read_index_positions(log: InputFile) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """The positions in a log's offset index; None for a file without one. Raises InputError."""
    if classify_name(os.path.basename(log.path))[0] not in SEGMENT_KINDS:  # noqa: PTH119 (many)
        return None
    index_path = segment_file_path(log.path, OFFSET_INDEX_KIND)
    index_bytes = read_bytes_at(index_path, 0, MAX_INDEX_BYTES, format_display_name(index_path))
    entry_dtype = OFFSET_INDEX_ENTRY.dtype
    index_entries = np.frombuffer(
        index_bytes, entry_dtype, len(index_bytes) // entry_dtype.itemsize
    )
    # A preallocated index ends with zeros.
    used_entry_numbers = np.flatnonzero(index_entries["relative_offset"])
    return index_entries["log_position"][
        : used_entry_numbers[-1] + 1 if len(used_entry_numbers) else 0
    ].astype(np.int64)


@dataclass(slots=True)
class ShapeTotals:
    """Combines the shapes of all logs."""

    shape_by_topic: dict[str | None, LogShape] = field(default_factory=dict)
    time_order_by_partition: dict[str, TimeOrder] = field(default_factory=dict)
    total_statistics: LogStatistics = field(default_factory=LogStatistics)
    _segment_map_rows: list[dict[str, object]] = field(default_factory=list)

    def add_log(self, partition: Partition, log_file: InputFile, log_summary: LogSummary) -> None:
        """Add the next log of a partition."""
        statistics, shape = log_summary.statistics, log_summary.shape
        if shape is None:
            return
        topic, _ = file_topic_partition(log_file.path)
        self.total_statistics.merge(statistics)
        self.shape_by_topic.setdefault(topic, LogShape()).merge(shape)
        self.time_order_by_partition.setdefault(partition.name, TimeOrder()).merge_later(
            shape.time_order
        )
        if shape.segment_map is None:
            return
        map_row: dict[str, object] = {
            "file": log_file.name,
            "base_offset": log_file.base_offset,
            **{member: getattr(statistics, member) for member in SEGMENT_MAP_MEMBERS},
            "index_entries": shape.segment_map.index_entries,
            "cells": [list(cell) for cell in shape.segment_map.iter_cells()],
        }
        self._segment_map_rows.append(map_row)

    def write_shapes(self, sink: Sink) -> None:
        """Show all shapes."""
        if sink.is_for_people:
            total_shape = LogShape()
            for shape in self.shape_by_topic.values():
                total_shape.merge(shape)
            for time_order in self.time_order_by_partition.values():
                total_shape.time_order.n_batches += time_order.n_batches
                total_shape.time_order.n_out_of_order += time_order.n_out_of_order
            sink.write_line(
                "".join(shape_lines(total_shape, self.total_statistics, sink.streams.width))
            )
        for row in self._iter_bucket_rows():
            sink.write_document(TIME_BUCKET_ROW, row, ())
        for topic, shape in self.shape_by_topic.items():
            for codec, (n_batches, n_records, n_bytes) in sorted(shape.counts_by_codec.items()):
                counts = {"batches": n_batches, "records": n_records, "bytes": n_bytes}
                sink.write_document(CODEC_USE_ROW, {"topic": topic, "codec": codec, **counts}, ())
        for partition_name, time_order in self.time_order_by_partition.items():
            gaps = [list(gap) for gap in time_order.gaps]
            counts = {
                "batches_with_time": time_order.n_batches,
                "batches_out_of_order": time_order.n_out_of_order,
            }
            sink.write_document(
                TIME_ORDER_ROW, {"file": partition_name, **counts, "gaps": gaps}, ()
            )
        for row in self._segment_map_rows:
            sink.write_document(SEGMENT_MAP_ROW, row, ())

    def _iter_bucket_rows(self) -> Iterator[dict[str, object]]:
        max_buckets = min(
            max(MAX_BUCKETS // max(len(self.shape_by_topic), 1), MIN_BUCKETS_PER_TOPIC),
            MAX_BUCKETS_PER_TOPIC,
        )
        for topic, shape in self.shape_by_topic.items():
            for begin_ms, end_ms, (n_batches, n_records, n_bytes) in shape.time_buckets.resampled(
                max_buckets
            ).iter_intervals():
                yield {
                    "topic": topic,
                    "from_timestamp": begin_ms,
                    "to_timestamp": end_ms,
                    "batches": n_batches,
                    "records": n_records,
                    "bytes": n_bytes,
                }
