"""state: replays internal topics up to an offset, and shows changes since another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from kfmt_cli.broker.metadata.opened_log import find_missing_records, snapshot_end_offset
from kfmt_cli.broker.partitioners import (
    DEFAULT_INTERNAL_PARTITIONS,
    GROUPS_TOPIC,
    compute_coordinator_partition,
)
from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.state.coordinator_loading import COORDINATOR_TOPICS, CoordinatorLoading
from kfmt_cli.broker.state.replay import ReplayedState, StateRow, TopicReplay
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.checks.partition.coordinators import create_loading_findings
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.state.internal_topics import InternalTopicPartition, find_internal_partitions
from kfmt_cli.commands.state.offset_ranges import OffsetRanges
from kfmt_cli.commands.state.options import StateOptions
from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.topic_filter import matches_topic
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.codes import METADATA_LOAD_FAILS, PAYLOAD_MALFORMED
from kfmt_cli.findings.finding import Finding, FindingCollector, is_error
from kfmt_cli.log.record_stream import iter_records_and_findings
from kfmt_cli.render.style import format_count
from kfmt_cli.rows.column import Column, ColumnKind
from kfmt_cli.rows.types.state_rows import StateType, add_change_columns, without_load_errors
from kfmt_cli.topics import CLUSTER_METADATA


@dataclass(slots=True)
class StateCommand:
    """One call of `state`."""

    run: CommandRun
    options: StateOptions
    _n_rows_by_type: dict[str, int] = field(default_factory=dict)
    _n_replayed_records: int = 0
    _n_error_findings: int = 0
    _last_replayed_offset: int = -1
    _offset_ranges: OffsetRanges = field(init=False)

    def __post_init__(self) -> None:
        self._offset_ranges = OffsetRanges(self.run.report_input_error)

    def execute(self) -> None:
        """Show the state of the topics under some paths; raises UsageError."""
        options = self.options
        partitions = find_internal_partitions(
            options.paths, options.internal_topic, self.run.report_input_error
        )
        self._offset_ranges.add_log_directories(filter(is_directory, options.paths))
        if len(partitions) > 1 and (options.at_offset, options.since_offset) != (None, None):
            message = "--at-offset and --since-offset apply to a single partition"
            raise UsageError(f"{message}, but {len(partitions)} were given")
        self.show_partitions(partitions)

    def show_partitions(self, partitions: list[InternalTopicPartition]) -> None:
        """Show the state of some partitions."""
        self._offset_ranges.add_log_directories(
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
        has_filter = self.options.group is not None or bool(self.options.topic)
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
        if self.options.topic:
            topics_text = " or ".join(map(repr, self.options.topic))
            yield f"topic {topics_text} is not in these partitions"

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
        topic_replay.partition = partition.partition
        loading = (
            CoordinatorLoading(partition.topic) if partition.topic in COORDINATOR_TOPICS else None
        )
        collector = FindingCollector(self.run.max_findings)
        reported = collector if reports_findings else None
        next_offset = 0
        for snapshot in partition.snapshots:
            snapshot_end = snapshot_end_offset(snapshot)
            if snapshot_end is not None and at_offset is not None and snapshot_end > at_offset + 1:
                continue
            if self._replay_file(topic_replay, snapshot, None, 0, reported):
                next_offset = snapshot_end or 0
                self._last_replayed_offset = next_offset - 1
                break
            topic_replay.reset()
        missing_records = (
            find_missing_records(partition.logs, next_offset, at_offset)
            if partition.topic == CLUSTER_METADATA and partition.log_directory is not None
            else None
        )
        if missing_records is not None:
            offset_text = "the end" if at_offset is None else at_offset
            error_message = f"{partition.name}: the state at {offset_text}: {missing_records}"
            if at_offset is not None:
                raise InputError(error_message)
            self.run.report_input_error(error_message)
        for log_file, next_log_file in zip_longest(partition.logs, partition.logs[1:]):
            if next_log_file is None or next_log_file.base_offset_or_zero > next_offset:
                self._replay_file(topic_replay, log_file, at_offset, next_offset, reported, loading)
        if loading is not None and not self._n_error_findings:
            findings = list(create_loading_findings(loading.failures, partition.name))
            errors = [finding.message for finding in findings if is_error(finding)]
            topic_replay.load_error = next(iter(errors), None)
            if reports_findings:
                self.run.report_findings(findings, collector)
        replayed_state = topic_replay.sorted_rows()
        if reports_findings:
            self._report_replay(partition, topic_replay, collector, missing_records is None)
        for row_type, rows in replayed_state.items():
            for row_key, row in rows.items() if partition.log_directory is not None else ():
                rows[row_key], *_ = self._offset_ranges.complete_row(
                    row_type, row, partition.log_directory or ""
                )
        return replayed_state

    def _report_replay(
        self,
        partition: InternalTopicPartition,
        topic_replay: TopicReplay,
        collector: FindingCollector,
        is_complete: bool,
    ) -> None:
        """Report what a replay met. is_complete: whether it began with the first record."""
        for offset, reason in topic_replay.malformed_records:
            message = f"offset {offset}: {reason}"
            finding = Finding(partition.name, PAYLOAD_MALFORMED, None, message, offset=offset)
            self._report_finding(finding, collector)
        failure = topic_replay.load_failure
        if failure is not None and is_complete and not self._n_error_findings:
            finding = Finding(
                *(partition.name, METADATA_LOAD_FAILS, None, failure.message), offset=failure.offset
            )
            self.run.report_findings([finding], collector)
        for message in (*topic_replay.unknown_record_messages(), *topic_replay.orphan_messages()):
            self.run.sink.write_to_stderr(f"{partition.name}: {message}\n")
        self.run.report_suppressed_findings(partition.name, collector)

    def _replay_file(
        self,
        topic_replay: TopicReplay,
        file: InputFile,
        at_offset: int | None,
        start_offset: int,
        collector: FindingCollector | None,
        loading: CoordinatorLoading | None = None,
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
                    if loading is not None:
                        loading.apply_record(record_or_finding)
        return is_undamaged

    def _report_finding(self, finding: Finding, collector: FindingCollector) -> None:
        """Report a finding and count errors: damaged records are not included in the state."""
        self.run.report_findings([finding], collector)
        self._n_error_findings += is_error(finding)

    def _filter_rows(
        self, row_type: StateType, rows: dict[StateRow, StateRow]
    ) -> dict[StateRow, StateRow]:
        """The rows about the selected group and topic."""
        names, (group, topics) = row_type.member_names, (self.options.group, self.options.topic)
        if group is not None:
            column = names.index("group") if "group" in names else None
            rows = {
                key: row for key, row in rows.items() if column is not None and row[column] == group
            }
        if topics:
            column = names.index("topic") if "topic" in names else None
            if row_type.name == "config":
                rows = {key: row for key, row in rows.items() if row[0] == "TOPIC"}
                column = 1
            rows = {
                key: row
                for key, row in rows.items()
                if column is not None and _is_topic(row[column], topics)
            }
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
        if run.sink.is_for_people:
            row_type, rows = without_load_errors(row_type, rows)
        run.write_rows(title, row_type, [rows], nouns)


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


def _is_topic(value: object, patterns: tuple[str, ...]) -> bool:
    return isinstance(value, str) and matches_topic(value, patterns)
