"""Check the indexes of many small segments at once, with the rules of `entry_rules.py`.

Only fully healthy segments pass. `checker.py` checks every other segment by itself and reports what
is wrong. So this code may reject healthy segments, but never pass another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.checks.index.entry_rules import (
    ENTRY_RULES,
    ORDER_RULES,
    EntryTargets,
    IndexEntries,
    OffsetBatches,
    is_after_target,
    is_sparse,
    is_time_index_short,
)
from kfmt_cli.checks.log.small_logs import read_checked_logs
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import FileKind
from kfmt_cli.disk.segment import Segment
from kfmt_cli.log.block import max_timestamps
from kfmt_cli.log.small_logs import SmallLogs, read_file_if_small
from kfmt_cli.rows.log_tables import EntryTable

# Offsets relative to the segment's base take 31 bits; the segment's number is above them.
SEGMENT_KEY_SHIFT = 32

IndexSizes = list[tuple[FileKind, int, int]]


@dataclass(frozen=True, slots=True)
class _SmallIndexEntries:
    """The entries of one kind of index, of all segments."""

    kind: FileKind
    segment_of_entry: IntArray
    """Each entry's segment."""
    sizes: IntArray
    """Bytes of each file."""
    entry_counts: IntArray
    """Entries of each file."""
    table: EntryTable
    """The rows, like those of a single file's reader."""


def check_small_segments(
    segments: Sequence[Segment], index_interval_bytes: int
) -> list[IndexSizes | None]:
    """Kind, bytes and entries of each index of a healthy segment; None for any other segment."""
    logs = [segment.log for segment in segments if segment.log is not None]
    return find_healthy_index_sizes(segments, read_checked_logs(logs), index_interval_bytes)


def find_healthy_index_sizes(
    segments: Sequence[Segment], logs: SmallLogs, index_interval_bytes: int
) -> list[IndexSizes | None]:
    """`check_small_segments` for segments whose logs have been read."""
    small_logs = replace(logs, is_valid=logs.is_valid.copy())
    small_logs.is_valid &= np.array([_has_standard_indexes(segment) for segment in segments])
    batches, segment_of_batch = small_logs.batches, small_logs.file_of_batch
    small_logs.is_valid[segment_of_batch[(batches.transactional == 1) | (batches.is_v2 == 0)]] = (
        False
    )
    batch_counts = np.bincount(segment_of_batch, minlength=len(segments))
    small_logs.is_valid &= batch_counts > 0
    if not small_logs.is_valid.any():
        return [None] * len(segments)
    index_facts = _SmallIndexFacts(small_logs, segments)
    kinds = (OFFSET_INDEX_KIND, TIME_INDEX_KIND)
    entries_by_kind = {
        kind: _read_entries(segments, kind, small_logs.is_valid, index_facts.base_offsets)
        for kind in kinds
    }
    index_facts.check_offset_indexes(entries_by_kind[OFFSET_INDEX_KIND], index_interval_bytes)
    index_facts.check_time_indexes(entries_by_kind[TIME_INDEX_KIND])
    is_valid = small_logs.is_valid.tolist()
    return [
        _index_sizes(entries_by_kind, segment_index) if is_valid[segment_index] else None
        for segment_index in range(len(segments))
    ]


def _has_standard_indexes(segment: Segment) -> bool:
    """Whether a segment has an offset index, a time index and no other, and a base offset."""
    has_two_indexes = len(segment.index_by_kind) == 2 and OFFSET_INDEX_KIND in segment.index_by_kind
    return (
        has_two_indexes
        and TIME_INDEX_KIND in segment.index_by_kind
        and segment.required_log.base_offset is not None
    )


def _index_sizes(
    entries_by_kind: dict[FileKind, _SmallIndexEntries], segment_index: int
) -> IndexSizes:
    return [
        (kind, int(entries.sizes[segment_index]), int(entries.entry_counts[segment_index]))
        for kind, entries in entries_by_kind.items()
    ]


