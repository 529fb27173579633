"""state: replays internal topics up to an offset, and shows changes since another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from kfmt_cli.broker.cluster.placement import GROUPS, PARTITIONS, partition_of_id
from kfmt_cli.broker.offsets.log_end import log_end
from kfmt_cli.broker.start.identity import read_topic_id
from kfmt_cli.broker.start.metadata_files import end_of
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.broker.state import REPLAYS, is_replayed, replay_of
from kfmt_cli.broker.state.replay import Replay, Row, State
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.run import Run
from kfmt_cli.commands.state.internal_topics import TopicPartition, partitions_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.urls import name_text
from kfmt_cli.core.uuids import uuid_text
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import place_of
from kfmt_cli.disk.opening import is_folder
from kfmt_cli.disk.tree import classify, listing
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.damage import PAYLOAD_MALFORMED
from kfmt_cli.findings.finding import Finding, Findings, is_error
from kfmt_cli.log.stream import stream
from kfmt_cli.render.style import count
from kfmt_cli.rows.column import Column, ColumnKind
from kfmt_cli.rows.types.state_types import (
    COMMITTED_OFFSET,
    MIRROR_SYNC,
    SHARE_PARTITION,
    StateType,
    with_change,
)

# Rows with the reading position in a partition: the column with the offset.
READING = {
    COMMITTED_OFFSET: "offset",
    MIRROR_SYNC: "upstream_offset",
    SHARE_PARTITION: "start_offset",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which state to show; raises UsageError for contradictory options."""

    at_offset: int | None = None
    """Replay records up to this offset, inclusive."""
    since_offset: int | None = None
    """Show changes after this offset."""
    group: str | None = None
    """Only rows about this group."""
    topic: str | None = None
    """Only rows about this topic."""
    of_topic: str | None = None
    """The topic of the files, if their directory is not named after it."""
    shows_values: bool = False
    """Show the values of connectors' settings that may be secrets."""

    @property
    def is_about_one(self) -> bool:
        """Whether the rows are limited to one group or topic."""
        return self.group is not None or self.topic is not None

    def not_here(self) -> Iterator[str]:
        """Messages for a group or topic that was not found."""
        if self.group is not None:
            place = f"{GROUPS}-{partition_of_id(self.group)}"
            words = f"if {GROUPS} has {PARTITIONS} partitions, it is in {place}"
            yield f"group {self.group!r} is not in these partitions; {words}"
        if self.topic is not None:
            yield f"topic {self.topic!r} is not in these partitions"

    def __post_init__(self) -> None:
        """Raise UsageError for an unknown topic or contradictory offsets."""
        if self.of_topic is not None and not is_replayed(self.of_topic):
            words = f"{self.of_topic!r} is not an internal topic"
            raise UsageError(f"{words}; choose from {', '.join(REPLAYS)}")
        at, since = self.at_offset, self.since_offset
        if at is not None and since is not None and since > at:
            raise UsageError(f"--since-offset {since} is after --at-offset {at}")


