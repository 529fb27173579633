"""How a broker finds an offset or a timestamp in a segment, step by step.

Source: `org.apache.kafka.storage.internals.log.AbstractIndex` (the binary search, which tries the
end of the index first), `OffsetIndex.lookup`, `TimeIndex.lookup`,
`LogSegment.findOffsetByTimestamp`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from kfmt_cli.broker.start.consumer import base_offset_of
from kfmt_cli.broker.start.stored import LogBytes, StoredBatch, batches
from kfmt_cli.broker.start.walk import Walk
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.log.open_log import open_log

OFFSET, TIMESTAMP = "offset", "timestamp"
WARM_BYTES = 8192  # the end of an index, which stays in the page cache and is searched first
MOST_SCANNED = 8  # scanned batches that are listed one by one
_TOLD = ("position", "base_offset", "last_offset", "max_timestamp")  # of each batch


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A comparison of the binary search: the bounds, the entry compared, the outcome."""

    low: int
    high: int
    middle: int
    value: int
    verdict: str


@dataclass(slots=True)
class IndexSearch:
    """A search of one index."""

    index: str | None
    """The index's name, or None if the file is missing."""
    column: str
    target: int
    entries: int
    steps: list[SearchStep] = field(default_factory=list)
    entry: int | None = None
    """The greatest entry at or below the target, or None."""
    found: Fields = field(default_factory=Fields)
    """The values that a broker continues with, by column."""


@dataclass(slots=True)
class Lookup:
    """A complete lookup."""

    log: str
    column: str
    target: int
    searches: list[IndexSearch] = field(default_factory=list)
    scan_from: int = 0
    n_scanned: int = 0
    scanned: list[Fields] = field(default_factory=list)
    """(position, base offset, last offset, max timestamp) of the batches skipped."""
    batch: Fields | None = None
    """The same for the batch found, or None."""
    error: str | None = None
    """Why the broker answers with an error."""


class Values(Protocol):
    """A searchable sequence."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Any: ...


def greatest(
    values: Values, target: int, warm: int, note: Callable[[SearchStep], None] = lambda _: None
) -> int | None:
    """The last entry at or below the target, found as a broker does, or None.

    It tries the last `warm` entries first.
    """

    def between(low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) >> 1
            value = int(values[middle])
            verdict = "too high" if value > target else "below" if value < target else "equal"
            note(SearchStep(low, high, middle, value, verdict))
            if value == target:
                return middle
            low, high = (low, middle - 1) if value > target else (middle, high)
        return low

    if not len(values):
        return None
    hot = max(0, len(values) - 1 - warm)
    if values[hot] < target:
        return between(hot, len(values) - 1)
    return between(0, hot) if values[0] <= target else None


def search(file: Input | None, column: str, target: int) -> IndexSearch:
    """A broker's binary search in an index; a missing index counts as empty."""
    if file is None:
        return IndexSearch(None, column, target, 0)
    table = file.contents().table
    found = IndexSearch(file.name, column, target, len(table))
    warm = WARM_BYTES // file.kind.layouts[0].dtype.itemsize
    found.entry = greatest(table[column], target, warm, found.steps.append)
    if found.entry is not None:
        entry = found.entry
        names = (name for name in table.names if name != "relative_offset")
        found.found = Fields({name: int(table[name][entry]) for name in names})
    return found


def look_up(segment: Segment, column: str, target: int, version: KafkaVersion) -> Lookup:
    """Look up an `OFFSET` or a `TIMESTAMP` in one segment as a version does; raises InputError."""
    log, start = segment.own_log, target
    done = Lookup(log.name, column, target)
    if column == TIMESTAMP:
        times = search(segment.indexes.get(TIME_INDEX), TIMESTAMP, target)
        done.searches.append(times)
        # Without an entry, the search begins at the base offset.
        start = times.found.get(OFFSET, log.base)
    offsets = search(segment.indexes.get(OFFSET_INDEX), OFFSET, start)
    done.searches.append(offsets)
    done.scan_from = offsets.found.get("log_position", 0)
    if column == TIMESTAMP:
        _scan(done, log)
    else:
        _find(done, log, version)
    return done


def _find(done: Lookup, log: Input, version: KafkaVersion) -> None:
    """Find the batch for an offset, from the entry's position onward."""
    with closing(LogBytes(log.path, log.name)) as stored:
        steps = batches(stored, done.scan_from, stored.size)
        walk = Walk(steps, version, partial(base_offset_of, stored))
        row, error = walk.answer(done.target)
        passed = walk.batches[:row]
        done.n_scanned = len(passed)
        done.scanned = [_told(batch) for batch in passed[:MOST_SCANNED]]
        if error is not None:
            done.error = str(error)
        elif row is not None:
            done.batch = _told(walk.batches[row])


def _scan(done: Lookup, log: Input) -> None:
    """Scan the batches from the entry's position to the first that is new enough."""
    with open_log(log, read_ahead=False) as opened:
        for block in opened.blocks:
            table = block.batches.select(block.batches.position >= done.scan_from)
            found = np.flatnonzero(table.max_timestamp >= done.target)
            n = int(found[0]) if len(found) else len(table)
            room = MOST_SCANNED - len(done.scanned)
            done.scanned += [_told(table.row(i)) for i in range(min(n, room))]
            done.n_scanned += n
            if len(found):
                done.batch = _told(table.row(n))
                return


def _told(batch: StoredBatch | Fields) -> Fields:
    return Fields({name: getattr(batch, name) for name in _TOLD})


def choose(found: list[Segment], column: str, target: int) -> Segment:
    """The segment that a broker searches: by base offset, or the first that is new enough."""
    logs = [segment for segment in found if segment.log is not None]
    if not logs:
        raise InputError("no log to search")
    logs.sort(key=lambda segment: segment.own_log.base)
    if column == OFFSET:
        below = [segment for segment in logs if segment.own_log.base <= target]
        return below[-1] if below else logs[0]
    for segment in logs[:-1]:
        times = segment.indexes.get(TIME_INDEX)
        entries = times.contents().table.timestamp if times else np.zeros(0, np.int64)
        if len(entries) and int(entries[-1]) >= target:
            return segment
    return logs[-1]