def _read_entries(
    segments: Sequence[Segment], kind: FileKind, is_valid: BoolArray, base_offsets: IntArray
) -> _SmallIndexEntries:
    """The entries of one kind of index of all segments; invalid files have none."""
    layout = kind.layouts[0]
    entry_bytes = layout.dtype.itemsize
    contents: list[bytes] = []
    for segment_index, segment in enumerate(segments):
        file = segment.index_by_kind.get(kind)
        index_bytes = (
            read_file_if_small(file) if file is not None and is_valid[segment_index] else None
        )
        if index_bytes is None or len(index_bytes) % entry_bytes:
            is_valid[segment_index] = False
            index_bytes = b""
        contents.append(index_bytes)
    sizes = np.array([len(content) for content in contents], np.int64)
    stored_entries = np.frombuffer(b"".join(contents), layout.dtype)
    entry_counts = sizes // entry_bytes
    segment_of_entry = np.repeat(np.arange(len(segments)), entry_counts)
    column_names = [field.name for field in layout.fields]
    table = EntryTable.zeros_with_columns([*column_names, "offset"], len(stored_entries))
    for column_name in column_names:
        table[column_name] = stored_entries[column_name]
    table.offset = table.relative_offset + base_offsets[segment_of_entry]
    return _SmallIndexEntries(kind, segment_of_entry, sizes, entry_counts, table)


