"""state: what internal topics say, replayed up to an offset; and what changed since another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from kfmt_cli.broker.log_end import log_end
from kfmt_cli.broker.state import REPLAYS, replay_of
from kfmt_cli.broker.state.replay import Replay, Row, State
from kfmt_cli.checks.log.opened import open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.finding import Finding, Findings, Severity
from kfmt_cli.errors import InputError
from kfmt_cli.files.disk import (
    Folder,
    classify,
    is_folder,
    is_segment,
    partition_of,
    printable,
    topic_of,
    walk,
)
from kfmt_cli.files.kinds.kind import Input
from kfmt_cli.files.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.files.stream import stream
from kfmt_cli.render.sinks.sink import Head, RowWriter
from kfmt_cli.render.style import count
from kfmt_cli.rows.section import Rows, section_of
from kfmt_cli.rows.state import COMMITTED_OFFSET, StateType, with_change
from kfmt_cli.tasks.run import Run


@dataclass(frozen=True, slots=True)
class Partition:
    """The logs of a partition of an internal topic. name: as it is shown. snapshots: of KRaft, the
    newest first. beside: the log directory, where other partitions lie."""

    name: str
    topic: str
    logs: list[Input]
    snapshots: list[Input]
    beside: str | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which state is wanted.

    at_offset: records up to this one count, it included. since_offset: what changed behind this
    one. group, topic: rows about these only. of_topic: what the files' topic is, where no directory
    is named for it.
    """

    at_offset: int | None = None
    since_offset: int | None = None
    group: str | None = None
    topic: str | None = None
    of_topic: str | None = None


