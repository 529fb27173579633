"""The transactions in a partition's log, tracked as a broker does for the last stable offset.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.broker.transactions.batch_gaps import BatchGap, BatchGapFinder
from kfmt_cli.broker.transactions.evidence import (
    SnapshotEvidence,
    TransactionEvidence,
    read_evidence_in_files,
    read_transaction_evidence,
)
from kfmt_cli.broker.transactions.transaction import (
    ABORTED,
    COMMITTED,
    COORDINATOR_LOG,
    DAMAGED_MARKER,
    MARKER,
    OUTCOME_BY_CONTROL_TYPE,
    TRANSACTION_INDEX,
    UNKNOWN,
    Transaction,
    create_endings,
)
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import has_errors
from kfmt_cli.formats.control import COMMIT
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import fill_control_types
from kfmt_cli.log.selection.committed_records import CommittedRecords

if TYPE_CHECKING:
    from kfmt_cli.broker.transactions.decision_matching import Ending


class _TransactionBatch(NamedTuple):
    """The columns of a batch that its transaction depends on."""

    producer_id: int
    producer_epoch: int
    base_offset: int
    last_offset: int
    records_count: int
    control: int
    control_type: int
    timestamp_type: int
    base_timestamp: int
    max_timestamp: int
    delete_horizon: int


class TransactionTracker:
    """Tracks the transactions of a log, block by block.

    logs: the logs. If a transaction may have ended in a gap, the files next to them and the
    coordinators' logs in their log directory and under `user_paths` provide evidence.
    open_transaction_by_producer: the open transactions by producer id, in log order.
    newest_timestamp: the largest timestamp in undamaged batches.
    newest_broker_clock_ms: the largest one that the broker's clock set (markers, LogAppendTime).
    raises_unread: as in `read_committed_records`.
    """

    def __init__(
        self,
        logs: Sequence[InputFile] = (),
        user_paths: Sequence[InputPath | str] = (),
        *,
        raises_unread: bool = False,
    ) -> None:
        self._raises_unread = raises_unread
        self.open_transaction_by_producer: dict[int, Transaction] = {}
        self.newest_timestamp = -1
        self.newest_broker_clock_ms = -1
        self._transactions_without_broker_time: list[Transaction] = []
        self._unknown_transactions: list[Transaction] = []
        self._damaged_gaps: list[tuple[int, int]] = []
        self._logs = logs
        self._user_paths = user_paths
        self._gap_finder = BatchGapFinder(logs, self._get_epochs)

    @cached_property
    def _evidence(self) -> TransactionEvidence:
        try:
            return read_transaction_evidence(self._logs)
        except InputError:
            if self._raises_unread:
                raise
            return TransactionEvidence()  # outcomes that only these files show are unknown then

    @property
    def log_end_offset(self) -> int:
        """The offset after the last undamaged batch so far."""
        return self._gap_finder.log_end_offset

    @property
    def oldest_open_transaction(self) -> Transaction | None:
        """The open transaction that begins first: it holds back the last stable offset."""
        return next(iter(self.open_transaction_by_producer.values()), None)  # in log order

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, from the log alone."""
        oldest_transaction = self.oldest_open_transaction
        return (
            self.log_end_offset
            if oldest_transaction is None
            else oldest_transaction.first_offset or 0
        )

    def load_snapshot(self, snapshot: SnapshotEvidence) -> None:
        """Begin at a producer snapshot, with the transactions that are open there."""
        self._gap_finder.log_end_offset = snapshot.offset
        offsets_and_producers = sorted(
            (first_offset, producer_id)
            for producer_id, first_offset in snapshot.first_offset_by_producer.items()
            if first_offset >= 0
        )
        for first_offset, producer_id in offsets_and_producers:
            self.open_transaction_by_producer[producer_id] = Transaction(
                producer_id, -1, first_offset, first_offset
            )

    def track(self, blocks: Iterable[Block]) -> Iterator[Transaction]:
        """Process all blocks; yields the transactions that end in them, and those that may have
        ended in a damaged part."""
        for block in blocks:
            yield from self.process_block(block)
        yield from self.finish()

    def process_block(self, block: Block) -> Iterator[Transaction]:
        """Process the batches of the next block; yields the transactions that end in them, except
        those whose outcome damage hides."""
        yield from self._withhold_unknown(self._process_block(block))

    def finish(self) -> Iterator[Transaction]:
        """Yield the transactions that ended in damaged batches after all others, and those whose
        end or outcome damage hides."""
        yield from self._withhold_unknown(self._finish())
        if self._unknown_transactions:
            self._resolve_unknown()
        yield from self._unknown_transactions

    def _withhold_unknown(self, transactions: Iterable[Transaction]) -> Iterator[Transaction]:
        for transaction in transactions:
            if transaction.outcome == UNKNOWN:
                self._unknown_transactions.append(transaction)
            else:
                yield transaction

    def _process_block(self, block: Block) -> Iterator[Transaction]:
        for gap, part in self._gap_finder.split(block):
            yield from self._process_part(gap, part)

    def _finish(self) -> Iterator[Transaction]:
        for gap, part in self._gap_finder.finish():
            yield from self._process_part(gap, part)
        gap = self._gap_finder.take_last_gap()
        if gap is not None:
            yield from self._process_gap(gap)
        for producer_id, transaction in [*self.open_transaction_by_producer.items()]:
            if self._find_hidden_end(transaction, MAX_OFFSET, is_at_end=True):
                yield self.open_transaction_by_producer.pop(producer_id)
        if self._gap_finder.has_damage:
            self._add_lost_open_transactions()

    def _resolve_unknown(self) -> None:
        """Set the outcomes of transactions whose markers are lost, if coordinators' logs show
        them."""
        from kfmt_cli.broker.transactions.decision_matching import find_decisions

        decisions = find_decisions(
            self._logs[0].path if self._logs else STDIN_PATH,
            self._user_paths,
            [(lost.producer_id, lost.first_offset or 0) for lost in self._unknown_transactions],
            self._read_endings,
        )
        for transaction, decision in zip(self._unknown_transactions, decisions, strict=True):
            if decision is not None:
                transaction.outcome = OUTCOME_BY_CONTROL_TYPE[decision.control_type]
                transaction.evidence = COORDINATOR_LOG
                transaction.marker_epoch = decision.producer_epoch

    def _read_endings(self, producer_ids: Collection[int]) -> dict[int, dict[int, Ending]]:
        """The ends of some producers' transactions, as `create_endings` returns them; reads the
        logs again. Raises InputError."""
        tracker = TransactionTracker(self._logs)
        transactions = [
            transaction
            for log in self._logs
            for block in read_blocks_from(log)
            for transaction in tracker._process_block(block)
            if transaction.producer_id in producer_ids
        ]
        transactions += tracker._finish()
        transactions += tracker.open_transaction_by_producer.values()
        log_start = self._logs[0].base_offset_or_zero
        return create_endings(
            transactions,
            producer_ids,
            tracker._damaged_gaps,
            starts_whole=log_start == 0,
            is_compacted=tracker._gap_finder.last_gap_end > log_start,
        )

    def _add_lost_open_transactions(self) -> None:
        """Add the transactions that a snapshot at the end shows as open, if damage has taken all of
        their batches."""
        snapshots, end_offset = self._evidence.snapshots, self.log_end_offset
        if not snapshots or snapshots[-1].offset < end_offset:
            return
        open_transactions = list(self.open_transaction_by_producer.values())
        open_transactions += (
            Transaction(producer_id, -1, first_offset)
            for producer_id, first_offset in snapshots[-1].first_offset_by_producer.items()
            if 0 <= first_offset < end_offset
            and producer_id not in self.open_transaction_by_producer
        )
        open_transactions.sort(key=lambda transaction: transaction.first_offset or 0)
        self.open_transaction_by_producer = {
            transaction.producer_id: transaction for transaction in open_transactions
        }

    def _get_epochs(self) -> dict[int, int]:
        return {
            producer_id: transaction.producer_epoch
            for producer_id, transaction in self.open_transaction_by_producer.items()
        }

    def _process_part(self, gap: BatchGap | None, part: Block) -> Iterator[Transaction]:
        if gap is not None:
            yield from self._process_gap(gap)
        batches = part.batches
        self.newest_timestamp = int(batches.max_timestamp.max(initial=self.newest_timestamp))
        is_v2 = batches.is_v2 == 1
        has_broker_time = is_v2 & ((batches.control == 1) | (batches.timestamp_type == 1))
        self.newest_broker_clock_ms = int(
            batches.max_timestamp[has_broker_time].max(initial=self.newest_broker_clock_ms)
        )
        transactional_rows = np.flatnonzero(is_v2 & (batches.transactional == 1))
        if not len(transactional_rows):
            return
        fill_control_types(part)
        for batch_values in zip(
            *(
                batches[column_name][transactional_rows].tolist()
                for column_name in _TransactionBatch._fields
            ),
            strict=True,
        ):
            yield from self._process_batch(_TransactionBatch(*batch_values))

    def _process_gap(self, gap: BatchGap) -> Iterator[Transaction]:
        """Process a damaged gap: verified markers in it end their transactions."""
        self._damaged_gaps.append(gap[:2])
        for marker in gap.markers:
            if marker.is_verified:
                is_commit = marker.control_type == COMMIT
                yield from self._end_before(marker.producer_id, marker.offset, is_commit=is_commit)
                transaction = self.open_transaction_by_producer.pop(
                    marker.producer_id, None
                ) or Transaction(marker.producer_id, marker.producer_epoch)
                transaction.outcome = OUTCOME_BY_CONTROL_TYPE[marker.control_type]
                transaction.evidence, transaction.marker_offset = DAMAGED_MARKER, marker.offset
                transaction.damaged_marker, transaction.end_timestamp = marker, marker.timestamp
                transaction.marker_epoch = marker.producer_epoch
                yield transaction
        marker_by_producer = {marker.producer_id: marker for marker in gap.markers}
        for producer_id, transaction in self.open_transaction_by_producer.items():
            read_marker = marker_by_producer.get(producer_id)
            if read_marker is not None or gap.may_hide_markers:
                earlier_gap = transaction.last_gap or gap
                transaction.last_gap = gap._replace(first_offset=earlier_gap.first_offset)
                transaction.damaged_marker = transaction.damaged_marker or read_marker

    def _end_before(
        self, producer_id: int, offset: int, epoch: int = -1, *, is_commit: bool = False
    ) -> Iterator[Transaction]:
        """End a producer's transaction if it ended in a gap before an offset, the producer's next
        batch or marker. is_commit: whether that is a COMMIT marker."""
        transaction = self.open_transaction_by_producer.get(producer_id)
        if transaction is not None and self._find_hidden_end(
            transaction, offset, epoch, is_before_commit=is_commit
        ):
            yield self.open_transaction_by_producer.pop(producer_id)

    def _find_hidden_end(
        self,
        transaction: Transaction,
        next_offset: int,
        epoch: int = -1,
        *,
        is_before_commit: bool = False,
        is_at_end: bool = False,
    ) -> bool:
        """Whether a transaction ended in a gap, or may have; sets its outcome.

        next_offset, epoch: the offset and the epoch of the producer's next batch or marker.
        is_before_commit: that is a COMMIT marker. is_at_end: there is none.
        """
        last_offset = transaction.last_offset
        gap, marker = transaction.last_gap, transaction.damaged_marker
        if last_offset is None or (gap is None and self._gap_finder.last_gap_end <= last_offset):
            return False
        gap_range = (last_offset + 1, next_offset - 1) if gap is None else gap[:2]
        evidence, producer_id = self._evidence, transaction.producer_id
        abort = evidence.find_abort(producer_id, last_offset + 1, next_offset - 1)
        if abort is not None and abort.first_offset <= last_offset:
            transaction.outcome, transaction.evidence = ABORTED, TRANSACTION_INDEX
            transaction.marker_offset = abort.last_offset
            return True
        was_open = False if abort is not None else None  # another one began before that
        if was_open is None:
            offsets = transaction.first_offset or 0, last_offset
            was_open = evidence.was_open(producer_id, offsets, gap_range[1], next_offset)
        if was_open is None and (marker is not None or epoch > transaction.producer_epoch):
            was_open = False
        if was_open is None and gap is None:
            was_open = True
        if was_open is None and is_before_commit and evidence.has_all_aborts(*gap_range):
            was_open = True  # the marker commits it, or repeats that it was committed in the gap
        if was_open is None and evidence.has_all_aborts(gap_range[0], MAX_OFFSET - 1):
            # It was not aborted in the gap or later: it was committed, or is still open.
            was_open_last = evidence.was_open_last(producer_id, transaction.first_offset or 0)
            was_open = None if is_at_end and was_open_last is None else was_open_last is not False
        if was_open:
            transaction.last_gap = transaction.damaged_marker = None
            return False
        transaction.outcome = UNKNOWN
        if was_open is None:
            return True
        if evidence.has_all_aborts(*gap_range):
            transaction.outcome, transaction.evidence = COMMITTED, TRANSACTION_INDEX
        elif marker is not None:
            transaction.outcome = OUTCOME_BY_CONTROL_TYPE[marker.control_type]
            transaction.evidence = DAMAGED_MARKER
        if transaction.outcome != UNKNOWN:
            transaction.marker_offset = gap_range[1] if marker is None else marker.offset
        return True

    def _process_batch(self, batch: _TransactionBatch) -> Iterator[Transaction]:
        producer_id = batch.producer_id
        if batch.control or batch.timestamp_type == 1:
            for transaction in self._transactions_without_broker_time:
                transaction.last_known_open_ms = batch.max_timestamp
            self._transactions_without_broker_time.clear()
        outcome = OUTCOME_BY_CONTROL_TYPE.get(batch.control_type)
        if batch.control and outcome is None:
            return  # a marker that compaction has emptied
        epoch = -1 if batch.control else batch.producer_epoch  # a marker may raise it
        is_commit = outcome == COMMITTED
        yield from self._end_before(producer_id, batch.base_offset, epoch, is_commit=is_commit)
        if batch.control:
            ended_transaction = self.open_transaction_by_producer.pop(producer_id, None)
            ended_transaction = ended_transaction or Transaction(producer_id, batch.producer_epoch)
            ended_transaction.outcome, ended_transaction.evidence = outcome or UNKNOWN, MARKER
            ended_transaction.marker_offset = batch.base_offset
            ended_transaction.marker_epoch = batch.producer_epoch
            ended_transaction.end_timestamp = batch.max_timestamp
            yield ended_transaction
            return
        open_transaction = self.open_transaction_by_producer.setdefault(
            producer_id, Transaction(producer_id, batch.producer_epoch)
        )
        if open_transaction.first_offset is None:
            open_transaction.first_offset = batch.base_offset
            has_delete_horizon = batch.delete_horizon
            open_transaction.start_timestamp = (
                batch.max_timestamp if has_delete_horizon else batch.base_timestamp
            )
            if batch.timestamp_type == 1:
                open_transaction.last_known_open_ms = batch.max_timestamp
            else:
                self._transactions_without_broker_time.append(open_transaction)
        open_transaction.producer_epoch = batch.producer_epoch
        open_transaction.last_offset = batch.last_offset
        open_transaction.records += max(batch.records_count, 0)
        open_transaction.batches += 1
        open_transaction.end_timestamp = batch.max_timestamp


