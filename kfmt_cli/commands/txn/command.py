"""txn: the transactions of partitions, open ones first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from pathlib import Path

from kfmt_cli.broker.defaults import DEFAULT_TRANSACTION_MAX_TIMEOUT_MS
from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.transactions.transactions import (
    OPEN_TRANSACTION,
    Transaction,
    TransactionTracker,
)
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.command_run import CommandRun, RowCells, chunk_rows
from kfmt_cli.commands.each_partition import for_each_partition
from kfmt_cli.commands.state.internal_topics import iter_replay_findings
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import format_time
from kfmt_cli.disk.directory_listing import DirectoryListing, list_directory
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import FindingCollector, is_error
from kfmt_cli.render.style import escape_terminal, format_grouped
from kfmt_cli.rows.documents import TRANSACTIONS_ROW, build_row
from kfmt_cli.rows.types.transaction import TRANSACTION_ROW

TRANSACTION_STATE_TOPIC = "__transaction_state"
# States in which the coordinator will still end a transaction.
UNFINISHED_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass(slots=True)
class TransactionCoordinators:
    """The transaction states in the partitions of __transaction_state in a log directory."""

    states: dict[int, FieldDict] = field(default_factory=dict)
    """By producer id."""
    is_damaged: bool = False
    """Whether a state may be older than the last one written."""


@dataclass(slots=True)
class TxnCommand:
    """One call of `txn`."""

    run: CommandRun
    only_open: bool = False
    """Show only open transactions, and for people only partitions that have some."""
    counts_first: bool = False
    """Show the summary before the transactions."""
    _coordinators_by_directory: dict[Path, TransactionCoordinators] = field(default_factory=dict)
    _reported_logs: set[Path] = field(default_factory=set)
    """The logs whose findings have been reported."""
    _n_shown: int = 0
    _n_skipped: int = 0
    """Number of partitions without transactions to show."""

    def show_paths(self, paths: tuple[str, ...]) -> None:
        """Show the transactions of every partition under some paths."""
        for_each_partition(self.run, paths, self.show_partition, shows_progress=True)
        if self._n_skipped and not self._n_shown:
            self.run.sink.write_hint(f"no {'open ' if self.only_open else ''}transactions")

    def show_partition(self, partition: Partition) -> None:
        """Show the transactions of a partition, reading it once for open ones, then for others."""
        sink = self.run.sink
        tracker = TransactionTracker()
        counts = {"committed": 0, "aborted": 0, OPEN_TRANSACTION: 0}
        for transaction in self._iter_ended_transactions(partition, tracker, reports_findings=True):
            counts[transaction.outcome] += 1
        counts[OPEN_TRANSACTION] = len(tracker.open_by_producer)
        n_selected = counts[OPEN_TRANSACTION] if self.only_open else sum(counts.values())
        if not n_selected and sink.for_people and not partition.is_explicit:
            self._n_skipped += 1
            return
        self._n_shown += 1
        coordinators = self._coordinators(partition.log_directory)
        open_transactions = sorted(
            tracker.open_by_producer.values(), key=lambda transaction: transaction.first_offset or 0
        )
        open_rows = (
            self._transaction_cells(partition, transaction, tracker, coordinators)
            for transaction in open_transactions
        )
        ended_rows: Iterator[RowCells] = iter(())
        if not self.only_open:
            ended_transactions = self._iter_ended_transactions(
                partition, TransactionTracker(), reports_findings=False
            )
            ended_rows = (
                self._transaction_cells(partition, transaction, tracker, coordinators)
                for transaction in ended_transactions
            )
        if self.counts_first:
            self.run.sink.write_line(f"{escape_terminal(partition.name)}: ")
            self._write_summary(partition, counts, tracker)
        row_chunks = chunk_rows(chain(open_rows, ended_rows))
        self.run.output_rows(
            partition.name, TRANSACTION_ROW, row_chunks, ("transaction", "transactions")
        )
        if not self.counts_first:
            self._write_summary(partition, counts, tracker)

    def _iter_ended_transactions(
        self, partition: Partition, tracker: TransactionTracker, reports_findings: bool
    ) -> Iterator[Transaction]:
        """The transactions that end in the logs of a partition. reports_findings: also report
        findings."""
        findings = FindingCollector(self.run.max_findings)
        for file in partition.logs:
            is_first_report = reports_findings and self._is_first_report(
                partition.directory / Path(file.path).name
            )
            with open_checked_log(file, read_ahead=False) as log:
                for block in log.blocks:
                    yield from tracker.process_block(block)
                    if is_first_report:
                        self.run.report_findings(block.findings, findings)
        if reports_findings:
            self.run.report_suppressed(partition.name, findings)

    def _is_first_report(self, log: Path) -> bool:
        """Whether the findings of a log have not been reported yet."""
        is_first_report = log not in self._reported_logs
        self._reported_logs.add(log)
        return is_first_report

    def _transaction_cells(
        self,
        partition: Partition,
        transaction: Transaction,
        tracker: TransactionTracker,
        coordinators: TransactionCoordinators,
    ) -> RowCells:
        coordinator_state = coordinators.states.get(transaction.producer_id)
        is_open = transaction.outcome == OPEN_TRANSACTION
        end_timestamp = None if is_open else transaction.end_timestamp
        measured_until_ms = (
            max(tracker.newest_timestamp, transaction.start_timestamp or 0) if is_open else None
        )
        values: dict[str, object] = {
            "hanging": _is_hanging(partition, transaction, tracker, coordinators)
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
            "holds_last_stable_offset": int(transaction is tracker.oldest_open),
        }
        return tuple(map(_cell_value, build_row(TRANSACTION_ROW, transaction, values).values()))

    def _write_summary(
        self, partition: Partition, counts: dict[str, int], tracker: TransactionTracker
    ) -> None:
        last_stable_offset = tracker.last_stable_offset
        row: dict[str, object] = {"file": partition.name, **counts}
        row |= {"last_stable_offset": last_stable_offset, "log_end_offset": tracker.log_end}
        counts_text = ", ".join(f"{format_grouped(n)} {name}" for name, n in counts.items())
        line = (
            f"{counts_text}; last stable offset {last_stable_offset}, log end offset "
            f"{tracker.log_end}"
        )
        if tracker.oldest_open is not None:
            line += f"; held back by producer {tracker.oldest_open.producer_id}"
        if tracker.open_by_producer:
            newest_text = format_time(tracker.newest_timestamp)
            line += f"; open times are measured up to the partition's newest record, {newest_text}"
        self.run.sink.write_document(TRANSACTIONS_ROW, row, [f"{line}\n"])

    def _coordinators(self, log_directory: Path) -> TransactionCoordinators:
        """The state of __transaction_state in a log directory; reports damage in it."""
        if log_directory in self._coordinators_by_directory:
            return self._coordinators_by_directory[log_directory]
        coordinators = self._coordinators_by_directory[log_directory] = TransactionCoordinators()
        with self.run.catch_unreadable():
            for name in list_directory(str(log_directory)).partition_names:
                if parse_topic_partition(name)[0] == TRANSACTION_STATE_TOPIC:
                    with self.run.catch_unreadable():
                        self._add_states(coordinators, list_directory(str(log_directory / name)))
        return coordinators

    def _add_states(
        self, coordinators: TransactionCoordinators, directory: DirectoryListing
    ) -> None:
        """Add the states in a partition of __transaction_state."""
        replay = create_replay(TRANSACTION_STATE_TOPIC)
        findings = FindingCollector(self.run.max_findings)
        for log in directory.logs:
            is_first_report = self._is_first_report(Path(log.path))
            try:
                for finding in iter_replay_findings(replay, log):
                    coordinators.is_damaged |= is_error(finding)
                    if is_first_report:
                        self.run.report_findings([finding], findings)
            except InputError as error:
                coordinators.is_damaged = True
                self.run.report_unreadable(str(error))
        self.run.report_suppressed(directory.name, findings)
        states = [FieldDict(row) for _, row in replay.iter_rows()]
        states.sort(key=attrgetter("transactional_id"))
        coordinators.states |= {state.producer_id: state for state in states}


def _cell_value(value: object) -> str | int | None:
    return value if value is None or isinstance(value, str) else int(value)  # type: ignore[call-overload]


def _elapsed_ms(start: int | None, end: int | None) -> int | None:
    """Milliseconds from start to end; None if one is unknown, or if they overflow."""
    elapsed = None if start is None or end is None else end - start
    return None if elapsed is None or elapsed.bit_length() > 63 else elapsed


def _has_later_logs(partition: Partition) -> bool:
    """Whether the directory has logs after the last one that the user named."""
    last_base_offset = max(log.base_or_zero for log in partition.logs)
    return any(
        log.base_or_zero > last_base_offset for log in list_directory(str(partition.directory)).logs
    )


def _is_hanging(
    partition: Partition,
    transaction: Transaction,
    tracker: TransactionTracker,
    coordinators: TransactionCoordinators,
) -> bool | None:
    """Whether an open transaction will never end; None if unknown.

    A coordinator ends the transaction if its state is unfinished and includes this partition.
    Without coordinator state, a transaction is hanging if at the end of the log it has been open
    for longer than the maximum timeout, by the broker's clock: producers' clocks prove nothing.
    """
    if partition.is_explicit and _has_later_logs(partition):
        return None  # its end may be in a log that the user did not name
    coordinator_state = coordinators.states.get(transaction.producer_id)
    if coordinator_state is None:
        last_seen_ms = transaction.known_open_at
        is_too_old = (
            last_seen_ms is not None
            and tracker.newest_broker_timestamp - last_seen_ms > DEFAULT_TRANSACTION_MAX_TIMEOUT_MS
        )
        return True if is_too_old else None
    if coordinators.is_damaged:
        return None  # a later state may be lost
    includes_partition = any(
        (entry["topic"], entry["partition"]) == partition.topic_partition
        for entry in coordinator_state.partitions
    )
    return coordinator_state.state not in UNFINISHED_STATES or not includes_partition
