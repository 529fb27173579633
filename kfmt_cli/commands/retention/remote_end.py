"""Finds the end of a partition in remote storage: retention deletes no local segment beyond it.

Source: `UnifiedLog.isSegmentEligibleForDeletion`, `highestOffsetInRemoteStorage`.
"""

from __future__ import annotations

from pathlib import Path

from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.state.remote import RemoteLogReplay
from kfmt_cli.commands.command_run import cached_for_run
from kfmt_cli.commands.state.internal_topics import replay_log_records
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.rows.types.state_rows import REMOTE_SEGMENT_ROW

NOT_COPIED_STATE = "COPY_SEGMENT_STARTED"
UNKNOWN_REMOTE_END_REASON = (
    "if remote storage has it, which is unknown without __remote_log_metadata"
)


def find_remote_end_offset(partition: Partition) -> int | None:
    """The offset after the last one copied to remote storage; None if no copied segment is known.
    Raises InputError."""
    return _read_remote_end_offsets(partition.log_directory).get(partition.topic_partition)


@cached_for_run
def _read_remote_end_offsets(log_directory: Path) -> dict[tuple[str | None, int | None], int]:
    """The end of each partition in remote storage, from the partitions of __remote_log_metadata in
    a log directory; raises InputError."""
    end_offset_by_partition: dict[tuple[str | None, int | None], int] = {}
    for partition_name in list_directory(str(log_directory)).partition_names:
        if parse_topic_partition(partition_name)[0] != RemoteLogReplay.topic:
            continue
        replay = create_replay(RemoteLogReplay.topic)
        for log in list_directory(f"{log_directory}/{partition_name}").logs:
            for _finding in replay_log_records(replay, log):
                pass
        for row_type, row in replay.iter_rows():
            remote_segment = FieldDict(row)
            if row_type is REMOTE_SEGMENT_ROW and remote_segment.state != NOT_COPIED_STATE:
                topic_partition = remote_segment.topic, remote_segment.partition
                end_offset_by_partition[topic_partition] = max(
                    remote_segment.end_offset + 1, end_offset_by_partition.get(topic_partition, 0)
                )
    return end_offset_by_partition