def read_committed_records(
    logs: Sequence[InputFile],
    blocks: Iterable[Block],
    *,
    user_paths: Sequence[InputPath | str] = (),
    aborts_open_transactions: bool = False,
    commits_unknown: bool = False,
    raises_unread: bool = False,
) -> CommittedRecords:
    """The committed part of a partition, from its logs' blocks in order.

    If the logs are damaged, the files next to them and the coordinators' logs in their log
    directory or under `user_paths` show how transactions ended. Records of a transaction whose
    outcome none of them shows do not count as committed, unless commits_unknown.
    aborts_open_transactions: transactions that are open at the end count as aborted there, as they
    will be after their timeout, so that they do not hold back the last stable offset.
    raises_unread: raise InputError for files next to the logs that cannot be read; else outcomes
    that only these show are unknown.
    """
    tracker = TransactionTracker(logs, user_paths, raises_unread=raises_unread)
    aborted_transactions: list[tuple[int, int, int]] = []
    unknown_transactions: list[tuple[int, int, int]] = []
    for transaction in tracker.track(blocks):
        first_offset, last_offset = transaction.first_offset, transaction.last_offset
        if first_offset is None or last_offset is None:
            continue
        if transaction.outcome == ABORTED:
            end_offset = transaction.marker_offset or last_offset
            aborted_transactions.append((transaction.producer_id, first_offset, end_offset))
        elif transaction.outcome == UNKNOWN:
            unknown_transactions.append((transaction.producer_id, first_offset, last_offset))
    last_stable_offset: int | None = tracker.last_stable_offset
    if aborts_open_transactions:
        for producer_id, transaction in tracker.open_transaction_by_producer.items():
            aborted_transactions.append(
                (producer_id, transaction.first_offset or 0, tracker.log_end_offset)
            )
        last_stable_offset = None
    if not commits_unknown:
        aborted_transactions += unknown_transactions
    return CommittedRecords.from_transactions(
        aborted_transactions, last_stable_offset, unknown_transactions
    )


