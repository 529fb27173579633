"""Send the records of one topic, and track which of them have been acknowledged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import KafkaException

from kfmt_cli.commands.replay.cluster import (
    ClusterClient,
    RecordDigest,
    TargetTopicLimits,
    record_digest,
)
from kfmt_cli.commands.replay.sources import RecordChunk
from kfmt_cli.errors import OutputError
from kfmt_cli.render.style import format_thousands

RECORDS_PER_POLL = 2000  # records between two polls for acknowledgements
POLL_SECONDS = 0.05  # seconds to wait for space in the producer's queue
DeliveryResults = dict[Any, Any]
"""The delivery results of a partition: the last acknowledged message under None, failed messages
under their errors. Its `__setitem__(error, message)` is the delivery callback, because calls of a
Python function would cost a third of the rate."""


@dataclass(slots=True)
class GroupOffsetTranslator:
    """The offsets of a partition that groups have committed, and the offsets of the same records in
    the cluster."""

    pending_offsets: list[int]
    """The offsets whose records are not sent yet, in ascending order."""
    target_by_offset: dict[int, int]
    """For each offset, the target offset of the first record at or after it."""

    def pop_offsets_by_row(self, chunk: RecordChunk) -> dict[int, list[int]]:
        """Remove the pending offsets for which a chunk has the first record at or after them, and
        return them by the row of that record."""
        offsets_by_row: dict[int, list[int]] = {}
        while self.pending_offsets and self.pending_offsets[0] <= chunk.offsets[-1]:
            offset = self.pending_offsets.pop(0)
            offsets_by_row.setdefault(int(np.searchsorted(chunk.offsets, offset)), []).append(
                offset
            )
        return offsets_by_row

    def set_target_offset(self, offsets: Sequence[int], target_offset: int) -> None:
        """Set the target offset of some offsets."""
        self.target_by_offset.update(dict.fromkeys(offsets, target_offset))


@dataclass(slots=True)
class ReplaySender:
    """Sends records to one topic. rate: maximum records per second, None for no limit."""

    cluster: ClusterClient
    topic: str
    limits: TargetTopicLimits
    producer: Any
    rate: int | None = None
    _arrived_offsets_by_digest: dict[RecordDigest, list[int]] = field(default_factory=dict)
    _max_arrived_by_partition: dict[int, int] = field(default_factory=dict)
    """By partition: how many of the next records may have arrived already."""
    _results_by_partition: dict[int, DeliveryResults] = field(default_factory=dict)
    _last_offset_by_partition: dict[int, int] = field(default_factory=dict)
    _n_sent_records: int = 0
    _rate_start_seconds: float = 0.0

    def read_arrived_records(
        self, partition: int, begin_offset: int, end_offset: int, max_arrived_records: int
    ) -> None:
        """Read the records of a partition with offsets in [begin, end), so that they are not sent
        again. max_arrived_records: how many of the next records to send may be among them. Raises
        OutputError."""
        has_timestamps, cluster = self.limits.keeps_timestamps, self.cluster
        for digest, offset in cluster.iter_record_digests(
            self.topic, partition, (begin_offset, end_offset), includes_timestamps=has_timestamps
        ):
            self._arrived_offsets_by_digest.setdefault(digest, []).append(offset)
        self._max_arrived_by_partition[partition] = max_arrived_records

    def send_chunk(self, chunk: RecordChunk, translator: GroupOffsetTranslator) -> int:
        """Send records in order; returns the number of records that had arrived before and are not
        sent again. Raises OutputError."""
        offsets_by_row = translator.pop_offsets_by_row(chunk)
        n_arrived_records = 0
        n_records_by_partition = Counter(chunk.target_partitions)
        if self._arrived_offsets_by_digest and any(
            self._max_arrived_by_partition.get(partition, 0) > 0
            for partition in n_records_by_partition
        ):
            for partition, n_records in n_records_by_partition.items():
                self._max_arrived_by_partition[partition] = (
                    self._max_arrived_by_partition.get(partition, 0) - n_records
                )
            rows_to_send = self._find_rows_to_send(chunk, offsets_by_row, translator)
            n_arrived_records = len(chunk) - len(rows_to_send)
            if n_arrived_records:
                new_row_by_old_row = {row: new_row for new_row, row in enumerate(rows_to_send)}
                offsets_by_row = {
                    new_row_by_old_row[row]: offsets
                    for row, offsets in offsets_by_row.items()
                    if row in new_row_by_old_row
                }
                chunk = chunk.select_rows(rows_to_send)
        subchunk_rows = (
            RECORDS_PER_POLL
            if self.rate is None
            else max(min(RECORDS_PER_POLL, self.rate // 10), 1)
        )
        for first_row in range(0, len(chunk), subchunk_rows):
            subchunk = chunk.select_row_range(first_row, first_row + subchunk_rows)
            subchunk_offsets_by_row = {
                row - first_row: offsets_by_row[row]
                for row in offsets_by_row
                if first_row <= row < first_row + subchunk_rows
            }
            self._produce_records(
                subchunk,
                self._create_delivery_callbacks(subchunk, subchunk_offsets_by_row, translator),
            )
            self._poll_acknowledgements(0)
            self._limit_rate(len(subchunk))
        return n_arrived_records

    def _find_rows_to_send(
        self,
        chunk: RecordChunk,
        offsets_by_row: dict[int, list[int]],
        translator: GroupOffsetTranslator,
    ) -> list[int]:
        """The rows of a chunk whose records are not in the cluster; resolves the offsets of the
        others."""
        rows_to_send = []
        for row, (partition, timestamp, key, value, headers) in enumerate(
            zip(
                *(
                    chunk.target_partitions,
                    chunk.timestamps,
                    chunk.keys,
                    chunk.values,
                    chunk.headers,
                ),
                strict=True,
            )
        ):
            digest = record_digest(
                partition, timestamp if self.limits.keeps_timestamps else 0, key, value, headers
            )
            arrived_offsets = self._arrived_offsets_by_digest.get(digest)
            if not arrived_offsets:
                rows_to_send.append(row)
                continue
            target_offset = arrived_offsets.pop(0)
            translator.set_target_offset(offsets_by_row.get(row, ()), target_offset)
            self._last_offset_by_partition[partition] = max(
                target_offset, self._last_offset_by_partition.get(partition, -1)
            )
            if not arrived_offsets:
                del self._arrived_offsets_by_digest[digest]
        return rows_to_send

    def _create_delivery_callbacks(
        self,
        chunk: RecordChunk,
        offsets_by_row: dict[int, list[int]],
        translator: GroupOffsetTranslator,
    ) -> list[Callable[[Any, Any], None]]:
        """The delivery callback of each record."""
        callback_by_partition = {}
        for partition in set(chunk.target_partitions):
            callback_by_partition[partition] = self._results_by_partition.setdefault(
                partition, {None: None}
            ).__setitem__
        callbacks: list[Callable[[Any, Any], None]] = [
            callback_by_partition[partition] for partition in chunk.target_partitions
        ]
        for row, offsets in offsets_by_row.items():
            store_outcome = callbacks[row]

            def store_outcome_and_offset(
                error: Any, message: Any, store_outcome: Any = store_outcome, offsets: Any = offsets
            ) -> None:
                store_outcome(error, message)
                if error is None:
                    translator.set_target_offset(offsets, message.offset())

            callbacks[row] = store_outcome_and_offset
        return callbacks

    def _produce_records(
        self, chunk: RecordChunk, callbacks: list[Callable[[Any, Any], None]]
    ) -> None:
        produce, topic = self.producer.produce, self.topic
        record_columns = (
            chunk.values,
            chunk.keys,
            chunk.target_partitions,
            callbacks,
            chunk.timestamps,
        )
        row = 0
        try:
            for row, (value, key, partition, callback, timestamp, headers) in enumerate(  # noqa: B007
                zip(*record_columns, chunk.headers, strict=True)
            ):
                while True:
                    try:
                        produce(topic, value, key, partition, callback, None, timestamp, headers)
                        break
                    except BufferError:
                        self._poll_acknowledgements(POLL_SECONDS)
        except KafkaException as error:
            location = f"{topic}-{chunk.target_partitions[row]}: source offset {chunk.offsets[row]}"
            record_bytes = sum(
                len(key_or_value)
                for key_or_value in (chunk.keys[row], chunk.values[row])
                if key_or_value
            )
            error_text = (
                f"a record of {format_thousands(record_bytes)} bytes: "
                f"{self.cluster.format_error(error)}"
            )
            raise OutputError(
                f"{self.cluster.bootstrap_servers}: {location}: {error_text}"
            ) from None

    def _limit_rate(self, n_records: int) -> None:
        if self.rate is None:
            return
        self._rate_start_seconds = self._rate_start_seconds or time.monotonic()
        self._n_sent_records += n_records
        while (
            wait_seconds := self._rate_start_seconds
            + self._n_sent_records / self.rate
            - time.monotonic()
        ) > 0:
            self._poll_acknowledgements(wait_seconds)  # returns early if a record is acknowledged

    def _poll_acknowledgements(self, timeout_seconds: float) -> None:
        """Wait for acknowledgements; raises OutputError for a record that was not accepted."""
        with self.cluster.raise_output_errors(self.topic):
            self.producer.poll(timeout_seconds)
        for partition, delivery_results in self._results_by_partition.items():
            if len(delivery_results) > 1:
                error, message = next(
                    error_and_message
                    for error_and_message in delivery_results.items()
                    if error_and_message[0] is not None
                )
                record_bytes = sum(
                    len(key_or_value)
                    for key_or_value in (message.key(), message.value())
                    if key_or_value
                )
                error_text = f"a record of {format_thousands(record_bytes)} bytes was not accepted"
                reason = self.cluster.format_error(KafkaException(error))
                location = f"{self.cluster.bootstrap_servers}: {self.topic}-{partition}"
                raise OutputError(f"{location}: {error_text}: {reason}")

    def await_acknowledgements(self) -> dict[int, int]:
        """Wait until all records are acknowledged; returns the last offset so far of each partition
        in the cluster. Raises OutputError."""
        while len(self.producer):
            with self.cluster.raise_output_errors(self.topic):
                self.producer.flush(POLL_SECONDS)
            self._poll_acknowledgements(0)
        for partition, delivery_results in self._results_by_partition.items():
            if delivery_results[None] is not None:
                self._last_offset_by_partition[partition] = max(
                    delivery_results[None].offset(),
                    self._last_offset_by_partition.get(partition, -1),
                )
        return self._last_offset_by_partition

    def discard_unsent_records(self) -> None:
        """Discard the records that have not been sent."""
        self.producer.purge()
        self.producer.poll(0)
