"""Two replicas of a partition, read and compared."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import attrgetter

import numpy as np

from kfmt_cli.broker.cluster.replica_comparison import (
    LeaderEpochs,
    ReplicaBatch,
    ReplicaBatches,
    ReplicaRange,
    ReplicaRelation,
    UnreadableRecordsError,
    compare_replicas,
)
from kfmt_cli.broker.log_reading.offset_map import LatestKeyOffsets
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    CheckpointError,
    CheckpointNumberError,
    read_epoch_entries,
)
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.file_access import is_file
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.findings.finding import MAX_FINDINGS, FindingCollector, has_errors
from kfmt_cli.log.block import Block, slice_block, split_runs, undamaged_data_block
from kfmt_cli.log.decoding import iter_runs_with_base_offsets, read_records
from kfmt_cli.log.selection.record_filter import read_record_headers
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.rows.column import Column, ColumnKind, LocationSource, RowType
from kfmt_cli.rows.offset_order import in_order_mask

RANGE_ROW = RowType(
    "range",
    "A range of offsets with the same relation between replicas A (`file`) and B.",
    (
        Column("other", ColumnKind.TEXT, "B's directory or file.", is_hidden=True),
        Column(
            "relation",
            ColumnKind.TEXT,
            ", ".join(relation.value for relation in ReplicaRelation) + ".",
        ),
        Column("first_offset", doc="The first offset."),
        Column("last_offset", doc="The last offset."),
        Column("a_batches", doc="Batches of A."),
        Column("b_batches", doc="Batches of B."),
        Column(
            "a_leader_epochs",
            ColumnKind.JSON,
            "Leader epochs of A's batches.",
            heading="a epochs",
        ),
        Column(
            "b_leader_epochs",
            ColumnKind.JSON,
            "Leader epochs of B's batches.",
            heading="b epochs",
        ),
        Column("why", ColumnKind.TEXT, "Likely cause.", presence_column="has_why"),
    ),
    LocationSource.PARTITION,
)

ComparedRecord = tuple[object, ...]


class ReplicaAgreement(enum.Enum):
    """How two replicas compare."""

    IDENTICAL = "identical"
    CONSISTENT = "consistent"
    DAMAGED = "damaged"
    MISSING = "missing"
    DIVERGED = "diverged"


OTHER_STARTS_LATER, OTHER_NOT_CAUGHT_UP = (
    "the other starts later (retention)",
    "the other has not caught up",
)
AFTER_DIVERGENCE = "after the divergence"
COMPACTED_AWAY, MISSING_FROM_OTHER = "removed by compaction", "missing from the other"


@dataclass(slots=True)
class ComparedReplica:
    """A replica, and the results of reading it."""

    partition: Partition
    limit: DecompressionLimit
    """Decompression limit for wrappers of magic 0 and 1."""
    findings: FindingCollector
    """The findings to show."""
    first_offset: int | None = None
    log_end_offset: int = 0
    has_holes: bool = False
    """Whether compaction has removed records."""
    leader_epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    """Leader epochs and their start offsets."""

    def read_checkpoint_epochs(self) -> None:
        """Read the leader epochs in its leader-epoch-checkpoint, if valid; raises InputError."""
        checkpoint_path = str(self.partition.directory / LEADER_EPOCH_CHECKPOINT)
        if is_file(checkpoint_path):
            with suppress(CheckpointError, CheckpointNumberError):
                self.leader_epochs.add_epochs(
                    read_epoch_entries(
                        classify_file(checkpoint_path, format_display_name(checkpoint_path))
                    )
                )

    def iter_batches(self) -> Iterator[ReplicaBatches]:
        """The replica's batches in order; raises InputError."""
        for file in self.partition.logs:
            with open_checked_log(file, read_ahead=False) as log:
                for block in log.blocks:
                    self.findings.add_findings(block.findings)
                    yield from map(
                        self._as_replica_batches, iter_runs_with_base_offsets(block, self.limit)
                    )

    def find_superseded_ranges(
        self, ranges: Sequence[ReplicaRange], latest_keys: LatestKeyOffsets
    ) -> list[ReplicaRange]:
        """Those of some ranges that another replica lacks by compaction: each record is a
        tombstone, or the other replica has a later one with its key; raises InputError.

        ranges: in offset order. latest_keys: the latest offsets of the other replica's keys.
        Source: `kafka.log.Cleaner.shouldRetainRecord`.
        """
        first_offsets, last_offsets = np.array(
            [(range_.first_offset, range_.last_offset) for range_ in ranges], np.int64
        ).T
        is_superseded = np.ones(len(ranges), np.bool_)
        is_read = np.zeros(len(ranges), np.bool_)

        def find_range_indexes(first: IntArray, last: IntArray) -> tuple[IntArray, BoolArray]:
            """The range of each interval of offsets, and whether there is one."""
            range_indexes = np.searchsorted(first_offsets, last, "right") - 1
            return range_indexes, (range_indexes >= 0) & (last_offsets[range_indexes] >= first)

        selection = Selection(ranges[0].first_offset, int(last_offsets.max()))
        for log in selection.select_logs(self.partition.logs):
            for block in read_blocks_from(log, read_ahead=True):
                batches = block.batches
                range_of_batch, is_in_range = find_range_indexes(
                    batches.base_offset, batches.last_offset
                )
                is_read[range_of_batch[is_in_range]] = True
                is_superseded[range_of_batch[is_in_range & (batches.crc_valid == 0)]] = False
                wanted_block = replace(block, batches=batches.select_rows(is_in_range))
                for run in split_runs(undamaged_data_block(wanted_block)):
                    records = read_records(run, self.limit)
                    offsets = (
                        run.batches.last_offset
                        if records.findings
                        else records.rows.offset[~latest_keys.superseded_mask(records)]
                    )
                    range_of_record, is_in_range = find_range_indexes(offsets, offsets)
                    is_superseded[range_of_record[is_in_range]] = False
        return list(compress(ranges, (is_superseded & is_read).tolist()))

    def _as_replica_batches(self, block: Block) -> ReplicaBatches:
        batches = block.batches
        base_offsets = batches.base_offset
        last_offsets = batches.last_offset
        is_v2 = batches.is_v2 == 1
        self.has_holes |= bool(
            (is_v2 & (batches.records_count < last_offsets - base_offsets + 1)).any()
        )
        is_in_order = in_order_mask(batches, self.log_end_offset)
        if is_in_order.any():
            self.first_offset = (
                int(base_offsets[is_in_order][0])
                if self.first_offset is None
                else self.first_offset
            )
            self.log_end_offset = self.leader_epochs.log_end_offset = max(
                self.log_end_offset, int(last_offsets[is_in_order].max()) + 1
            )
        epochs = batches.partition_leader_epoch
        epoch_start_rows = np.flatnonzero((np.diff(epochs, prepend=-1) != 0) & is_v2)
        for start_row in epoch_start_rows.tolist():
            if epochs[start_row] >= 0:
                self.leader_epochs.start_offset_by_epoch.setdefault(
                    int(epochs[start_row]), int(base_offsets[start_row])
                )
        compared_columns = np.array([base_offsets, last_offsets, epochs, batches.crc])
        return ReplicaBatches(compared_columns, batches.crc_valid == 1, block)