class _SmallIndexFacts:
    """Facts from the logs about the entries of all segments."""

    def __init__(self, small_logs: SmallLogs, segments: Sequence[Segment]) -> None:
        self._small_logs = small_logs
        self.base_offsets = np.array(
            [segment.any_file.base_offset_or_zero for segment in segments], np.int64
        )
        """The base offset of each segment."""
        batches, segment_of_batch = small_logs.batches, small_logs.file_of_batch
        self._batches, self._segment_of_batch = batches, segment_of_batch
        self._batch_timestamps = max_timestamps(batches)
        self._previous_max_timestamps = self._compute_previous_max_timestamps()
        # In an invalid segment, offsets may be anything; its entries are not checked.
        relative_last_offsets = batches.last_offset - self.base_offsets[segment_of_batch]
        offset_keys = (segment_of_batch << SEGMENT_KEY_SHIFT) + relative_last_offsets.clip(
            0, (1 << SEGMENT_KEY_SHIFT) - 1
        )
        self._batch_offset_keys = np.maximum.accumulate(offset_keys)
        self._batch_position_keys = (segment_of_batch << SEGMENT_KEY_SHIFT) + batches.position
        n_segments = len(segments)
        self._is_last_segment = np.array([segment.is_last for segment in segments])
        last_batch_indexes = (
            np.searchsorted(segment_of_batch, np.arange(n_segments), side="right") - 1
        ).clip(0)
        self._log_ends = batches.position[last_batch_indexes] + batches.size[last_batch_indexes]
        self._segment_last_offsets = batches.last_offset[last_batch_indexes]
        self._segment_max_batch_bytes = np.zeros(n_segments, np.int64)
        np.maximum.at(self._segment_max_batch_bytes, segment_of_batch, batches.size)
        self._segment_max_timestamps = np.full(n_segments, -1)
        np.maximum.at(self._segment_max_timestamps, segment_of_batch, self._batch_timestamps)

    def _mark_segments_invalid(self, segment_of_row: IntArray, is_invalid: BoolArray) -> None:
        self._small_logs.is_valid[segment_of_row[is_invalid]] = False

    def _apply_rules(
        self, entries: _SmallIndexEntries, targets: EntryTargets, offset_batches: OffsetBatches
    ) -> IndexEntries:
        """Apply the rules, and mark segments as invalid if an entry breaks one."""
        segment_of_entry = entries.segment_of_entry
        is_same_segment = np.diff(segment_of_entry) == 0
        self._mark_segments_invalid(
            segment_of_entry[1:],
            is_same_segment & ORDER_RULES[entries.kind].is_broken(entries.table),
        )
        index_entries = IndexEntries(
            *(entries.table, targets, offset_batches, np.zeros(0, np.bool_)),
            *(
                self._small_logs.sizes[segment_of_entry],
                self.base_offsets[segment_of_entry],
                self._segment_last_offsets[segment_of_entry],
            ),
        )
        for rule in ENTRY_RULES[entries.kind]:
            self._mark_segments_invalid(segment_of_entry, rule.is_broken(index_entries))
        return index_entries

    def _find_targets(self, entries: _SmallIndexEntries) -> EntryTargets:
        """The batches that the entries of offset indexes point to."""
        batches, segment_of_entry = self._batches, entries.segment_of_entry
        positions = entries.table.log_position
        batch_of_entry = np.searchsorted(
            self._batch_position_keys, (segment_of_entry << SEGMENT_KEY_SHIFT) + positions.clip(0)
        )
        batch_of_entry = batch_of_entry.clip(0, len(self._segment_of_batch) - 1)
        targets = EntryTargets.zeros(len(segment_of_entry))
        targets.is_batch_start = (self._segment_of_batch[batch_of_entry] == segment_of_entry) & (
            batches.position[batch_of_entry] == positions
        )
        targets.base_offset = batches.base_offset[batch_of_entry]
        targets.last_offset = batches.last_offset[batch_of_entry]
        return targets

    def _find_offset_batches(self, entries: _SmallIndexEntries) -> OffsetBatches:
        """The batches that contain the entries' offsets, without timestamps of records."""
        batches, segment_of_entry = self._batches, entries.segment_of_entry
        offsets = entries.table.offset
        entry_keys = (segment_of_entry << SEGMENT_KEY_SHIFT) + entries.table.relative_offset.clip(0)
        batch_of_entry = np.searchsorted(self._batch_offset_keys, entry_keys).clip(
            0, len(self._segment_of_batch) - 1
        )
        starts_at_or_before = (self._segment_of_batch[batch_of_entry] == segment_of_entry) & (
            batches.base_offset[batch_of_entry] <= offsets
        )
        offset_batches = OffsetBatches.zeros(len(segment_of_entry))
        offset_batches.contains_offset = starts_at_or_before & (
            batches.last_offset[batch_of_entry] >= offsets
        )
        offset_batches.position = batches.position[batch_of_entry]
        offset_batches.max_timestamp = self._batch_timestamps[batch_of_entry]
        offset_batches.previous_max_timestamp = self._previous_max_timestamps[batch_of_entry]
        return offset_batches

    def check_offset_indexes(self, entries: _SmallIndexEntries, index_interval_bytes: int) -> None:
        """Apply the rules for offset indexes, including the one for long gaps between entries."""
        index_entries = self._apply_rules(
            entries, self._find_targets(entries), self._find_offset_batches(entries)
        )
        self._mark_segments_invalid(entries.segment_of_entry, is_after_target(index_entries))
        n_segments = len(self._small_logs.is_valid)
        segment_of_entry = entries.segment_of_entry
        log_ends = self._log_ends
        positions = np.append(entries.table.log_position, 0)
        first_rows = np.searchsorted(segment_of_entry, np.arange(n_segments))
        end_rows = np.searchsorted(segment_of_entry, np.arange(n_segments), side="right")
        has_entries = end_rows > first_rows
        # A segment without entries has no gaps to check.
        for edge_gap_bytes in (
            positions[first_rows.clip(0, len(positions) - 1)],
            log_ends - positions[(end_rows - 1).clip(0)],
        ):
            self._small_logs.is_valid &= ~(
                has_entries
                & is_sparse(edge_gap_bytes, index_interval_bytes, self._segment_max_batch_bytes)
            )
        gap_bytes, segment_of_gap = np.diff(positions[:-1]), segment_of_entry[1:]
        is_wide = is_sparse(
            gap_bytes, index_interval_bytes, self._segment_max_batch_bytes[segment_of_gap]
        )
        self._mark_segments_invalid(segment_of_gap, (np.diff(segment_of_entry) == 0) & is_wide)

    def check_time_indexes(self, entries: _SmallIndexEntries) -> None:
        """Apply the rules for time indexes. Also mark as invalid closed segments whose last entry
        is below their largest timestamp, and segments whose last entry is zero."""
        self._apply_rules(entries, EntryTargets.zeros(0), self._find_offset_batches(entries))
        end_rows = np.searchsorted(
            entries.segment_of_entry, np.arange(len(self._small_logs.is_valid)), side="right"
        )
        timestamps = np.append(entries.table.timestamp, -1)
        has_entries = entries.entry_counts > 0
        last_timestamps = np.where(has_entries, timestamps[(end_rows - 1).clip(0)], -1)
        self._small_logs.is_valid &= ~(
            ~self._is_last_segment
            & is_time_index_short(last_timestamps, self._segment_max_timestamps)
        )
        self._small_logs.is_valid &= ~(has_entries & (last_timestamps == 0))

    def _compute_previous_max_timestamps(self) -> IntArray:
        """The largest timestamp before each batch in its segment."""
        previous_max_timestamps = np.full(len(self._segment_of_batch), -1)
        for first_batch, end_batch in self._small_logs.iter_batch_ranges():
            previous_max_timestamps[first_batch + 1 : end_batch] = np.maximum.accumulate(
                self._batch_timestamps[first_batch:end_batch]
            )[:-1]
        return previous_max_timestamps
