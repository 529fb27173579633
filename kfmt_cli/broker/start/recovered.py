"""The indexes and snapshots that a broker writes if it finds only the logs of a partition.

This is the start that `check` predicts, with the complete state of each producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.index import fixed_rows
from kfmt_cli.broker.start.load import KnownLogs, load
from kfmt_cli.broker.start.producers import Snapshots
from kfmt_cli.broker.start.segment import OpenSegment
from kfmt_cli.broker.start.stored import StoredBatch, read_marker
from kfmt_cli.broker.transactions.producers import Event, Producer, Producers
from kfmt_cli.broker.version import OLDEST
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import Folder
from kfmt_cli.formats import header_numbers as header
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.formats.index import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.block import HEADER_SIZE, sequence


@dataclass(slots=True)
class Recovered:
    """A segment that remains after the start."""

    base: int
    entries: int
    """Entries of its index."""
    files: dict[str, bytes | None] = field(default_factory=dict)


def recovered(
    folder: Folder, interval: int, expired_before: int | None
) -> tuple[list[Recovered], dict[int, bytes]]:
    """The remaining segments with their indexes, and the snapshots by offset.

    expired_before: as for `Producers.expire`. Raises StartFailed, InputError.
    """
    snapshots = _States(expired_before)
    done = load(KnownLogs(folder, is_clean=False, version=OLDEST, interval=interval), snapshots)
    done.close()
    left = [_files(segment, snapshots.aborted.get(segment.base, ())) for segment in done.segments]
    return left, {
        offset: snapshots.contents[offset] for offset, file in snapshots.files.items() if not file
    }


def _files(segment: OpenSegment, aborted: Iterable[dict[str, int]]) -> Recovered:
    offsets, positions = (entry.filled for entry in segment.entries)
    times = np.array(segment.times, np.int64).reshape(-1, 2)
    of_index = {"relative_offset": offsets - segment.base, "log_position": positions}
    of_times = {"timestamp": times[:, 0], "relative_offset": times[:, 1] - segment.base}
    stem = f"{segment.base:020}"
    files: dict[str, bytes | None] = {
        f"{stem}.index": fixed_rows(OFFSET_INDEX_ENTRY, of_index),
        f"{stem}.timeindex": fixed_rows(TIME_INDEX_ENTRY, of_times),
        f"{stem}.txnindex": b"".join(map(ABORTED_TRANSACTION.write, aborted)) or None,
    }
    return Recovered(segment.base, len(offsets), files)


class _States(Snapshots):
    """Snapshots with complete producer state. contents: the snapshots that this start writes, by
    offset. aborted: the transactions of each segment's index, by base offset."""

    def __init__(self, expired_before: int | None) -> None:
        super().__init__(has_transactions=True)
        self._expired_before = expired_before
        self._producers = Producers()
        self._kept: dict[int, dict[int, Producer]] = {}
        self.contents: dict[int, bytes] = {}
        self.aborted: dict[int, list[dict[str, int]]] = {}

    def _become(self, transactions: dict[int, int]) -> None:
        super()._become(transactions)
        if not transactions:
            self._producers = Producers()

    def _read(self, offset: int, file: Input | None) -> bool:
        if not super()._read(offset, file):
            return False
        self._producers = Producers()
        if file is None:
            self._producers.restore(self._kept[offset])
        else:
            self._producers.load(file.contents().table, offset)
        if self._expired_before is not None:
            self._producers.expire(self._expired_before)
        return True

    def _write(self, offset: int) -> None:
        super()._write(offset)
        self._producers.end = offset
        self._kept[offset] = self._producers.copied()
        self.contents[offset] = self._producers.snapshot()

    def begin_index(self) -> None:
        super().begin_index()
        self._aborts: list[dict[str, int]] = []

    def emptied(self, segment: OpenSegment) -> None:
        self.aborted.pop(segment.base, None)

    def update(self, segment: OpenSegment, batch: StoredBatch, *, indexed: bool = False) -> None:
        super().update(segment, batch, indexed=indexed)
        if indexed:
            self.aborted[segment.base] = self._aborts
        if batch.producer_id < 0:
            return
        event = _event(segment, batch)
        if event is None:
            return
        aborted = self._producers.apply(event)
        if indexed and aborted is not None:
            self._aborts.append(aborted)


def _event(segment: OpenSegment, batch: StoredBatch) -> Event | None:
    """The effect of a batch on its producer; None for a batch that the cleaner has emptied."""
    head = segment.bytes.read(batch.position, HEADER_SIZE)
    first, delta = np.array(header.base_sequence(head)), np.array(header.last_offset_delta(head))
    event = Event(
        batch.producer_id,
        header.producer_epoch(head),
        int(sequence(first, delta)),
        batch.base_offset,
        batch.last_offset,
        batch.max_timestamp,
        int(batch.is_transactional),
        batch.position,
    )
    if not batch.is_control:
        return event
    marker = read_marker(segment.bytes, batch)
    if marker is None:
        return None
    return event._replace(
        control_type=ABORT if marker.is_abort else COMMIT,
        timestamp=marker.timestamp,
        coordinator_epoch=marker.coordinator_epoch,
    )
