"""salvage: copies the undamaged batches of damaged logs to directories a broker can load."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path, PurePath

from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCHS,
    CheckpointError,
    NumberError,
    epochs_of,
    offsets_of,
)
from kfmt_cli.broker.start.own_files import LOG_STARTS
from kfmt_cli.broker.start.ranges import Ranges, as_lists, merged
from kfmt_cli.checks.log.verifier import Verifier
from kfmt_cli.commands.run import Progress, Run, told
from kfmt_cli.commands.salvage.salvaged_partition import (
    Extents,
    SalvagedPartition,
    base_of,
    is_orderly,
    is_swap,
)
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import META_PROPERTIES, PARTITION_METADATA, QUORUM_STATE
from kfmt_cli.disk.kinds.checkpoint import CHECKPOINT
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, PRODUCER_SNAPSHOT, TIME_INDEX
from kfmt_cli.disk.kinds.kind import SWAP, Input
from kfmt_cli.disk.kinds.logs import DELETED_LOG, KRAFT_SNAPSHOT, LOG
from kfmt_cli.disk.names import mark_of, place_of
from kfmt_cli.disk.targets import target_of
from kfmt_cli.disk.tree import Folder, classify, is_segment, listing, size_of
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.finding import Finding, Findings, is_error
from kfmt_cli.render.style import count, grouped, range_words, safe
from kfmt_cli.rows.documents import HOLE, MISSING_OFFSETS, REARRANGED
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.writing.derived import write_missing
from kfmt_cli.writing.output import Staging, carry, copy_times, need_new, need_room, staged
from kfmt_cli.writing.rebuild import How, rebuild
from kfmt_cli.writing.salvage.holes import NO_END, Gaps, Hole, Salvaged
from kfmt_cli.writing.salvage.lost import LostParts
from kfmt_cli.writing.salvage.rearrange import (
    ASIDE,
    Rearranged,
    rearranged,
    told_of,
    write_arranged,
)
from kfmt_cli.writing.salvage.salvager import Salvager, Scanned, extent_of

COUNTED = ("batches", "batches_after", "bytes", "bytes_after", "holes", "reencoded")
SALVAGED = ResultType(
    COUNTED, {"batches": 9, "batches_after": 13, "holes": 7, "bytes": 14, "bytes_after": 14}
)
INDEX_SUFFIXES = (OFFSET_INDEX.suffix, TIME_INDEX.suffix)
MOST_LOST = 10  # ranges of lost bytes in a message
SPARE = 1 << 20  # for indexes and folders
# Files next to the logs that a broker reads and cannot rebuild. The other checkpoints state how far
# logs were flushed, replicated and compacted, which is no longer true of the output.
KEPT_KINDS = (META_PROPERTIES, PARTITION_METADATA, QUORUM_STATE)
KEPT_CHECKPOINTS = (LEADER_EPOCHS, LOG_STARTS)
DELETED_FOLDER = "deleted"  # for a deleted partition whose topic exists again


@dataclass(slots=True)
class Salvage:
    """One call of `salvage`."""

    run: Run
    limit: Limit
    jobs: int
    interval: int
    """index.interval.bytes."""
    split: bool = False
    """Recover readable records of damaged batches."""
    takes_deleted: bool = False
    """Copy what a broker marked as deleted, too."""
    topic: str | None = None
    """The topic to which the partitions are to belong; None for their own."""
    _carried: list[tuple[Input, PurePath]] = field(default_factory=list)
    _n_others: int = 0
    _n_deleted: int = 0
    _n_missing: int = 0
    _has_unread_logs: bool = False
    _with_holes: set[str] = field(default_factory=set)
    """Partitions with dropped data."""
    _held: list[tuple[dict[str, object], str]] = field(default_factory=list)
    _lost: LostParts = field(default_factory=LostParts)
    _staging: Staging = field(init=False)
    _progress: Progress = field(init=False)

    def salvage(self, source: str, destination: str) -> None:
        """Salvage SRC into DST; raises UsageError, InputError, OutputError."""
        need_new(source, destination)
        run = self.run
        partitions = self._partitions(source)
        if self.topic is not None:
            partitions = self._renamed(partitions, source, self.topic)
        logs = [log for partition in partitions for log in (*partition.logs, *partition.more)]
        if not logs:
            unread = " that could be read" if run.summary.unread else ""
            if self._n_deleted:
                unread += "; use --deleted to include .deleted logs"
            raise InputError(f"{name_text(source)}: no log segments{unread}")
        sizes = sum(map(size_of, logs))
        need_room(destination, sizes + SPARE)
        run.sink.results(SALVAGED)
        with run.host.progress(sizes) as self._progress, staged(destination) as self._staging:
            run.left_over(self._staging.left_over)
            for file, below in self._carried:
                self._carry(file, str(below / PurePath(file.path).name))
            for partition in partitions:
                self._partition(partition)
            for log in logs:
                self._tell_lost(log)
            if self._is_lost:
                self._staging.refuse()
        run.end()
        self._last_words(destination)

    @property
    def _is_lost(self) -> bool:
        """Whether the logs contain bytes but no undamaged batch; empty logs do not count."""
        totals = self.run.summary.totals
        return not totals.batches_after and (totals.bytes > 0 or self._has_unread_logs)

    def _partitions(self, source: str) -> list[SalvagedPartition]:
        """The partitions of SRC; notes other files to copy in `_carried`."""
        target = target_of(source)
        for words in target.unlisted:
            self.run.complain(words)
        if target.file is not None:
            if not is_segment(target.file):
                words = "not named like a log segment (a 20-digit base offset)"
                raise InputError(f"{target.file.name}: {words}")
            return [SalvagedPartition(PurePath(), [target.file])]
        found = []
        taken = {folder.below for folder in target.folders}
        for folder in target.folders:
            name = Path(folder.path).name
            mark = mark_of(name)
            below = PurePath(folder.below)
            if mark == "delete" and self.takes_deleted and folder.path != source:
                topic, number = place_of(name)
                below = below.with_name(f"{topic}-{number}")
                if str(below) in taken:  # the topic was created again
                    below = below.parent / DELETED_FOLDER / below.name
                taken.add(str(below))
            elif mark and folder.path != source:
                words = "marked by a broker as moved; name it as SRC to salvage it"
                if mark == "delete":
                    words = "marked by a broker as deleted; use --deleted to bring it back"
                self.run.sink.note(f"not copied: {safe(folder.name)}: {words}\n")
                continue
            found += self._in_folder(folder, below)
        return found

    def _renamed(
        self, partitions: list[SalvagedPartition], source: str, topic: str
    ) -> list[SalvagedPartition]:
        """The same partitions in directories of another topic; raises UsageError unless all are
        of one topic. Of the files to copy, those that name the topic or its broker are dropped."""
        places = {part.below: part.place for part in partitions}
        topics = sorted({str(name) for name, _ in places.values()})
        if len(topics) != 1 or topics == ["None"] or len({*places.values()}) < len(partitions):
            words = "needs the partitions of one topic, in directories named TOPIC-PARTITION"
            raise UsageError(f"--as: {words}; {name_text(source)} has {safe(', '.join(topics))}")
        below = {old: PurePath(f"{topic}-{number}") for old, (_, number) in places.items()}
        self._carried = [
            (file, below[old])
            for file, old in self._carried
            if old in below and file.kind in (CHECKPOINT, PRODUCER_SNAPSHOT)
        ]
        return [replace(part, below=below[part.below]) for part in partitions]

    def _in_folder(self, folder: Folder, below: PurePath) -> list[SalvagedPartition]:
        files = [folder.input(file) for file in folder.files if file not in folder.special]
        logs, more = folder.logs, []
        for file in files:
            name = PurePath(file.path).name
            kept = file.kind in KEPT_KINDS or (file.kind is CHECKPOINT and name in KEPT_CHECKPOINTS)
            # Deleted records are below the log start offset.
            kept &= not (self.takes_deleted and name == LOG_STARTS)
            # A producer snapshot at the first log cannot be rebuilt from the logs.
            first = logs[0].base_offset if logs else None
            kept |= bool(first) and file.kind is PRODUCER_SNAPSHOT and file.base_offset == first
            if kept or file.kind is KRAFT_SNAPSHOT:
                self._carried.append((file, below))
            elif file.kind is LOG and not is_segment(file):
                if base_of(file) is None or not name.endswith(self._taken_names):
                    self._n_others += 1
                    self._n_deleted += name.endswith(DELETED_LOG)
                else:
                    more.append(file)
        return [SalvagedPartition(below, logs, more)] if logs or more else []

    @property
    def _taken_names(self) -> tuple[str, ...]:
        """The ends of the names of the logs that are taken besides those in use."""
        names = (LOG.suffix, f"{LOG.suffix}{SWAP}")
        return (*names, DELETED_LOG) if self.takes_deleted else names

    def _carry(self, file: Input, name: str) -> None:
        """Copy a file if it is undamaged; complains if it cannot be read."""
        with self.run.complaining():
            is_damaged, findings = self._examined(file)
            if not is_damaged:
                carry(self._staging, file, name)
                return
            self.run.sink.note(f"not copied: {safe(file.name)}: damaged\n")
            found = Findings(self.run.most_findings)
            self.run.tell(findings, found)
            self.run.left_out(file.name, found)
            self.run.summary.damaged += 1
            self.run.summary.totals.errors += max(1, sum(map(is_error, findings)))
            self.run.host.reached(ExitCode.FINDINGS)

    def _examined(self, file: Input) -> tuple[bool, list[Finding]]:
        """Whether a file has errors, or a broker does not start with it; its findings."""
        if file.kind.read is not None:
            findings = list(file.contents().findings)
        else:
            findings = list(Verifier(True, self.limit, 0).findings(file))
        try:
            if file.path.endswith(LEADER_EPOCHS):
                epochs_of(file)
            elif file.path.endswith(LOG_STARTS):
                offsets_of(file)
        except (CheckpointError, NumberError):
            return True, findings
        return any(map(is_error, findings)), findings

    def _partition(self, partition: SalvagedPartition) -> None:
        """Write the logs of a partition, then the files derived from them."""
        extents: Extents = {}
        logs = (*partition.logs, *partition.more)
        for file in logs:
            with self.run.complaining():
                extents[file.path] = extent_of(file, self.limit, self._lost)
        self._has_unread_logs |= len(extents) < len(logs)
        for other in partition.more:
            if other.path in extents and extents[other.path] is None:
                self._leave_behind(other)
        if is_orderly(partition, extents):
            written = self._in_order(partition, extents)
        else:
            written = self._rearranged(partition, extents)
        if not written:
            return
        gaps = Gaps(min(base_of(file) or 0 for file in logs) - 1)
        write_missing(self._staging, partition.below, written, self.interval, gaps)
        self._tell_gaps(partition, gaps.found)
        self._open_transactions(str(partition.below))

    def _tell_gaps(self, partition: SalvagedPartition, gaps: list[tuple[int, int]]) -> None:
        """Report the offsets missing from the batches that were written."""
        number = sum(last - first + 1 for first, last in gaps)
        self._n_missing += number
        if not number:
            return
        row: dict[str, object] = {
            "file": partition.name,
            "offsets": number,
            "ranges": as_lists(gaps),
        }
        ranges = _first_of(gaps, self.run.most_findings)
        words = f"{safe(partition.name)}: {count(number, 'offset')} missing: {ranges}\n"
        is_told = partition.name in self._with_holes or not self._is_compacted(partition)
        self.run.sink.document(MISSING_OFFSETS, row, [words] if is_told else [])

    def _tell_lost(self, log: Input) -> None:
        """Complain about the bytes of a log that cannot be read."""
        lost = self._lost.of(log).ranges
        if not lost:
            return
        error = lost[0].error
        ranges = _first_of(merged((each.first, each.end - 1) for each in lost), MOST_LOST)
        words = f"{log.name} bytes {ranges}: cannot be read: {error.why}"
        self.run.complain(words if error.why else str(error))

    def _is_compacted(self, partition: SalvagedPartition) -> bool:
        with self.run.complaining():
            return partition.is_compacted
        return False

    def _leave_behind(self, log: Input) -> None:
        """Note or count a file without undamaged batches as not copied."""
        if is_swap(log):
            words = "leftover of an interrupted segment replacement, with no undamaged batches"
            self.run.sink.note(f"not copied: {safe(log.name)}: {words}\n")
        else:
            self._n_others += 1

    def _in_order(self, partition: SalvagedPartition, extents: Extents) -> list[Input]:
        """Write the logs of a partition with every batch in its place; returns them."""
        logs = partition.logs
        written: list[Input] = []
        salvager = Salvager(self.limit, self.jobs, self.split, self._lost)
        empty = {path for path, extent in extents.items() if extent is None}
        for i, log in enumerate(logs):
            if log.path not in extents:
                continue
            later = (log.base for log in logs[i + 1 :] if log.path not in empty)
            name = str(partition.below / PurePath(log.path).name)
            done = self._log(salvager, log, name, next(later, NO_END))
            if done is None:
                continue
            # An empty last segment sets the log end offset.
            is_end = i + 1 == len(logs) and log.base > salvager.last_offset
            if done.batches_after or is_end:
                written.append(self._new_log(name))
            else:
                (self._staging.folder / name).unlink()
        return written

    def _new_log(self, name: str) -> Input:
        return classify(str(self._staging.folder / name), name)

    def _rearranged(self, partition: SalvagedPartition, extents: Extents) -> list[Input]:
        """Write the logs of a partition with batches out of place; returns them."""
        salvager = Salvager(self.limit, self.jobs, self.split, self._lost)
        scanned: list[Scanned] = []
        results: list[Result] = []
        for log in (*partition.logs, *partition.more):
            if log.path not in extents:
                continue
            result = Result(SALVAGED, log.name, LOG.name)
            base, advance = base_of(log) or 0, self._progress.advance
            with self.run.complaining():
                scanned.append(salvager.scan(log, base, is_swap(log), result.take, advance))
                results.append(result)
        made = rearranged(scanned)
        named = (log.base for log in partition.logs if extents.get(log.path) is None)
        last = max(named, default=0)
        written, aside = write_arranged(self._staging, str(partition.below), made, last)
        for name in aside:
            self._index(self._new_log(name), PurePath(name).parent)
        for one, result, (done, holes) in zip(scanned, results, told_of(made), strict=True):
            for hole in holes:
                self._hole(one.log, hole)
            self._tell_result(result, done)
        self._tell_arranged(partition, made)
        return list(map(self._new_log, written))

    def _index(self, log: Input, below: PurePath) -> None:
        """Write the indexes of a log that is set aside, if they can express its offsets."""
        with suppress(InputError):
            for made in rebuild([log], How(self.interval), lambda _: None, from_nothing=True):
                for file, data in made.files.items():
                    if data is not None and file.endswith(INDEX_SUFFIXES):
                        self._staging.put(str(below / file), data)

    def _tell_arranged(self, partition: SalvagedPartition, made: Rearranged) -> None:
        """Report the batches set aside and the duplicates dropped."""
        found = made.arranged
        aside = sum(part.batches for lane in found.aside for part in lane)
        folder = partition.below / ASIDE
        row: dict[str, object] = {
            "file": partition.name,
            "aside_batches": aside,
            "aside": str(folder) if aside else None,
            "copies": found.copies,
        }
        words = []
        if aside:
            batches = count(aside, "undamaged batch", "undamaged batches")
            words.append(f"   written to {safe(str(folder))}: {batches} whose offsets\n")
            words.append("   conflict with the rest\n")
        if found.copies:
            copies = count(found.copies, "duplicate batch", "duplicate batches")
            words.append(f"   {copies} kept once\n")
        self.run.sink.document(REARRANGED, row, words)

    def _open_transactions(self, name: str) -> None:
        """Note transactions open at the end: their markers may have been dropped."""
        there = listing(str(self._staging.folder / name), prefix="")
        snapshots = [file for file in there.files if file.endswith(PRODUCER_SNAPSHOT.suffix)]
        if not snapshots:
            return
        begun = there.input(snapshots[-1]).contents().table.current_txn_first_offset
        begun = begun[begun >= 0]
        if len(begun):
            where = "" if name == "." else f"{safe(name)}: "
            what = f"{where}{count(len(begun), 'open transaction')} at the end"
            waits = f"read_committed consumers stop at offset {begun.min()}"
            self.run.sink.note(f"{what}: {waits}; see kfmt txn\n")

    def _log(self, salvager: Salvager, log: Input, name: str, until: int) -> Salvaged | None:
        """Salvage one log; None if it could not be read."""
        result = Result(SALVAGED, log.name, LOG.name)

        def tell(hole: Hole) -> None:
            self._hole(log, hole)

        with self.run.complaining():
            with self._staging.file(name) as out:
                advance = self._progress.advance
                done = salvager.salvage(log, until, out.write, tell, result.take, advance)
            # Retention of messages without timestamps uses the file time.
            copy_times(log.path, self._staging.folder / name)
            self._tell_result(result, done)
            return done
        (self._staging.folder / name).unlink()
        return None

    def _tell_result(self, result: Result, done: Salvaged) -> None:
        """Show a log's result, then the holes kept back for people."""
        result.numbers = {counted: getattr(done, counted) for counted in COUNTED}
        self.run.all(told(result))
        for row, words in self._held:
            self.run.sink.document(HOLE, row, [words])
        if self._held and done.holes > len(self._held):
            more = count(done.holes - len(self._held), "more hole")
            self.run.sink.remark(f"and {more}; use --json to list all")
        self._held.clear()

    def _hole(self, log: Input, hole: Hole) -> None:
        """Report dropped bytes; for people, a limited number after the log's result."""
        ends = f"bytes {hole.position}–{hole.position + hole.size - 1}"
        if hole.first_offset is None:
            offsets = "no offsets lost"
        elif hole.last_offset is None:
            offsets = f"any offsets from {hole.first_offset} onward lost"
        else:
            offsets = f"offsets {hole.first_offset}–{hole.last_offset} lost"
        if hole.reencoded:
            offsets += f" except for {count(hole.reencoded, 'record')}, recovered and re-encoded"
        unread = self._lost.of(log).bytes_in(hole.position, hole.size)
        reasons = [*hole.codes, *([f"{count(unread, 'byte')} cannot be read"] if unread else ())]
        why = f" ({', '.join(reasons)})" if reasons else ""
        row: dict[str, object] = {
            **HOLE.members_of(hole),
            "file": log.name,
            "codes": list(hole.codes),
            "unread_bytes": unread or None,
        }
        words = f"{safe(log.name)}: dropped {ends}: {offsets}{why}\n"
        self._with_holes.add(log.name.rpartition(os.sep)[0])
        if not self.run.sink.for_people:
            self.run.sink.document(HOLE, row, [words])
        elif len(self._held) < self.run.most_findings:
            self._held.append((row, words))

    def _last_words(self, destination: str) -> None:
        if self._n_others:
            one, more = (
                "log whose name is not a segment name",
                "logs whose names are not segment names",
            )
            hint = "; use --deleted to include .deleted logs" if self._n_deleted else ""
            self.run.sink.note(f"not copied: {count(self._n_others, one, more)}{hint}\n")
        if self._is_lost:
            self.run.sink.note(
                f"kfmt: {safe(destination)} not written: no undamaged batches found\n"
            )
            return
        totals = self.run.summary.totals
        of = count(totals.batches, "batch", "batches")
        to = safe(name_text(destination))
        # A batch that the end of the file cuts is none of those before.
        after = min(totals.batches_after, totals.batches)
        words = f"salvaged {grouped(after)} of {of} into {to}"
        holes = f"; {count(totals.holes, 'hole')}" if totals.holes else "; no holes"
        if self._n_missing:
            missing = count(self._n_missing, "offset")
            holes += f"; {missing} missing (lost, or already removed by compaction)"
        if totals.reencoded:
            holes += f"; {count(totals.reencoded, 'record')} re-encoded and marked"
        self.run.sink.remark(words + holes, "warn" if totals.holes else "good")


def _first_of(ranges: Ranges, most: int) -> str:
    """The first ranges, and how many more there are."""
    shown = ", ".join(starmap(range_words, ranges[:most]))
    return f"{shown} and {count(len(ranges) - most, 'more range')}" if len(ranges) > most else shown
