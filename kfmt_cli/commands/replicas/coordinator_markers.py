"""replicas: what transaction coordinators write after a start.

A coordinator that loads its partition of __transaction_state completes the transactions whose end
it has logged, and later aborts those whose timeout has passed: a marker in each of their
partitions. Source: `kafka.coordinator.transaction.TransactionStateManager`,
loadTransactionsForTxnTopicPartition; `TransactionCoordinator`, abortTimedOutTransactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.transactions.coordinator_log import TRANSACTION_STATE_TOPIC
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.replicas.nodes import DiskReplica, TopicAndPartition
from kfmt_cli.commands.replicas.offline_cluster import PartitionComparison
from kfmt_cli.commands.replicas.start_orders import PartitionOutcome
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.record_stream import iter_records_and_findings
from kfmt_cli.rows.types.state_rows import TRANSACTIONAL_ID_ROW

_PREPARED_STATES, _ONGOING = frozenset({"PrepareCommit", "PrepareAbort"}), "Ongoing"


@dataclass(slots=True)
class _Appended:
    """Numbers of records that coordinators append to a partition."""

    n_certain: int = 0
    possible: list[int] = field(default_factory=list)
    """More of them, of each transaction whose end depends on time or on who leads."""

    def add(self, n_records: int, *, is_certain: bool) -> None:
        if is_certain:
            self.n_certain += n_records
        elif n_records:
            self.possible.append(n_records)


@dataclass(slots=True)
class CoordinatorMarkers:
    """The markers that coordinators write after a start, by order of starts."""

    decompression_limit: DecompressionLimit
    transactions: list[FieldDict] = field(default_factory=list)
    """The unfinished ones, each once."""
    _transactions_by_replica: dict[int, list[FieldDict]] = field(default_factory=dict)

    def add_to_outcomes(self, partitions: Sequence[PartitionComparison]) -> None:
        """Add what coordinators append to the outcomes of partitions; raises InputError."""
        coordinators = [p for p in partitions if p.topic_partition[0] == TRANSACTION_STATE_TOPIC]
        partition_by_name = {partition.topic_partition: partition for partition in partitions}
        n_orders = max((len(partition.outcomes) for partition in coordinators), default=0)
        for order_index in range(n_orders):
            outcomes = {
                topic_partition: partition.outcomes[order_index]
                for topic_partition, partition in partition_by_name.items()
                if partition.outcomes
            }
            appended = {topic_partition: _Appended() for topic_partition in outcomes}
            for coordinator in coordinators:
                if coordinator.outcomes:
                    self._add_markers_of(coordinator, outcomes, appended)
            for topic_partition, outcome in outcomes.items():
                outcome.n_appended = appended[topic_partition].n_certain
                outcome.possibly_appended = appended[topic_partition].possible

    def _add_markers_of(
        self,
        coordinator: PartitionComparison,
        outcomes: Mapping[TopicAndPartition, PartitionOutcome],
        appended: Mapping[TopicAndPartition, _Appended],
    ) -> None:
        """Add what a coordinator appends, by the outcomes of one order."""
        leaders = {
            id(replica): replica
            for replica in outcomes[coordinator.topic_partition].leader_replicas
            if replica is not None and replica.predicted_log_end and not replica.is_excluded
        }
        transaction_lists = [self._read_transactions(replica) for replica in leaders.values()]
        is_certain = not outcomes[coordinator.topic_partition].is_offline and all(
            transactions == transaction_lists[0] for transactions in transaction_lists
        )
        transactions = list(_distinct(transaction_lists))
        self.transactions += [row for row in transactions if row not in self.transactions]
        for transaction in transactions:
            topic_partitions = [
                (entry["topic"], entry["partition"]) for entry in transaction.partitions
            ]
            is_due = transaction.state in _PREPARED_STATES or bool(transaction.timed_out)
            for topic_partition in topic_partitions:
                if topic_partition in appended:
                    appended[topic_partition].add(1, is_certain=is_certain and is_due)
            # It is completed only once each partition has its marker.
            is_completed = not any(
                outcomes[topic_partition].is_offline
                for topic_partition in topic_partitions
                if topic_partition in outcomes
            )
            n_records = 1 if transaction.state in _PREPARED_STATES else 2
            own_appended = appended[coordinator.topic_partition]
            if is_certain and is_due and not is_completed:
                own_appended.add(n_records - 1, is_certain=True)
                n_records = 1
            own_appended.add(n_records, is_certain=is_certain and is_due and is_completed)

    def _read_transactions(self, replica: DiskReplica) -> list[FieldDict]:
        """The unfinished transactions in a replica of a coordinator's partition, as its broker
        loads it; raises InputError."""
        if id(replica) in self._transactions_by_replica:
            return self._transactions_by_replica[id(replica)]
        replay = create_replay(TRANSACTION_STATE_TOPIC)
        for log in () if replica.listing is None else replica.listing.logs:
            with open_checked_log(log, read_ahead=False) as opened_log:
                for record in iter_records_and_findings(opened_log, self.decompression_limit):
                    if not isinstance(record, Finding) and record.offset < (
                        replica.predicted_log_end or 0
                    ):
                        replay.apply_record(record)
        rows = [
            FieldDict(row)
            for row_type, row in replay.iter_rows()
            if row_type is TRANSACTIONAL_ID_ROW
        ]
        transactions = [row for row in rows if row.state in {*_PREPARED_STATES, _ONGOING}]
        self._transactions_by_replica[id(replica)] = transactions
        return transactions


def _distinct(transaction_lists: Iterable[list[FieldDict]]) -> Iterator[FieldDict]:
    """The transactions of all lists, each once."""
    seen: list[FieldDict] = []
    for transaction in (t for transactions in transaction_lists for t in transactions):
        if transaction not in seen:
            seen.append(transaction)
            yield transaction
