"""Compares two copies of a partition in a task, from the columns of their batches.

The records are read only where batches differ.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from kfmt_cli.arrow.batch_columns import read_batch_columns
from kfmt_cli.arrow.columns.tables import read_table_rows
from kfmt_cli.arrow.export.exported_rows import PartitionFile, offset_array, read_partition_rows
from kfmt_cli.arrow.input_files import mount_split_files
from kfmt_cli.arrow.restore.record_compare import COMPARED_COLUMNS, compare_records
from kfmt_cli.broker.cluster.replica_comparison import (
    ReplicaBatch,
    ReplicaBatches,
    ReplicaRange,
    ReplicaRelation,
)
from kfmt_cli.checks.replica_comparison import (
    COMPACTED_AWAY,
    MISSING_FROM_OTHER,
    OTHER_STARTS_LATER,
    ComparedRecord,
    ComparedReplica,
    ReplicaComparison,
)
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import SplitReader
from kfmt_cli.findings.finding import FindingCollector
from kfmt_cli.log.block import Block
from kfmt_cli.rows.table_types import RECORDS_TABLE

OffsetBounds = tuple[int, int]
"""First and last offset."""
ALL_OFFSETS: OffsetBounds = (-1 << 62, 1 << 62)
PARTITION_MISSING_REASON = "the partition is missing"


class RangeStatus(enum.Enum):
    """How two copies of a partition compare in a range of offsets."""

    IDENTICAL = "identical"
    EXPLAINED = "explained"
    MISSING = "missing"
    DIFFERS = "differs"


REBATCHED_REASON = "compaction or other batches: records that both have are equal"
RECORDS_DIFFER = "records or leader epochs differ"
BATCH_DAMAGED = "a batch is damaged"
_STATUS_BY_RELATION = {
    ReplicaRelation.IDENTICAL: (RangeStatus.IDENTICAL, None),
    ReplicaRelation.COMPACTED: (RangeStatus.EXPLAINED, REBATCHED_REASON),
    ReplicaRelation.DIVERGED: (RangeStatus.DIFFERS, RECORDS_DIFFER),
    ReplicaRelation.DAMAGED: (RangeStatus.DIFFERS, BATCH_DAMAGED),
}


@dataclass(frozen=True, slots=True)
class SplitColumns:
    """A split, and the location of its stored batch columns."""

    split: FileSplit
    columns_path: str
    first_arrow_batch: int
    end_arrow_batch: int
    """Exclusive end of its Arrow batches in the file."""
    first_offset: int
    last_offset: int

    def select_split_part(self, bounds: OffsetBounds) -> FileSplit | None:
        """The part of the split whose batches overlap the bounds; None if no batch does."""
        start_positions, end_positions = [], []
        for batches in read_batch_columns(
            self.columns_path, self.first_arrow_batch, self.end_arrow_batch
        ):
            is_overlapping = (batches.last_offset >= bounds[0]) & (batches.base_offset <= bounds[1])
            if is_overlapping.any():
                positions = batches.position[is_overlapping]
                start_positions.append(int(positions.min()))
                end_positions.append(int((positions + batches.size[is_overlapping]).max()))
        if not start_positions:
            return None
        if bounds[0] <= self.first_offset and self.last_offset <= bounds[1]:
            return self.split
        return replace(
            self.split, start=min(start_positions), end=max(end_positions), is_batch_aligned=True
        )


@dataclass(slots=True)
class CopyToCompare:
    """One of two copies of a partition: segments, or files of a table."""

    name: str = ""
    """The directory or the table; empty if the copy does not exist."""
    is_table: bool = False
    split_columns: list[SplitColumns] = field(default_factory=list)
    table_files: list[PartitionFile] = field(default_factory=list)
    first_offset: int | None = None
    """The first offset of the entire copy, whatever its bounds."""
    end_offset: int = 0
    """The exclusive end offset of the entire copy."""
    has_holes: bool = False
    """Whether compaction has removed records."""

    def extend_offsets(self, first_offset: int, last_offset: int) -> None:
        """Extend the copy's offset range to include these offsets."""
        self.first_offset = (
            first_offset if self.first_offset is None else min(self.first_offset, first_offset)
        )
        self.end_offset = max(self.end_offset, last_offset + 1)

    def restrict_to_offsets(self, bounds: OffsetBounds) -> CopyToCompare:
        """The copy with only the splits and files that overlap the bounds."""
        first_offset, last_offset = bounds
        files_with_ranges = ((file, file.row_range) for file in self.table_files)
        return replace(
            self,
            split_columns=[
                columns
                for columns in self.split_columns
                if columns.first_offset <= last_offset and first_offset <= columns.last_offset
            ],
            table_files=[
                file
                for file, row_range in files_with_ranges
                if row_range.first_offset <= last_offset and first_offset <= row_range.last_offset
            ],
        )

    def iter_records(self, request: ReadRequest, bounds: OffsetBounds) -> Iterator[pa.RecordBatch]:
        """The records within the bounds, in the columns `COMPARED_COLUMNS`; raises InputError."""
        for file in sorted(self.table_files, key=lambda file: file.row_range.first_offset):
            topic_partition = file.row_range.topic, file.row_range.partition
            yield from _filter_offsets(
                read_partition_rows(
                    file.path, topic_partition, COMPARED_COLUMNS, offset_bounds=bounds
                ),
                bounds,
            )
        splits = [
            split
            for split_columns in self.split_columns
            if (split := split_columns.select_split_part(bounds)) is not None
        ]
        request = replace(request, table=RECORDS_TABLE.name, columns=COMPARED_COLUMNS)
        yield from _filter_offsets(read_table_rows(request, splits), bounds)


