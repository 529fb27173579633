"""The logs of each partition, for selections that depend on all of them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from kfmt_cli.arrow.topic_ids import TopicIdCache, find_known_topic_id
from kfmt_cli.broker.log_reading.partial_logs import IntervalsByPath
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits

TopicPartition = tuple[str | None, int | None]


def group_logs_by_partition(files: FileSplits, *, all_replicas: bool) -> Iterator[FileSplits]:
    """The logs of each partition; its tiered and local segments form one log, as do the replicas
    from which its records are read once. all_replicas: each other replica is a log of its own."""
    logs = files.readable_splits.select_where(lambda file: file.kind is LOG_KIND)
    tiered_partitions = {log.topic_partition for log in logs if log.is_tiered}
    shared_partitions = {} if all_replicas else _find_shared_partitions(logs)
    topic_ids = TopicIdCache()

    def partition_key(log: FileSplit) -> Hashable:
        if log.topic_partition in shared_partitions:
            topic_id = find_known_topic_id(topic_ids, log)
            if topic_id is not None or shared_partitions[log.topic_partition]:
                return *log.topic_partition, topic_id
        return log.topic_partition if log.topic_partition in tiered_partitions else log.directory

    indexes_by_partition: dict[Hashable, array[int]] = {}
    for i, log in enumerate(logs):
        indexes_by_partition.setdefault(partition_key(log), array("I")).append(i)
    for log_indexes in indexes_by_partition.values():
        yield logs.select_at(log_indexes)


def _find_shared_partitions(logs: FileSplits) -> dict[TopicPartition, bool]:
    """The partitions with logs in several directories, and whether some logs are read in part
    because replicas complete each other: then they are of one topic, even without topic ids."""
    directories_by_partition: dict[TopicPartition, set[str]] = defaultdict(set)
    partial_partitions: set[TopicPartition] = set()
    for log in logs:
        if log.topic_partition[0] is not None:
            directories_by_partition[log.topic_partition].add(log.directory)
            if log.offset_intervals:
                partial_partitions.add(log.topic_partition)
    return {
        partition: partition in partial_partitions
        for partition, directories in directories_by_partition.items()
        if len(directories) > 1
    }


def intervals_by_path(logs: Iterable[FileSplit]) -> IntervalsByPath:
    """The offsets that are read of logs, by path, of which other replicas have some."""
    return {log.path: log.offset_intervals for log in logs if log.offset_intervals}