@dataclass(slots=True)
class ShowState:
    """One call of `state`."""

    run: Run
    wanted: Wanted
    limit: Limit
    _n_rows: dict[str, int] = field(default_factory=dict)
    _n_records: int = 0
    _n_damage: int = 0
    _last: int = -1
    _ends: dict[str, int | None] = field(default_factory=dict)
    _names: dict[str, dict[str, str]] = field(default_factory=dict)

    def paths(self, paths: tuple[str, ...]) -> None:
        """Show the state of the topics under some paths; raises UsageError."""
        wanted = self.wanted
        partitions = partitions_of(paths, wanted.of_topic, self.run.complain)
        if len(partitions) > 1 and (wanted.at_offset, wanted.since_offset) != (None, None):
            words = "--at-offset and --since-offset apply to a single partition"
            raise UsageError(f"{words}, but {len(partitions)} were given")
        self.show(partitions)

    def show(self, partitions: list[TopicPartition]) -> None:
        """Show the state of some partitions."""
        wanted = self.wanted
        found: list[tuple[TopicPartition, State]] = []
        for topic_partition in partitions:
            with self.run.complaining():
                found.append((topic_partition, self._state_of(topic_partition)))
        if self.run.sink.for_people:
            self._tables(found)
        else:
            for partition, state in found:
                for type_, rows in state.items():
                    self._write(partition.name, type_, list(rows.values()))
        has_rows = any(any(state.values()) for _, state in found)
        if wanted.is_about_one and partitions and not has_rows:
            self.run.host.reached(ExitCode.FINDINGS)
            for words in wanted.not_here():
                self.run.sink.note(f"{words}\n")

    # Computing the state.

    def _state_of(self, partition: TopicPartition) -> State:
        """The wanted rows; with --since-offset, only changed ones and their changes."""
        now = self._state_at(partition, self.wanted.at_offset, tell=True)
        if self.wanted.since_offset is not None:
            last = self._last
            if self.wanted.since_offset > last:
                words = f"--since-offset {self.wanted.since_offset} is after the last record"
                self.run.sink.note(f"{partition.name}: {words}, at {last}\n")
            before = self._state_at(partition, self.wanted.since_offset, tell=False)
            now = {
                state_type: _changes(state_type, before[state_type], rows)
                for state_type, rows in now.items()
            }
        return {type_: self._chosen(type_, rows) for type_, rows in now.items()}

    def _state_at(self, partition: TopicPartition, at_offset: int | None, tell: bool) -> State:
        """The state of a partition after replaying the records up to an offset."""
        replay = replay_of(partition.topic)
        replay.shows_values = self.wanted.shows_values
        findings = Findings(self.run.most_findings)
        start = 0
        for snapshot in partition.snapshots:
            end = end_of(snapshot)
            if end is not None and at_offset is not None and end > at_offset + 1:
                continue
            if self._take(replay, snapshot, None, 0, findings if tell else None):
                start = end or 0
                break
            replay.begin()
        begin = partition.logs[0].base if partition.logs else 0
        if partition.snapshots and not start and begin:
            words = "there is no undamaged snapshot at or before it, and the log begins at offset"
            at = "the end" if at_offset is None else at_offset
            error = f"{partition.name}: the state at {at}: {words} {begin}"
            if at_offset is not None:
                raise InputError(error)
            self.run.complain(error)
        for log, following in zip_longest(partition.logs, partition.logs[1:]):
            if following is None or following.base > start:
                self._take(replay, log, at_offset, start, findings if tell else None)
        state = replay.state()
        if tell:
            for offset, why in replay.malformed:
                said = f"offset {offset}: {why}"
                of_record = Finding(partition.name, PAYLOAD_MALFORMED, None, said, offset=offset)
                self._tell(of_record, findings)
            if replay.unknown:
                of = "of an unknown type or version"
                words = count(replay.unknown, f"record {of} was", f"records {of} were")
                self.run.sink.note(f"{partition.name}: {words} skipped\n")
            self.run.left_out(partition.name, findings)
        for type_ in READING:
            rows = state.get(type_, {}) if partition.log_directory is not None else {}
            for key, row in rows.items():
                rows[key] = self._with_lag(type_, row, partition.log_directory or "")
        return state

    def _take(
        self,
        replay: Replay,
        file: Input,
        at_offset: int | None,
        start: int,
        findings: Findings | None,
    ) -> bool:
        """Replay a file from an offset onward; returns whether it was undamaged."""
        whole = True
        with open_checked(file, read_ahead=False) as log:
            for record in stream(log, self.limit):
                if isinstance(record, Finding):
                    whole &= not is_error(record)
                    if findings is not None:
                        self._tell(record, findings)
                elif at_offset is not None and record.offset > at_offset:
                    break
                elif record.offset >= start:
                    self._n_records += findings is not None
                    self._last = record.offset
                    replay.take(record)
        return whole

    def _tell(self, finding: Finding, findings: Findings) -> None:
        """Report a finding and count damage, whose records are not included."""
        self.run.tell([finding], findings)
        self._n_damage += is_error(finding)

    def _with_lag(self, type_: StateType, row: Row, log_directory: str) -> Row:
        """A row with a reading position, completed with log end offset and lag."""
        values = Fields(zip(type_.names, row, strict=True))
        if type_ is SHARE_PARTITION:
            values.topic = self._names_in(log_directory).get(str(values.topic_id))
        name = f"{values.topic}-{values.partition}"
        if name not in self._ends:
            self._ends[name] = self._end_in(f"{log_directory}/{name}")
        end, offset, read = self._ends[name], values[READING[type_]], _read_ahead(type_, values)
        if end is not None and isinstance(offset, int):
            values |= {"log_end_offset": end, "lag": None if read is None else end - offset - read}
        return tuple(values.values())

    def _names_in(self, log_directory: str) -> dict[str, str]:
        """The topics with a partition in a log directory, by their ids."""
        if log_directory not in self._names:
            found = self._names[log_directory] = {}
            with self.run.complaining():
                for name in listing(log_directory).partitions:
                    topic_id = self._topic_id_at(f"{log_directory}/{name}/partition.metadata")
                    if topic_id is not None:
                        found[uuid_text(topic_id)] = place_of(name)[0] or ""
        return self._names[log_directory]

    def _topic_id_at(self, path: str) -> bytes | None:
        """The topic id in a partition.metadata; None if it has none or cannot be read."""
        try:
            return read_topic_id(classify(path, name_text(path)))
        except StartFailed:  # told by `check`
            return None
        except InputError as error:
            if not error.is_gone:
                self.run.complain(str(error))
            return None

    def _end_in(self, path: str) -> int | None:
        """The log end offset of a partition's directory; None if missing or unreadable."""
        try:
            return log_end(listing(path)) if is_folder(path) else None
        except InputError as error:
            self.run.complain(str(error))
            return None

    def _chosen(self, type_: StateType, rows: dict[Row, Row]) -> dict[Row, Row]:
        """The rows about the wanted group and topic."""
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

    # Showing the state.

    def _tables(self, found: list[tuple[TopicPartition, State]]) -> None:
        """Show a table per kind of row, for all partitions of a topic together."""
        for topic in dict.fromkeys(partition.topic for partition, _ in found):
            states = [state for partition, state in found if partition.topic == topic]
            names = [partition.name for partition, _ in found if partition.topic == topic]
            for type_ in states[0]:
                nouns = (_noun_of(type_.name, 1), _noun_of(type_.name, 2))
                for title, its in _tables_of(topic, names, [state[type_] for state in states]):
                    self._write(f"{title}: {nouns[1]}", type_, its, nouns)
        told = [count(n, _noun_of(name, 1), _noun_of(name, 2)) for name, n in self._n_rows.items()]
        words = ", ".join(told) or ("no changes" if self._since else "nothing")
        words += f", from {count(self._n_records, 'record')}"
        if self._n_damage:
            whose = "its" if self._n_damage == 1 else "their"
            words += f"; {count(self._n_damage, 'finding')}, {whose} records not included"
        if found:
            self.run.sink.remark(f"\n{words}")

    @property
    def _since(self) -> bool:
        return self.wanted.since_offset is not None

    def _write(
        self,
        name: str,
        type_: StateType,
        rows: list[Row],
        nouns: tuple[str, str] = ("entry", "entries"),
    ) -> None:
        if not rows:
            return
        run = self.run
        if type_.n_key:
            self._n_rows[type_.name] = self._n_rows.get(type_.name, 0) + len(rows)
        row_type = with_change(type_) if self._since else type_
        run.rows(name, row_type, [rows], nouns)