def _filter_offsets(
    arrow_batches: Iterable[pa.RecordBatch], bounds: OffsetBounds
) -> Iterator[pa.RecordBatch]:
    for arrow_batch in arrow_batches:
        offsets = offset_array(arrow_batch)
        is_within_bounds = (offsets >= bounds[0]) & (offsets <= bounds[1])
        yield (
            arrow_batch
            if is_within_bounds.all()
            else arrow_batch.filter(pa.array(is_within_bounds))
        )


@dataclass(frozen=True, slots=True)
class CopyPair:
    """Two copies of a partition, or an offset range of them; one of the copies may not exist."""

    topic: str | None
    partition: int | None
    a: CopyToCompare
    b: CopyToCompare
    offset_bounds: OffsetBounds = ALL_OFFSETS

    @property
    def has_table(self) -> bool:
        """Whether a copy is a table, which has no batches."""
        return self.a.is_table or self.b.is_table

    @property
    def n_bytes(self) -> int:
        """Bytes to read of both: of segments, and of files of tables."""
        splits = (columns.split for columns in (*self.a.split_columns, *self.b.split_columns))
        n_file_bytes = sum(file.file_bytes for file in (*self.a.table_files, *self.b.table_files))
        return sum(split.end - split.start for split in splits) + n_file_bytes

    def iter_parts(self, target_bytes: int) -> Iterator[CopyPair]:
        """Parts of about `target_bytes` bytes, if a copy is a table; records are
        compared one by one, so that they may end anywhere."""
        first_offsets = sorted(
            file.row_range.first_offset for file in (*self.a.table_files, *self.b.table_files)
        )
        n_parts = min(len(first_offsets), -(-self.n_bytes // target_bytes)) if first_offsets else 1
        files_per_part = -(-len(first_offsets) // max(n_parts, 1))
        boundaries = (
            sorted(set(first_offsets[files_per_part::files_per_part])) if n_parts > 1 else []
        )
        for first_offset, next_first_offset in pairwise(
            [ALL_OFFSETS[0], *boundaries, ALL_OFFSETS[1] + 1]
        ):
            bounds = first_offset, next_first_offset - 1
            a, b = self.a.restrict_to_offsets(bounds), self.b.restrict_to_offsets(bounds)
            yield replace(self, a=a, b=b, offset_bounds=bounds) if boundaries else self


@dataclass(slots=True)
class StoredCopy(ComparedReplica):
    """A copy whose batches are stored as columns."""

    split_columns: list[SplitColumns] = field(default_factory=list)

    def iter_batches(self) -> Iterator[ReplicaBatches]:
        """The batches in order; raises InputError."""
        for split_columns in self.split_columns:
            for batches in read_batch_columns(
                split_columns.columns_path,
                split_columns.first_arrow_batch,
                split_columns.end_arrow_batch,
            ):
                yield self._as_replica_batches(Block(split_columns.split.path, b"", 0, batches))


class StoredCopyComparison(ReplicaComparison):
    """A comparison that reads the records of differing batches from the segments."""

    def __init__(self, a: StoredCopy, b: StoredCopy) -> None:
        super().__init__(a, b)
        self._split_by_path_per_copy = [
            {columns.split.path: columns.split for columns in copy.split_columns} for copy in (a, b)
        ]

    def _find_differing_offset(
        self, left_batches: list[ReplicaBatch], right_batches: list[ReplicaBatch]
    ) -> int | None:
        a_batches, b_batches = (
            list(self._iter_batches_with_bytes(batches, splits))
            for batches, splits in zip(
                (left_batches, right_batches), self._split_by_path_per_copy, strict=True
            )
        )
        return super()._find_differing_offset(a_batches, b_batches)

    def _iter_batches_with_bytes(
        self, batches: list[ReplicaBatch], split_by_path: dict[str, FileSplit]
    ) -> Iterator[ReplicaBatch]:
        """The batches with their bytes, which the columns do not have; raises InputError."""
        for batch in batches:
            assert isinstance(batch.source_row, tuple)
            stored_block, row_index = batch.source_row
            start_byte = int(stored_block.batches.position[row_index])
            end_byte = start_byte + int(stored_block.batches.size[row_index])
            split = replace(
                split_by_path[stored_block.file_name],
                start=start_byte,
                end=end_byte,
                is_batch_aligned=True,
            )
            for block in SplitReader(
                decompression_limit=self.a.limit, raises_if_unreadable=True
            ).iter_blocks(split):
                for batch_index in range(len(block.batches)):
                    yield replace(batch, source_row=(block, batch_index))


def compare_pair(request: ReadRequest, pair: CopyPair) -> list[ComparedRecord]:
    """The rows of `COMPARED_RANGE_ROW` for a pair; raises InputError."""
    comparison = StoredCopyComparison(
        *(_create_stored_copy(request, copy) for copy in (pair.a, pair.b))
    )
    with mount_split_files(
        request, [columns.split for columns in (*pair.a.split_columns, *pair.b.split_columns)]
    ):
        if pair.has_table:
            record_streams = (
                copy.iter_records(request, pair.offset_bounds) for copy in (pair.a, pair.b)
            )
            comparison.ranges = list(compare_records(*record_streams))
        else:
            comparison.read_and_compare()
    for stored_copy, copy in ((comparison.a, pair.a), (comparison.b, pair.b)):
        stored_copy.first_offset = copy.first_offset
        stored_copy.log_end_offset = copy.end_offset
        stored_copy.has_holes = copy.has_holes
    return list(_comparison_rows(pair, comparison))


def _create_stored_copy(request: ReadRequest, copy: CopyToCompare) -> StoredCopy:
    partition = Partition(copy.name, Path(copy.name), [])
    return StoredCopy(
        partition,
        request.decompression_limit,
        FindingCollector(0),
        split_columns=copy.split_columns,
    )


def _comparison_rows(pair: CopyPair, comparison: StoredCopyComparison) -> Iterator[ComparedRecord]:
    divergence = comparison.divergence
    for offset_range in comparison.ranges:
        status, reason = _classify_range(pair, comparison, offset_range, divergence)
        yield (
            pair.topic,
            pair.partition,
            status.value,
            offset_range.relation.value,
            offset_range.first_offset,
            offset_range.last_offset,
            None if pair.has_table else offset_range.a_batches,
            None if pair.has_table else offset_range.b_batches,
            reason,
            pair.a.name or None,
            pair.b.name or None,
        )


def _classify_range(
    pair: CopyPair,
    comparison: StoredCopyComparison,
    offset_range: ReplicaRange,
    divergence: ReplicaRange | None,
) -> tuple[RangeStatus, str | None]:
    """The status of a range, and the reason if there is one."""
    if offset_range.relation in _STATUS_BY_RELATION:
        return _STATUS_BY_RELATION[offset_range.relation]
    other_copy = pair.b if offset_range.relation is ReplicaRelation.ONLY_A else pair.a
    if not other_copy.name:
        return RangeStatus.MISSING, PARTITION_MISSING_REASON
    if other_copy.is_table:  # no broker deletes records from a table
        return RangeStatus.MISSING, MISSING_FROM_OTHER
    reason = comparison.likely_absence_reason(offset_range, divergence)
    return (
        RangeStatus.EXPLAINED
        if reason in (OTHER_STARTS_LATER, COMPACTED_AWAY)
        else RangeStatus.MISSING
    ), reason
