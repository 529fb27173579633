"""Groups the splits whose rows share a file: few large files, however small the segments.

Consecutive segments of a partition share a file, as do small partitions. The splits of a divided
log share no file with other logs, so that the log can be reread as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from kfmt_cli.execution.file_split import FileSplit, group_splits


@dataclass(frozen=True, slots=True)
class FileGrouping:
    """Which splits may share a file."""

    by_topic: bool = False
    """Only splits of the same topic."""
    by_date: bool = False
    """Only records of the same day, in UTC."""
    by_partition: bool = False
    """Only splits of the same partition."""

    def iter_file_groups(
        self, splits: Iterable[FileSplit], max_bytes: int
    ) -> Iterator[list[FileSplit]]:
        """The splits, in order, in file groups of about `max_bytes` bytes."""
        for _, same_key_splits in groupby(splits, self._group_key):
            yield from group_splits(same_key_splits, max_bytes, 0)

    def _group_key(self, split: FileSplit) -> tuple[object, ...]:
        topic, partition = split.topic_partition
        divided_log_path = split.path if not split.is_entire_file else ""
        if self.by_partition:
            return topic, partition, divided_log_path, split.directory, split.kind.name
        return (topic if self.by_topic else "", divided_log_path, split.kind.name)
