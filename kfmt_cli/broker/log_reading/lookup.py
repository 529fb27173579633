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

from kfmt_cli.broker.log_reading.batch_walker import BatchWalker
from kfmt_cli.broker.log_reading.consumer import read_base_offset
from kfmt_cli.broker.log_reading.stored_batches import LogBytes, StoredBatch, iter_stored_batches
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.log.log_opening import open_log

OFFSET_COLUMN, TIMESTAMP_COLUMN = "offset", "timestamp"
# The end of an index, which stays in the page cache and is searched first.
WARM_SECTION_BYTES = 8192
MAX_LISTED_BATCHES = 8  # scanned batches that are listed one by one
_BATCH_COLUMNS = ("position", "base_offset", "last_offset", "max_timestamp")


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
    found: FieldDict = field(default_factory=FieldDict)
    """The values that a broker continues with, by column."""


@dataclass(slots=True)
class IndexLookup:
    """A complete lookup."""

    log: str
    column: str
    target: int
    searches: list[IndexSearch] = field(default_factory=list)
    scan_from: int = 0
    n_scanned: int = 0
    scanned: list[FieldDict] = field(default_factory=list)
    """The first batches skipped: position, base offset, last offset and max timestamp of each."""
    batch: FieldDict | None = None
    """The same fields of the batch found, or None."""
    error: str | None = None
    """Why the broker answers with an error."""


class SearchableValues(Protocol):
    """A sequence that `find_floor_row` can search."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Any: ...


def find_floor_row(
    sorted_values: SearchableValues,
    target: int,
    n_warm_entries: int,
    on_step: Callable[[SearchStep], None] = lambda _: None,
) -> int | None:
    """The last entry at or below the target, found as a broker does, or None.

    It tries the last `n_warm_entries` entries first.
    """

    def search_between(low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) >> 1
            middle_value = int(sorted_values[middle])
            verdict = (
                "too high"
                if middle_value > target
                else "below"
                if middle_value < target
                else "equal"
            )
            on_step(SearchStep(low, high, middle, middle_value, verdict))
            if middle_value == target:
                return middle
            low, high = (low, middle - 1) if middle_value > target else (middle, high)
        return low

    if not len(sorted_values):
        return None
    first_warm_row = max(0, len(sorted_values) - 1 - n_warm_entries)
    if sorted_values[first_warm_row] < target:
        return search_between(first_warm_row, len(sorted_values) - 1)
    return search_between(0, first_warm_row) if sorted_values[0] <= target else None


def search_index(index_file: InputFile | None, column: str, target: int) -> IndexSearch:
    """A broker's binary search in an index; a missing index counts as empty."""
    if index_file is None:
        return IndexSearch(None, column, target, 0)
    index_table = index_file.read_contents().table
    search = IndexSearch(index_file.name, column, target, len(index_table))
    n_warm_entries = WARM_SECTION_BYTES // index_file.kind.layouts[0].dtype.itemsize
    search.entry = find_floor_row(index_table[column], target, n_warm_entries, search.steps.append)
    if search.entry is not None:
        entry_row = search.entry
        column_names = (
            column_name
            for column_name in index_table.index_by_name
            if column_name != "relative_offset"
        )
        search.found = FieldDict(
            {column_name: int(index_table[column_name][entry_row]) for column_name in column_names}
        )
    return search


def lookup_in_segment(
    segment: Segment, column: str, target: int, kafka_version: KafkaVersion
) -> IndexLookup:
    """Look up a value of `OFFSET_COLUMN` or `TIMESTAMP_COLUMN` in one segment, as a Kafka version
    does; raises InputError."""
    log, target_offset = segment.required_log, target
    lookup = IndexLookup(log.name, column, target)
    if column == TIMESTAMP_COLUMN:
        time_search = search_index(
            segment.index_by_kind.get(TIME_INDEX_KIND), TIMESTAMP_COLUMN, target
        )
        lookup.searches.append(time_search)
        # Without an entry, the search begins at the base offset.
        target_offset = time_search.found.get(OFFSET_COLUMN, log.base_offset_or_zero)
    offset_search = search_index(
        segment.index_by_kind.get(OFFSET_INDEX_KIND), OFFSET_COLUMN, target_offset
    )
    lookup.searches.append(offset_search)
    lookup.scan_from = offset_search.found.get("log_position", 0)
    if column == TIMESTAMP_COLUMN:
        _scan_by_timestamp(lookup, log)
    else:
        _find_batch_for_offset(lookup, log, kafka_version)
    return lookup


def _find_batch_for_offset(
    lookup: IndexLookup, log: InputFile, kafka_version: KafkaVersion
) -> None:
    """Find the batch for an offset, from the entry's position onward."""
    with closing(LogBytes(log.path, log.name)) as log_bytes:
        stored_batches = iter_stored_batches(log_bytes, lookup.scan_from, log_bytes.size)
        walker = BatchWalker(stored_batches, kafka_version, partial(read_base_offset, log_bytes))
        row, error = walker.find_row_or_error(lookup.target)
        skipped_batches = walker.batches[:row]
        lookup.n_scanned = len(skipped_batches)
        lookup.scanned = [_batch_fields(batch) for batch in skipped_batches[:MAX_LISTED_BATCHES]]
        if error is not None:
            lookup.error = str(error)
        elif row is not None:
            lookup.batch = _batch_fields(walker.batches[row])


def _scan_by_timestamp(lookup: IndexLookup, log: InputFile) -> None:
    """Scan the batches from the entry's position to the first that is new enough."""
    with open_log(log, read_ahead=False) as opened_log:
        for block in opened_log.blocks:
            remaining_batches = block.batches.select_rows(
                block.batches.position >= lookup.scan_from
            )
            matching_rows = np.flatnonzero(remaining_batches.max_timestamp >= lookup.target)
            n_skipped = int(matching_rows[0]) if len(matching_rows) else len(remaining_batches)
            n_listable = MAX_LISTED_BATCHES - len(lookup.scanned)
            lookup.scanned += [
                _batch_fields(remaining_batches.row(i)) for i in range(min(n_skipped, n_listable))
            ]
            lookup.n_scanned += n_skipped
            if len(matching_rows):
                lookup.batch = _batch_fields(remaining_batches.row(n_skipped))
                return


def _batch_fields(batch: StoredBatch | FieldDict) -> FieldDict:
    return FieldDict({name: getattr(batch, name) for name in _BATCH_COLUMNS})


def choose_segment(segments: list[Segment], column: str, target: int) -> Segment:
    """The segment that a broker searches: for an offset, by base offset; for a timestamp, the first
    one whose time index reaches it. Raises InputError if no segment has a log."""
    searchable_segments = [segment for segment in segments if segment.log is not None]
    if not searchable_segments:
        raise InputError("no log to search")
    searchable_segments.sort(key=lambda segment: segment.required_log.base_offset_or_zero)
    if column == OFFSET_COLUMN:
        segments_up_to_target = [
            segment
            for segment in searchable_segments
            if segment.required_log.base_offset_or_zero <= target
        ]
        return segments_up_to_target[-1] if segments_up_to_target else searchable_segments[0]
    for segment in searchable_segments[:-1]:
        time_index_file = segment.index_by_kind.get(TIME_INDEX_KIND)
        timestamps = (
            time_index_file.read_contents().table.timestamp
            if time_index_file
            else np.zeros(0, np.int64)
        )
        if len(timestamps) and int(timestamps[-1]) >= target:
            return segment
    return searchable_segments[-1]
