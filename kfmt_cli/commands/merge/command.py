"""merge: the best log of each partition out of replicas that are damaged in different places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path, PurePath

import numpy as np

from kfmt_cli.broker.start.checkpoints import LEADER_EPOCHS
from kfmt_cli.broker.start.own_files import CLEANER_OFFSETS, LOG_STARTS
from kfmt_cli.broker.start.ranges import (
    Range,
    Ranges,
    as_lists,
    common,
    merged,
    size_of_ranges,
    without,
)
from kfmt_cli.commands.log_settings import compacts
from kfmt_cli.commands.replicas.branches import Branch
from kfmt_cli.commands.replicas.command import CompareDisks, ComparedPartition, DeadCluster
from kfmt_cli.commands.replicas.nodes import DiskReplica, Place
from kfmt_cli.commands.run import Progress, Run
from kfmt_cli.commands.salvage.salvaged_partition import base_of, is_swap
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import PARTITION_METADATA
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.names import mark_of, partition_folder
from kfmt_cli.disk.tree import classify, size_of
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.finding import has_errors
from kfmt_cli.render.style import count, range_words, safe
from kfmt_cli.rows.types.cluster_rows import MERGED
from kfmt_cli.writing.derived import epoch_checkpoint, write_missing
from kfmt_cli.writing.output import Staging, carry, need_new, need_room, staged
from kfmt_cli.writing.salvage.arrange import END, Arranged, HeldBatches, arrange_replicas
from kfmt_cli.writing.salvage.holes import Gaps
from kfmt_cli.writing.salvage.rearrange import Rearranged, write_arranged
from kfmt_cli.writing.salvage.salvager import Salvager, Scanned

SPARE = 1 << 20  # for indexes and folders
NO_BATCH = "no replica has a batch that is undamaged and can be decoded"


@dataclass(slots=True)
class MergedFrom:
    """What a replica gives to a merged partition."""

    replica: DiskReplica
    offsets: Ranges = field(default_factory=list)
    bytes: int = 0


@dataclass(slots=True)
class Merge:
    """One call of `merge`."""

    run: Run
    jobs: int
    limit: Limit
    interval: int
    """index.interval.bytes."""
    branch: int | None
    """The broker whose branch to take where replicas have diverged."""
    topics: frozenset[str]
    """Only these; all if empty."""
    _n_missing: int = 0
    _n_refused: int = 0
    _staging: Staging = field(init=False)
    _progress: Progress = field(init=False)

    def merge(self, paths: tuple[str, ...], destination: str) -> None:
        """Merge the replicas under some paths into DST; raises UsageError, InputError and
        OutputError."""
        for path in paths:
            need_new(path, destination)
        found = CompareDisks(self.run, self.jobs, self.limit).look(paths, ())
        self._name_marked(found)
        partitions = list(self._chosen(found.partitions))
        if not partitions:
            raise InputError(f"{', '.join(map(name_text, paths))}: no partition with a log")
        need_room(destination, sum(map(_size_of, partitions)) + SPARE)
        replicas = [replica for partition in partitions for replica in partition.copies]
        total = sum(size_of(log) for replica in replicas for log in _logs(replica))
        n_done = 0
        progress = self.run.host.progress(total)
        with progress as self._progress, staged(destination) as self._staging:
            self.run.left_over(self._staging.left_over)
            for partition in partitions:
                n_done += self._partition(partition)
            if not n_done:
                self._staging.refuse()
        self._last_words(n_done, destination)

    def _name_marked(self, found: DeadCluster) -> None:
        """Name the directories that are no replica, because a broker has marked them."""
        for node in found.nodes:
            for replica in node.broker.replicas:
                if mark := mark_of(replica.name):
                    self.run.sink.note(f"not used: {safe(replica.shown)}: marked -{mark}\n")

    def _name_partly_read(self, partition: ComparedPartition) -> None:
        """Name the replicas with logs that are read around lost bytes."""
        for copy in partition.copies:
            if copy.partly_read:
                logs = count(copy.partly_read, "log")
                words = "the rest is merged, but not compared with other replicas"
                shown = safe(copy.file or copy.owner)
                self.run.sink.note(f"{shown}: {logs} can be read in part only: {words}\n")

    def _chosen(self, partitions: Sequence[ComparedPartition]) -> Iterator[ComparedPartition]:
        """The wanted partitions, by name; raises UsageError for unknown topics or brokers."""
        copies = [copy for each in partitions for copy in each.copies]
        brokers = sorted({copy.broker_id for copy in copies if copy.broker_id is not None})
        if self.branch is not None and self.branch not in brokers:
            ids = ", ".join(map(str, brokers)) or "none"
            raise UsageError(f"--branch: no replica of broker {self.branch}; known: {ids}")
        known = {partition.place[0] for partition in partitions}
        for topic in sorted(self.topics - known):
            raise UsageError(f"--topics: no replica of {topic}; known: {', '.join(sorted(known))}")
        for partition in sorted(partitions, key=lambda each: each.place):
            is_wanted = not self.topics or partition.place[0] in self.topics
            if is_wanted and any(map(_logs, partition.copies)):
                yield partition

    def _partition(self, partition: ComparedPartition) -> bool:
        """Write the merged log of a partition; returns whether there is one."""
        self._name_partly_read(partition)
        branch = self._branch(partition)
        if branch is None:
            return False
        limits = dict(_limits(partition.found.branches or [branch], branch))
        best = max(filter(_has_batches, branch.copies), key=_worth)
        others = [r for r in partition.copies if r in limits and r is not best]
        others.sort(key=_worth, reverse=True)
        start = min(_known_start(each, partition.place) for each in (best, *others))
        its = (*branch.copies, *others)
        end = max(min(_known_end(each), limits.get(each, END)) for each in its)
        parts = [list(self._scans(best, _logs(best), [(start, END)], END))]
        held = [scan.held for scan in parts[0]]
        wanted = gaps = without([(start, END)], (pair for log in held for pair in log.offsets))
        owed = [(start, end - 1)]
        if is_compacted := self._is_compacted(partition):  # what was cleaned stays so
            damaged = [*best.damaged, *_last_partly_read(best, held)]
            owed = common([*damaged, *_around_unheld(parts[0], end)], gaps)
            wanted = merged([*owed, *(gap for gap in gaps if start in gap or END in gap)])
        for each in (best, *others):
            logs = [*([] if each is best else _logs(each)), *_swaps(each)]
            parts.append(list(self._scans(each, logs, wanted, limits[each])))
        scans = [scan for part in parts for scan in part]
        owners = [r for r, part in zip((best, best, *others), parts, strict=True) for _ in part]
        others_held = [scan.held for scan in scans[len(held) :]]
        arranged = arrange_replicas(held, others_held, wanted)
        if not arranged.segments:
            self._refuse(partition, NO_BATCH)
            return False
        if not is_compacted:
            lasts = (part.last_offset for _, parts in arranged.segments for part in parts)
            owed = [(start, max(end - 1, *lasts))]
        staging = self._staging
        below = PurePath(_directory_of(partition, best))
        written, _ = write_arranged(staging, str(below), Rearranged(scans, arranged), -1)
        made_logs = [classify(str(staging.folder / name), name) for name in written]
        self._carry(below, (best, *others), made_logs[0])
        write_missing(staging, below, made_logs, self.interval, Gaps(made_logs[0].base - 1))
        epochs, sources = _facts(arranged, scans, owners, is_compacted)
        staging.put(str(below / LEADER_EPOCHS), epoch_checkpoint(epochs))
        self._tell(partition, below, sources, owed)
        return True

    def _is_compacted(self, partition: ComparedPartition) -> bool:
        """Whether the log cleaner may have removed offsets of a partition."""
        topic, _ = partition.place
        if any(
            partition.place in copy.directory.offsets.get(CLEANER_OFFSETS, {})
            for copy in partition.copies
        ):
            return True
        for copy in partition.copies:
            with self.run.complaining():
                known = compacts(topic, Path(copy.directory.path))
                if known is not None:
                    return known
        return topic.startswith("__")  # without a metadata log, by Kafka's own topics

    def _refuse(self, partition: ComparedPartition, words: str) -> None:
        """Report a partition that is not written, if it had something to write."""
        if _size_of(partition):
            self.run.sink.note(f"not merged: {safe(partition.name)}: {words}\n")
            self.run.host.reached(ExitCode.FINDINGS)
            self._n_refused += 1

    def _branch(self, partition: ComparedPartition) -> Branch | None:
        """The branch to write; None, with a sentence, if it has to be named."""
        branches = [b for b in partition.found.branches if any(map(_has_batches, b.copies))]
        if not branches:  # of logs that can be read in part, none is compared
            copies = [copy for copy in partition.copies if not copy.is_set_aside]
            branches = [Branch(copies)] if any(map(_has_batches, copies)) else []
        if len(branches) == 1:
            return branches[0]
        if not branches:
            self._refuse(partition, NO_BATCH)
            return None
        for branch in branches if self.branch is not None else ():
            if any(replica.broker_id == self.branch for replica in branch.copies):
                return branch
        sides = " and ".join(
            f"{safe(each.owners)} (latest epoch {each.latest_epoch}, log end offset {each.end})"
            for each in branches
        )
        words = f"the replicas {sides} diverged at offset {partition.found.diverged_at}"
        self._refuse(partition, f"{words}; choose one with --branch BROKER")
        return None

    def _scans(
        self, replica: DiskReplica, logs: Iterable[Input], wanted: Ranges, end: int
    ) -> Iterator[Scanned]:
        """The undamaged batches in logs of a replica that have wanted offsets, below `end`."""
        extents = {base: (first, last) for base, first, last, _ in replica.segments}
        salvager, advance = Salvager(self.limit, self.jobs), self._progress.advance
        for log in logs:
            extent = None if is_swap(log) else extents.get(log.base)
            if extent is not None and not common([(extent[0], extent[1] - 1)], wanted):
                advance(size_of(log))
                continue
            with self.run.complaining():
                scan = salvager.scan(log, base_of(log) or 0, False, lambda _: None, advance)
                low = min(first for first, _ in wanted)
                yield replace(scan, held=scan.held.within(low, end))

    def _carry(self, below: PurePath, replicas: Iterable[DiskReplica], first: Input) -> None:
        """Copy what cannot be derived: the topic id, and the producers before the first log."""
        snapshot = f"{first.base_offset:020}{PRODUCER_SNAPSHOT.suffix}"
        for names in (PARTITION_METADATA.names, frozenset({snapshot})):
            for replica in replicas:
                if self._carried(below, replica, names):
                    break

    def _carried(self, below: PurePath, replica: DiskReplica, names: frozenset[str]) -> bool:
        """Copy an undamaged file of a replica; returns whether there is one."""
        if replica.folder is None:
            return False
        for name in names.intersection(replica.folder.readable):
            file = replica.folder.input(name)
            with self.run.complaining():
                if file.kind.read is None or not has_errors(file.kind.read(file).findings):
                    carry(self._staging, file, str(below / name))
                    return True
        return False

    def _tell(
        self,
        partition: ComparedPartition,
        below: PurePath,
        sources: list[MergedFrom],
        owed: Ranges,
    ) -> None:
        """Report which offsets of a partition came from where, and which are in no replica. owed:
        those that should have been in one."""
        offsets = merged(range_ for source in sources for range_ in source.offsets)
        missing = without(owed, offsets)
        self._n_missing += size_of_ranges(missing)
        if missing:
            self.run.host.reached(ExitCode.FINDINGS)
        row: dict[str, object] = {
            "topic": partition.place[0],
            "partition": partition.place[1],
            "file": name_text(str(below)),
            "offsets": as_lists(offsets),
            "from": [
                {
                    "broker_id": source.replica.broker_id,
                    "file": source.replica.file,
                    "offsets": as_lists(source.offsets),
                    "bytes": source.bytes,
                }
                for source in sources
            ],
            "missing": as_lists(missing),
        }
        parts = [
            f"{_ranges(source.offsets)} from {safe(source.replica.owner)}" for source in sources
        ]
        lost = f"; in {self._no_replica}: {_ranges(missing)}" if missing else ""
        words = f"{safe(str(below))}: {'; '.join(parts)}{lost}\n"
        self.run.sink.document(MERGED, row, [words])

    @property
    def _no_replica(self) -> str:
        return "no replica that could be read" if self.run.summary.unread else "no replica"

    def _last_words(self, n_done: int, destination: str) -> None:
        words = f"merged {count(n_done, 'partition')} into {safe(name_text(destination))}"
        if not n_done:
            words = "nothing was merged"
        n_unread = self.run.summary.unread
        is_bad = self._n_missing or self._n_refused or n_unread
        if self._n_refused:
            words += f"; {count(self._n_refused, 'partition')} not merged"
        if self._n_missing:
            words += f"; {count(self._n_missing, 'offset')} in {self._no_replica}"
        if n_unread:
            words += f"; {count(n_unread, 'input')} unread, which may have more records"
        elif not is_bad:
            words += "; nothing is missing"
        self.run.sink.remark(words, "warn" if is_bad else "good")


def _size_of(partition: ComparedPartition) -> int:
    """The bytes of the largest replica."""
    sizes = (sum(map(size_of, _logs(replica))) for replica in partition.copies)
    return max(sizes, default=0)


def _limits(branches: Sequence[Branch], wanted: Branch) -> Iterator[tuple[DiskReplica, int]]:
    """The replicas that share offsets with a branch, and the offset below which they do."""
    for branch in branches:
        ends = [each.parted_at for each in (branch, wanted) if each.parted_at is not None]
        end = END if branch is wanted else min(ends, default=END)
        for replica in branch.copies:
            if _has_batches(replica):
                yield replica, end


def _has_batches(replica: DiskReplica) -> bool:
    """Whether a replica may have batches to merge."""
    return bool(replica.segments or replica.partly_read)


def _logs(replica: DiskReplica) -> list[Input]:
    return [] if replica.folder is None else replica.folder.logs


def _swaps(replica: DiskReplica) -> list[Input]:
    """The logs with which the broker was about to replace others, which it may have deleted."""
    if replica.folder is None:
        return []
    files = map(replica.folder.input, replica.folder.readable)
    return [file for file in files if file.kind is LOG and is_swap(file)]


def _worth(replica: DiskReplica) -> tuple[int, int]:
    """The replica that gives the most has the greatest."""
    return size_of_ranges(replica.undamaged), replica.log_end or 0


def _around_unheld(scans: Sequence[Scanned], end: int) -> Iterator[Range]:
    """The offsets between undamaged batches where a log has other batches, such as those that
    cannot be decompressed. end: of the last log."""
    for scan, following in zip(scans, [*scans, None][1:], strict=True):
        held = scan.held
        until = end if following is None else following.held.base_offset
        unheld = scan.positions[~np.isin(scan.positions, held.position)]
        for at in np.unique(np.searchsorted(held.position, unheld)).tolist():
            low = int(held.last[at - 1]) + 1 if at else held.base_offset
            yield low, (int(held.base[at]) if at < len(held.base) else until) - 1


def _known_start(replica: DiskReplica, place: Place) -> int:
    """The first offset of a replica's logs, whether they can be read or not."""
    bases = [log.base for log in _logs(replica)]
    return max(min(bases, default=0), replica.directory.offset(LOG_STARTS, place))


