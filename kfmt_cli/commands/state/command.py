"""state: replays internal topics up to an offset, and shows changes since another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from kfmt_cli.broker.cluster.coordinators import (
    DEFAULT_INTERNAL_PARTITIONS,
    GROUPS_TOPIC,
    coordinator_partition,
)
from kfmt_cli.broker.offsets.log_end import read_log_end_offset
from kfmt_cli.broker.start.meta_properties import read_topic_id
from kfmt_cli.broker.start.metadata_files import snapshot_end_offset
from kfmt_cli.broker.start.stored_batches import StartError
from kfmt_cli.broker.state import REPLAYS, can_replay, create_replay
from kfmt_cli.broker.state.replay import ReplayedState, StateRow, TopicReplay
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.state.internal_topics import InternalTopicPartition, find_internal_partitions
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import classify_file, list_directory
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.damage import PAYLOAD_MALFORMED
from kfmt_cli.findings.finding import Finding, FindingCollector, is_error
from kfmt_cli.log.record_stream import iter_records_and_findings
from kfmt_cli.render.style import format_count
from kfmt_cli.rows.column import Column, ColumnKind
from kfmt_cli.rows.types.state_rows import (
    COMMITTED_OFFSET_ROW,
    MIRROR_SYNC_ROW,
    SHARE_PARTITION_ROW,
    StateType,
    add_change_columns,
)

# Rows with the reading position in a partition: the column with the offset.
READ_OFFSET_COLUMN = {
    COMMITTED_OFFSET_ROW: "offset",
    MIRROR_SYNC_ROW: "upstream_offset",
    SHARE_PARTITION_ROW: "start_offset",
}


@dataclass(frozen=True, slots=True)
class StateSelection:
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
    def has_filter(self) -> bool:
        """Whether the rows are limited to one group or topic."""
        return self.group is not None or self.topic is not None

    def not_found_messages(self) -> Iterator[str]:
        """Messages for a group or topic that was not found."""
        if self.group is not None:
            partition_name = f"{GROUPS_TOPIC}-{coordinator_partition(self.group)}"
            hint = (
                f"if {GROUPS_TOPIC} has {DEFAULT_INTERNAL_PARTITIONS} partitions, it is in "
                f"{partition_name}"
            )
            yield f"group {self.group!r} is not in these partitions; {hint}"
        if self.topic is not None:
            yield f"topic {self.topic!r} is not in these partitions"

    def __post_init__(self) -> None:
        """Raise UsageError for an unknown topic or contradictory offsets."""
        if self.of_topic is not None and not can_replay(self.of_topic):
            message = f"{self.of_topic!r} is not an internal topic"
            raise UsageError(f"{message}; choose from {', '.join(REPLAYS)}")
        at_offset, since_offset = self.at_offset, self.since_offset
        if at_offset is not None and since_offset is not None and since_offset > at_offset:
            raise UsageError(f"--since-offset {since_offset} is after --at-offset {at_offset}")


@dataclass(slots=True)
class StateCommand:
    """One call of `state`."""

    run: CommandRun
    selection: StateSelection
    limit: DecompressionLimit
    _n_rows_by_type: dict[str, int] = field(default_factory=dict)
    _n_records: int = 0
    _n_errors: int = 0
    _last_offset: int = -1
    _end_offset_by_name: dict[str, int | None] = field(default_factory=dict)
    _topic_names_by_directory: dict[str, dict[str, str]] = field(default_factory=dict)

    def show_paths(self, paths: tuple[str, ...]) -> None:
        """Show the state of the topics under some paths; raises UsageError."""
        selection = self.selection
        partitions = find_internal_partitions(paths, selection.of_topic, self.run.report_unreadable)
        if len(partitions) > 1 and (selection.at_offset, selection.since_offset) != (None, None):
            message = "--at-offset and --since-offset apply to a single partition"
            raise UsageError(f"{message}, but {len(partitions)} were given")
        self.show_partitions(partitions)

    def show_partitions(self, partitions: list[InternalTopicPartition]) -> None:
        """Show the state of some partitions."""
        selection = self.selection
        partition_states: list[tuple[InternalTopicPartition, ReplayedState]] = []
        for internal_partition in partitions:
            with self.run.catch_unreadable():
                partition_states.append(
                    (internal_partition, self._selected_state(internal_partition))
                )
        if self.run.sink.for_people:
            self._write_tables(partition_states)
        else:
            for partition, state in partition_states:
                for type_, rows in state.items():
                    self._write_rows(partition.name, type_, list(rows.values()))
        has_rows = any(any(state.values()) for _, state in partition_states)
        if selection.has_filter and partitions and not has_rows:
            self.run.host.raise_exit_code(ExitCode.FINDINGS)
            for message in selection.not_found_messages():
                self.run.sink.note(f"{message}\n")

    # Computing the state.

    def _selected_state(self, partition: InternalTopicPartition) -> ReplayedState:
        """The selected rows; with --since-offset, only changed ones and their changes."""
        current_state = self._replay_state(
            partition, self.selection.at_offset, reports_findings=True
        )
        if self.selection.since_offset is not None:
            last_offset = self._last_offset
            if self.selection.since_offset > last_offset:
                message = f"--since-offset {self.selection.since_offset} is after the last record"
                self.run.sink.note(f"{partition.name}: {message}, at {last_offset}\n")
            earlier_state = self._replay_state(
                partition, self.selection.since_offset, reports_findings=False
            )
            current_state = {
                state_type: _find_changes(state_type, earlier_state[state_type], rows)
                for state_type, rows in current_state.items()
            }
        return {type_: self._filter_rows(type_, rows) for type_, rows in current_state.items()}

    def _replay_state(
        self, partition: InternalTopicPartition, at_offset: int | None, reports_findings: bool
    ) -> ReplayedState:
        """The state of a partition after replaying the records up to an offset."""
        replay = create_replay(partition.topic)
        replay.shows_values = self.selection.shows_values
        collector = FindingCollector(self.run.max_findings)
        next_offset = 0
        for snapshot in partition.snapshots:
            snapshot_end = snapshot_end_offset(snapshot)
            if snapshot_end is not None and at_offset is not None and snapshot_end > at_offset + 1:
                continue
            if self._replay_file(
                replay, snapshot, None, 0, collector if reports_findings else None
            ):
                next_offset = snapshot_end or 0
                self._last_offset = next_offset - 1
                break
            replay.reset()
        log_start = partition.logs[0].base_or_zero if partition.logs else 0
        if partition.snapshots and not next_offset and log_start:
            reason_text = (
                "there is no undamaged snapshot at or before it, and the log begins at offset"
            )
            offset_text = "the end" if at_offset is None else at_offset
            error_message = (
                f"{partition.name}: the state at {offset_text}: {reason_text} {log_start}"
            )
            if at_offset is not None:
                raise InputError(error_message)
            self.run.report_unreadable(error_message)
        for log, next_log in zip_longest(partition.logs, partition.logs[1:]):
            if next_log is None or next_log.base_or_zero > next_offset:
                self._replay_file(
                    replay, log, at_offset, next_offset, collector if reports_findings else None
                )
        state = replay.sorted_rows()
        if reports_findings:
            for offset, reason in replay.malformed_records:
                message = f"offset {offset}: {reason}"
                finding = Finding(partition.name, PAYLOAD_MALFORMED, None, message, offset=offset)
                self._report_finding(finding, collector)
            if replay.n_unknown_records:
                kind_text = "of an unknown type or version"
                reason_text = format_count(
                    replay.n_unknown_records, f"record {kind_text} was", f"records {kind_text} were"
                )
                self.run.sink.note(f"{partition.name}: {reason_text} skipped\n")
            self.run.report_suppressed(partition.name, collector)
        for type_ in READ_OFFSET_COLUMN:
            rows = state.get(type_, {}) if partition.log_directory is not None else {}
            for key, row in rows.items():
                rows[key] = self._add_lag(type_, row, partition.log_directory or "")
        return state

    def _replay_file(
        self,
        replay: TopicReplay,
        file: InputFile,
        at_offset: int | None,
        start_offset: int,
        collector: FindingCollector | None,
    ) -> bool:
        """Replay a file from an offset onward; returns whether it was undamaged."""
        is_undamaged = True
        with open_checked_log(file, read_ahead=False) as log:
            for record in iter_records_and_findings(log, self.limit):
                if isinstance(record, Finding):
                    is_undamaged &= not is_error(record)
                    if collector is not None:
                        self._report_finding(record, collector)
                elif at_offset is not None and record.offset > at_offset:
                    break
                elif record.offset >= start_offset:
                    self._n_records += collector is not None
                    self._last_offset = record.offset
                    replay.apply_record(record)
        return is_undamaged

    def _report_finding(self, finding: Finding, collector: FindingCollector) -> None:
        """Report a finding and count errors: damaged records are not included in the state."""
        self.run.report_findings([finding], collector)
        self._n_errors += is_error(finding)

    def _add_lag(self, type_: StateType, row: StateRow, log_directory: str) -> StateRow:
        """A row with a reading position, completed with log end offset and lag."""
        values = FieldDict(zip(type_.member_names, row, strict=True))
        if type_ is SHARE_PARTITION_ROW:
            values.topic = self._topic_names_by_id(log_directory).get(str(values.topic_id))
        partition_name = f"{values.topic}-{values.partition}"
        if partition_name not in self._end_offset_by_name:
            self._end_offset_by_name[partition_name] = self._find_log_end(
                f"{log_directory}/{partition_name}"
            )
        end_offset = self._end_offset_by_name[partition_name]
        offset = values[READ_OFFSET_COLUMN[type_]]
        n_read_ahead = _n_read_ahead(type_, values)
        if end_offset is not None and isinstance(offset, int):
            values |= {
                "log_end_offset": end_offset,
                "lag": None if n_read_ahead is None else end_offset - offset - n_read_ahead,
            }
        return tuple(values.values())

    def _topic_names_by_id(self, log_directory: str) -> dict[str, str]:
        """The topics with a partition in a log directory, by their ids."""
        if log_directory not in self._topic_names_by_directory:
            topic_by_id = self._topic_names_by_directory[log_directory] = {}
            with self.run.catch_unreadable():
                for name in list_directory(log_directory).partition_names:
                    topic_id = self._read_topic_id(f"{log_directory}/{name}/partition.metadata")
                    if topic_id is not None:
                        topic_by_id[format_uuid(topic_id)] = parse_topic_partition(name)[0] or ""
        return self._topic_names_by_directory[log_directory]

    def _read_topic_id(self, path: str) -> bytes | None:
        """The topic id in a partition.metadata; None if it has none or cannot be read."""
        try:
            return read_topic_id(classify_file(path, format_display_name(path)))
        except StartError:  # `check` reports it
            return None
        except InputError as error:
            if not error.is_missing:
                self.run.report_unreadable(str(error))
            return None

    def _find_log_end(self, path: str) -> int | None:
        """The log end offset of a partition's directory; None if missing or unreadable."""
        try:
            return read_log_end_offset(list_directory(path)) if is_directory(path) else None
        except InputError as error:
            self.run.report_unreadable(str(error))
            return None

    def _filter_rows(
        self, type_: StateType, rows: dict[StateRow, StateRow]
    ) -> dict[StateRow, StateRow]:
        """The rows about the selected group and topic."""
        for column, filter_value in (
            ("group", self.selection.group),
            ("topic", self.selection.topic),
        ):
            if filter_value is None:
                continue
            if column in type_.member_names:
                column_index = type_.member_names.index(column)
                rows = {key: row for key, row in rows.items() if row[column_index] == filter_value}
            elif column == "topic" and type_.name == "config":
                config_key = ("TOPIC", filter_value)
                rows = {key: row for key, row in rows.items() if row[:2] == config_key}
            else:
                rows = {}
        return rows

    # Showing the state.

    def _write_tables(
        self, partition_states: list[tuple[InternalTopicPartition, ReplayedState]]
    ) -> None:
        """Show a table per kind of row, for all partitions of a topic together."""
        for topic in dict.fromkeys(partition.topic for partition, _ in partition_states):
            states = [state for partition, state in partition_states if partition.topic == topic]
            names = [
                partition.name for partition, _ in partition_states if partition.topic == topic
            ]
            for type_ in states[0]:
                nouns = (_noun(type_.name, 1), _noun(type_.name, 2))
                for title, rows in _split_tables(topic, names, [state[type_] for state in states]):
                    self._write_rows(f"{title}: {nouns[1]}", type_, rows, nouns)
        counts = [
            format_count(n, _noun(name, 1), _noun(name, 2))
            for name, n in self._n_rows_by_type.items()
        ]
        summary = ", ".join(counts) or ("no changes" if self._shows_changes else "nothing")
        summary += f", from {format_count(self._n_records, 'record')}"
        if self._n_errors:
            pronoun = "its" if self._n_errors == 1 else "their"
            summary += (
                f"; {format_count(self._n_errors, 'finding')}, {pronoun} records not included"
            )
        if partition_states:
            self.run.sink.write_hint(f"\n{summary}")

    @property
    def _shows_changes(self) -> bool:
        return self.selection.since_offset is not None

    def _write_rows(
        self,
        name: str,
        type_: StateType,
        rows: list[StateRow],
        nouns: tuple[str, str] = ("entry", "entries"),
    ) -> None:
        if not rows:
            return
        run = self.run
        if type_.n_key_columns:
            self._n_rows_by_type[type_.name] = self._n_rows_by_type.get(type_.name, 0) + len(rows)
        row_type = add_change_columns(type_) if self._shows_changes else type_
        run.output_rows(name, row_type, [rows], nouns)


