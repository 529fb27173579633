"""__share_group_state: the delivery state of partitions in share groups.

Source: `org.apache.kafka.coordinator.share.ShareCoordinatorShard`, `PersisterStateBatchCombiner`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import Data, Replay
from kfmt_cli.core.layout.field import symbol_of
from kfmt_cli.formats.meanings import DELIVERY_STATES
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.types.state_types import SHARE_PARTITION, StateType

NO_CHANGE = -1
Key = tuple[str, str, int]


class Shares(Replay):
    """Share partitions: snapshots and later updates."""

    topic = "__share_group_state"
    types = (SHARE_PARTITION,)

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Key, Data] = {}

    def take(self, record: Record) -> None:
        if record.control is not None or record.key is None:
            return
        of_key = self.decoder.key(record.key)
        key = self.understood(record, of_key)
        if key is None or of_key is None:
            return
        place = (key.group_id, key.topic_id, key.partition)
        if record.value is None:
            self._known.pop(place, None)
            return
        data = self.understood(record, self.decoder.value(record.key, record.value))
        if data is None:
            return
        if of_key.name == "ShareSnapshotKey":
            self._known[place] = data
        elif place in self._known:
            _update(self._known[place], data)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for (group, topic_id, partition), state in self._known.items():
            batches = [
                {**batch, "delivery_state_name": symbol_of(DELIVERY_STATES, batch.delivery_state)}
                for batch in state.state_batches
            ]
            place = {"group": group, "topic_id": topic_id, "partition": partition}
            yield SHARE_PARTITION, {**state, **place, "state_batches": batches}


def _update(known: Data, data: Data) -> None:
    """Apply an update to a snapshot."""
    for name in ("start_offset", "leader_epoch"):
        if data[name] != NO_CHANGE:
            known[name] = data[name]
    if data.get("delivery_complete_count", NO_CHANGE) != NO_CHANGE:
        known.delivery_complete_count = data.delivery_complete_count
    known.snapshot_epoch = data.snapshot_epoch
    batches = known.state_batches
    for newer in data.state_batches:
        batches = [part for batch in batches for part in _outside(batch, newer)] + [newer]
    start = known.start_offset
    batches = [
        Data(batch, first_offset=max(batch.first_offset, start))
        for batch in batches
        if batch.last_offset >= start
    ]
    known.state_batches = _joined(sorted(batches, key=lambda batch: batch.first_offset))


def _outside(batch: Data, newer: Data) -> Iterator[Data]:
    """The parts of a batch that a newer one does not cover."""
    if batch.first_offset < newer.first_offset:
        end = min(batch.last_offset, newer.first_offset - 1)
        yield Data(batch, last_offset=end)
    if batch.last_offset > newer.last_offset:
        begin = max(batch.first_offset, newer.last_offset + 1)
        yield Data(batch, first_offset=begin)


def _joined(batches: list[Data]) -> list[Data]:
    """Batches in order, with consecutive ones in the same state merged."""
    done: list[Data] = []
    for batch in batches:
        if done and _follows(done[-1], batch):
            done[-1] = Data(done[-1], last_offset=batch.last_offset)
        else:
            done.append(batch)
    return done


def _follows(before: Data, state: Data) -> bool:
    same = all(before[name] == state[name] for name in ("delivery_state", "delivery_count"))
    return same and bool(before.last_offset + 1 == state.first_offset)
