"""__share_group_state: the delivery state of partitions in share groups.

Source: `org.apache.kafka.coordinator.share.ShareCoordinatorShard`, `PersisterStateBatchCombiner`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import RecordFields, TopicReplay
from kfmt_cli.core.layout.field import format_symbol
from kfmt_cli.formats.message_descriptions import SHARE_DELIVERY_STATES
from kfmt_cli.log.record_stream import StreamedRecord
from kfmt_cli.rows.types.state_rows import SHARE_PARTITION_ROW, StateType

NO_CHANGE = -1
SharePartitionKey = tuple[str, str, int]


class ShareGroupsReplay(TopicReplay):
    """Share partitions: snapshots and later updates."""

    topic = "__share_group_state"
    row_types = (SHARE_PARTITION_ROW,)

    def __init__(self) -> None:
        super().__init__()
        self._state_by_partition: dict[SharePartitionKey, RecordFields] = {}

    def apply_record(self, record: StreamedRecord) -> None:
        if record.control_type is not None or record.key is None:
            return
        decoded_key = self.decoder.decode_key(record.key)
        key_fields = self.extract_fields(record, decoded_key)
        if key_fields is None or decoded_key is None:
            return
        partition_key = (key_fields.group_id, key_fields.topic_id, key_fields.partition)
        if record.value is None:
            self._state_by_partition.pop(partition_key, None)
            return
        value_fields = self.extract_fields(
            record, self.decoder.decode_value(record.key, record.value)
        )
        if value_fields is None:
            return
        if decoded_key.message_name == "ShareSnapshotKey":
            self._state_by_partition[partition_key] = value_fields
        elif partition_key in self._state_by_partition:
            _update_snapshot(self._state_by_partition[partition_key], value_fields)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for (group, topic_id, partition), partition_state in self._state_by_partition.items():
            batch_members = [
                {
                    **batch,
                    "delivery_state_name": format_symbol(
                        SHARE_DELIVERY_STATES, batch.delivery_state
                    ),
                }
                for batch in partition_state.state_batches
            ]
            key_columns = {"group": group, "topic_id": topic_id, "partition": partition}
            yield (
                SHARE_PARTITION_ROW,
                {**partition_state, **key_columns, "state_batches": batch_members},
            )


def _update_snapshot(snapshot: RecordFields, update: RecordFields) -> None:
    """Apply an update to a snapshot."""
    for field_name in ("start_offset", "leader_epoch"):
        if update[field_name] != NO_CHANGE:
            snapshot[field_name] = update[field_name]
    if update.get("delivery_complete_count", NO_CHANGE) != NO_CHANGE:
        snapshot.delivery_complete_count = update.delivery_complete_count
    snapshot.snapshot_epoch = update.snapshot_epoch
    batches = snapshot.state_batches
    for newer_batch in update.state_batches:
        batches = [
            remaining_batch
            for batch in batches
            for remaining_batch in _subtract_batch(batch, newer_batch)
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
    merged_batches: list[RecordFields] = []
    for batch in batches:
        if merged_batches and _can_merge_batches(merged_batches[-1], batch):
            merged_batches[-1] = RecordFields(merged_batches[-1], last_offset=batch.last_offset)
        else:
            merged_batches.append(batch)
    return merged_batches


def _can_merge_batches(previous_batch: RecordFields, next_batch: RecordFields) -> bool:
    has_same_state = all(
        previous_batch[field_name] == next_batch[field_name]
        for field_name in ("delivery_state", "delivery_count")
    )
    return has_same_state and bool(previous_batch.last_offset + 1 == next_batch.first_offset)
