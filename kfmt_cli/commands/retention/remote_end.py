"""Finds the end of a partition in remote storage: retention deletes no local segment beyond it.

Source: `UnifiedLog.isSegmentEligibleForDeletion`, `highestOffsetInRemoteStorage`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kfmt_cli.broker.state import create_replay
from kfmt_cli.broker.state.remote import RemoteLogReplay
from kfmt_cli.commands.state.internal_topics import iter_replay_findings
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.rows.types.state_rows import REMOTE_SEGMENT_ROW

NOT_COPIED_STATE = "COPY_SEGMENT_STARTED"
UNKNOWN_REASON = "if remote storage has it, which is not known without __remote_log_metadata"


def find_remote_end(partition: Partition) -> int | None:
    """The offset after the last one copied to remote storage; None if no copied segment is known.
    Raises InputError."""
    return _read_remote_ends(partition.log_directory).get(partition.topic_partition)


@lru_cache(maxsize=8)
def _read_remote_ends(log_directory: Path) -> dict[tuple[str | None, int | None], int]:
    """The end of each partition in remote storage, from the partitions of __remote_log_metadata in
    a log directory; raises InputError."""
    end_by_topic_partition: dict[tuple[str | None, int | None], int] = {}
    for name in list_directory(str(log_directory)).partition_names:
        if parse_topic_partition(name)[0] != RemoteLogReplay.topic:
            continue
        replay = create_replay(RemoteLogReplay.topic)
        for file in list_directory(f"{log_directory}/{name}").logs:
            for _finding in iter_replay_findings(replay, file):
                pass
        for row_type, row in replay.iter_rows():
            segment = FieldDict(row)
            if row_type is REMOTE_SEGMENT_ROW and segment.state != NOT_COPIED_STATE:
                topic_partition = segment.topic, segment.partition
                end_by_topic_partition[topic_partition] = max(
                    segment.end_offset + 1, end_by_topic_partition.get(topic_partition, 0)
                )
    return end_by_topic_partition