def _last_partly_read(replica: DiskReplica, held: Sequence[HeldBatches]) -> Iterator[Range]:
    """The offsets of the last log of a replica, if it was read around lost bytes. held: the batches
    of its logs."""
    known = {base for base, *_ in replica.segments}
    for last in held[-1:]:
        if last.base_offset not in known and len(last.last):
            yield last.base_offset, int(last.last.max())


def _known_end(replica: DiskReplica) -> int:
    """The end of the offsets that a replica had: those below its high watermark were there."""
    return max(replica.log_end or 0, replica.high_watermark or 0)


def _ranges(ranges: Ranges) -> str:
    return ", ".join(starmap(range_words, ranges))


def _directory_of(partition: ComparedPartition, replica: DiskReplica) -> str:
    """The name of the partition's directory, with the bytes that a replica's has."""
    assert replica.folder is not None
    name = partition_folder(replica.folder.path).name
    return name if name_text(name) == partition.name else partition.name


def _facts(
    arranged: Arranged,
    scans: Sequence[Scanned],
    owners: Sequence[DiskReplica],
    is_compacted: bool,
) -> tuple[list[tuple[int, int]], list[MergedFrom]]:
    """The leader epochs of a merged log, each with its first offset; where its bytes come from.
    is_compacted: offsets between batches are not missed."""
    epochs: list[tuple[int, int]] = []
    sources: dict[DiskReplica, MergedFrom] = {}
    for _, parts in arranged.segments:
        for part in parts:
            owner = owners[part.log]
            source = sources.setdefault(owner, MergedFrom(owner))
            held = scans[part.log].held
            whole = [(part.first_offset, part.last_offset)]
            source.offsets += whole if is_compacted else held.offsets_in(part.position, part.size)
            source.bytes += part.size
            for epoch, offset in held.epochs_in(part.position, part.size):
                if epoch >= 0 and (not epochs or epoch > epochs[-1][0]):
                    epochs.append((epoch, offset))
    for source in sources.values():
        source.offsets = merged(source.offsets)
    return epochs, list(sources.values())
