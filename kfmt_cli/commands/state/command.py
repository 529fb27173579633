"""state: replays internal topics up to an offset, and shows changes since another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from kfmt_cli.broker.log_reading.log_end import read_log_end_offset
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.meta_properties import read_meta_properties, read_topic_id
from kfmt_cli.broker.metadata.metadata_files import snapshot_end_offset
from kfmt_cli.broker.partitioners import (
    DEFAULT_INTERNAL_PARTITIONS,
    GROUPS_TOPIC,
    compute_coordinator_partition,
)
from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.state.replay import ReplayedState, StateRow, TopicReplay
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.state.internal_topics import InternalTopicPartition, find_internal_partitions
from kfmt_cli.commands.state.options import StateOptions
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import classify_file, list_directory
from kfmt_cli.disk.file_access import is_directory, is_file
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.codes import PAYLOAD_MALFORMED
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
READ_OFFSET_COLUMN_BY_TYPE = {
    COMMITTED_OFFSET_ROW: "offset",
    MIRROR_SYNC_ROW: "upstream_offset",
    SHARE_PARTITION_ROW: "start_offset",
}


@dataclass(slots=True)
class StateCommand:
    """One call of `state`."""

    run: CommandRun
    options: StateOptions
    _n_rows_by_type: dict[str, int] = field(default_factory=dict)
    _n_replayed_records: int = 0
    _n_error_findings: int = 0
    _last_replayed_offset: int = -1
    _log_directories: list[str] = field(default_factory=list)
    """Those among the paths, and of the partitions."""
    _broker_by_directory: dict[str, tuple[str, int] | None] = field(default_factory=dict)
    _end_offset_by_partition: dict[tuple[str, str], int | None] = field(default_factory=dict)
    _topic_by_id_by_directory: dict[str, dict[str, str]] = field(default_factory=dict)

    def execute(self) -> None:
        """Show the state of the topics under some paths; raises UsageError."""
        options = self.options
        partitions = find_internal_partitions(
            options.paths, options.of_topic, self.run.report_input_error
        )
        self._log_directories = [path for path in options.paths if is_directory(path)]
        if len(partitions) > 1 and (options.at_offset, options.since_offset) != (None, None):
            message = "--at-offset and --since-offset apply to a single partition"
            raise UsageError(f"{message}, but {len(partitions)} were given")
        self.show_partitions(partitions)

    def show_partitions(self, partitions: list[InternalTopicPartition]) -> None:
        """Show the state of some partitions."""
        self._log_directories += dict.fromkeys(
            partition.log_directory
            for partition in partitions
            if partition.log_directory is not None
        )
        partition_states: list[tuple[InternalTopicPartition, ReplayedState]] = []
        for partition_to_replay in partitions:
            with self.run.catch_input_errors():
                partition_states.append(
                    (partition_to_replay, self._replay_selected_state(partition_to_replay))
                )
        if self.run.sink.is_for_people:
            self._write_tables(partition_states)
        else:
            for partition, replayed_state in partition_states:
                for row_type, rows in replayed_state.items():
                    self._write_rows(partition.name, row_type, list(rows.values()))
        has_rows = any(any(state.values()) for _, state in partition_states)
        has_filter = self.options.group is not None or self.options.topic is not None
        if has_filter and partitions and not has_rows:
            self.run.output.raise_exit_code(ExitCode.FINDINGS)
            for message in self._iter_missing_messages():
                self.run.sink.write_to_stderr(f"{message}\n")

    def _iter_missing_messages(self) -> Iterator[str]:
        """Messages for a group or topic that was not found."""
        if (group := self.options.group) is not None:
            partition_name = f"{GROUPS_TOPIC}-{compute_coordinator_partition(group)}"
            hint = (
                f"if {GROUPS_TOPIC} has {DEFAULT_INTERNAL_PARTITIONS} partitions, it is in "
                f"{partition_name}"
            )
            yield f"group {group!r} is not in these partitions; {hint}"
        if self.options.topic is not None:
            yield f"topic {self.options.topic!r} is not in these partitions"

    # Computing the state.

    def _replay_selected_state(self, partition: InternalTopicPartition) -> ReplayedState:
        """The selected rows; with --since-offset, only changed ones and their changes."""
        current_state = self._replay_partition(
            partition, self.options.at_offset, reports_findings=True
        )
        if self.options.since_offset is not None:
            last_offset = self._last_replayed_offset
            if self.options.since_offset > last_offset:
                message = f"--since-offset {self.options.since_offset} is after the last record"
                self.run.sink.write_to_stderr(f"{partition.name}: {message}, at {last_offset}\n")
            earlier_state = self._replay_partition(
                partition, self.options.since_offset, reports_findings=False
            )
            current_state = {
                state_type: _find_changes(state_type, earlier_state[state_type], rows)
                for state_type, rows in current_state.items()
            }
        return {
            row_type: self._filter_rows(row_type, rows) for row_type, rows in current_state.items()
        }

    def _replay_partition(
        self, partition: InternalTopicPartition, at_offset: int | None, reports_findings: bool
    ) -> ReplayedState:
        """The state of a partition after replaying the records up to an offset."""
        topic_replay = create_replay(partition.topic)
        topic_replay.shows_secret_values = self.options.show_values
        collector = FindingCollector(self.run.max_findings)
        next_offset = 0
        for snapshot in partition.snapshots:
            snapshot_end = snapshot_end_offset(snapshot)
            if snapshot_end is not None and at_offset is not None and snapshot_end > at_offset + 1:
                continue
            if self._replay_file(
                topic_replay, snapshot, None, 0, collector if reports_findings else None
            ):
                next_offset = snapshot_end or 0
                self._last_replayed_offset = next_offset - 1
                break
            topic_replay.reset()
        log_start = partition.logs[0].base_offset_or_zero if partition.logs else 0
        if partition.snapshots and not next_offset and log_start:
            problem_text = (
                "there is no undamaged snapshot at or before it, and the log begins at offset"
            )
            offset_text = "the end" if at_offset is None else at_offset
            error_message = (
                f"{partition.name}: the state at {offset_text}: {problem_text} {log_start}"
            )
            if at_offset is not None:
                raise InputError(error_message)
            self.run.report_input_error(error_message)
        for log_file, next_log_file in zip_longest(partition.logs, partition.logs[1:]):
            if next_log_file is None or next_log_file.base_offset_or_zero > next_offset:
                self._replay_file(
                    topic_replay,
                    log_file,
                    at_offset,
                    next_offset,
                    collector if reports_findings else None,
                )
        replayed_state = topic_replay.sorted_rows()
        if reports_findings:
            for offset, reason in topic_replay.malformed_records:
                message = f"offset {offset}: {reason}"
                finding = Finding(partition.name, PAYLOAD_MALFORMED, None, message, offset=offset)
                self._report_finding(finding, collector)
            for message in topic_replay.unknown_record_messages():
                self.run.sink.write_to_stderr(f"{partition.name}: {message}\n")
            self.run.report_suppressed_findings(partition.name, collector)
        for row_type in READ_OFFSET_COLUMN_BY_TYPE:
            rows = replayed_state.get(row_type, {}) if partition.log_directory is not None else {}
            for row_key, row in rows.items():
                rows[row_key] = self._with_lag(row_type, row, partition.log_directory or "")
        return replayed_state

    def _replay_file(
        self,
        topic_replay: TopicReplay,
        file: InputFile,
        at_offset: int | None,
        start_offset: int,
        collector: FindingCollector | None,
    ) -> bool:
        """Replay a file from an offset onward; returns whether it was undamaged."""
        is_undamaged = True
        with open_checked_log(file, read_ahead=False) as opened_log:
            for record_or_finding in iter_records_and_findings(
                opened_log, self.options.decompression_limit
            ):
                if isinstance(record_or_finding, Finding):
                    is_undamaged &= not is_error(record_or_finding)
                    if collector is not None:
                        self._report_finding(record_or_finding, collector)
                elif at_offset is not None and record_or_finding.offset > at_offset:
                    break
                elif record_or_finding.offset >= start_offset:
                    self._n_replayed_records += collector is not None
                    self._last_replayed_offset = record_or_finding.offset
                    topic_replay.apply_record(record_or_finding)
        return is_undamaged

    def _report_finding(self, finding: Finding, collector: FindingCollector) -> None:
        """Report a finding and count errors: damaged records are not included in the state."""
        self.run.report_findings([finding], collector)
        self._n_error_findings += is_error(finding)

    def _with_lag(self, row_type: StateType, row: StateRow, log_directory: str) -> StateRow:
        """A row with a reading position, completed with log end offset and lag."""
        value_by_column = FieldDict(zip(row_type.member_names, row, strict=True))
        if row_type is SHARE_PARTITION_ROW:
            value_by_column.topic = self._read_topic_by_id(log_directory).get(
                str(value_by_column.topic_id)
            )
        end_offset = self._find_log_end_offset(
            f"{value_by_column.topic}-{value_by_column.partition}", log_directory
        )
        read_offset = value_by_column[READ_OFFSET_COLUMN_BY_TYPE[row_type]]
        n_already_read = _count_already_read(row_type, value_by_column)
        if end_offset is not None and isinstance(read_offset, int):
            value_by_column |= {
                "log_end_offset": end_offset,
                "lag": None
                if n_already_read is None
                else end_offset - read_offset - n_already_read,
            }
        return tuple(value_by_column.values())

    def _broker_directories(self, log_directory: str) -> list[str]:
        """The log directories of a broker: this one, and those of the same node and cluster among
        the paths."""
        broker = self._read_broker(log_directory)
        others = self._log_directories if broker is not None else ()
        return [
            log_directory,
            *(
                path
                for path in others
                if path != log_directory and self._read_broker(path) == broker
            ),
        ]

    def _read_broker(self, log_directory: str) -> tuple[str, int] | None:
        """The cluster and node of a log directory, by its meta.properties; None if unknown."""
        if log_directory not in self._broker_by_directory:
            broker = None
            path = f"{log_directory}/meta.properties"
            if is_file(path):
                with self.run.catch_input_errors():
                    identity = read_meta_properties(classify_file(path, format_display_name(path)))
                    if identity.cluster_id is not None and identity.node_id is not None:
                        broker = identity.cluster_id, identity.node_id
            self._broker_by_directory[log_directory] = broker
        return self._broker_by_directory[log_directory]

    def _read_topic_by_id(self, log_directory: str) -> dict[str, str]:
        """The topics with a partition in the log directories of a broker, by their ids."""
        if log_directory not in self._topic_by_id_by_directory:
            topic_by_id = self._topic_by_id_by_directory[log_directory] = {}
            for directory in self._broker_directories(log_directory):
                with self.run.catch_input_errors():
                    for partition_name in list_directory(directory).partition_names:
                        topic_id = self._read_topic_id(
                            f"{directory}/{partition_name}/partition.metadata"
                        )
                        if topic_id is not None:
                            topic_by_id[format_uuid(topic_id)] = (
                                parse_topic_partition(partition_name)[0] or ""
                            )
        return self._topic_by_id_by_directory[log_directory]

    def _read_topic_id(self, path: str) -> bytes | None:
        """The topic id in a partition.metadata; None if it has none or cannot be read."""
        try:
            return read_topic_id(classify_file(path, format_display_name(path)))
        except StartError:  # `check` reports it
            return None
        except InputError as error:
            if not error.is_missing:
                self.run.report_input_error(str(error))
            return None

    def _find_log_end_offset(self, partition_name: str, log_directory: str) -> int | None:
        """The log end offset of a partition in the log directories of a broker; None if it is
        missing or unreadable."""
        key = log_directory, partition_name
        if key not in self._end_offset_by_partition:
            self._end_offset_by_partition[key] = None
            with self.run.catch_input_errors():
                for directory in self._broker_directories(log_directory):
                    if is_directory(path := f"{directory}/{partition_name}"):
                        listing = list_directory(path)
                        self._end_offset_by_partition[key] = read_log_end_offset(listing)
                        break
        return self._end_offset_by_partition[key]

    def _filter_rows(
        self, row_type: StateType, rows: dict[StateRow, StateRow]
    ) -> dict[StateRow, StateRow]:
        """The rows about the selected group and topic."""
        for filter_column, filter_value in (
            ("group", self.options.group),
            ("topic", self.options.topic),
        ):
            if filter_value is None:
                continue
            if filter_column in row_type.member_names:
                column_index = row_type.member_names.index(filter_column)
                rows = {key: row for key, row in rows.items() if row[column_index] == filter_value}
            elif filter_column == "topic" and row_type.name == "config":
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
            partition_names = [
                partition.name for partition, _ in partition_states if partition.topic == topic
            ]
            for row_type in states[0]:
                nouns = (_row_noun(row_type.name, 1), _row_noun(row_type.name, 2))
                for title, rows in _iter_titled_tables(
                    topic, partition_names, [state[row_type] for state in states]
                ):
                    self._write_rows(f"{title}: {nouns[1]}", row_type, rows, nouns)
        count_texts = [
            format_count(n_rows, _row_noun(type_name, 1), _row_noun(type_name, 2))
            for type_name, n_rows in self._n_rows_by_type.items()
        ]
        summary = ", ".join(count_texts) or ("no changes" if self._shows_changes else "nothing")
        summary += f", from {format_count(self._n_replayed_records, 'record')}"
        if self._n_error_findings:
            pronoun = "its" if self._n_error_findings == 1 else "their"
            summary += (
                f"; {format_count(self._n_error_findings, 'finding')}, {pronoun} "
                "records not included"
            )
        if partition_states:
            self.run.sink.write_hint(f"\n{summary}")

    @property
    def _shows_changes(self) -> bool:
        return self.options.since_offset is not None

    def _write_rows(
        self,
        title: str,
        state_type: StateType,
        rows: list[StateRow],
        nouns: tuple[str, str] = ("entry", "entries"),
    ) -> None:
        if not rows:
            return
        run = self.run
        if state_type.n_key_columns:
            self._n_rows_by_type[state_type.name] = self._n_rows_by_type.get(
                state_type.name, 0
            ) + len(rows)
        row_type = add_change_columns(state_type) if self._shows_changes else state_type
        run.write_rows(title, row_type, [rows], nouns)


def _count_already_read(row_type: StateType, value_by_column: FieldDict) -> int | None:
    """Number of offsets at or after the reading position that are already read; None if unknown.

    For a share partition, as `org.apache.kafka.coordinator.group.GroupCoordinatorService` counts
    them: computeShareGroupLagAndBuildResponse.
    """
    if row_type is not SHARE_PARTITION_ROW:
        return int(row_type is MIRROR_SYNC_ROW)
    start_offset, n_delivered_records = (
        value_by_column.start_offset,
        value_by_column.delivery_complete_count,
    )
    if not isinstance(start_offset, int) or not isinstance(n_delivered_records, int):
        return None
    return n_delivered_records if start_offset >= 0 and n_delivered_records >= 0 else None


def _row_noun(type_name: str, n_rows: int) -> str:
    """The noun for a kind of row, for people; n_rows: 1 for the singular."""
    noun = type_name.replace("_", " ")
    if noun.endswith(" ids"):
        return noun.removesuffix("s") if n_rows == 1 else noun
    if noun.endswith("status"):
        return noun if n_rows == 1 else f"{noun}es"
    return noun if n_rows == 1 or noun.endswith("s") else f"{noun}s"


def _find_changes(
    row_type: StateType,
    earlier_rows: dict[StateRow, StateRow],
    current_rows: dict[StateRow, StateRow],
) -> dict[StateRow, StateRow]:
    """The rows that differ, each with its kind of change and the old values."""
    changed_rows: dict[StateRow, StateRow] = {}
    for row_key, row in current_rows.items():
        if row_key not in earlier_rows:
            changed_rows[row_key] = (*row, "added", None)
        elif earlier_rows[row_key] != row:
            column_values = zip(row_type.columns, earlier_rows[row_key], row, strict=True)
            old_value_by_column = {
                column.name: _json_value(column, old_value)
                for column, old_value, new_value in column_values
                if old_value != new_value
            }
            changed_rows[row_key] = (*row, "changed", json_text(old_value_by_column))
    for row_key, row in earlier_rows.items():
        if row_key not in current_rows:
            changed_rows[row_key] = (*row, "removed", None)
    return changed_rows


def _json_value(column: Column, cell: str | int | None) -> object:
    """A cell of a row as a JSON value."""
    return json.loads(cell) if column.kind is ColumnKind.JSON and isinstance(cell, str) else cell


def _iter_titled_tables(
    topic: str, partition_names: list[str], rows_by_partition: list[dict[StateRow, StateRow]]
) -> Iterator[tuple[str, list[StateRow]]]:
    """Titles and rows of tables: one for all partitions, or one for each if their keys overlap."""
    named_partition_rows = [
        (partition_name, state)
        for partition_name, state in zip(partition_names, rows_by_partition, strict=True)
        if state
    ]
    merged_rows: dict[StateRow, StateRow] = {}
    for _, row_by_key in named_partition_rows:
        merged_rows |= row_by_key
    if len(merged_rows) == sum(len(state) for _, state in named_partition_rows):
        rows = [row for _, state in named_partition_rows for row in state.values()]
        yield from [(topic, rows)] if rows else ()
    else:
        yield from (
            (partition_name, list(state.values())) for partition_name, state in named_partition_rows
        )
