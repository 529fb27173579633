"""A log's history of producers and leaders, in a few rows: one log at a time, in any process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kfmt_cli.broker.transactions.producer_state import ProducerBatch, iter_producer_batches
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import MAX_SEQUENCE
from kfmt_cli.log.block import Block
from kfmt_cli.log.small_logs import SmallLogs
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.offset_order import in_order_mask

_SEQUENCE_COLUMNS = (
    *("producer_id", "producer_epoch", "base_sequence", "last_sequence", "base_offset"),
    "position",
)

# Large odd numbers; sums of 2^24 batches of 40 bits fit.
_HASH_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)))
_HASH_MASK = np.uint64((1 << 40) - 1)
UintArray = NDArray[np.uint64]


class LogFingerprint(NamedTuple):
    """Identifies the batches of a log, to compare them with other replicas' logs."""

    base_offset: int
    """The base offset in its name."""
    fingerprint: int
    epochs: tuple[tuple[int, int], ...]
    """Leader epochs, each with its first offset."""


@dataclass(frozen=True, slots=True)
class SequencedBatch:
    """A producer's batch with sequence numbers."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int
    position: int
    n_cumulative_holes: int
    """Offsets without a record in the log, up to the end of this batch."""


@dataclass(slots=True)
class LogHistory:
    """The history of a log."""

    file: str
    base_offset: int
    leader_epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each leader epoch with its first offset, in log order."""
    first_batch_by_producer: dict[int, SequencedBatch] = field(default_factory=dict)
    """The first batch with sequence numbers of each producer."""
    last_batch_by_producer: dict[int, SequencedBatch] = field(default_factory=dict)
    """The last batch with sequence numbers of each producer."""
    producer_batches: list[ProducerBatch] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    n_holes: int = 0
    """Offsets without a record, in total."""
    start_offset: int | None = None
    end_offset: int | None = None
    """The offset after its last batch."""
    max_timestamp: int = -1
    fingerprint: int | None = None
    """Of the undamaged batches: logs with the same batches have the same one. None if not
    requested: only a comparison of replicas needs it."""

    @property
    def log_fingerprint(self) -> LogFingerprint | None:
        """The identity of the log's batches, None if it has no fingerprint."""
        if self.fingerprint is None:
            return None
        return LogFingerprint(self.base_offset, self.fingerprint, tuple(self.leader_epochs))

    @property
    def has_transactions(self) -> bool:
        """Whether any batch belongs to a transaction or ends one."""
        return any(
            batch.control_type is not None or batch.transactional for batch in self.producer_batches
        )

    def add_block(self, block: Block) -> None:
        """Add the next block of the log."""
        batches = block.batches
        if self.fingerprint is not None:
            self.fingerprint += int(np.add.reduce(_batch_fingerprints(batches)))
        is_plausible = (batches.crc_valid == 1) & (batches.is_v2 == 1)
        is_plausible &= batches.last_offset >= batches.base_offset
        if not is_plausible.all():
            block = Block(
                block.file_name, block.data, block.data_position, batches.select_rows(is_plausible)
            )
            batches = block.batches
        if not len(batches):
            return
        self._add_leader_epochs(batches)
        cumulative_holes = self._cumulate_holes(batches)
        self.max_timestamp = int(batches.max_timestamp.max(initial=self.max_timestamp))
        producer_rows = np.flatnonzero(batches.producer_id >= 0)
        if len(producer_rows):
            data_rows = producer_rows[batches.control[producer_rows] == 0]
            sequenced_rows = data_rows[batches.base_sequence[data_rows] >= 0]
            if len(sequenced_rows):
                self._check_sequences(batches, sequenced_rows, cumulative_holes)
            self._add_producer_batches(block, producer_rows, data_rows)

    def _add_leader_epochs(self, batches: BatchTable) -> None:
        epochs = batches.partition_leader_epoch
        rows_with_epoch = np.flatnonzero(epochs >= 0)
        if not len(rows_with_epoch):
            return
        previous_epoch = self.leader_epochs[-1][0] if self.leader_epochs else -1
        row_epochs = epochs[rows_with_epoch]
        for change_index in np.flatnonzero(np.diff(row_epochs, prepend=previous_epoch)).tolist():
            self.leader_epochs.append(
                (
                    int(row_epochs[change_index]),
                    int(batches.base_offset[rows_with_epoch[change_index]]),
                )
            )

    def _cumulate_holes(self, batches: BatchTable) -> IntArray:
        """The number of offsets without a record up to the end of each batch."""
        base_offsets, last_offsets = batches.base_offset, batches.last_offset
        initial_last_offset = (
            base_offsets[:1] - 1 if self.end_offset is None else [self.end_offset - 1]
        )
        previous_last_offsets = np.concatenate([initial_last_offset, last_offsets[:-1]])
        hole_counts = (base_offsets - previous_last_offsets - 1).clip(0) + (
            last_offsets - base_offsets + 1 - batches.records_count
        ).clip(0)
        cumulative_holes: IntArray = np.cumsum(hole_counts) + self.n_holes
        self.n_holes = int(cumulative_holes[-1])
        if self.start_offset is None:
            self.start_offset = int(base_offsets[0])
        is_in_order = in_order_mask(batches, self.end_offset or 0)
        if is_in_order.any():
            self.end_offset = int(last_offsets[is_in_order][-1]) + 1
        return cumulative_holes

    def _check_sequences(
        self, batches: BatchTable, sequenced_rows: IntArray, cumulative_holes: IntArray
    ) -> None:
        ordered_rows = sequenced_rows[
            np.argsort(batches.producer_id[sequenced_rows], kind="stable")
        ]
        column_by_name = {name: batches[name][ordered_rows] for name in _SEQUENCE_COLUMNS}
        ordered_holes = column_by_name["holes"] = cumulative_holes[ordered_rows]
        producer_ids = column_by_name["producer_id"]
        is_same_producer = producer_ids[1:] == producer_ids[:-1]
        producer_bounds = np.concatenate(
            [[0], np.flatnonzero(~is_same_producer) + 1, [len(producer_ids)]]
        )
        # Only pairs with an unexpected epoch or sequence are compared one by one.
        expected_sequences = (column_by_name["last_sequence"][:-1] + 1) & MAX_SEQUENCE
        epoch_differences = np.diff(column_by_name["producer_epoch"])
        is_unexpected = is_same_producer & (
            (epoch_differences < 0)
            | (
                (epoch_differences == 0)
                & (column_by_name["base_sequence"][1:] != expected_sequences)
            )
        )

        def create_batch(row_index: int) -> SequencedBatch:
            return SequencedBatch(*(int(column[row_index]) for column in column_by_name.values()))

        for i in np.flatnonzero(is_unexpected).tolist():
            self.findings += compare_sequences(
                self.file,
                create_batch(i),
                create_batch(i + 1),
                int(ordered_holes[i + 1]) - int(ordered_holes[i]),
            )
        for first_row, end_row in zip(
            producer_bounds[:-1].tolist(), producer_bounds[1:].tolist(), strict=True
        ):
            first_batch = create_batch(first_row)
            previous_batch = self.last_batch_by_producer.get(first_batch.producer_id)
            if previous_batch is not None:
                self.findings += compare_sequences(
                    self.file,
                    previous_batch,
                    first_batch,
                    first_batch.n_cumulative_holes - previous_batch.n_cumulative_holes,
                )
            self.first_batch_by_producer.setdefault(first_batch.producer_id, first_batch)
            self.last_batch_by_producer[first_batch.producer_id] = create_batch(end_row - 1)

    def _add_producer_batches(
        self, block: Block, producer_rows: IntArray, data_rows: IntArray
    ) -> None:
        """Add the batches that change producer state; of non-transactional ones, each last one."""
        batches = block.batches
        is_needed = np.zeros(len(batches), np.bool_)
        is_transactional = batches.transactional[producer_rows] == 1
        is_needed[producer_rows[is_transactional | (batches.control[producer_rows] == 1)]] = True
        non_transactional_rows = data_rows[batches.transactional[data_rows] == 0]
        # If a producer does both, each of its batches is needed.
        is_of_mixed_producer = np.isin(
            batches.producer_id[non_transactional_rows],
            batches.producer_id[producer_rows[is_transactional]],
        )
        is_needed[non_transactional_rows[is_of_mixed_producer]] = True
        _, reversed_indexes = np.unique(
            batches.producer_id[non_transactional_rows][::-1], return_index=True
        )
        is_needed[non_transactional_rows[::-1][reversed_indexes]] = True
        self.producer_batches += iter_producer_batches(block, np.flatnonzero(is_needed))


