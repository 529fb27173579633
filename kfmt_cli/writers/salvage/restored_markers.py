"""Restores transaction markers that salvaged or merged logs lack.

Without its marker, a transaction would be ended by its producer's next one: a commit would become
an abort, or an abort a commit. Each marker is written where damage left a free offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kfmt_cli.broker.transactions.damaged_markers import DamagedMarker
from kfmt_cli.broker.transactions.transaction import (
    ABORTED,
    COMMITTED,
    MARKER,
    UNKNOWN,
    Transaction,
)
from kfmt_cli.broker.transactions.transactions import TransactionTracker
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.disk.input_paths import InputPath
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.block import Block
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.writers.output import StagingDirectory, copy_times

_COPY_CHUNK_BYTES = 8 << 20
IterBlocks = Callable[[InputFile], Iterator[Block]]


@dataclass(slots=True)
class RestoredMarkers:
    """The rewritten markers, and the transactions whose outcome is unknown."""

    count_by_outcome: Counter[str] = field(default_factory=Counter)
    """Number of markers: `COMMITTED` and `ABORTED` by evidence, `UNKNOWN` by choice."""
    unknown_transactions: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer id, first and last offset."""
    n_without_offset: int = 0
    """Number of markers for which no offset was free."""

    def __bool__(self) -> bool:
        """Whether there is anything to report."""
        return bool(self.count_by_outcome or self.unknown_transactions)


class _Insertion(NamedTuple):
    position: int
    data: bytes


def restore_markers(
    staging: StagingDirectory,
    written_logs: Sequence[InputFile],
    replicas: Iterable[Sequence[InputFile]],
    iter_blocks: IterBlocks,
    user_paths: Sequence[InputPath | str],
    *,
    commits_unknown: bool,
) -> RestoredMarkers:
    """Write the missing markers into the logs of a partition; raises InputError, OutputError.

    written_logs: the logs in the staging directory, in order. replicas: the logs of each replica
    that they were written from, in order. iter_blocks: reads such a log. user_paths: where
    coordinators' logs may be, besides the log directories. commits_unknown: whether transactions
    with an unknown outcome are committed, not aborted.
    """
    ended_transactions: dict[tuple[int, int], Transaction] = {}
    for logs in replicas:
        tracker = TransactionTracker(logs, user_paths)
        for transaction in tracker.track(block for log in logs for block in iter_blocks(log)):
            if transaction.first_offset is None or transaction.evidence == MARKER:
                continue
            key = transaction.producer_id, transaction.last_offset or 0
            if key not in ended_transactions or ended_transactions[key].outcome == UNKNOWN:
                ended_transactions[key] = transaction  # this replica may show how it ended
    restored = RestoredMarkers()
    if not ended_transactions:
        return restored
    layout = _LogLayout.read(written_logs)
    insertions_by_log: dict[int, list[_Insertion]] = defaultdict(list)
    for transaction in sorted(
        ended_transactions.values(), key=lambda ended: (ended.outcome == UNKNOWN, _last(ended))
    ):
        if not layout.contains_records(transaction):
            continue
        marker_range = _marker_range(transaction)
        if layout.has_marker(transaction.producer_id, marker_range):
            continue
        offset = layout.take_free_offset(marker_range)
        if transaction.outcome == UNKNOWN:
            offsets = transaction.first_offset or 0, _last(transaction)
            restored.unknown_transactions.append((transaction.producer_id, *offsets))
        if offset is None:
            restored.n_without_offset += 1
            continue
        marker = _create_marker(transaction, offset, layout.leader_epoch(offset), commits_unknown)
        log_index, position = layout.place(offset)
        insertions_by_log[log_index].append(_Insertion(position, marker.encode()))
        restored.count_by_outcome[transaction.outcome] += 1
    for log_index, insertions in insertions_by_log.items():
        _insert_batches(staging, written_logs[log_index], insertions)
    return restored


def _last(transaction: Transaction) -> int:
    return transaction.last_offset or 0


def _marker_range(transaction: Transaction) -> tuple[int, int]:
    """The offsets at which a transaction's marker may have been."""
    gap, marker_offset = transaction.last_gap, transaction.marker_offset
    first_offset = _last(transaction) + 1 if gap is None else gap.first_offset
    if marker_offset is not None:
        is_known = transaction.damaged_marker is not None or transaction.outcome == ABORTED
        return (marker_offset, marker_offset) if is_known else (first_offset, marker_offset)
    return first_offset, first_offset if gap is None else gap.last_offset


def _create_marker(
    transaction: Transaction, offset: int, leader_epoch: int, commits_unknown: bool
) -> DamagedMarker:
    marker = transaction.damaged_marker
    if marker is not None and marker.is_verified:
        return marker._replace(offset=offset, leader_epoch=leader_epoch)
    is_commit = transaction.outcome == COMMITTED or (
        transaction.outcome == UNKNOWN and commits_unknown
    )
    return DamagedMarker(
        offset,
        transaction.producer_id,
        transaction.producer_epoch
        if transaction.marker_epoch is None
        else transaction.marker_epoch,
        COMMIT if is_commit else ABORT,
        0 if marker is None else max(marker.coordinator_epoch, 0),
        transaction.end_timestamp or 0,
        leader_epoch,
        0,
        is_verified=False,
    )


