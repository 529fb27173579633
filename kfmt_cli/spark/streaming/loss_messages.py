"""Messages about data that a stream should return but cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.spark.streaming.partition_directories import FollowedPartition
from kfmt_cli.spark.streaming.positions import ResumedPositions, format_checkpoint_key


def iter_loss_messages(
    request: ReadRequest,
    read_errors: Mapping[str, str],
    partitions: Mapping[str, FollowedPartition],
    resumed_positions: ResumedPositions,
    *,
    fails_on_data_loss: bool,
) -> Iterator[str]:
    """Messages about paths that cannot be listed, and about partitions that are missing."""
    if request.raises_if_unreadable or not fails_on_data_loss:
        for path, reason in read_errors.items():
            yield f"{path}: {reason}"
    else:
        for path in request.paths:
            if path in read_errors:
                yield f"{path}: {read_errors[path]}"
    for key, old_key in resumed_positions.old_key_by_recreated_key.items():
        partition, old_topic_id = partitions[key], old_key.rpartition("@")[2]
        offset = resumed_positions.deleted_position_by_key[old_key].offset
        yield (
            f"{partition.name} was recreated: its topic id was {old_topic_id} and is now "
            f"{partition.topic_id}; it had been read up to offset {offset}"
        )
    if read_errors and not fails_on_data_loss:
        return
    for key, position in resumed_positions.deleted_position_by_key.items():
        is_recreated = key in resumed_positions.old_key_by_recreated_key.values()
        if not is_recreated and not position.deleted:
            label = format_checkpoint_key(key)
            message = "its directory is missing; it had been read up to offset"
            yield f"{label}: {message} {position.offset}"
