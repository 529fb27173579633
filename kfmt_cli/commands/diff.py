"""diff: compares two replicas of a partition by offsets, leader epochs and checksums."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kfmt_cli.broker.replicas import Epochs, Range, Relation, ReplicaBatch, compare, cut_to
from kfmt_cli.broker.start.checkpoints import (
    EPOCH_TYPES,
    LEADER_EPOCHS,
    CheckpointError,
    NumberError,
    entries_of,
)
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.each_partition import reading
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.partitions import Partition, partitions_below
from kfmt_cli.disk.tree import classify, printable
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.finding import Finding, Findings
from kfmt_cli.log.block import Block, is_legacy, part_of, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import Records
from kfmt_cli.render.style import safe
from kfmt_cli.rows.column import Column, ColumnKind, Placed, RowType
from kfmt_cli.rows.documents import DIFF

RANGE = RowType(
    "range",
    "A range of offsets in which replicas A (`file`) and B have the same relation.",
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


@dataclass(slots=True)
class Side:
    """A replica, and what is learnt while reading it."""

    files: Partition
    limit: Limit
    """Decompression limit for wrappers of magic 0 and 1."""
    seen: Callable[[Finding], None]
    """Called with every finding."""
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
        path = self.files.folder / LEADER_EPOCHS
        if path.is_file():
            with suppress(CheckpointError, NumberError):
                rows = entries_of(classify(str(path), printable(str(path))), EPOCH_TYPES)
                self.epochs.learn((int(epoch), int(start)) for epoch, start in rows)

    def batches(self) -> Iterator[ReplicaBatch]:
        """Its batches in order."""
        for file in self.files.logs:
            with open_checked(file, read_ahead=False) as log:
                for block in log.blocks:
                    for finding in block.findings:
                        self.seen(finding)
                    self.findings.take(block.findings)
                    for run in runs(block):
                        if is_legacy(run) and run.batches.compression.any():
                            read_records(run, self.limit)  # sets the base offsets of wrappers
                        yield from self._of_run(run)

    def _of_run(self, block: Block) -> Iterator[ReplicaBatch]:
        batches = block.batches
        names = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "records_count")
        columns = (batches[name].tolist() for name in (*names, "is_v2", "crc_valid"))
        for i, (base, last, epoch, crc, n, is_v2, sound) in enumerate(zip(*columns, strict=True)):
            holes = bool(is_v2) and n < last - base + 1
            self.has_holes |= holes
            self.first = base if self.first is None else self.first
            self.end = self.epochs.end = max(self.end, last + 1)
            if is_v2 and epoch >= 0:
                self.epochs.starts.setdefault(epoch, base)
            yield ReplicaBatch(base, last, epoch, crc, holes, (block, i), bool(sound))


@dataclass(slots=True)
class Diff:
    """One call of `diff`."""

    run: Run
    limit: Limit = field(default_factory=Limit)

    def paths(self, a: str, b: str) -> None:
        """Compare two partitions, or every partition that two log directories have in common."""
        ours, theirs = (
            partitions_below((path,), self.run.complain, self.run.sink.note) for path in (a, b)
        )
        pairs = [(ours[0], theirs[0])] if len(ours) == len(theirs) == 1 else []
        if not pairs and ours and theirs:
            tops = {id(partition): a for partition in ours}
            tops |= {id(partition): b for partition in theirs}
            pairs = _paired(
                *(ours, theirs),
                lambda partition: os.path.relpath(partition.name, printable(tops[id(partition)])),
            )
            pairs = pairs or _paired(ours, theirs, lambda partition: partition.folder.name)
            if not pairs:
                both = f"{printable(a)} and {printable(b)}"
                raise UsageError(f"{both} have no partitions in common")
        logs = [log for pair in pairs for partition in pair for log in partition.logs]
        with reading(self.run, logs):
            for one, other in pairs:
                self._pair(one, other)
        self.run.sink.flush()

    def _pair(self, one: Partition, other: Partition) -> None:
        run = self.run
        a, b = (
            Side(partition, self.limit, run.seen, Findings(run.most_findings))
            for partition in (one, other)
        )
        try:
            ranges = list(compare(a.batches(), b.batches(), self._differs))
        except InputError as error:
            self.run.complain(str(error))
            return
        for side in (a, b):
            try:
                side.learn_epochs()
            except InputError as error:
                self.run.complain(str(error))
            for finding in side.findings:
                run.sink.finding(finding)
            run.left_out(side.files.name, side.findings)
        parted = next((range_ for range_ in ranges if range_.relation is Relation.DIVERGED), None)
        rows = [_row(range_, _why(range_, a, b, parted), other) for range_ in ranges]
        title = (f"A {one.name}", f"B {other.name}")
        run.rows(one.name, RANGE, [rows], ("range", "ranges"), title=title)
        self._verdict(ranges, parted, a, b)

    def _verdict(self, ranges: list[Range], parted: Range | None, a: Side, b: Side) -> None:
        """Show the verdict."""
        missing = [range_ for range_ in ranges if _why(range_, a, b, parted) == MISSING]
        row: dict[str, object] = {"file": a.files.name, "other": b.files.name}
        row |= {"a_end": a.end, "b_end": b.end}
        if parted is None and not missing:
            verdict, words = "consistent", "no divergence"
            if any(range_.relation is Relation.DAMAGED for range_ in ranges):
                verdict, words = "damaged", "no divergence in the undamaged data"
            elif all(range_.relation is Relation.IDENTICAL for range_ in ranges):
                verdict, words = "identical", "identical"
            row |= {"verdict": verdict, "diverged_at": None, "later": None}
            words += f"; log end offset: A {a.end}, B {b.end}"
            self.run.sink.document(DIFF, row, [f"{words}\n"])
            return
        self.run.host.reached(ExitCode.FINDINGS)
        if parted is None:
            first = missing[0]
            words = f"offsets {first.first}–{first.last} are missing on one side"
            row |= {"verdict": "missing", "diverged_at": None, "later": None}
            self.run.sink.document(DIFF, row, [f"{words}\n"])
            return
        epoch_a, epoch_b = a.epochs.last, b.epochs.last
        later = None if epoch_a == epoch_b else "A" if epoch_a > epoch_b else "B"
        row |= {"verdict": "diverged", "diverged_at": parted.first, "later": later}
        row |= {"a_latest_epoch": epoch_a, "b_latest_epoch": epoch_b}
        row["cut_to"] = None
        words = f"diverged at offset {parted.first}: latest leader epoch A {epoch_a}, B {epoch_b}"
        if different := _different(a.files, b.files):
            words = f"{different}: their records differ from offset {parted.first} on"
            self.run.sink.document(DIFF, {**row, "cut_to": None}, [f"{words}\n"])
            return
        lines = [f"{words}\n"]
        alone = [
            _alone(ranges, parted.first, relation)
            for relation in (Relation.ONLY_A, Relation.ONLY_B)
        ]
        lines.append(f"  only in A: {alone[0]}; only in B: {alone[1]}\n")
        if later is not None:
            follower, leader = (a, b) if later == "B" else (b, a)
            row["cut_to"] = cut_to(follower.epochs, leader.epochs)
            name = "A" if later == "B" else "B"
            lines.append(
                f"  under a leader with the later epoch, {later} stays unchanged and {name} is "
                f"truncated to offset {row['cut_to']}\n"
            )
        self.run.sink.document(DIFF, row, lines)

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
                records = read_records(run, self.limit)
                names = ("offset", "timestamp", "headers_first", "headers")
                sized = ("key", "key_size", "value", "value_size")
                columns = (records.rows[name].tolist() for name in (*names, *sized))
                for offset, time, first, n, key, n_key, value, n_value in zip(
                    *columns, strict=True
                ):
                    found[offset] = (
                        time,
                        _headers(records, first, n),
                        None if n_key < 0 else records.data[key : key + n_key],
                        None if n_value < 0 else records.data[value : value + n_value],
                    )
        return found


def _different(one: Partition, other: Partition) -> str | None:
    """The words for two that are no replicas of one partition, by their directories' names; None
    if they may be."""
    if None in (*one.place, *other.place) or one.place == other.place:
        return None
    kind = "partitions" if one.place[0] == other.place[0] else "topics"
    a, b = (f"{safe(str(topic))}-{number}" for topic, number in (one.place, other.place))
    return f"{a} and {b} are two {kind}, not replicas"


def _paired(
    ours: list[Partition], theirs: list[Partition], name: Callable[[Partition], str]
) -> list[tuple[Partition, Partition]]:
    """Pair partitions by name; raises UsageError if B has two with the same name."""
    by_name: dict[str, Partition] = {}
    for their in theirs:
        other = by_name.setdefault(name(their), their)
        if other is not their:
            both = f"{other.name} and {their.name}"
            raise UsageError(f"{both} have the same name: name the two partitions to compare")
    return [(our, by_name[name(our)]) for our in ours if name(our) in by_name]


def _alone(ranges: list[Range], first: int, own: Relation) -> str:
    """Text of the offset ranges only in one replica, starting at the divergence."""
    found: list[list[int]] = []
    for range_ in ranges:
        if range_.first < first or range_.relation not in (Relation.DIVERGED, own):
            continue
        if found and found[-1][1] + 1 == range_.first:
            found[-1][1] = range_.last
        else:
            found.append([range_.first, range_.last])
    return ", ".join(f"{a}–{b}" for a, b in found) or "nothing"


def _headers(records: Records, first: int, n: int) -> tuple[bytes | None, ...]:
    """The names and values of a record's headers."""
    found: list[bytes | None] = []
    for key, n_key, value, n_value in records.headers[:4, first : first + n].T.tolist():
        found.append(records.data[key : key + n_key])
        found.append(None if n_value < 0 else records.data[value : value + n_value])
    return tuple(found)


BEFORE, SHORTER = "the other starts later (retention)", "the other has not caught up"
PARTED = "after the divergence"
HOLE, MISSING = "removed by compaction", "missing from the other"


def _why(owned: Range, a: Side, b: Side, parted: Range | None) -> str | None:
    """Likely reason why only one replica has a range; None for other ranges."""
    if owned.relation not in (Relation.ONLY_A, Relation.ONLY_B):
        return None
    if parted is not None and owned.first > parted.first:
        return PARTED
    other = b if owned.relation is Relation.ONLY_A else a
    if other.first is not None and owned.last < other.first:
        return BEFORE
    if owned.first >= other.end:
        return SHORTER
    return HOLE if other.has_holes else MISSING


def _row(owned: Range, why: str | None, other: Partition) -> tuple[str | int | None, ...]:
    return (
        other.name,
        owned.relation.value,
        owned.first,
        owned.last,
        owned.a_batches,
        owned.b_batches,
        str(sorted(owned.a_epochs)),
        str(sorted(owned.b_epochs)),
        why,
    )