def _read_ahead(type_: StateType, values: Fields) -> int | None:
    """The number of offsets from the reading position on that are read; None if unknown.

    Of a share partition: `org.apache.kafka.coordinator.group.GroupCoordinatorService`,
    computeShareGroupLagAndBuildResponse.
    """
    if type_ is not SHARE_PARTITION:
        return int(type_ is MIRROR_SYNC)
    start, complete = values.start_offset, values.delivery_complete_count
    if not isinstance(start, int) or not isinstance(complete, int):
        return None
    return complete if start >= 0 and complete >= 0 else None


def _noun_of(name: str, n: int) -> str:
    """The noun for a kind of row, for people; n: 1 for the singular."""
    words = name.replace("_", " ")
    if words.endswith(" ids"):
        return words.removesuffix("s") if n == 1 else words
    if words.endswith("status"):
        return words if n == 1 else f"{words}es"
    return words if n == 1 or words.endswith("s") else f"{words}s"


def _changes(type_: StateType, before: dict[Row, Row], now: dict[Row, Row]) -> dict[Row, Row]:
    """The rows that differ, each with its kind of change and the old values."""
    changed: dict[Row, Row] = {}
    for key, row in now.items():
        if key not in before:
            changed[key] = (*row, "added", None)
        elif before[key] != row:
            columns = zip(type_.columns, before[key], row, strict=True)
            old = {
                column.name: _value(column, was) for column, was, value in columns if was != value
            }
            changed[key] = (*row, "changed", json_text(old))
    for key, row in before.items():
        if key not in now:
            changed[key] = (*row, "removed", None)
    return changed


def _value(column: Column, cell: str | int | None) -> object:
    """A cell of a row as a JSON value."""
    return json.loads(cell) if column.kind is ColumnKind.JSON and isinstance(cell, str) else cell


def _tables_of(
    topic: str, names: list[str], states: list[dict[Row, Row]]
) -> Iterator[tuple[str, list[Row]]]:
    """Titles and rows: of all partitions together, or of each if their keys overlap."""
    filled = [(name, state) for name, state in zip(names, states, strict=True) if state]
    together: dict[Row, Row] = {}
    for _, state in filled:
        together |= state
    if len(together) == sum(len(state) for _, state in filled):
        rows = [row for _, state in filled for row in state.values()]
        yield from [(topic, rows)] if rows else ()
    else:
        yield from ((name, list(state.values())) for name, state in filled)
