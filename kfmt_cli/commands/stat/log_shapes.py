"""Log shapes combined by topic and partition; single logs as strips."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import partition_of
from kfmt_cli.disk.opening import bytes_at
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.segment import SEGMENT_KINDS, sibling_path
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY
from kfmt_cli.log.summary.log_numbers import LogNumbers
from kfmt_cli.log.summary.shape import Shape, Strip, TimeOrder
from kfmt_cli.log.summary.statistics import Statistics
from kfmt_cli.render.plot import shape_lines
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.rows.types.shapes import CODEC_USE, SEGMENT_STRIP, TIME_BUCKET, TIME_ORDER

MOST_SHOWN = 150  # time buckets per topic
LEAST_SHOWN = 12  # time buckets per topic if there are many topics
MOST_ROWS = 6_000  # time buckets of all topics
CELLS = 16_000  # in the strips of all logs
MOST_CELLS = 96  # in a strip
MOST_STRIPS = 1_500
# Of the statistics of a log.
STRIP_NUMBERS = ("bytes", "batches", "records", "last_offset", "min_timestamp", "max_timestamp")
MOST_INDEX = 16 << 20  # bytes of an index, more than a broker's default maximum


@dataclass(frozen=True, slots=True)
class LogShapes:
    """Makes the shapes of logs, without batches yet."""

    cells: Mapping[str, int] = field(default_factory=dict)
    """The number of cells of each log with a strip, by its path."""

    def __call__(self, log: Input) -> Shape:
        """The shape of a log."""
        return Shape(strip=strip_of(log, self.cells_of(log)))

    def cells_of(self, log: Input) -> int:
        """The number of cells of a log, 0 for one without a strip."""
        return self.cells.get(log.path, 0)


def with_strips(logs: Sequence[Input], first: Collection[str] = ()) -> LogShapes:
    """The shapes of some logs. The files named in `first` get a strip before the largest ones."""
    sizes = list(map(size_of, logs))
    ranked = sorted(range(len(logs)), key=lambda i: (logs[i].name not in first, -sizes[i], i))
    shown = ranked[:MOST_STRIPS]
    each = max(min(CELLS // max(len(shown), 1), MOST_CELLS), 1)
    return LogShapes({logs[i].path: each for i in shown})


@dataclass(frozen=True, slots=True)
class CountedLogs:
    """The numbers of healthy logs that another command has read."""

    shapes: LogShapes = field(default_factory=LogShapes)
    numbers: dict[str, LogNumbers] = field(default_factory=dict)
    """By the log's path."""

    def take(self, log: Input, shapes: LogShapes) -> LogNumbers | None:
        """The numbers of a log, which are then no longer here; None if it was not counted with this
        strip."""
        is_same = self.shapes.cells_of(log) == shapes.cells_of(log)
        return self.numbers.pop(log.path, None) if is_same else None


def strip_of(log: Input, n_cells: int) -> Strip | None:
    """The strip of a log with the entries of its offset index, without batches yet; None for no
    cells."""
    if not n_cells:
        return None
    strip = Strip(size_of(log), n_cells)
    try:
        entries = _entries(log)
    except InputError as error:
        strip.trouble = "" if error.is_gone else str(error)
    else:
        if entries is not None:
            strip.index(entries)
    return strip


def _entries(log: Input) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """The positions in a log's offset index; None for a file without one. Raises InputError."""
    if kind_of(os.path.basename(log.path))[0] not in SEGMENT_KINDS:  # noqa: PTH119 (many)
        return None
    path = sibling_path(log.path, OFFSET_INDEX)
    data = bytes_at(path, 0, MOST_INDEX, name_text(path))
    of_entry = OFFSET_INDEX_ENTRY.dtype
    entries = np.frombuffer(data, of_entry, len(data) // of_entry.itemsize)
    used = np.flatnonzero(entries["relative_offset"])  # a preallocated index ends with zeros
    return entries["log_position"][: used[-1] + 1 if len(used) else 0].astype(np.int64)


@dataclass(slots=True)
class Shapes:
    """Combines the shapes of all logs."""

    topics: dict[str | None, Shape] = field(default_factory=dict)
    orders: dict[str, TimeOrder] = field(default_factory=dict)
    """By partition."""
    total: Statistics = field(default_factory=Statistics)
    _strips: list[dict[str, object]] = field(default_factory=list)

    def take(self, partition: Partition, file: Input, numbers: LogNumbers) -> None:
        """Add the next log of a partition."""
        found, shape = numbers.statistics, numbers.shape
        if shape is None:
            return
        topic, _ = partition_of(file.path)
        self.total.add(found)
        self.topics.setdefault(topic, Shape()).add(shape)
        self.orders.setdefault(partition.name, TimeOrder()).add(shape.order)
        if shape.strip is None:
            return
        row: dict[str, object] = {
            "file": file.name,
            "base_offset": file.base_offset,
            **{name: getattr(found, name) for name in STRIP_NUMBERS},
            "index_entries": shape.strip.index_entries,
            "cells": [list(cell) for cell in shape.strip.cells()],
        }
        self._strips.append(row)

    def show(self, sink: Sink) -> None:
        """Show all shapes."""
        if sink.for_people:
            whole = Shape()
            for shape in self.topics.values():
                whole.add(shape)
            sink.put("".join(shape_lines(whole, self.total, sink.out.width)))
        for row in self._bucket_rows():
            sink.document(TIME_BUCKET, row, ())
        for topic, shape in self.topics.items():
            for codec, (batches, records, size) in sorted(shape.codecs.items()):
                counts = {"batches": batches, "records": records, "bytes": size}
                sink.document(CODEC_USE, {"topic": topic, "codec": codec, **counts}, ())
        for name, order in self.orders.items():
            gaps = [list(gap[1:]) for gap in order.gaps]
            numbers = {"batches_with_time": order.batches, "batches_out_of_order": order.late}
            sink.document(TIME_ORDER, {"file": name, **numbers, "gaps": gaps}, ())
        for row in self._strips:
            sink.document(SEGMENT_STRIP, row, ())

    def _bucket_rows(self) -> Iterator[dict[str, object]]:
        most = min(max(MOST_ROWS // max(len(self.topics), 1), LEAST_SHOWN), MOST_SHOWN)
        for topic, shape in self.topics.items():
            for begin, end, (batches, records, size) in shape.buckets.drawn(most).rows():
                yield {
                    "topic": topic,
                    "from_timestamp": begin,
                    "to_timestamp": end,
                    "batches": batches,
                    "records": records,
                    "bytes": size,
                }