def _n_read_ahead(type_: StateType, values: FieldDict) -> int | None:
    """Number of offsets at or after the reading position that are already read; None if unknown.

    For a share partition, as `org.apache.kafka.coordinator.group.GroupCoordinatorService` counts
    them: computeShareGroupLagAndBuildResponse.
    """
    if type_ is not SHARE_PARTITION_ROW:
        return int(type_ is MIRROR_SYNC_ROW)
    start_offset, n_complete = values.start_offset, values.delivery_complete_count
    if not isinstance(start_offset, int) or not isinstance(n_complete, int):
        return None
    return n_complete if start_offset >= 0 and n_complete >= 0 else None


def _noun(name: str, n: int) -> str:
    """The noun for a kind of row, for people; n: 1 for the singular."""
    noun = name.replace("_", " ")
    if noun.endswith(" ids"):
        return noun.removesuffix("s") if n == 1 else noun
    if noun.endswith("status"):
        return noun if n == 1 else f"{noun}es"
    return noun if n == 1 or noun.endswith("s") else f"{noun}s"


def _find_changes(
    type_: StateType, earlier_rows: dict[StateRow, StateRow], current_rows: dict[StateRow, StateRow]
) -> dict[StateRow, StateRow]:
    """The rows that differ, each with its kind of change and the old values."""
    changed_rows: dict[StateRow, StateRow] = {}
    for key, row in current_rows.items():
        if key not in earlier_rows:
            changed_rows[key] = (*row, "added", None)
        elif earlier_rows[key] != row:
            column_values = zip(type_.columns, earlier_rows[key], row, strict=True)
            old_values = {
                column.name: _json_value(column, old_value)
                for column, old_value, new_value in column_values
                if old_value != new_value
            }
            changed_rows[key] = (*row, "changed", json_text(old_values))
    for key, row in earlier_rows.items():
        if key not in current_rows:
            changed_rows[key] = (*row, "removed", None)
    return changed_rows


def _json_value(column: Column, cell: str | int | None) -> object:
    """A cell of a row as a JSON value."""
    return json.loads(cell) if column.kind is ColumnKind.JSON and isinstance(cell, str) else cell


def _split_tables(
    topic: str, names: list[str], states: list[dict[StateRow, StateRow]]
) -> Iterator[tuple[str, list[StateRow]]]:
    """Titles and rows of tables: one for all partitions, or one for each if their keys overlap."""
    nonempty_states = [(name, state) for name, state in zip(names, states, strict=True) if state]
    merged_rows: dict[StateRow, StateRow] = {}
    for _, state in nonempty_states:
        merged_rows |= state
    if len(merged_rows) == sum(len(state) for _, state in nonempty_states):
        rows = [row for _, state in nonempty_states for row in state.values()]
        yield from [(topic, rows)] if rows else ()
    else:
        yield from ((name, list(state.values())) for name, state in nonempty_states)
