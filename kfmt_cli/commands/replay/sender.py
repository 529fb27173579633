"""Sends the records of one topic, and knows what has been acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import KafkaException

from kfmt_cli.commands.replay.cluster import Digest, LiveCluster, TopicLimits, digest
from kfmt_cli.commands.replay.sources import Chunk
from kfmt_cli.errors import OutputError
from kfmt_cli.render.style import grouped

A_STEP = 2000  # records between two looks at what has been acknowledged
POLL = 0.05  # seconds to wait for room in the producer's queue
Acknowledged = dict[Any, Any]
"""The last acknowledged message of a partition under None, and failed ones under their errors: its
own `__setitem__` is the delivery callback, as calls of Python functions would cost a third of the
rate."""


@dataclass(slots=True)
class Points:
    """The offsets of a partition at which groups stand, and the records there in the cluster."""

    wanted: list[int]
    """In order; those still to come."""
    found: dict[int, int]
    """For each offset, the target offset of the first record at or after it."""

    def rows(self, chunk: Chunk) -> dict[int, list[int]]:
        """The offsets whose first record is in a chunk, by its row; they are then no longer
        wanted."""
        rows: dict[int, list[int]] = {}
        while self.wanted and self.wanted[0] <= chunk.offsets[-1]:
            offset = self.wanted.pop(0)
            rows.setdefault(int(np.searchsorted(chunk.offsets, offset)), []).append(offset)
        return rows

    def set(self, offsets: Sequence[int], target: int) -> None:
        """Keep the target offset of some."""
        self.found.update(dict.fromkeys(offsets, target))


@dataclass(slots=True)
class Sender:
    """Sends to one topic. rate: records per second, None for no limit."""

    cluster: LiveCluster
    topic: str
    limits: TopicLimits
    producer: Any
    rate: int | None = None
    _arrived: dict[Digest, list[int]] = field(default_factory=dict)
    _may_have_arrived: int = 0
    _acknowledged: dict[int, Acknowledged] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)
    _n_sent: int = 0
    _since: float = 0.0

    def expect(self, number: int, begin: int, end: int, most: int) -> None:
        """Do not send what a partition has between two offsets already. most: how many of the next
        records can be there. Raises OutputError."""
        times, cluster = self.limits.keeps_timestamps, self.cluster
        for made, offset in cluster.arrived(self.topic, number, (begin, end), times=times):
            self._arrived.setdefault(made, []).append(offset)
        self._may_have_arrived = most

    def send(self, chunk: Chunk, points: Points) -> int:
        """Send records in order; returns how many had arrived before and are not sent again.
        Raises OutputError."""
        rows = points.rows(chunk)
        n_arrived = 0
        if self._arrived and self._may_have_arrived > 0:
            self._may_have_arrived -= len(chunk)
            kept = self._not_arrived(chunk, rows, points)
            n_arrived = len(chunk) - len(kept)
            if n_arrived:
                places = {row: i for i, row in enumerate(kept)}
                rows = {places[row]: offsets for row, offsets in rows.items() if row in places}
                chunk = chunk.part(kept)
        step = A_STEP if self.rate is None else max(min(A_STEP, self.rate // 10), 1)
        for first in range(0, len(chunk), step):
            part = chunk.between(first, first + step)
            here = {row - first: rows[row] for row in rows if first <= row < first + step}
            self._produce(part, self._callbacks(part, here, points))
            self._poll(0)
            self._keep_rate(len(part))
        return n_arrived

    def _not_arrived(self, chunk: Chunk, rows: dict[int, list[int]], points: Points) -> list[int]:
        """The rows of a chunk that are not in the cluster."""
        kept = []
        for row, (partition, at, key, value, headers) in enumerate(
            zip(
                *(chunk.partitions, chunk.timestamps, chunk.keys, chunk.values, chunk.headers),
                strict=True,
            )
        ):
            made = digest(partition, at if self.limits.keeps_timestamps else 0, key, value, headers)
            targets = self._arrived.get(made)
            if not targets:
                kept.append(row)
                continue
            target = targets.pop(0)
            points.set(rows.get(row, ()), target)
            self._last[partition] = max(target, self._last.get(partition, -1))
            if not targets:
                del self._arrived[made]
        return kept

    def _callbacks(
        self, chunk: Chunk, rows: dict[int, list[int]], points: Points
    ) -> list[Callable[[Any, Any], None]]:
        """What is called with the outcome of each record."""
        of = {}
        for number in set(chunk.partitions):
            of[number] = self._acknowledged.setdefault(number, {None: None}).__setitem__
        callbacks: list[Callable[[Any, Any], None]] = [of[number] for number in chunk.partitions]
        for row, offsets in rows.items():
            plain = callbacks[row]

            def point(error: Any, message: Any, plain: Any = plain, offsets: Any = offsets) -> None:
                plain(error, message)
                if error is None:
                    points.set(offsets, message.offset())

            callbacks[row] = point
        return callbacks

    def _produce(self, chunk: Chunk, callbacks: list[Callable[[Any, Any], None]]) -> None:
        produce, topic = self.producer.produce, self.topic
        columns = (chunk.values, chunk.keys, chunk.partitions, callbacks, chunk.timestamps)
        row = 0
        try:
            for row, (value, key, partition, callback, at, headers) in enumerate(  # noqa: B007
                zip(*columns, chunk.headers, strict=True)
            ):
                while True:
                    try:
                        produce(topic, value, key, partition, callback, None, at, headers)
                        break
                    except BufferError:
                        self._poll(POLL)
        except KafkaException as error:
            place = f"{topic}-{chunk.partitions[row]}: source offset {chunk.offsets[row]}"
            size = sum(len(part) for part in (chunk.keys[row], chunk.values[row]) if part)
            words = f"a record of {grouped(size)} bytes: {self.cluster.reason(error)}"
            raise OutputError(f"{self.cluster.address}: {place}: {words}") from None

    def _keep_rate(self, n_records: int) -> None:
        if self.rate is None:
            return
        self._since = self._since or time.monotonic()
        self._n_sent += n_records
        while (ahead := self._since + self._n_sent / self.rate - time.monotonic()) > 0:
            self._poll(ahead)  # until something is acknowledged

    def _poll(self, seconds: float) -> None:
        """Wait for acknowledgements; raises OutputError for a record that was refused."""
        with self.cluster.asking(self.topic):
            self.producer.poll(seconds)
        for number, outcomes in self._acknowledged.items():
            if len(outcomes) > 1:
                failed, message = next(item for item in outcomes.items() if item[0] is not None)
                size = sum(len(part) for part in (message.key(), message.value()) if part)
                words = f"a record of {grouped(size)} bytes was not accepted"
                reason = self.cluster.reason(KafkaException(failed))
                place = f"{self.cluster.address}: {self.topic}-{number}"
                raise OutputError(f"{place}: {words}: {reason}")

    def settle(self) -> dict[int, int]:
        """Wait until all is acknowledged; returns the last target offset in each partition so
        far. Raises OutputError."""
        while len(self.producer):
            with self.cluster.asking(self.topic):
                self.producer.flush(POLL)
            self._poll(0)
        for number, outcomes in self._acknowledged.items():
            if outcomes[None] is not None:
                self._last[number] = max(outcomes[None].offset(), self._last.get(number, -1))
        return self._last

    def abandon(self) -> None:
        """Forget what has not been sent."""
        self.producer.purge()
        self.producer.poll(0)
