"""txn: the transactions of partitions, open ones first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from pathlib import Path

from kfmt_cli.broker.defaults import DEFAULT_TRANSACTION_MAX_TIMEOUT_MS
from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.transactions.coordinator_log import TRANSACTION_STATE_TOPIC
from kfmt_cli.broker.transactions.transaction import OPEN_TRANSACTION, UNKNOWN, Transaction
from kfmt_cli.broker.transactions.transactions import TransactionTracker
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.command_run import CommandRun, RowCells, chunk_rows
from kfmt_cli.commands.each_partition import for_each_partition
from kfmt_cli.commands.state.internal_topics import replay_log_records
from kfmt_cli.commands.txn.options import TxnOptions
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import format_time
from kfmt_cli.disk.directory_listing import DirectoryListing, list_directory
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import FindingCollector, is_error
from kfmt_cli.render.style import escape_unprintable, format_thousands
from kfmt_cli.rows.documents import TRANSACTION_ROW, TRANSACTIONS_ROW, build_row

# States in which the coordinator will still end a transaction.
UNFINISHED_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass(slots=True)
class CoordinatorStates:
    """The transaction states in the partitions of __transaction_state in a log directory."""

    state_by_producer_id: dict[int, FieldDict] = field(default_factory=dict)
    """By producer id."""
    is_damaged: bool = False
    """Whether a state may be older than the last one written."""


@dataclass(slots=True)
class TxnCommand:
    """One call of `txn`."""

    run: CommandRun
    options: TxnOptions
    shows_summary_first: bool = False
    """Show the summary before the transactions."""
    _coordinator_states_by_directory: dict[Path, CoordinatorStates] = field(default_factory=dict)
    _reported_logs: set[Path] = field(default_factory=set)
    """The logs whose findings have been reported."""
    _n_shown_partitions: int = 0
    _n_skipped_partitions: int = 0
    """Number of partitions without transactions to show."""

    def execute(self) -> None:
        """Show the transactions of every partition under some paths."""
        for_each_partition(self.run, self.options.paths, self.show_partition, shows_progress=True)
        if self._n_skipped_partitions and not self._n_shown_partitions:
            self.run.sink.write_hint(f"no {'open ' if self.options.only_open else ''}transactions")

    def show_partition(self, partition: Partition) -> None:
        """Show the transactions of a partition, reading it once for open ones, then for others."""
        sink = self.run.sink
        tracker = TransactionTracker(partition.logs, self.options.paths)
        count_by_outcome = {"committed": 0, "aborted": 0, OPEN_TRANSACTION: 0, UNKNOWN: 0}
        for transaction in self._iter_ended_transactions(partition, tracker, reports_findings=True):
            count_by_outcome[transaction.outcome] += 1
        count_by_outcome[OPEN_TRANSACTION] = len(tracker.open_transaction_by_producer)
        n_selected_transactions = (
            count_by_outcome[OPEN_TRANSACTION]
            if self.options.only_open
            else sum(count_by_outcome.values())
        )
        if not n_selected_transactions and sink.is_for_people and not partition.has_explicit_logs:
            self._n_skipped_partitions += 1
            return
        self._n_shown_partitions += 1
        coordinator_states = self._read_coordinator_states(partition.log_directory)
        open_transactions = sorted(
            tracker.open_transaction_by_producer.values(),
            key=lambda transaction: transaction.first_offset or 0,
        )
        open_rows = (
            self._transaction_cells(partition, transaction, tracker, coordinator_states)
            for transaction in open_transactions
        )
        ended_rows: Iterator[RowCells] = iter(())
        if not self.options.only_open:
            ended_transactions = self._iter_ended_transactions(
                partition,
                TransactionTracker(partition.logs, self.options.paths),
                reports_findings=False,
            )
            ended_rows = (
                self._transaction_cells(partition, transaction, tracker, coordinator_states)
                for transaction in ended_transactions
            )
        if self.shows_summary_first:
            self.run.sink.write_line(f"{escape_unprintable(partition.name)}: ")
            self._write_summary(partition, count_by_outcome, tracker)
        row_chunks = chunk_rows(chain(open_rows, ended_rows))
        self.run.write_rows(
            partition.name, TRANSACTION_ROW, row_chunks, ("transaction", "transactions")
        )
        if not self.shows_summary_first:
            self._write_summary(partition, count_by_outcome, tracker)

    def _iter_ended_transactions(
        self, partition: Partition, tracker: TransactionTracker, reports_findings: bool
    ) -> Iterator[Transaction]:
        """The transactions that end in the logs of a partition. reports_findings: also report
        findings."""
        collector = FindingCollector(self.run.max_findings)
        for file in partition.logs:
            is_first_report = reports_findings and self._add_reported_log(
                partition.directory / Path(file.path).name
            )
            with open_checked_log(file, read_ahead=False) as log:
                for block in log.blocks:
                    yield from tracker.process_block(block)
                    if is_first_report:
                        self.run.report_findings(block.findings, collector)
        yield from tracker.finish()
        if reports_findings:
            self.run.report_suppressed_findings(partition.name, collector)

    def _add_reported_log(self, log: Path) -> bool:
        """Whether the findings of a log have not been reported yet."""
        is_first_report = log not in self._reported_logs
        self._reported_logs.add(log)
        return is_first_report

    def _transaction_cells(
        self,
        partition: Partition,
        transaction: Transaction,
        tracker: TransactionTracker,
        coordinator_states: CoordinatorStates,
    ) -> RowCells:
        coordinator_state = coordinator_states.state_by_producer_id.get(transaction.producer_id)
        is_open = transaction.outcome == OPEN_TRANSACTION
        end_timestamp = None if is_open else transaction.end_timestamp
        measured_until_ms = (
            max(tracker.newest_timestamp, transaction.start_timestamp or 0) if is_open else None
        )
        computed_values: dict[str, object] = {
            "hanging": _is_hanging(partition, transaction, tracker, coordinator_states)
            if is_open
            else None,
            "transactional_id": None
            if coordinator_state is None
            else coordinator_state.transactional_id,
            "marker_offset": transaction.marker_offset,
            "duration_ms": _elapsed_ms(transaction.start_timestamp, end_timestamp),
            "start_timestamp": transaction.start_timestamp,
            "end_timestamp": end_timestamp,
            "open_for_ms": _elapsed_ms(transaction.start_timestamp, measured_until_ms),
            "holds_last_stable_offset": int(transaction is tracker.oldest_open_transaction),
            "coordinator_state": coordinator_state.state
            if is_open and coordinator_state is not None
            else None,
        }
        return tuple(
            map(_cell_value, build_row(TRANSACTION_ROW, transaction, computed_values).values())
        )

    def _write_summary(
        self, partition: Partition, count_by_outcome: dict[str, int], tracker: TransactionTracker
    ) -> None:
        last_stable_offset = tracker.last_stable_offset
        row: dict[str, object] = {"file": partition.name, **count_by_outcome}
        row |= {"last_stable_offset": last_stable_offset, "log_end_offset": tracker.log_end_offset}
        counts_text = ", ".join(
            f"{format_thousands(n)} {outcome}"
            for outcome, n in count_by_outcome.items()
            if n or outcome != UNKNOWN
        )
        summary_text = (
            f"{counts_text}; last stable offset {last_stable_offset}, log end offset "
            f"{tracker.log_end_offset}"
        )
        if tracker.oldest_open_transaction is not None:
            summary_text += f"; held back by producer {tracker.oldest_open_transaction.producer_id}"
        if tracker.open_transaction_by_producer:
            newest_text = format_time(tracker.newest_timestamp)
            summary_text += (
                f"; open times are measured up to the partition's newest record, {newest_text}"
            )
        self.run.sink.write_document(TRANSACTIONS_ROW, row, [f"{summary_text}\n"])

    def _read_coordinator_states(self, log_directory: Path) -> CoordinatorStates:
        """The state of __transaction_state in a log directory; reports damage in it."""
        if log_directory in self._coordinator_states_by_directory:
            return self._coordinator_states_by_directory[log_directory]
        coordinator_states = self._coordinator_states_by_directory[log_directory] = (
            CoordinatorStates()
        )
        with self.run.catch_input_errors():
            for partition_name in list_directory(str(log_directory)).partition_names:
                if parse_topic_partition(partition_name)[0] == TRANSACTION_STATE_TOPIC:
                    with self.run.catch_input_errors():
                        self._add_states(
                            coordinator_states, list_directory(str(log_directory / partition_name))
                        )
        return coordinator_states

    def _add_states(
        self, coordinator_states: CoordinatorStates, partition_listing: DirectoryListing
    ) -> None:
        """Add the states in a partition of __transaction_state."""
        replay = create_replay(TRANSACTION_STATE_TOPIC)
        collector = FindingCollector(self.run.max_findings)
        for log in partition_listing.logs:
            is_first_report = self._add_reported_log(Path(log.path))
            try:
                for finding in replay_log_records(replay, log):
                    coordinator_states.is_damaged |= is_error(finding)
                    if is_first_report:
                        self.run.report_findings([finding], collector)
            except InputError as error:
                coordinator_states.is_damaged = True
                self.run.report_input_error(error)
        self.run.report_suppressed_findings(partition_listing.name, collector)
        states = [FieldDict(row) for _, row in replay.iter_rows()]
        states.sort(key=attrgetter("transactional_id"))
        coordinator_states.state_by_producer_id |= {state.producer_id: state for state in states}


def _cell_value(value: object) -> str | int | None:
    return value if value is None or isinstance(value, str) else int(value)  # type: ignore[call-overload]


def _elapsed_ms(start_ms: int | None, end_ms: int | None) -> int | None:
    """Milliseconds from start to end; None if one is unknown, or if they overflow."""
    elapsed_ms = None if start_ms is None or end_ms is None else end_ms - start_ms
    return None if elapsed_ms is None or elapsed_ms.bit_length() > 63 else elapsed_ms


def _has_later_logs(partition: Partition) -> bool:
    """Whether the directory has logs after the last one that the user named."""
    last_base_offset = max(log.base_offset_or_zero for log in partition.logs)
    return any(
        log.base_offset_or_zero > last_base_offset
        for log in list_directory(str(partition.directory)).logs
    )


def _is_hanging(
    partition: Partition,
    transaction: Transaction,
    tracker: TransactionTracker,
    coordinator_states: CoordinatorStates,
) -> bool | None:
    """Whether an open transaction will never end; None if unknown.

    A coordinator ends the transaction if its state is unfinished and includes this partition.
    Without coordinator state, a transaction is hanging if at the end of the log it has been open
    for longer than the maximum timeout, by the broker's clock: producers' clocks prove nothing.
    """
    if partition.has_explicit_logs and _has_later_logs(partition):
        return None  # its end may be in a log that the user did not name
    coordinator_state = coordinator_states.state_by_producer_id.get(transaction.producer_id)
    if coordinator_state is None:
        last_known_open_ms = transaction.last_known_open_ms
        is_too_old = (
            last_known_open_ms is not None
            and tracker.newest_broker_clock_ms - last_known_open_ms
            > DEFAULT_TRANSACTION_MAX_TIMEOUT_MS
        )
        return True if is_too_old else None
    if coordinator_states.is_damaged:
        return None  # a later state may be lost
    includes_partition = any(
        (partition_entry["topic"], partition_entry["partition"]) == partition.topic_partition
        for partition_entry in coordinator_state.partitions
    )
    return coordinator_state.state not in UNFINISHED_STATES or not includes_partition
