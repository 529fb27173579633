"""check: the log directory of each partition, even if the user named only the partition."""

from __future__ import annotations

import os
from pathlib import Path

from kfmt_cli.broker.metadata.opened_log import metadata_snapshots, snapshot_end_offset
from kfmt_cli.broker.start.checkpoints import LOG_START_CHECKPOINT
from kfmt_cli.broker.start.directory import LogDirectory, load_log_directory
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_names import parse_topic_partition, partition_directory
from kfmt_cli.topics import CLUSTER_METADATA


class ParentDirectories:
    """The log directories that partitions are in, each read once.

    listed: the directories that were walked, by path. unlisted: the directories with a walked
    partition that were not walked themselves, by path.
    """

    def __init__(self, listed: dict[str, LogDirectory]) -> None:
        self.listed = listed
        self.unlisted: dict[str, LogDirectory] = {}
        self._parent_by_partition: dict[str, LogDirectory] = {}

    def find(self, listing: DirectoryListing) -> LogDirectory:
        """The log directory of a partition."""
        parent = self._parent_by_partition.get(listing.path)
        if parent is None:
            parent = self._parent_by_partition[listing.path] = self._read(listing)
        return parent

    def _read(self, listing: DirectoryListing) -> LogDirectory:
        # Path(".").parent is ".", not the real parent of the directory.
        named_parent = Path(listing.path).parent
        real_parent = partition_directory(listing.path).parent
        parent_path = str(
            named_parent
            if os.path.realpath(named_parent) == os.path.realpath(real_parent)
            else real_parent
        )
        log_directory = self.listed.get(parent_path) or self.unlisted.get(parent_path)
        if log_directory is None:
            log_directory = self.unlisted[parent_path] = load_log_directory(real_parent)
            log_directory.path = parent_path
        return log_directory

    def log_start_offset(self, listing: DirectoryListing) -> int:
        """The log start offset of a partition; 0 if unknown."""
        topic, partition = parse_topic_partition(partition_directory(listing.path).name)
        if topic is None:
            return 0
        if topic == CLUSTER_METADATA:  # it begins at the oldest snapshot
            end_offsets = (snapshot_end_offset(file) or 0 for file in metadata_snapshots(listing))
            return min(end_offsets, default=0)
        return self.find(listing).checkpoint_offset(LOG_START_CHECKPOINT, (topic, partition or 0))
