"""The end of what remote storage has of a partition: retention deletes no local segment after it.

Source: `UnifiedLog.isSegmentEligibleForDeletion`, `highestOffsetInRemoteStorage`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kfmt_cli.broker.state import replay_of
from kfmt_cli.broker.state.remote import Remote
from kfmt_cli.commands.state.internal_topics import taken
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.names import place_of
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import listing
from kfmt_cli.rows.types.state_types import REMOTE_SEGMENT

NOT_COPIED = "COPY_SEGMENT_STARTED"
UNKNOWN = "if remote storage has it, which is not known without __remote_log_metadata"


def remote_end(partition: Partition) -> int | None:
    """The offset after the last one copied; None if no segment is known to be. Raises
    InputError."""
    return _ends_in(partition.log_directory).get(partition.place)


@lru_cache(maxsize=8)
def _ends_in(log_directory: Path) -> dict[tuple[str | None, int | None], int]:
    """The ends of partitions, from the partitions of __remote_log_metadata in a log directory;
    raises InputError."""
    ends: dict[tuple[str | None, int | None], int] = {}
    for name in listing(str(log_directory)).partitions:
        if place_of(name)[0] != Remote.topic:
            continue
        replay = replay_of(Remote.topic)
        for file in listing(f"{log_directory}/{name}").logs:
            for _finding in taken(replay, file):
                pass
        for type_, row in replay.rows():
            segment = Fields(row)
            if type_ is REMOTE_SEGMENT and segment.state != NOT_COPIED:
                place = segment.topic, segment.partition
                ends[place] = max(segment.end_offset + 1, ends.get(place, 0))
    return ends
