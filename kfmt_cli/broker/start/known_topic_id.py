"""The ids of partitions' topics in the metadata logs next to them.

Without partition.metadata, a KRaft broker renames the partition's directory to -stray. Source:
`kafka.log.LogManager.isStrayKraftReplica`.
"""

from __future__ import annotations

from pathlib import Path

from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.directory import load_log_directory
from kfmt_cli.disk.file_access import is_ordinary_disk_path
from kfmt_cli.disk.file_names import parse_broker_topic_partition, partition_directory


class NearbyTopicIds:
    """The topic ids in the metadata log of each log directory, which is read once."""

    def __init__(self) -> None:
        self._ids_by_log_directory: dict[Path, dict[str, str]] = {}

    def find(self, path: str) -> str | None:
        """The id of the topic in the name of a partition's directory on a disk; None if unknown."""
        if not is_ordinary_disk_path(path):
            return None
        directory = partition_directory(path)
        topic_partition = parse_broker_topic_partition(directory.name)
        if topic_partition is None:
            return None
        log_directory = Path(directory).parent
        if log_directory not in self._ids_by_log_directory:
            image = BrokerDirectories([load_log_directory(log_directory)]).cluster_image
            self._ids_by_log_directory[log_directory] = (
                {} if image is None else dict(image.topic_id_by_name)
            )
        return self._ids_by_log_directory[log_directory].get(topic_partition[0])