@dataclass(slots=True)
class ReplicaComparison:
    """The ranges of two replicas, in the part that was read."""

    a: ComparedReplica
    b: ComparedReplica
    is_compacted: bool | None = None
    """Whether the topic is compacted; None if unknown."""
    ranges: list[ReplicaRange] = field(default_factory=list)
    _compacted_ranges: list[ReplicaRange] = field(default_factory=list)
    """Those that one replica lacks although it has no holes inside batches."""

    @classmethod
    def from_partitions(
        cls,
        a_partition: Partition,
        b_partition: Partition,
        limit: DecompressionLimit,
        max_findings: int = MAX_FINDINGS,
        is_compacted: bool | None = None,
    ) -> ReplicaComparison:
        """Two replicas, not read yet. max_findings: findings to keep per kind and replica.
        is_compacted: whether the topic is compacted, None if unknown."""
        a, b = (
            ComparedReplica(partition, limit, FindingCollector(max_findings))
            for partition in (a_partition, b_partition)
        )
        return cls(a, b, is_compacted)

    def read_and_compare(self) -> None:
        """Read and compare both; raises InputError."""
        self.ranges = list(
            compare_replicas(
                self.a.iter_batches(), self.b.iter_batches(), self._find_differing_offset
            )
        )
        if self.is_compacted is not False:
            self._compacted_ranges = [
                *self._find_compacted_ranges(ReplicaRelation.ONLY_A, self.a, self.b),
                *self._find_compacted_ranges(ReplicaRelation.ONLY_B, self.b, self.a),
            ]

    def _find_compacted_ranges(
        self, relation: ReplicaRelation, replica: ComparedReplica, other_replica: ComparedReplica
    ) -> list[ReplicaRange]:
        """The ranges that only `replica` has because compaction has removed them from the other.

        Unless the topic is known to be compacted, the other must have each key once before them, as
        the cleaner leaves it. Raises InputError.
        """
        ranges = [range_ for range_ in self.missing if range_.relation is relation]
        if not ranges:
            return []
        latest_keys = LatestKeyOffsets(finds_first_repeat=not self.is_compacted)
        latest_keys.add_logs(other_replica.partition.logs, Selection(), replica.limit)
        repeat_offset = latest_keys.first_repeat_offset
        if repeat_offset is not None:
            ranges = [range_ for range_ in ranges if range_.first_offset <= repeat_offset]
        ranges.sort(key=attrgetter("first_offset"))
        return replica.find_superseded_ranges(ranges, latest_keys) if ranges else []

    @property
    def divergence(self) -> ReplicaRange | None:
        """The first range in which the two diverge, None if they do not."""
        diverged_ranges = (
            replica_range
            for replica_range in self.ranges
            if replica_range.relation is ReplicaRelation.DIVERGED
        )
        return next(diverged_ranges, None)

    @property
    def missing(self) -> list[ReplicaRange]:
        """The ranges that one replica lacks without a reason such as retention or compaction."""
        divergence = self.divergence
        return [
            replica_range
            for replica_range in self.ranges
            if self.likely_absence_reason(replica_range, divergence) == MISSING_FROM_OTHER
        ]

    @property
    def verdict(self) -> ReplicaAgreement:
        """How the two compare as a whole."""
        relations = {replica_range.relation for replica_range in self.ranges}
        if ReplicaRelation.DIVERGED in relations:
            return ReplicaAgreement.DIVERGED
        if self.missing:
            return ReplicaAgreement.MISSING
        if ReplicaRelation.DAMAGED in relations:
            return ReplicaAgreement.DAMAGED
        return (
            ReplicaAgreement.IDENTICAL
            if relations <= {ReplicaRelation.IDENTICAL}
            else ReplicaAgreement.CONSISTENT
        )

    def likely_absence_reason(
        self, replica_range: ReplicaRange, divergence: ReplicaRange | None
    ) -> str | None:
        """Likely reason why only one replica has a range; None for other ranges."""
        if replica_range.relation not in (ReplicaRelation.ONLY_A, ReplicaRelation.ONLY_B):
            return None
        if divergence is not None and replica_range.first_offset > divergence.first_offset:
            return AFTER_DIVERGENCE
        other_replica = self.b if replica_range.relation is ReplicaRelation.ONLY_A else self.a
        if (
            other_replica.first_offset is not None
            and replica_range.last_offset < other_replica.first_offset
        ):
            return OTHER_STARTS_LATER
        if replica_range.first_offset >= other_replica.log_end_offset:
            return OTHER_NOT_CAUGHT_UP
        is_compacted = other_replica.has_holes or replica_range in self._compacted_ranges
        return COMPACTED_AWAY if is_compacted else MISSING_FROM_OTHER

    def iter_rows(self) -> Iterator[tuple[str | int | None, ...]]:
        """The rows of `RANGE_ROW`."""
        divergence = self.divergence
        for replica_range in self.ranges:
            yield (
                self.b.partition.name,
                replica_range.relation.value,
                replica_range.first_offset,
                replica_range.last_offset,
                replica_range.a_batches,
                replica_range.b_batches,
                str(sorted(replica_range.a_leader_epochs)),
                str(sorted(replica_range.b_leader_epochs)),
                self.likely_absence_reason(replica_range, divergence),
            )

    def _find_differing_offset(
        self, a_batches: list[ReplicaBatch], b_batches: list[ReplicaBatch]
    ) -> int | None:
        """The first offset at which the two have different records; None if they agree. Raises
        UnreadableRecordsError."""
        a_records = self._record_by_offset(a_batches, self.a)
        b_records = self._record_by_offset(b_batches, self.b)
        common_offsets = sorted(set(a_records) & set(b_records))
        return next(
            (offset for offset in common_offsets if a_records[offset] != b_records[offset]), None
        )

    def _record_by_offset(
        self, batches: list[ReplicaBatch], replica: ComparedReplica
    ) -> dict[int, ComparedRecord]:
        """The records of some batches of a replica by offset; raises UnreadableRecordsError, with
        the reason among the replica's findings."""
        record_by_offset: dict[int, ComparedRecord] = {}
        for batch in batches:
            assert isinstance(batch.source_row, tuple)
            block, batch_index = batch.source_row
            for run in split_runs(slice_block(block, batch_index, batch_index + 1)):
                records = read_records(run, self.a.limit)
                if has_errors(records.findings):
                    replica.findings.add_findings(records.findings)
                    raise UnreadableRecordsError
                column_names = ("offset", "timestamp", "key", "key_size", "value", "value_size")
                columns = (records.rows[name].tolist() for name in column_names)
                for row, (
                    offset,
                    timestamp,
                    key_start,
                    key_size,
                    value_start,
                    value_size,
                ) in enumerate(zip(*columns, strict=True)):
                    record_by_offset[offset] = (
                        timestamp,
                        read_record_headers(records, row),
                        None if key_size < 0 else records.data[key_start : key_start + key_size],
                        None
                        if value_size < 0
                        else records.data[value_start : value_start + value_size],
                    )
        return record_by_offset