_COLUMNS = ("base_offset", "last_offset", "position", "partition_leader_epoch")


@dataclass(slots=True)
class _LogLayout:
    """Where the batches of the written logs are."""

    batches: IntArray
    """The index of its log, then `_COLUMNS`, of each batch in order."""
    bounds_by_log: list[tuple[int, int]]
    """The base offset and the size of each log."""
    markers: IntArray
    """Producer id and offset of each marker, in order of both."""
    _taken_offsets: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, logs: Sequence[InputFile]) -> _LogLayout:
        """Read it; raises InputError."""
        batches = [np.empty((1 + len(_COLUMNS), 0), np.int64)]
        markers = [np.empty((2, 0), np.int64)]
        bounds_by_log: list[tuple[int, int]] = []
        for log_index, log in enumerate(logs):
            with open_log(log, read_ahead=False) as opened_log:
                for block in opened_log.blocks:
                    table = block.batches
                    columns = [table[name] for name in _COLUMNS]
                    batches.append(np.array([np.full(len(table), log_index), *columns]))
                    is_marker = table.control == 1
                    markers.append(
                        np.array([table.producer_id[is_marker], table.base_offset[is_marker]])
                    )
                bounds_by_log.append((log.base_offset_or_zero, opened_log.reader.bytes_read))
        all_markers = np.concatenate(markers, axis=1)
        order = np.lexsort((all_markers[1], all_markers[0]))
        return cls(np.concatenate(batches, axis=1), bounds_by_log, all_markers[:, order])

    def _find_next(self, offset: int) -> int:
        """The index of the first batch that begins after an offset."""
        return int(np.searchsorted(self.batches[1], offset, side="right"))

    def _find_covering(self, offset: int) -> int | None:
        """The index of the batch with an offset; None without one."""
        index = self._find_next(offset) - 1
        return index if index >= 0 and self.batches[2, index] >= offset else None

    def contains_records(self, transaction: Transaction) -> bool:
        """Whether the logs have the last batch of a transaction."""
        return self._find_covering(_last(transaction)) is not None

    def has_marker(self, producer_id: int, offsets: tuple[int, int]) -> bool:
        """Whether the logs have a marker of a producer in a range of offsets."""
        start, end = np.searchsorted(self.markers[0], [producer_id, producer_id + 1])
        marker_offsets = self.markers[1, start:end]
        return bool(((marker_offsets >= offsets[0]) & (marker_offsets <= offsets[1])).any())

    def take_free_offset(self, offsets: tuple[int, int]) -> int | None:
        """The last offset of a range that no batch has, which is taken; None without any."""
        offset = offsets[1]
        while offset >= max(offsets[0], self.bounds_by_log[0][0]):
            index = self._find_covering(offset)
            if index is None and offset not in self._taken_offsets:
                self._taken_offsets.add(offset)
                return offset
            offset = offset - 1 if index is None else int(self.batches[1, index]) - 1
        return None

    def leader_epoch(self, offset: int) -> int:
        """The leader epoch of the batch before an offset."""
        index = self._find_next(offset) - 1
        return int(self.batches[4, index]) if index >= 0 else 0

    def place(self, offset: int) -> tuple[int, int]:
        """The log and the position for a batch with a free offset."""
        log_index = bisect_right(self.bounds_by_log, (offset, MAX_OFFSET)) - 1
        index = self._find_next(offset)
        if index < self.batches.shape[1] and self.batches[0, index] == log_index:
            return log_index, int(self.batches[3, index])
        return log_index, self.bounds_by_log[log_index][1]


def _insert_batches(
    staging: StagingDirectory, log: InputFile, insertions: list[_Insertion]
) -> None:
    """Insert batches into a log of the staging directory, which keeps its times and mode."""
    path = Path(log.path)
    new_name = f"{path.relative_to(staging.directory)}.restored"
    with path.open("rb") as source, staging.create_file(new_name) as output_file:
        for position, data in sorted(insertions, key=lambda inserted: inserted.data[:8]):
            _copy_bytes(source.read, output_file.write, position - source.tell())
            output_file.write(data)
        _copy_bytes(source.read, output_file.write, path.stat().st_size - source.tell())
    copy_times(log.path, staging.directory / new_name)
    (staging.directory / new_name).replace(path)


def _copy_bytes(read: Callable[[int], bytes], write: Callable[[bytes], None], n_bytes: int) -> None:
    while n_bytes > 0:
        chunk = read(min(_COPY_CHUNK_BYTES, n_bytes))
        assert chunk, "the file was truncated"
        write(chunk)
        n_bytes -= len(chunk)
