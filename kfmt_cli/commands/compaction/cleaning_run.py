"""compaction: a dry run of the log cleaner over one partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.defaults import DEFAULT_DEDUPE_BUFFER_BYTES
from kfmt_cli.broker.log_cleaner import (
    AbortedTransaction,
    CleanedTransactionMetadata,
    CleaningCounts,
    CleaningRules,
    DirtyRange,
    fill_offset_map,
    retained_record_mask,
)
from kfmt_cli.broker.log_reading.offset_map import OffsetMap
from kfmt_cli.broker.log_reading.record_size_limit import find_oversized_record
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.directory_listing import file_modified_ms, file_size
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.log.block import Block, split_runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.log.derived_columns import fill_derived_columns
from kfmt_cli.log.records import RecordColumns

MutableOffsetIntervals = list[list[int]]


@dataclass(slots=True)
class CleanerLogFacts:
    """Facts from the batch headers of a partition."""

    aborted_transactions: list[AbortedTransaction] = field(default_factory=list)
    last_stable_offset: int = 0
    log_end_offset: int = 0
    first_timestamp_by_base_offset: dict[int, int] = field(default_factory=dict)
    """The timestamp of each log's first batch, by the log's base offset."""
    n_records: int = 0
    is_damaged: bool = False
    """Whether a batch is damaged, so that the cleaner fails."""

    def extend_log_end(self, end_offset: int) -> None:
        """Raise the log end offset to at least `end_offset`, for example to that of an empty
        segment."""
        if self.last_stable_offset == self.log_end_offset:
            self.last_stable_offset = max(self.last_stable_offset, end_offset)
        self.log_end_offset = max(self.log_end_offset, end_offset)


@dataclass(slots=True)
class CleaningSimulation:
    """A dry run of cleaning one partition."""

    partition: Partition
    log_facts: CleanerLogFacts
    dirty_range: DirtyRange
    settings: TopicSettings
    now_ms: int
    collects_offsets: bool = False
    """Whether to record the offsets that are kept in `remaining_offsets`."""
    dedupe_buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES
    decompression_limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    n_passes: int = 0
    remaining_offsets: MutableOffsetIntervals = field(default_factory=list)
    """First and last offsets of the kept records, without gaps between them."""

    def count_uncleaned_records(self) -> CleaningCounts:
        """Count the records without cleaning anything."""
        counts = CleaningCounts()
        for file in self.partition.logs:
            self._count_uncleaned_log(file, counts)
        return counts

    def find_oversized_record_reason(self) -> str | None:
        """Why the cleaner fails on a record that is larger than the topic's settings allow; None if
        it does not."""
        limit = self.settings.max_decompressed_message_bytes
        if limit == TopicSettings().max_decompressed_message_bytes:
            return None
        for file in self.partition.logs:
            if file.base_offset_or_zero >= self.dirty_range.first_uncleanable_offset:
                break
            for batch_run, records in self._iter_record_runs(file):
                if oversized_record := find_oversized_record(batch_run, records, limit):
                    return (
                        f"{oversized_record.reason}: since Kafka 4.4, the cleaner fails and "
                        "removes nothing"
                    )
        return None

    def clean_partition(self) -> CleaningCounts:
        """Clean up to the first uncleanable offset, in as many passes as the map requires."""
        start_offset = self.dirty_range.first_dirty_offset
        end_offset = self.dirty_range.first_uncleanable_offset
        retained_mask_by_base_offset: dict[int, BoolArray] = {}
        counts = CleaningCounts()
        while True:
            self.n_passes += 1
            offset_map = self._build_offset_map(start_offset, end_offset)
            cleaned_end_offset = min(offset_map.latest_offset + 1, end_offset)
            is_last_pass = cleaned_end_offset >= end_offset or cleaned_end_offset <= start_offset
            counts = CleaningCounts()
            self.remaining_offsets = []
            transaction_metadata = CleanedTransactionMetadata(())
            remaining_aborts = sorted(self.log_facts.aborted_transactions)
            for i, file in enumerate(self.partition.logs):
                base_offset = file.base_offset_or_zero
                if base_offset >= cleaned_end_offset:
                    if is_last_pass:
                        self._count_uncleaned_log(file, counts)
                    continue
                next_base_offset = self._next_base_offset(i)
                while remaining_aborts and remaining_aborts[0][0] < next_base_offset:
                    transaction_metadata.add_aborted_transaction(remaining_aborts.pop(0))
                cleaning_rules = CleaningRules(
                    offset_map, self.now_ms, self._retains_legacy_tombstones(file)
                )
                retained_mask_by_base_offset[base_offset] = self._compute_retained_mask(
                    file,
                    cleaning_rules,
                    transaction_metadata,
                    counts,
                    retained_mask_by_base_offset.get(base_offset),
                    is_last_pass,
                )
            if is_last_pass:
                return counts
            start_offset = cleaned_end_offset
            del offset_map, cleaning_rules  # free this map before the next one is allocated

    def _next_base_offset(self, log_index: int) -> int:
        logs = self.partition.logs
        return logs[log_index + 1].base_offset_or_zero if log_index + 1 < len(logs) else 1 << 62

    def _retains_legacy_tombstones(self, file: InputFile) -> bool:
        """Whether tombstones of magic 0 and 1 in a log are not yet due for removal."""
        clean_logs = [
            log
            for log in self.partition.logs
            if log.base_offset_or_zero < self.dirty_range.first_dirty_offset
        ]
        delete_horizon_ms = 0
        if clean_logs and self.dirty_range.first_dirty_offset > 0:
            delete_horizon_ms = file_modified_ms(clean_logs[-1]) - self.settings.delete_retention_ms
        return file_modified_ms(file) > delete_horizon_ms

    def _build_offset_map(self, start_offset: int, end_offset: int) -> OffsetMap:
        """The latest offset of each key in the dirty range, until the map is full."""
        offset_map = OffsetMap(self.dedupe_buffer_bytes, self.log_facts.n_records)
        transaction_metadata = CleanedTransactionMetadata(
            transaction
            for transaction in self.log_facts.aborted_transactions
            if transaction[1] >= start_offset
        )
        logs = self.partition.logs
        for i, file in enumerate(logs):
            base_offset = file.base_offset_or_zero
            if base_offset >= end_offset or self._next_base_offset(i) <= start_offset:
                continue
            for batch_run, records in self._iter_record_runs(file):
                if not fill_offset_map(
                    offset_map,
                    batch_run,
                    records,
                    transaction_metadata.removable_batch_mask(batch_run),
                    start_offset,
                ):
                    return offset_map
            offset_map.latest_offset = max(
                offset_map.latest_offset, min(self._next_base_offset(i), end_offset) - 1
            )
        return offset_map

    def _compute_retained_mask(
        self,
        file: InputFile,
        cleaning_rules: CleaningRules,
        transaction_metadata: CleanedTransactionMetadata,
        counts: CleaningCounts,
        previous_mask: BoolArray | None,
        is_last_pass: bool,
    ) -> BoolArray:
        """Mask of the records of a log that survive this pass and all previous ones."""
        masks: list[BoolArray] = []
        first_row = 0
        for batch_run, records in self._iter_record_runs(file):
            retained_run_mask = retained_record_mask(
                batch_run,
                records,
                transaction_metadata.removable_batch_mask(batch_run),
                cleaning_rules,
                counts,
            )
            if previous_mask is not None:
                previous_run_mask = previous_mask[first_row : first_row + len(retained_run_mask)]
                counts.n_retained -= int((retained_run_mask & ~previous_run_mask).sum())
                counts.n_removed += int((retained_run_mask & ~previous_run_mask).sum())
                retained_run_mask &= previous_run_mask
            first_row += len(retained_run_mask)
            masks.append(retained_run_mask)
            if is_last_pass:
                self._add_remaining_offsets(records, retained_run_mask)
        return np.concatenate(masks) if masks else np.zeros(0, np.bool_)

    def _count_uncleaned_log(self, file: InputFile, counts: CleaningCounts) -> None:
        """Count all records of a log that is not cleaned as kept."""
        if not self.collects_offsets:
            for block in read_blocks_from(file, check_crcs=False):
                counts.n_retained += int(block.batches.record_counts.sum())
            return
        for _, records in self._iter_record_runs(file):
            counts.n_retained += len(records.rows)
            self._add_remaining_offsets(records, np.ones(len(records.rows), np.bool_))

    def _add_remaining_offsets(self, records: RecordColumns, mask: BoolArray) -> None:
        """Add the offsets of the kept records to `remaining_offsets`."""
        if not self.collects_offsets:
            return
        offsets: IntArray = records.rows.offset[mask]
        if not len(offsets):
            return
        gap_rows = np.flatnonzero(np.diff(offsets) != 1)
        first_offsets = np.concatenate([offsets[:1], offsets[gap_rows + 1]]).tolist()
        last_offsets = np.concatenate([offsets[gap_rows], offsets[-1:]]).tolist()
        for first_offset, last_offset in zip(first_offsets, last_offsets, strict=True):
            if self.remaining_offsets and first_offset == self.remaining_offsets[-1][1] + 1:
                self.remaining_offsets[-1][1] = last_offset
            else:
                self.remaining_offsets.append([first_offset, last_offset])

    def _iter_record_runs(self, file: InputFile) -> Iterator[tuple[Block, RecordColumns]]:
        """The records of the undamaged batches of a log."""
        for block in read_blocks_from(file, read_ahead=True, check_crcs=False):
            for decompressed_block in decompress_ahead(block, self.decompression_limit):
                for batch_run in split_runs(decompressed_block):
                    records = read_records(batch_run, self.decompression_limit)
                    if not batch_run.batches.is_v2.all():
                        fill_derived_columns(batch_run, records)
                    yield batch_run, records

    def count_cleaned_segments(self) -> int:
        """Number of segments after cleaning, which merges neighbours that fit into one segment.

        Source: `kafka.log.Cleaner.groupSegmentsBySize`, which uses the sizes before cleaning.
        """
        if not self.n_passes:
            return len(self.partition.logs)
        n_segments, group_bytes, group_base_offset = 0, 0, None
        for file in self.partition.logs:
            base_offset, n_bytes = file.base_offset_or_zero, file_size(file)
            if base_offset >= self.dirty_range.first_uncleanable_offset:
                n_segments, group_bytes, group_base_offset = n_segments + 1, 0, None
                continue
            fits_in_group = group_bytes + n_bytes <= self.settings.segment_bytes
            if (
                group_base_offset is None
                or not fits_in_group
                or base_offset - group_base_offset >= 1 << 31
            ):
                n_segments, group_bytes, group_base_offset = n_segments + 1, 0, base_offset
            group_bytes += n_bytes
        return n_segments