def compare_sequences(
    file_name: str, previous_batch: SequencedBatch, current_batch: SequencedBatch, n_holes: int
) -> Iterator[Finding]:
    """Findings about a producer's batch and its next one."""
    producer_label = f"producer {current_batch.producer_id}"
    code, message = None, ""
    if current_batch.producer_epoch < previous_batch.producer_epoch:
        code = codes.PRODUCER_EPOCH_BACK
        message = (
            f"{producer_label}: epoch {current_batch.producer_epoch} follows epoch "
            f"{previous_batch.producer_epoch} at offset {previous_batch.base_offset}"
        )
    elif (
        current_batch.producer_epoch == previous_batch.producer_epoch
        and current_batch.first_sequence != (previous_batch.last_sequence + 1) & MAX_SEQUENCE
    ):
        is_repeated = (
            current_batch.first_sequence <= previous_batch.last_sequence
            and previous_batch.last_sequence - current_batch.first_sequence < MAX_SEQUENCE // 2
        )
        code = codes.PRODUCER_SEQUENCE_REPEATED if is_repeated else codes.PRODUCER_SEQUENCE_GAP
        message = (
            f"{producer_label}: sequence {current_batch.first_sequence} follows "
            f"{previous_batch.first_sequence}–{previous_batch.last_sequence} at offset "
            f"{previous_batch.base_offset}"
        )
        if n_holes and not is_repeated:
            return  # compaction removed the records between them
    if code is not None:
        yield Finding(
            file_name, code, current_batch.position, message, offset=current_batch.base_offset
        )


