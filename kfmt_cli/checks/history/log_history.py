"""A log's history of producers and leaders, in a few rows: one log at a time, in any process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kfmt_cli.broker.transactions.producers import ProducerBatch, iter_producer_batches
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import MAX_SEQUENCE
from kfmt_cli.log.block import Block
from kfmt_cli.log.small_logs import SmallLogs
from kfmt_cli.rows.log_tables import BatchTable

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
    first_by_producer: dict[int, SequencedBatch] = field(default_factory=dict)
    """The first batch with sequence numbers of each producer."""
    last_by_producer: dict[int, SequencedBatch] = field(default_factory=dict)
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
            block = Block(block.name, block.data, block.position, batches.select_rows(is_plausible))
            batches = block.batches
        if not len(batches):
            return
        self._add_leader_epochs(batches)
        cumulative_holes = self._count_holes(batches)
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
        rows = np.flatnonzero(epochs >= 0)
        if not len(rows):
            return
        previous_epoch = self.leader_epochs[-1][0] if self.leader_epochs else -1
        row_epochs = epochs[rows]
        for i in np.flatnonzero(np.diff(row_epochs, prepend=previous_epoch)).tolist():
            self.leader_epochs.append((int(row_epochs[i]), int(batches.base_offset[rows[i]])))

    def _count_holes(self, batches: BatchTable) -> IntArray:
        """The number of offsets without a record up to the end of each batch."""
        base_offsets, last_offsets = batches.base_offset, batches.last_offset
        last_offset_before = (
            base_offsets[:1] - 1 if self.end_offset is None else [self.end_offset - 1]
        )
        previous_last_offsets = np.concatenate([last_offset_before, last_offsets[:-1]])
        missing_counts = (base_offsets - previous_last_offsets - 1).clip(0) + (
            last_offsets - base_offsets + 1 - batches.records_count
        ).clip(0)
        cumulative_holes: IntArray = np.cumsum(missing_counts) + self.n_holes
        self.n_holes = int(cumulative_holes[-1])
        if self.start_offset is None:
            self.start_offset = int(base_offsets[0])
        self.end_offset = int(last_offsets[-1]) + 1
        return cumulative_holes

    def _check_sequences(
        self, batches: BatchTable, rows: IntArray, cumulative_holes: IntArray
    ) -> None:
        ordered_rows = rows[np.argsort(batches.producer_id[rows], kind="stable")]
        columns = {name: batches[name][ordered_rows] for name in _SEQUENCE_COLUMNS}
        ordered_holes = columns["holes"] = cumulative_holes[ordered_rows]
        producer_ids = columns["producer_id"]
        is_same_producer = producer_ids[1:] == producer_ids[:-1]
        boundaries = np.concatenate(
            [[0], np.flatnonzero(~is_same_producer) + 1, [len(producer_ids)]]
        )
        # Only pairs with an unexpected epoch or sequence are compared one by one.
        expected_sequences = (columns["last_sequence"][:-1] + 1) & MAX_SEQUENCE
        epoch_steps = np.diff(columns["producer_epoch"])
        is_unexpected = is_same_producer & (
            (epoch_steps < 0)
            | ((epoch_steps == 0) & (columns["base_sequence"][1:] != expected_sequences))
        )

        def batch_at(i: int) -> SequencedBatch:
            return SequencedBatch(*(int(column[i]) for column in columns.values()))

        for i in np.flatnonzero(is_unexpected).tolist():
            self.findings += compare_sequences(
                self.file,
                batch_at(i),
                batch_at(i + 1),
                int(ordered_holes[i + 1]) - int(ordered_holes[i]),
            )
        for first, end in zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True):
            first_batch = batch_at(first)
            previous_batch = self.last_by_producer.get(first_batch.producer_id)
            if previous_batch is not None:
                self.findings += compare_sequences(
                    self.file,
                    previous_batch,
                    first_batch,
                    first_batch.n_cumulative_holes - previous_batch.n_cumulative_holes,
                )
            self.first_by_producer.setdefault(first_batch.producer_id, first_batch)
            self.last_by_producer[first_batch.producer_id] = batch_at(end - 1)

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
        is_mixed = np.isin(
            batches.producer_id[non_transactional_rows],
            batches.producer_id[producer_rows[is_transactional]],
        )
        is_needed[non_transactional_rows[is_mixed]] = True
        _, last_indexes = np.unique(
            batches.producer_id[non_transactional_rows][::-1], return_index=True
        )
        is_needed[non_transactional_rows[::-1][last_indexes]] = True
        self.producer_batches += iter_producer_batches(block, np.flatnonzero(is_needed))


def compare_sequences(
    file_name: str, previous: SequencedBatch, current: SequencedBatch, n_holes: int
) -> Iterator[Finding]:
    """Findings about a producer's batch and its next one."""
    label = f"producer {current.producer_id}"
    code, message = None, ""
    if current.producer_epoch < previous.producer_epoch:
        code = codes.PRODUCER_EPOCH_BACK
        message = (
            f"{label}: epoch {current.producer_epoch} follows epoch "
            f"{previous.producer_epoch} at offset {previous.base_offset}"
        )
    elif (
        current.producer_epoch == previous.producer_epoch
        and current.first_sequence != (previous.last_sequence + 1) & MAX_SEQUENCE
    ):
        is_repeated = (
            current.first_sequence <= previous.last_sequence
            and previous.last_sequence - current.first_sequence < MAX_SEQUENCE // 2
        )
        code = codes.SEQUENCE_REPEATED if is_repeated else codes.SEQUENCE_GAP
        message = (
            f"{label}: sequence {current.first_sequence} follows "
            f"{previous.first_sequence}–{previous.last_sequence} at offset {previous.base_offset}"
        )
        if n_holes and not is_repeated:
            return  # compaction removed the records between them
    if code is not None:
        yield Finding(file_name, code, current.position, message, offset=current.base_offset)


