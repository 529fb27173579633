"""replicas: what transaction coordinators write after a start.

A coordinator that loads its partition of __transaction_state completes the transactions whose end
it has logged, and later aborts those whose timeout has passed: a marker in each of their
partitions. Source: `kafka.coordinator.transaction.TransactionStateManager`,
loadTransactionsForTxnTopicPartition; `TransactionCoordinator`, abortTimedOutTransactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from kfmt_cli.broker.state.coordinator_loading import TRANSACTIONS_TOPIC, CoordinatorLoading
from kfmt_cli.broker.state.unfinished_transactions import UnfinishedTransaction
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.replicas.nodes import DiskReplica, TopicAndPartition
from kfmt_cli.commands.replicas.offline_cluster import PartitionComparison
from kfmt_cli.commands.replicas.start_orders import PartitionOutcome
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.record_stream import iter_records_and_findings


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
    transactions: list[UnfinishedTransaction] = field(default_factory=list)
    """The unfinished ones, each once."""
    _transactions_by_replica: dict[int, list[UnfinishedTransaction]] = field(default_factory=dict)

    def add_to_outcomes(self, partitions: Sequence[PartitionComparison]) -> None:
        """Add what coordinators append to the outcomes of partitions; raises InputError."""
        coordinators = [p for p in partitions if p.topic_partition[0] == TRANSACTIONS_TOPIC]
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
        transactions = list(dict.fromkeys(chain.from_iterable(transaction_lists)))
        self.transactions += [t for t in transactions if t not in self.transactions]
        for transaction in transactions:
            is_due = transaction.is_due
            for topic_partition in transaction.partitions:
                if topic_partition in appended:
                    appended[topic_partition].add(1, is_certain=is_certain and is_due)
            # It is completed only once each partition has its marker.
            is_completed = not any(
                outcomes[topic_partition].is_offline
                for topic_partition in transaction.partitions
                if topic_partition in outcomes
            )
            n_records = 1 if transaction.is_prepared else 2
            own_appended = appended[coordinator.topic_partition]
            if is_certain and is_due and not is_completed:
                own_appended.add(n_records - 1, is_certain=True)
                n_records = 1
            own_appended.add(n_records, is_certain=is_certain and is_due and is_completed)

    def _read_transactions(self, replica: DiskReplica) -> list[UnfinishedTransaction]:
        """The unfinished transactions in a replica of a coordinator's partition, as its broker
        loads it; raises InputError."""
        if id(replica) in self._transactions_by_replica:
            return self._transactions_by_replica[id(replica)]
        loading = CoordinatorLoading(TRANSACTIONS_TOPIC)
        for log in () if replica.listing is None else replica.listing.logs:
            with open_checked_log(log, read_ahead=False) as opened_log:
                for record in iter_records_and_findings(opened_log, self.decompression_limit):
                    if not isinstance(record, Finding) and record.offset < (
                        replica.predicted_log_end or 0
                    ):
                        loading.apply_record(record)
        transactions = list(loading.unfinished_by_offset.values())
        self._transactions_by_replica[id(replica)] = transactions
        return transactions
