"""Two replicas of a partition, read and compared."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.cluster.replicas import (
    Epochs,
    Range,
    Relation,
    ReplicaBatch,
    ReplicaBatches,
    compare,
)
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCHS,
    CheckpointError,
    NumberError,
    stored_epochs,
)
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.opening import is_file
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import classify
from kfmt_cli.findings.finding import MOST_FINDINGS, Findings
from kfmt_cli.log.block import Block, part_of, runs
from kfmt_cli.log.decoding import placed_runs, read_records
from kfmt_cli.log.selection.record_match import headers_of
from kfmt_cli.rows.column import Column, ColumnKind, Placed, RowType

RANGE = RowType(
    "range",
    "A range of offsets with the same relation between replicas A (`file`) and B.",
    (
        Column("other", ColumnKind.TEXT, "B's directory or file.", hidden=True),
        Column(
            "relation", ColumnKind.TEXT, ", ".join(relation.value for relation in Relation) + "."
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
        Column("why", ColumnKind.TEXT, "Likely cause.", given="has_why"),
    ),
    Placed.PARTITION,
)

Row = tuple[object, ...]


class Agreement(enum.Enum):
    """How two replicas compare."""

    IDENTICAL = "identical"
    CONSISTENT = "consistent"
    DAMAGED = "damaged"
    MISSING = "missing"
    DIVERGED = "diverged"


BEFORE, SHORTER = "the other starts later (retention)", "the other has not caught up"
PARTED = "after the divergence"
HOLE, MISSING = "removed by compaction", "missing from the other"


@dataclass(slots=True)
class Side:
    """A replica, and what is learnt while reading it."""

    files: Partition
    limit: Limit
    """Decompression limit for wrappers of magic 0 and 1."""
    findings: Findings
    """The findings to show."""
    first: int | None = None
    """The first offset."""
    end: int = 0
    """The log end offset."""
    has_holes: bool = False
    """Whether compaction has removed records."""
    epochs: Epochs = field(default_factory=Epochs)
    """Leader epochs and their start offsets."""

    def learn_epochs(self) -> None:
        """Read the leader epochs in its leader-epoch-checkpoint, if valid; raises InputError."""
        path = str(self.files.folder / LEADER_EPOCHS)
        if is_file(path):
            with suppress(CheckpointError, NumberError):
                self.epochs.learn(stored_epochs(classify(path, name_text(path))))

    def batches(self) -> Iterator[ReplicaBatches]:
        """Its batches in order."""
        for file in self.files.logs:
            with open_checked(file, read_ahead=False) as log:
                for block in log.blocks:
                    self.findings.take(block.findings)
                    yield from map(self._of_run, placed_runs(block, self.limit))

    def _of_run(self, block: Block) -> ReplicaBatches:
        batches = block.batches
        base, last, is_v2 = batches.base_offset, batches.last_offset, batches.is_v2 == 1
        self.has_holes |= bool((is_v2 & (batches.records_count < last - base + 1)).any())
        if len(base):
            self.first = int(base[0]) if self.first is None else self.first
            self.end = self.epochs.end = max(self.end, int(last.max()) + 1)
        epoch = batches.partition_leader_epoch
        firsts = np.flatnonzero((np.diff(epoch, prepend=-1) != 0) & is_v2)
        for i in firsts.tolist():
            if epoch[i] >= 0:
                self.epochs.starts.setdefault(int(epoch[i]), int(base[i]))
        columns = np.array([base, last, epoch, batches.crc])
        return ReplicaBatches(columns, batches.crc_valid == 1, block)


@dataclass(slots=True)
class Comparison:
    """The ranges of two replicas, in the part that was read."""

    a: Side
    b: Side
    ranges: list[Range] = field(default_factory=list)

    @classmethod
    def of(
        cls, one: Partition, other: Partition, limit: Limit, most_findings: int = MOST_FINDINGS
    ) -> Comparison:
        """Two replicas that are not read yet. most_findings: to keep of each kind and side."""
        a, b = (Side(files, limit, Findings(most_findings)) for files in (one, other))
        return cls(a, b)

    def read(self) -> None:
        """Read and compare both; raises InputError."""
        self.ranges = list(compare(self.a.batches(), self.b.batches(), self._differs))

    @property
    def parted(self) -> Range | None:
        """Where they diverge first."""
        diverged = (each for each in self.ranges if each.relation is Relation.DIVERGED)
        return next(diverged, None)

    @property
    def missing(self) -> list[Range]:
        """The ranges missing from one side for no reason that a broker has."""
        parted = self.parted
        return [each for each in self.ranges if self.why(each, parted) == MISSING]

    @property
    def verdict(self) -> Agreement:
        """The result."""
        relations = {each.relation for each in self.ranges}
        if Relation.DIVERGED in relations:
            return Agreement.DIVERGED
        if self.missing:
            return Agreement.MISSING
        if Relation.DAMAGED in relations:
            return Agreement.DAMAGED
        return Agreement.IDENTICAL if relations <= {Relation.IDENTICAL} else Agreement.CONSISTENT

    def why(self, owned: Range, parted: Range | None) -> str | None:
        """Likely reason why only one replica has a range; None for other ranges."""
        if owned.relation not in (Relation.ONLY_A, Relation.ONLY_B):
            return None
        if parted is not None and owned.first > parted.first:
            return PARTED
        other = self.b if owned.relation is Relation.ONLY_A else self.a
        if other.first is not None and owned.last < other.first:
            return BEFORE
        if owned.first >= other.end:
            return SHORTER
        return HOLE if other.has_holes else MISSING

    def rows(self) -> Iterator[tuple[str | int | None, ...]]:
        """The rows of `RANGE`."""
        parted = self.parted
        for owned in self.ranges:
            yield (
                self.b.files.name,
                owned.relation.value,
                owned.first,
                owned.last,
                owned.a_batches,
                owned.b_batches,
                str(sorted(owned.a_epochs)),
                str(sorted(owned.b_epochs)),
                self.why(owned, parted),
            )

    def _differs(self, mine: list[ReplicaBatch], its: list[ReplicaBatch]) -> int | None:
        """The first offset at which the two have different records; None if they agree."""
        ours, theirs = self._records(mine), self._records(its)
        common = sorted(set(ours) & set(theirs))
        return next((position for position in common if ours[position] != theirs[position]), None)

    def _records(self, batches: list[ReplicaBatch]) -> dict[int, Row]:
        """The records of some batches by offset."""
        found: dict[int, Row] = {}
        for batch in batches:
            assert isinstance(batch.place, tuple)
            block, i = batch.place
            for run in runs(part_of(block, i, i + 1)):
                records = read_records(run, self.a.limit)
                names = ("offset", "timestamp", "key", "key_size", "value", "value_size")
                columns = (records.rows[name].tolist() for name in names)
                for row, (offset, time, key, n_key, value, n_value) in enumerate(
                    zip(*columns, strict=True)
                ):
                    found[offset] = (
                        time,
                        headers_of(records, row),
                        None if n_key < 0 else records.data[key : key + n_key],
                        None if n_value < 0 else records.data[value : value + n_value],
                    )
        return found