def small_log_histories(
    small_logs: SmallLogs, *, with_fingerprints: bool
) -> list[LogHistory | None]:
    """The history of each valid log in `small_logs`; None for any other. with_fingerprints: whether
    they have fingerprints."""
    is_simple = _simple_log_mask(
        small_logs.batches, small_logs.file_of_batch, len(small_logs.files)
    )
    cumulative_fingerprints = (
        np.cumsum(_batch_fingerprints(small_logs.batches)) if with_fingerprints else None
    )
    histories: list[LogHistory | None] = []
    for log_index, (first_batch, end_batch) in enumerate(small_logs.iter_batch_ranges()):
        if not small_logs.is_valid[log_index]:
            histories.append(None)
            continue
        history = LogHistory(
            small_logs.files[log_index].name, small_logs.files[log_index].base_offset_or_zero
        )
        history.fingerprint = 0 if with_fingerprints else None
        if is_simple[log_index]:
            _fill_simple_history(history, small_logs.batches, first_batch, end_batch)
            if cumulative_fingerprints is not None and first_batch < end_batch:
                previous_fingerprint = (
                    int(cumulative_fingerprints[first_batch - 1]) if first_batch else 0
                )
                history.fingerprint = (
                    int(cumulative_fingerprints[end_batch - 1]) - previous_fingerprint
                )
        else:
            history.add_block(small_logs.file_block(log_index))
        histories.append(history)
    return histories


def _batch_fingerprints(batches: BatchTable) -> UintArray:
    """A number for each batch, by its last offset, leader epoch and checksum; 0 if damaged."""
    hashes = batches.last_offset.astype(np.uint64) * _HASH_FACTORS[0]
    hashes += batches.partition_leader_epoch.astype(np.uint64) * _HASH_FACTORS[1]
    hashes += batches.crc.astype(np.uint64)
    hashes *= _HASH_FACTORS[2]
    hashes ^= hashes >> np.uint64(29)
    hashes *= (batches.crc_valid == 1).astype(np.uint64)
    fingerprints: UintArray = hashes & _HASH_MASK
    return fingerprints


def _simple_log_mask(batches: BatchTable, log_of_batch: IntArray, n_logs: int) -> BoolArray:
    """Which logs have no producer ids and only one leader epoch."""
    is_simple = np.ones(n_logs, np.bool_)
    is_simple[log_of_batch[batches.producer_id >= 0]] = False
    epochs = batches.partition_leader_epoch
    is_epoch_change = (np.diff(epochs) != 0) & (np.diff(log_of_batch) == 0)
    is_simple[log_of_batch[1:][is_epoch_change]] = False
    return is_simple


def _fill_simple_history(
    history: LogHistory, batches: BatchTable, first_batch: int, end_batch: int
) -> None:
    if first_batch == end_batch:
        return
    history.start_offset = int(batches.base_offset[first_batch])
    history.end_offset = int(batches.last_offset[end_batch - 1]) + 1
    epoch = int(batches.partition_leader_epoch[first_batch])
    if epoch >= 0:
        history.leader_epochs.append((epoch, history.start_offset))
