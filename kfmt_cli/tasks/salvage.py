"""salvage: every undamaged batch of damaged logs, as directories that a broker can take."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from kfmt_cli.checks.log.verify import Verifier
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.finding import Severity
from kfmt_cli.errors import InputError, OutputError
from kfmt_cli.files.disk import Folder, classify, is_folder, is_segment, printable, size_of, walk
from kfmt_cli.files.kinds import META_PROPERTIES, PARTITION_METADATA, QUORUM_STATE
from kfmt_cli.files.kinds.checkpoint import CHECKPOINT
from kfmt_cli.files.kinds.fixed import PRODUCER_SNAPSHOT, read_rows
from kfmt_cli.files.kinds.kind import Input
from kfmt_cli.files.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.files.names import mark_of
from kfmt_cli.render.style import count, grouped, safe
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.tasks.run import Progress, Run, told
from kfmt_cli.writers.carry import carry, need_new
from kfmt_cli.writers.holes import NO_END, Hole, Salvaged
from kfmt_cli.writers.output import Staging, need_room, staged
from kfmt_cli.writers.rebuild import How, rebuild
from kfmt_cli.writers.salvage import Salvager, has_sound

COUNTED = ("batches", "batches_after", "bytes", "bytes_after", "holes", "reencoded")
SALVAGED = ResultType(
    COUNTED, {"batches": 9, "batches_after": 13, "holes": 7, "bytes": 14, "bytes_after": 14}
)
SPARE = 1 << 20  # for indexes and folders
# What a broker reads beside the logs and cannot make anew. The other checkpoints say up to where
# logs were on the disk, replicated and compacted, which is no longer true of what is written.
KEPT_KINDS = (META_PROPERTIES, PARTITION_METADATA, QUORUM_STATE)
KEPT_CHECKPOINTS = ("leader-epoch-checkpoint", "log-start-offset-checkpoint")


@dataclass(frozen=True, slots=True)
class _Partition:
    """Logs that belong together, in their order. below: their folder below DST."""

    below: PurePath
    logs: list[Input]


@dataclass(slots=True)
class Salvage:
    """One call of `salvage`.

    interval: index.interval.bytes. split: keep the records of damaged batches that can be read.
    """

    run: Run
    limit: Limit
    jobs: int
    interval: int
    split: bool = False
    _carried: list[tuple[Input, PurePath]] = field(default_factory=list)
    _n_others: int = 0
    _held: list[tuple[dict[str, object], str]] = field(default_factory=list)

    def salvage(self, source: str, destination: str) -> None:
        """Salvage SRC into DST; raises UsageError, InputError, OutputError."""
        need_new(source, destination)
        run = self.run
        partitions = self._partitions(source)
        logs = [log for it in partitions for log in it.logs]
        if not logs:
            unread = " that could be read" if run.summary.unread else ""
            raise InputError(f"{printable(source)}: no log in it{unread}")
        sizes = sum(map(size_of, logs))
        need_room(destination, sizes + SPARE)
        run.sink.results(SALVAGED, [it.name for it in logs])
        with run.host.progress(sizes) as progress, staged(destination) as staging:
            run.left_over(staging.left_over)
            for file, below in self._carried:
                self._carry(staging, file, str(below / PurePath(file.path).name))
            for partition in partitions:
                self._partition(staging, partition, progress)
            if self._is_lost:
                staging.refuse()
        run.end()
        self._last_words(destination)
        run.sink.flush()

    @property
    def _is_lost(self) -> bool:
        """Whether there was something, and nothing of it is undamaged; empty logs stay so."""
        totals = self.run.summary.totals
        return not totals["batches_after"] and totals["bytes"] > 0

    def _partitions(self, source: str) -> list[_Partition]:
        """The partitions of SRC; what else is carried along is noted."""
        if not is_folder(source):
            file = classify(source, source)
            if not is_segment(file):
                name = f"{file.name}: is not named as a log is, with an offset of 20 digits"
                raise InputError(name)
            return [_Partition(PurePath(), [file])]
        found = []
        for folder in walk(source, False, self.run.complain):
            if folder.path != source and mark_of(Path(folder.path).name):
                words = "a broker has marked it as moved or deleted; name it to salvage it"
                self.run.sink.note(f"left behind: {safe(folder.name)}: {words}\n")
                continue
            found += self._in_folder(folder)
        return found

    def _in_folder(self, folder: Folder) -> list[_Partition]:
        below = PurePath(folder.below)
        files = [folder.input(it) for it in folder.files if it not in folder.special]
        logs = folder.logs
        for file in files:
            name = PurePath(file.path).name
            kept = file.kind in KEPT_KINDS or (file.kind is CHECKPOINT and name in KEPT_CHECKPOINTS)
            # A snapshot of the producers before the first log cannot be made out of the logs.
            first = logs[0].base_offset if logs else None
            kept |= bool(first) and file.kind is PRODUCER_SNAPSHOT and file.base_offset == first
            if kept or file.kind is KRAFT_SNAPSHOT:
                self._carried.append((file, below))
            elif name.endswith(".swap"):
                words = "a broker was stopped while it replaced segments"
                self.run.sink.note(f"left behind: {safe(file.name)}: {words}\n")
            elif file.kind is LOG and not is_segment(file):
                self._n_others += 1
        return [_Partition(below, logs)] if logs else []

    def _carry(self, staging: Staging, file: Input, name: str) -> None:
        """Carry a file along if it is undamaged."""
        try:
            damaged = self._is_damaged(file)
        except InputError as error:
            self.run.complain(str(error))
            return
        if damaged:
            self.run.sink.note(f"left behind: {safe(file.name)}: it is damaged\n")
        else:
            carry(staging, file, name)

    def _is_damaged(self, file: Input) -> bool:
        if file.kind.read is not None:
            findings = file.kind.read(file).findings
        else:
            findings = list(Verifier(True, self.limit, 0).findings(file))
        return any(it.code.severity is Severity.ERROR for it in findings)

    def _partition(self, staging: Staging, partition: _Partition, progress: Progress) -> None:
        """The logs of a partition, then what follows from them."""
        logs = partition.logs
        sound = [self._has_sound(it) for it in logs]
        written: list[Input] = []
        salvager = Salvager(self.limit, self.jobs, self.split)
        for i, log in enumerate(logs):
            if sound[i] is None:
                continue
            later = zip(logs[i + 1 :], sound[i + 1 :], strict=True)
            until = next((it.base_offset or 0 for it, has_any in later if has_any), NO_END)
            name = str(partition.below / PurePath(log.path).name)
            done = self._log(staging, salvager, log, name, until, progress)
            if done is None:
                continue
            # An empty one at the end says where the log goes on.
            if done.batches_after or i + 1 == len(logs):
                written.append(classify(str(staging.folder / name), name))
            else:
                (staging.folder / name).unlink()
        if not written:
            return
        snapshot = f"{written[0].base_offset:020}{PRODUCER_SNAPSHOT.suffix}"
        known = (staging.folder / partition.below / snapshot).exists()
        for made in rebuild(written, How(self.interval), lambda _: None, from_nothing=not known):
            if any(it.code.severity is Severity.ERROR for it in made.findings):
                words = f"{made.log.name}: what was written does not read back; nothing was kept"
                raise OutputError(words)
            for file, data in made.files.items():
                if data is not None and not (staging.folder / partition.below / file).exists():
                    staging.put(str(partition.below / file), data)
        self._open_transactions(staging.folder / partition.below, str(partition.below))

    def _open_transactions(self, folder: Path, name: str) -> None:
        """Say where transactions are open at the end: what ended them may have been left out."""
        last = max(folder.glob(f"*{PRODUCER_SNAPSHOT.suffix}"), default=None)
        if last is None:
            return
        begun = read_rows(classify(str(last), last.name)).table["current_txn_first_offset"]
        begun = begun[begun >= 0]
        if len(begun):
            where = "" if name == "." else f"{safe(name)}: "
            what = f"{where}{count(len(begun), 'transaction')} open at the end"
            waits = f"read_committed consumers are given nothing from offset {begun.min()} on"
            self.run.sink.note(f"{what}: {waits}; kfmt txn shows more\n")

    def _has_sound(self, log: Input) -> bool | None:
        """Whether a log holds a sound batch; None where it cannot be read, which is said."""
        try:
            return has_sound(log)
        except InputError as error:
            self.run.complain(str(error))
            return None

    def _log(
        self,
        staging: Staging,
        salvager: Salvager,
        log: Input,
        name: str,
        until: int,
        progress: Progress,
    ) -> Salvaged | None:
        """One log; None if it could not be read."""
        out = staging.file(name)
        result = Result(SALVAGED, log.name, LOG.name)

        def tell(hole: Hole) -> None:
            self._hole(log, hole)

        try:
            done = salvager.salvage(log, until, out.write, tell, result.take, progress.advance)
            out.close()
            # Retention of messages without timestamps goes by the time of the file.
            shutil.copystat(log.path, staging.folder / name)
        except InputError as error:
            self.run.complain(str(error))
            out.abandon()
            (staging.folder / name).unlink()
            return None
        finally:
            out.abandon()
        result.numbers = {it: getattr(done, it) for it in COUNTED}
        self.run.all(told(result))
        for row, words in self._held:
            self.run.sink.document("hole", row, [words])
        if self._held and done.holes > len(self._held):
            more = count(done.holes - len(self._held), "more hole")
            self.run.sink.remark(f"   and {more}; --json lists all")
        self._held.clear()
        return done

    def _hole(self, log: Input, hole: Hole) -> None:
        """Say what is left out: to people behind the log's line, and not without end."""
        ends = f"bytes {hole.position}–{hole.position + hole.size - 1}"
        if hole.first_offset is None:
            offsets = "no offset is missing"
        elif hole.last_offset is None:
            offsets = f"offsets from {hole.first_offset} on, if there were any"
        else:
            offsets = f"offsets {hole.first_offset}–{hole.last_offset}"
        if hole.records:
            offsets += f", of which {count(hole.records, 'record')} kept, re-encoded"
        why = f" ({', '.join(hole.codes)})" if hole.codes else ""
        row: dict[str, object] = {
            "file": log.name,
            "position": hole.position,
            "size": hole.size,
            "batches": hole.batches,
            "first_offset": hole.first_offset,
            "last_offset": hole.last_offset,
            "reencoded": hole.records,
            "codes": list(hole.codes),
        }
        words = f"   left out: {ends}, {offsets}{why}\n"
        if not self.run.sink.for_people:
            self.run.sink.document("hole", row, [words])
        elif len(self._held) < self.run.most_findings:
            self._held.append((row, words))

    def _last_words(self, destination: str) -> None:
        if self._n_others:
            words = f"{count(self._n_others, 'log')} that no partition's segments are named like"
            self.run.sink.note(f"left behind: {words}\n")
        if self._is_lost:
            self.run.sink.note(f"kfmt: {safe(destination)}: not written: no undamaged batch\n")
            return
        totals = self.run.summary.totals
        of = count(totals["batches"], "batch", "batches")
        words = f"of {of} {grouped(totals['batches_after'])} are in {safe(printable(destination))}"
        holes = f", {count(totals['holes'], 'hole')}" if totals["holes"] else ", no hole"
        if totals["reencoded"]:
            holes += f", {count(totals['reencoded'], 'record')} re-encoded and marked"
        self.run.sink.remark(words + holes, "warn" if totals["holes"] else "good")
