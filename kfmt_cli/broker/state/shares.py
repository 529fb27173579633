"""__share_group_state: the delivery state of partitions in share groups.

Source: `org.apache.kafka.coordinator.share.ShareCoordinatorShard`, `PersisterStateBatchCombiner`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import RecordFields, TopicReplay
from kfmt_cli.core.layout.field import format_symbol
from kfmt_cli.formats.message_descriptions import SHARE_DELIVERY_STATES
from kfmt_cli.log.record_stream import Record
from kfmt_cli.rows.types.state_rows import SHARE_PARTITION_ROW, StateType

NO_CHANGE = -1
SharePartitionKey = tuple[str, str, int]


class ShareGroupsReplay(TopicReplay):
    """Share partitions: snapshots and later updates."""

    topic = "__share_group_state"
    row_types = (SHARE_PARTITION_ROW,)

    def __init__(self) -> None:
        super().__init__()
        self._partitions: dict[SharePartitionKey, RecordFields] = {}

    def apply_record(self, record: Record) -> None:
        if record.control is not None or record.key is None:
            return
        decoded_key = self.decoder.decode_key(record.key)
        key = self.extract_data(record, decoded_key)
        if key is None or decoded_key is None:
            return
        partition_key = (key.group_id, key.topic_id, key.partition)
        if record.value is None:
            self._partitions.pop(partition_key, None)
            return
        data = self.extract_data(record, self.decoder.decode_value(record.key, record.value))
        if data is None:
            return
        if decoded_key.name == "ShareSnapshotKey":
            self._partitions[partition_key] = data
        elif partition_key in self._partitions:
            _apply_update(self._partitions[partition_key], data)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for (group, topic_id, partition), state in self._partitions.items():
            batches = [
                {
                    **batch,
                    "delivery_state_name": format_symbol(
                        SHARE_DELIVERY_STATES, batch.delivery_state
                    ),
                }
                for batch in state.state_batches
            ]
            key_columns = {"group": group, "topic_id": topic_id, "partition": partition}
            yield SHARE_PARTITION_ROW, {**state, **key_columns, "state_batches": batches}


def _apply_update(snapshot: RecordFields, update: RecordFields) -> None:
    """Apply an update to a snapshot."""
    for name in ("start_offset", "leader_epoch"):
        if update[name] != NO_CHANGE:
            snapshot[name] = update[name]
    if update.get("delivery_complete_count", NO_CHANGE) != NO_CHANGE:
        snapshot.delivery_complete_count = update.delivery_complete_count
    snapshot.snapshot_epoch = update.snapshot_epoch
    batches = snapshot.state_batches
    for newer_batch in update.state_batches:
        batches = [
            remainder for batch in batches for remainder in _subtract_batch(batch, newer_batch)
        ] + [newer_batch]
    start_offset = snapshot.start_offset
    batches = [
        RecordFields(batch, first_offset=max(batch.first_offset, start_offset))
        for batch in batches
        if batch.last_offset >= start_offset
    ]
    snapshot.state_batches = _merge_batches(sorted(batches, key=lambda batch: batch.first_offset))


def _subtract_batch(batch: RecordFields, newer_batch: RecordFields) -> Iterator[RecordFields]:
    """The parts of a batch that a newer one does not cover."""
    if batch.first_offset < newer_batch.first_offset:
        last_offset = min(batch.last_offset, newer_batch.first_offset - 1)
        yield RecordFields(batch, last_offset=last_offset)
    if batch.last_offset > newer_batch.last_offset:
        first_offset = max(batch.first_offset, newer_batch.last_offset + 1)
        yield RecordFields(batch, first_offset=first_offset)


def _merge_batches(batches: list[RecordFields]) -> list[RecordFields]:
    """Batches in order, with consecutive ones in the same state merged."""
    merged: list[RecordFields] = []
    for batch in batches:
        if merged and _continues(merged[-1], batch):
            merged[-1] = RecordFields(merged[-1], last_offset=batch.last_offset)
        else:
            merged.append(batch)
    return merged


def _continues(previous: RecordFields, following: RecordFields) -> bool:
    has_same_state = all(
        previous[name] == following[name] for name in ("delivery_state", "delivery_count")
    )
    return has_same_state and bool(previous.last_offset + 1 == following.first_offset)