def small_log_histories(
    small_logs: SmallLogs, *, with_fingerprints: bool
) -> list[LogHistory | None]:
    """The history of each valid log in `small_logs`; None for any other. with_fingerprints: whether
    they have fingerprints."""
    is_simple = _are_simple_logs(
        small_logs.batches, small_logs.file_of_batch, len(small_logs.files)
    )
    running_hashes = (
        np.cumsum(_batch_fingerprints(small_logs.batches)) if with_fingerprints else None
    )
    results: list[LogHistory | None] = []
    for i, (first, end) in enumerate(small_logs.iter_batch_ranges()):
        if not small_logs.is_valid[i]:
            results.append(None)
            continue
        history = LogHistory(small_logs.files[i].name, small_logs.files[i].base_or_zero)
        history.fingerprint = 0 if with_fingerprints else None
        if is_simple[i]:
            _fill_simple_history(history, small_logs.batches, first, end)
            if running_hashes is not None and first < end:
                previous_hash = int(running_hashes[first - 1]) if first else 0
                history.fingerprint = int(running_hashes[end - 1]) - previous_hash
        else:
            history.add_block(small_logs.file_block(i))
        results.append(history)
    return results


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


def _are_simple_logs(batches: BatchTable, log_of_batch: IntArray, n_logs: int) -> BoolArray:
    """Which logs have no producer ids and only one leader epoch."""
    is_simple = np.ones(n_logs, np.bool_)
    is_simple[log_of_batch[batches.producer_id >= 0]] = False
    epochs = batches.partition_leader_epoch
    is_change = (np.diff(epochs) != 0) & (np.diff(log_of_batch) == 0)
    is_simple[log_of_batch[1:][is_change]] = False
    return is_simple


def _fill_simple_history(history: LogHistory, batches: BatchTable, first: int, end: int) -> None:
    if first == end:
        return
    history.start_offset = int(batches.base_offset[first])
    history.end_offset = int(batches.last_offset[end - 1]) + 1
    epoch = int(batches.partition_leader_epoch[first])
    if epoch >= 0:
        history.leader_epochs.append((epoch, history.start_offset))
