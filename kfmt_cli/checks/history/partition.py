"""Check the logs of a partition in order, against each other and the files next to them.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`,
`org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from kfmt_cli.broker.defaults import DEFAULT_TRANSACTION_MAX_TIMEOUT_MS
from kfmt_cli.broker.transactions.producer_state import (
    NO_VALUE,
    ProducerBatch,
    ProducerStateEntry,
    ProducerStateManager,
)
from kfmt_cli.checks.history.history_check import HistoryCheck, HistoryFiles
from kfmt_cli.checks.history.log_history import LogHistory, compare_sequences
from kfmt_cli.errors import InputError
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding

# Fields of a producer in a snapshot that the log determines by itself.
_COMPARED_FIELDS = ("producer_epoch", "last_sequence", "last_offset", "current_txn_first_offset")


class PartitionHistoryCheck(HistoryCheck):
    """The logs agree on producers, transactions and leaders, with each other and with the files
    next to them."""

    def __init__(self, files: HistoryFiles) -> None:
        super().__init__(files)
        self._epoch_start_offsets = [
            start_offset for _, start_offset in files.checkpoint_epoch_starts or ()
        ]
        self._snapshot_by_offset = dict(files.snapshot_by_offset)
        self._producers = ProducerStateManager()
        self._open_transaction_by_producer: dict[int, tuple[str, ProducerBatch]] = {}
        self._previous_history: LogHistory | None = None
        self._has_holes = False
        self._first_offset: int | None = None
        self._max_timestamp = -1
        self._has_reported_deleted_records = False

    def check_log(self, history: LogHistory) -> Iterator[Finding]:
        """Add the next log; yields its findings."""
        yield from history.findings
        yield from self._check_snapshot(history.base_offset)
        yield from self._check_sequences(history)
        yield from self._check_leader_epochs(history)
        for batch in history.producer_batches:
            yield from self._check_producer_batch(history.file, batch)
        if self._first_offset is None:
            self._first_offset = history.start_offset
        self._max_timestamp = max(self._max_timestamp, history.max_timestamp)
        if history.end_offset is not None:
            self._has_holes |= history.n_holes > 0
            self._producers.map_end_offset = history.end_offset
            earlier_history, self._previous_history = self._previous_history, history
            if earlier_history is not None:
                last_batch_by_producer = {
                    **earlier_history.last_batch_by_producer,
                    **history.last_batch_by_producer,
                }
                self._previous_history = replace(
                    history,
                    last_batch_by_producer=last_batch_by_producer,
                    leader_epochs=history.leader_epochs or earlier_history.leader_epochs,
                )

    def finish(self) -> Iterator[Finding]:
        """Findings after the last log."""
        yield from self._check_snapshot(self._producers.map_end_offset)
        for log_name, first_batch in self._open_transaction_by_producer.values():
            age_ms = self._max_timestamp - first_batch.timestamp
            is_hanging = first_batch.timestamp >= 0 and age_ms > DEFAULT_TRANSACTION_MAX_TIMEOUT_MS
            message = (
                f"producer {first_batch.producer_id}, epoch {first_batch.producer_epoch}: the "
                "transaction "
                f"starting at offset {first_batch.base_offset} is still open at the end of the "
                "log, "
                f"{max(age_ms, 0) // 1000} s later"
            )
            code = codes.TRANSACTION_HANGING if is_hanging else codes.TRANSACTION_OPEN
            yield Finding(
                log_name, code, first_batch.position, message, offset=first_batch.base_offset
            )

    def _check_sequences(self, history: LogHistory) -> Iterator[Finding]:
        """Compare each producer's last batch in the earlier logs with its first in this one."""
        if self._previous_history is None:
            return
        n_gap_offsets = (history.start_offset or 0) - (self._previous_history.end_offset or 0)
        for producer_id, first_batch in history.first_batch_by_producer.items():
            previous_batch = self._previous_history.last_batch_by_producer.get(producer_id)
            if previous_batch is not None:
                n_holes = (
                    self._previous_history.n_holes
                    - previous_batch.n_cumulative_holes
                    + first_batch.n_cumulative_holes
                    + max(n_gap_offsets, 0)
                )
                yield from compare_sequences(history.file, previous_batch, first_batch, n_holes)

    def _check_leader_epochs(self, history: LogHistory) -> Iterator[Finding]:
        """Compare leader epochs with each other and with the checkpoint."""
        previous_epoch = -1
        if self._previous_history is not None and self._previous_history.leader_epochs:
            # An overlap has its own finding: the later segment is an older copy.
            is_overlap = (history.start_offset or 0) < (self._previous_history.end_offset or 0)
            previous_epoch = -1 if is_overlap else self._previous_history.leader_epochs[-1][0]
        for epoch, epoch_start_offset in history.leader_epochs:
            if epoch < previous_epoch:
                message = f"leader epoch {epoch} follows epoch {previous_epoch}"
                yield Finding(
                    history.file, codes.LEADER_EPOCH_BACK, None, message, offset=epoch_start_offset
                )
            previous_epoch = epoch
            if (
                self.files.checkpoint_epoch_starts is None
                or epoch_start_offset < self.files.log_start_offset
            ):
                continue  # a broker drops the epochs of deleted records
            if self._epoch_start_offsets and epoch_start_offset < self._epoch_start_offsets[0]:
                yield from self._report_deleted_records(history.file, epoch_start_offset)
                continue
            epoch_index = bisect_right(self._epoch_start_offsets, epoch_start_offset) - 1
            checkpoint_epoch = (
                self.files.checkpoint_epoch_starts[epoch_index][0] if epoch_index >= 0 else None
            )
            if checkpoint_epoch != epoch:
                epoch_text = "no epoch" if checkpoint_epoch is None else f"epoch {checkpoint_epoch}"
                yield Finding(
                    history.file,
                    codes.LEADER_EPOCH_CONTRADICTED,
                    None,
                    f"the batch has leader epoch {epoch}; leader-epoch-checkpoint has {epoch_text}",
                    offset=epoch_start_offset,
                    expected=checkpoint_epoch,
                    found=epoch,
                )

    def _report_deleted_records(self, log_name: str, record_offset: int) -> Iterator[Finding]:
        """Report, once, records that exist although their epochs were dropped."""
        if self._has_reported_deleted_records:
            return
        self._has_reported_deleted_records = True
        message = f"the first leader epoch starts at offset {self._epoch_start_offsets[0]}"
        yield Finding(
            *(log_name, codes.DELETED_RECORDS_BACK, None, message),
            offset=record_offset,
            expected=self._epoch_start_offsets[0],
            found=self.files.log_start_offset,
        )

    def _check_producer_batch(self, log_name: str, batch: ProducerBatch) -> Iterator[Finding]:
        producer_entry = self._producers.entry_by_producer_id.get(
            batch.producer_id, ProducerStateEntry()
        )
        is_transaction_open = producer_entry.current_txn_first_offset != NO_VALUE
        if batch.control_type is not None:
            self._open_transaction_by_producer.pop(batch.producer_id, None)
            if not is_transaction_open:
                message = (
                    f"marker of producer {batch.producer_id} for a transaction with no records here"
                )
                offset = batch.base_offset
                yield Finding(
                    log_name, codes.TRANSACTION_MARKER_ALONE, batch.position, message, offset=offset
                )
        elif batch.transactional and not is_transaction_open:
            self._open_transaction_by_producer[batch.producer_id] = log_name, batch
        elif is_transaction_open and not batch.transactional:
            message = (
                f"producer {batch.producer_id}: non-transactional batch while its transaction "
                f"from offset {producer_entry.current_txn_first_offset} is open"
            )
            yield Finding(
                log_name, codes.TRANSACTION_MIXED, batch.position, message, offset=batch.base_offset
            )
        self._producers.apply_batch(batch)

    def _check_snapshot(self, snapshot_offset: int) -> Iterator[Finding]:
        """Compare the snapshot at an offset, if any, with the logs so far."""
        snapshot_file = self._snapshot_by_offset.pop(snapshot_offset, None)
        if (
            snapshot_file is None
            or self._has_holes
            or self._producers.map_end_offset != snapshot_offset
        ):
            return
        snapshot_producers = ProducerStateManager()
        try:
            snapshot_contents = snapshot_file.read_contents()
        except InputError as error:
            self.files.on_unreadable(error)
            return
        if snapshot_contents.findings:
            return
        snapshot_producers.load_snapshot(snapshot_contents.table, snapshot_offset)
        for producer_id, snapshot_entry in snapshot_producers.entry_by_producer_id.items():
            log_entry = self._producers.entry_by_producer_id.get(producer_id)
            if log_entry is None or snapshot_entry.last_offset < (self._first_offset or 0):
                continue
            log_values, snapshot_values = log_entry._asdict(), snapshot_entry._asdict()
            for field_name in _COMPARED_FIELDS:
                if log_values[field_name] != snapshot_values[field_name]:
                    yield Finding(
                        snapshot_file.name,
                        codes.SNAPSHOT_CONTRADICTED,
                        None,
                        f"producer {producer_id}: {field_name} is "
                        f"{snapshot_values[field_name]} in the "
                        f"snapshot, {log_values[field_name]} in the log",
                        expected=log_values[field_name],
                        found=snapshot_values[field_name],
                    )
                    break