def track_from_snapshot(
    logs: Sequence[InputFile], evidence: TransactionEvidence, end_offset: int = MAX_OFFSET
) -> TransactionTracker | None:
    """The transactions at the end of a partition, from the newest producer snapshot and the logs
    after it; None if these are damaged. end_offset: the log end offset, if it is known; a snapshot
    there needs no log. Raises InputError."""
    tracker, snapshot_offset = TransactionTracker(), 0
    if evidence.snapshots:
        snapshot_offset = evidence.snapshots[-1].offset
        tracker.load_snapshot(evidence.snapshots[-1])
        if snapshot_offset == end_offset:
            return tracker
    for current_log, next_log in zip_longest(logs, logs[1:]):
        # The snapshot covers a log if the next log begins at or before its end offset.
        if next_log is not None and next_log.base_offset_or_zero <= snapshot_offset:
            continue
        for block in read_blocks_from(current_log):
            if has_errors(block.findings) or not (block.batches.crc_valid == 1).all():
                return None
            is_new = block.batches.base_offset >= snapshot_offset
            new_block = replace(block, batches=block.batches.select_rows(is_new))
            deque(tracker.process_block(new_block), maxlen=0)
    return tracker


def read_last_stable_offset(
    logs: Sequence[InputFile], files: Sequence[InputFile], end_offset: int
) -> int:
    """The last stable offset of a partition as it is on the disk, if all of it is replicated;
    raises InputError. files: those in its directory. end_offset: its log end offset."""
    tracker = track_from_snapshot(logs, read_evidence_in_files(files), end_offset)
    if tracker is None:
        tracker = TransactionTracker(logs)
        deque(tracker.track(block for log in logs for block in read_blocks_from(log)), maxlen=0)
    return tracker.last_stable_offset