@dataclass(slots=True)
class ShowState:
    """One call of `state`."""

    run: Run
    wanted: Wanted
    limit: Limit
    _n_rows: dict[str, int] = field(default_factory=dict)
    _n_records: int = 0
    _ends: dict[str, int | None] = field(default_factory=dict)

    def paths(self, paths: tuple[str, ...]) -> None:
        """Show the state that the topics below some paths hold."""
        found: list[tuple[Partition, State]] = []
        for path in paths:
            try:
                partitions = list(self._partitions(path, len(paths) > 1))
                if not partitions:
                    known = ", ".join(REPLAYS)
                    raise InputError(f"{printable(path)}: no partition of {known} in it")
                found += [(it, self._state_of(it)) for it in partitions]
            except InputError as error:
                self.run.complain(str(error))
        if self.run.sink.for_people:
            self._tables(found)
        else:
            for partition, state in found:
                for type_, rows in state.items():
                    self._write(Head(partition.name), type_, list(rows.values()))
        self.run.sink.flush()

    # What there is.

    def _partitions(self, path: str, several: bool) -> Iterator[Partition]:
        if not is_folder(path):
            file = classify(path, path)
            topic = self.wanted.of_topic or topic_of(file)
            if topic not in REPLAYS:
                words = "is in no directory of an internal topic; --of-topic says whose it is"
                raise InputError(f"{file.name}: {words}")
            logs, snapshots = ([], [file]) if file.kind is KRAFT_SNAPSHOT else ([file], [])
            yield Partition(file.name, topic, logs, snapshots, None)
            return
        for folder in walk(path, several, self.run.complain):
            real = str(Path(folder.path).resolve())
            topic = partition_of(f"{real}/x")[0]
            if topic is None and folder.path == path:
                topic = self.wanted.of_topic
            if topic not in REPLAYS or _is_marked(real):
                continue
            inputs = [folder.input(it) for it in folder.files if it not in folder.special]
            logs = [it for it in inputs if it.kind is LOG and is_segment(it)]
            snapshots = [it for it in inputs if it.kind is KRAFT_SNAPSHOT and it.named_by_kafka]
            logs.sort(key=lambda it: it.base_offset or 0)
            snapshots = [it for it in snapshots if _end_of(it) is not None]
            snapshots.sort(key=lambda it: _end_of(it) or 0, reverse=True)
            if logs or snapshots:
                name = folder.name if folder.path != path or several else printable(path)
                yield Partition(name, topic, logs, snapshots, str(Path(real).parent))

    # What it comes to.

    def _state_of(self, partition: Partition) -> State:
        """The rows that are wanted, with what became of them where that is asked for."""
        now = self._state_at(partition, self.wanted.at_offset, tell=True)
        if self.wanted.since_offset is not None:
            before = self._state_at(partition, self.wanted.since_offset, tell=False)
            now = {type_: _changes(before[type_], rows) for type_, rows in now.items()}
        return {type_: self._chosen(type_, rows) for type_, rows in now.items()}

    def _state_at(self, partition: Partition, at_offset: int | None, tell: bool) -> State:
        """The state of a partition once the records up to an offset have been taken."""
        replay = replay_of(partition.topic)
        findings = Findings(self.run.most_findings)
        start = 0
        for snapshot in partition.snapshots:
            end = _end_of(snapshot)
            if end is not None and at_offset is not None and end > at_offset + 1:
                continue
            if self._take(replay, snapshot, None, 0, findings if tell else None):
                start = end or 0
                break
            replay.begin()
        for log, following in zip_longest(partition.logs, partition.logs[1:]):
            if following is None or (following.base_offset or 0) > start:
                self._take(replay, log, at_offset, start, findings if tell else None)
        state = replay.state()
        if tell and replay.unread:
            words = count(replay.unread, "record was", "records were")
            self.run.sink.note(f"{partition.name}: {words} not understood, and not counted\n")
        if tell:
            self.run.left_out(partition.name, findings)
        if partition.beside is not None and COMMITTED_OFFSET in state:
            rows = state[COMMITTED_OFFSET]
            for key, row in rows.items():
                rows[key] = self._with_lag(row, partition.beside)
        return state

    def _take(
        self,
        replay: Replay,
        file: Input,
        at_offset: int | None,
        start: int,
        findings: Findings | None,
    ) -> bool:
        """Replay a file from an offset on; whether it was whole."""
        whole = True
        with open_checked(file, read_ahead=False) as log:
            for it in stream(log, self.limit):
                if isinstance(it, Finding):
                    whole &= it.code.severity is not Severity.ERROR
                    if findings is not None:
                        self.run.seen(it)
                        if findings.admits(it):
                            self.run.sink.finding(it)
                elif at_offset is not None and it.offset > at_offset:
                    break
                elif it.offset >= start:
                    self._n_records += findings is not None
                    replay.take(it)
        return whole

    def _with_lag(self, row: Row, beside: str) -> Row:
        """A committed offset with the end of its partition's log."""
        values = dict(zip(COMMITTED_OFFSET.names, row, strict=True))
        name = f"{values['topic']}-{values['partition']}"
        if name not in self._ends:
            self._ends[name] = _end_in(f"{beside}/{name}")
        end, offset = self._ends[name], values["offset"]
        if end is not None and isinstance(offset, int):
            values |= {"log_end_offset": end, "lag": end - offset}
        return tuple(values.values())

    def _chosen(self, type_: StateType, rows: dict[Row, Row]) -> dict[Row, Row]:
        """The rows about the group and the topic that are wanted."""
        for column, wanted in (("group", self.wanted.group), ("topic", self.wanted.topic)):
            if wanted is None:
                continue
            if column in type_.names:
                at = type_.names.index(column)
                rows = {key: row for key, row in rows.items() if row[at] == wanted}
            elif column == "topic" and type_.name == "config":
                wanted_row = ("TOPIC", wanted)
                rows = {key: row for key, row in rows.items() if row[:2] == wanted_row}
            else:
                rows = {}
        return rows

    # What is shown.

    def _tables(self, found: list[tuple[Partition, State]]) -> None:
        """A table for each kind of row, of all partitions of a topic together."""
        for topic in dict.fromkeys(partition.topic for partition, _ in found):
            states = [state for partition, state in found if partition.topic == topic]
            for type_ in states[0]:
                rows = [row for state in states for row in state[type_].values()]
                if rows:
                    nouns = (_noun(type_, 1), _noun(type_, 2))
                    self._write(Head(f"{topic}: {nouns[1]}", nouns=nouns), type_, rows)
        told = [count(n, _noun_of(name, 1), _noun_of(name, 2)) for name, n in self._n_rows.items()]
        words = ", ".join(told) or ("nothing changed" if self._since else "nothing")
        if found:
            self.run.sink.remark(f"\n{words}, from {count(self._n_records, 'record')}")

    @property
    def _since(self) -> bool:
        return self.wanted.since_offset is not None

    def _write(self, head: Head, type_: StateType, rows: list[Row]) -> None:
        if not rows:
            return
        run = self.run
        self._n_rows[type_.name] = self._n_rows.get(type_.name, 0) + len(rows)
        row_type = with_change(type_.rows) if self._since else type_.rows
        section = section_of(row_type, rows)
        writer: RowWriter = run.sink.rows(head, row_type)
        run.sink.flush()
        for piece in writer.text(Rows(section), 0, len(rows)):
            run.host.write(piece)
        run.sink.put(writer.end())


def _noun(type_: StateType, n: int) -> str:
    return _noun_of(type_.name, n)


def _noun_of(name: str, n: int) -> str:
    """The name of a kind of row for people."""
    words = name.replace("_", " ")
    return words if n == 1 or words.endswith("s") else f"{words}s"


def _is_marked(folder: str) -> bool:
    """Whether a directory is one that a broker moves or deletes."""
    return folder.endswith(("-delete", "-future", "-stray"))


def _end_of(snapshot: Input) -> int | None:
    """The offset at which a KRaft snapshot ends, by its name."""
    number = Path(snapshot.path).name.partition("-")[0]
    return int(number) if number.isdigit() else None


def _end_in(path: str) -> int | None:
    """The log end offset of a partition's directory, None where there is none."""
    if not is_folder(path):
        return None
    found: list[Folder] = walk(path, False, lambda _: None)
    try:
        return log_end(found[0]) if found else None
    except InputError:
        return None


def _changes(before: dict[Row, Row], now: dict[Row, Row]) -> dict[Row, Row]:
    """The rows that are not as they were, each with what became of it."""
    changed: dict[Row, Row] = {}
    for key, row in now.items():
        if key not in before:
            changed[key] = (*row, "added")
        elif before[key] != row:
            changed[key] = (*row, "changed")
    for key, row in before.items():
        if key not in now:
            changed[key] = (*row, "removed")
    return changed
